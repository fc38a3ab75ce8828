"""``torchstone check``: judge results against baselines and rules.

Does not import click, so that a plain command line runs without it: see ``cli.options.plain``.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from torchstone.api.judging.check import check_results, files_of
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.sources import names_of
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quarantine_options import AS_OF, PLATFORM, QUARANTINE
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import (
    BASELINE_KIND,
    BLOCKING,
    CASES,
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    INPUT,
    JUDGING,
    KIND,
    ONLY,
    RULE,
    SET,
    UPSTREAM_VERSION,
    show_progress,
)
from torchstone.cli.options.store_options import BRANCH, RECORD, REVISION, STORE
from torchstone.cli.terminal.show import REPORT_OPTIONS, plan_reports, refuse_overwriting, show
from torchstone.core.config import POLICIES
from torchstone.core.vocabulary import Verdict
from torchstone.reporting.dialects.styles import render_report

_RECORD = "torchstone.cli.commands.keeping.record_along"
_VERDICTS = tuple(verdict.value for verdict in Verdict if verdict is not Verdict.SAME)
_POLICY_HELP = "strict (default); lenient: undecided and new rows do not block; or upstream: decide as PyTorch's own scripts do."
_HISTORY_HELP = (
    "Past runs, to detect drift: small changes that add up. A file, a folder, or a quoted shell pattern. "
    "Repeatable."
)

OPTIONS = (
    Option(
        "--baseline",
        "baselines",
        "PATH",
        "Baseline file, a folder of them, or a level of the store: history, history:BRANCH or history:RUN. Repeatable.",
        multiple=True,
        section=INPUT,
    ),
    Option(
        "--actual",
        "actual",
        "FILE",
        "Results, as PyTorch's scripts name them. Repeatable.",
        True,
        section=INPUT,
    ),
    Option("--expected", "expected", "FILE", "Baseline, as PyTorch's scripts name it.", section=INPUT),
    Option("--policy", "policy", "NAME", _POLICY_HELP, choices=POLICIES, section=JUDGING),
    UPSTREAM_VERSION,
    RULE,
    Option(
        "--metric", "metrics", "NAME", "Only this metric: a name or pattern. Repeatable.", True, section=CASES
    ),
    ONLY,
    Option(
        "--block",
        "block",
        "VERDICT",
        "Make this verdict block, too, such as improvement. Repeatable.",
        True,
        _VERDICTS,
        section=BLOCKING,
    ),
    Option(
        "--allow",
        "allow",
        "VERDICT",
        "Let this verdict pass, such as new. Repeatable.",
        True,
        _VERDICTS,
        section=BLOCKING,
    ),
    QUARANTINE,
    PLATFORM,
    SET,
    KIND,
    BASELINE_KIND,
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    Option("--history", "history", "PAST", _HISTORY_HELP, multiple=True, section=INPUT),
    *REPORT_OPTIONS,
    RECORD,
    STORE,
    REVISION,
    BRANCH,
    AS_OF,
    CONFIG,
)


def check(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Judge RESULTS against a baseline.

    RESULTS are files in any format that torchstone reads; several are merged.
    Every case that was planned, expected or measured gets a verdict.

    \b
    Examples:
      torchstone check results.csv --baseline expected.csv
      torchstone check shard*.csv --baseline expected.csv --format markdown
      torchstone check perf.csv --rule speedup=floor:1.2
      torchstone check --actual a.csv --expected e.csv --policy upstream
      torchstone check run.jsonl --baseline expected.csv --record
      torchstone check run.jsonl --baseline history:main

    \b
    Exit codes:
      0  nothing blocks
      1  a verdict blocks
      2  bad input or usage
    """
    shown = plan_reports(values)
    styles = {shown.style, *(style for style, _ in shown.reports)}
    request = make_request(
        CheckRequest,
        OPTIONS,
        values,
        results=(*arguments, *values["actual"]),
        baselines=(*values["baselines"], *([values["expected"]] if values["expected"] else [])),
        keep_passing=bool(styles & {"json", "junit"}),
    )
    refuse_overwriting(shown.paths, files_of(request))
    with show_progress("judging"):
        result = check_results(request)
    show(partial(render_report, result.report), shown)
    if values["record"]:
        record = import_module(_RECORD).record_along  # start-up: a plain check needs no store
        names = names_of(request.results)
        record(
            names,
            values["store"],
            revision=values["revision"],
            branch=values["branch"],
            kind=request.kind,
            axes=request.axes,
            config=request.config,
        )
    return result.exit_code
