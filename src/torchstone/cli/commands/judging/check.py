"""``torchstone check``: judge results against baselines and rules, and say what is wrong.

Nothing here needs click, so that the plain form of the command can do without importing it: see ``cli.plain``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torchstone.api.judging.check import check_results, files_of
from torchstone.api.judging.check_request import CheckRequest
from torchstone.cli.options.plain import Option
from torchstone.cli.options.policies import AS_OF, PLATFORM, QUARANTINE
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import (
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    KIND,
    KINDS,
    ONLY,
    RULE,
    SET,
    UPSTREAM_VERSION,
    patience,
)
from torchstone.cli.terminal.show import REPORT_OPTIONS, Shown, parse_reports, refuse_overwriting, show
from torchstone.core.config import POLICIES
from torchstone.core.vocabulary import Verdict
from torchstone.reporting.dialects.styles import render_report

_VERDICTS = tuple(verdict.value for verdict in Verdict if verdict is not Verdict.SAME)
_POLICY_HELP = "strict (the default), or upstream: decide as the original scripts do."
_BASELINE_KIND_HELP = "The kind of the baseline files, if it is not to be recognised."
_HISTORY_HELP = (
    "Past runs, in which to look for small moves that add up: a file, a folder of files, or a pattern in quotation marks. "
    "Repeatable."
)

OPTIONS = (
    Option("--baseline", "baselines", "FILE", "What is expected. Repeatable.", multiple=True),
    Option(
        "--actual", "actual", "FILE", "The same as naming RESULTS, as the original scripts call it.", True
    ),
    Option("--expected", "expected", "FILE", "The same as --baseline, as the original scripts call it."),
    Option("--policy", "policy", "NAME", _POLICY_HELP, choices=POLICIES),
    UPSTREAM_VERSION,
    RULE,
    Option("--metric", "metrics", "NAME", "Judge only this metric (a name or pattern). Repeatable.", True),
    ONLY,
    Option(
        "--block",
        "block",
        "VERDICT",
        "Let this verdict block too, such as improvement. Repeatable.",
        True,
        _VERDICTS,
    ),
    Option("--allow", "allow", "VERDICT", "Let this verdict pass, such as new. Repeatable.", True, _VERDICTS),
    QUARANTINE,
    PLATFORM,
    SET,
    KIND,
    Option("--baseline-kind", "baseline_kind", "KIND", _BASELINE_KIND_HELP, choices=KINDS),
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    Option("--history", "history", "PAST", _HISTORY_HELP, multiple=True),
    *REPORT_OPTIONS,
    AS_OF,
    CONFIG,
)


def check(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Judge RESULTS against a baseline, and say clearly what is wrong.

    RESULTS are files of any kind torchstone reads; several are merged. Every
    case that was planned, expected or measured gets a verdict. The exit code
    is 0 if nothing blocks, 1 if something does, 2 if the input is bad.

    \b
    Examples:
      torchstone check results.csv --baseline expected.csv
      torchstone check shard*.csv --baseline expected.csv --format markdown
      torchstone check perf.csv --rule speedup=floor:1.2
      torchstone check --actual a.csv --expected e.csv --policy upstream
    """
    reports = parse_reports(values["reports"])
    styles = {values["style"], *(style for style, _ in reports)}
    request = make_request(
        CheckRequest,
        OPTIONS,
        values,
        results=(*arguments, *values["actual"]),
        baselines=(*values["baselines"], *([values["expected"]] if values["expected"] else [])),
        keep_passing=bool(styles & {"json", "junit"}),
    )
    shown = Shown(values["style"] or "text", values["output"], tuple(reports))
    refuse_overwriting(shown.paths, files_of(request))
    with patience("judging"):
        result = check_results(request)
    show(partial(render_report, result.report), shown)
    return result.exit_code
