"""``torchstone check``: judge results against baselines and rules, and say what is wrong.

Nothing here needs click, so that the plain form of the command can do without importing it: see ``cli.plain``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import date

from torchstone.baseline import Baseline
from torchstone.cli.plain import Option
from torchstone.cli.reading import CONFIG, KIND, KINDS, ONLY, RULE, SET, patience, read_results
from torchstone.config import POLICIES, Settings, load_settings, parse_rule, wants_color
from torchstone.disk import write_text
from torchstone.errors import UsageError
from torchstone.formats import read_file
from torchstone.gate.judge import judge
from torchstone.gate.policy import Policy, make_policy
from torchstone.gate.rules import RuleBook
from torchstone.gate.verdicts import Conditions, Counts, Judgement
from torchstone.model import QuarantineEntry, Reading
from torchstone.report.rows import Context, Report, ScalingTable
from torchstone.results import Results, merge, select
from torchstone.vocabulary import Verdict

UPSTREAM_QUARANTINE = os.path.join(
    os.path.dirname(os.path.dirname(__file__)), "data", "upstream_quarantine.toml"
)
QUARANTINE_NAME = "quarantine.toml"
STYLES = ("text", "markdown", "junit", "json", "github")
_VERDICTS = tuple(verdict.value for verdict in Verdict)

OPTIONS = (
    Option("--baseline", "baselines", "FILE", "What is expected. Repeatable.", multiple=True),
    Option(
        "--actual",
        "actual",
        "FILE",
        "The same as naming RESULTS, as the original scripts call it.",
        multiple=True,
    ),
    Option("--expected", "expected", "FILE", "The same as --baseline, as the original scripts call it."),
    Option(
        "--policy",
        "policy",
        "NAME",
        "strict (the default), or upstream: decide as the original scripts do.",
        choices=POLICIES,
    ),
    RULE,
    Option(
        "--metric",
        "metrics",
        "NAME",
        "Judge only this metric (a name or pattern). Repeatable.",
        multiple=True,
    ),
    ONLY,
    Option(
        "--block",
        "block",
        "VERDICT",
        "Let this verdict block too, such as improvement. Repeatable.",
        True,
        choices=_VERDICTS,
    ),
    Option(
        "--allow",
        "allow",
        "VERDICT",
        "Let this verdict pass, such as new. Repeatable.",
        True,
        choices=_VERDICTS,
    ),
    Option(
        "--quarantine",
        "quarantines",
        "FILE",
        "Cases that may not block; by default quarantine.toml. Repeatable.",
        True,
    ),
    Option(
        "--platform",
        "platforms",
        "NAME",
        "The platform, for quarantine entries that name one. Repeatable.",
        True,
    ),
    SET,
    KIND,
    Option(
        "--baseline-kind",
        "baseline_kind",
        "KIND",
        "The kind of the baseline files, if it is not to be recognised.",
        choices=KINDS,
    ),
    Option(
        "--compare-anyway",
        "compare_anyway",
        "",
        "Compare cases although they differ, for example in batch size.",
    ),
    Option(
        "--format",
        "style",
        "STYLE",
        f"What the report looks like: {', '.join(STYLES)}. Default: text.",
        choices=STYLES,
    ),
    Option("--output", "output", "FILE", "Write the report there, and print the text report as well."),
    Option(
        "--as-of",
        "as_of",
        "DATE",
        "Judge quarantine dates as of this day, such as 2026-12-31; by default today.",
    ),
    CONFIG,
)


def check(
    arguments: tuple[str, ...],
    *,
    baselines: tuple[str, ...],
    actual: tuple[str, ...],
    expected: str | None,
    policy: str | None,
    rules: tuple[str, ...],
    metrics: tuple[str, ...],
    only: tuple[str, ...],
    block: tuple[str, ...],
    allow: tuple[str, ...],
    quarantines: tuple[str, ...],
    platforms: tuple[str, ...],
    assignments: tuple[str, ...],
    kind: str | None,
    baseline_kind: str | None,
    compare_anyway: bool,
    style: str | None,
    output: str | None,
    as_of: str | None,
    config: str | None,
) -> int:
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
    settings = load_settings(config)
    paths = (*arguments, *actual)
    if not paths:
        raise UsageError(
            "no results given", advice="for example: torchstone check results.csv --baseline expected.csv"
        )
    expected_paths = (*baselines, *([expected] if expected else [])) or settings.baselines
    chosen = _policy(settings, policy, block, allow)
    rule_book = RuleBook((*settings.rules, *(parse_rule(rule) for rule in rules)))
    if not expected_paths and not rule_book.metrics_without_baseline():
        raise UsageError(
            "nothing to judge by",
            advice="name a baseline (--baseline FILE), or a rule such as --rule speedup=floor:1.2",
        )
    with patience("judging"):
        results = merge(select(reading, only) for reading in read_results(paths, kind, assignments))
        expectations = [select(read_file(path, baseline_kind or ""), only) for path in expected_paths]
        _require_cases(results.readings, expectations, only)
        conditions = Conditions(
            chosen,
            rule_book,
            tuple(_quarantine(quarantines or settings.quarantines, chosen)),
            frozenset(platforms) | _platforms_of(expected_paths, chosen),
            metrics,
            _day(as_of),
            compare_anyway,
            keep_quiet=style in {"json", "junit"},
        )
        scaling = _scaling(results.readings, expectations)
        judgement = _judge(results, expectations, conditions)
    report = Report(judgement, Context(paths, expected_paths, _options_again(policy, rules)), scaling)
    _show(report, style or "text", output)
    return judgement.exit_code


def _policy(settings: Settings, name: str | None, block: Sequence[str], allow: Sequence[str]) -> Policy:
    blocked = (*settings.block, *map(Verdict, block))
    allowed = (*settings.allow, *map(Verdict, allow))
    if both := set(map(Verdict, block)) & set(map(Verdict, allow)):
        raise UsageError(f"--block and --allow both name {', '.join(both)}")
    return make_policy(name or settings.policy, blocked, set(allowed) - set(map(Verdict, block)))


def _require_cases(readings: Sequence[Reading], expectations: Sequence[Reading], only: Sequence[str]) -> None:
    if only and not any(reading.run.plan for reading in (*readings, *expectations)):
        raise UsageError(
            f"--only {' '.join(only)}: no case matches",
            advice="patterns match names and ids: * and ? stand for any text",
        )


def _quarantine(paths: Sequence[str], policy: Policy) -> list[QuarantineEntry]:
    """The entries of the named files; else those of quarantine.toml. The policy upstream also has the original's own list."""
    chosen = list(paths) or (
        [QUARANTINE_NAME] if os.path.exists(QUARANTINE_NAME) and not policy.is_upstream else []
    )
    if policy.is_upstream:
        chosen.append(UPSTREAM_QUARANTINE)
    if not chosen:
        return []
    from torchstone.quarantine import read_quarantine  # noqa: PLC0415  (TOML takes its time to import)

    return [entry for path in chosen for entry in read_quarantine(path)]


def _platforms_of(expected_paths: Sequence[str], policy: Policy) -> frozenset[str]:
    """The original takes the platform from the expected file's path."""
    return frozenset(
        {"rocm"} if policy.is_upstream and any("rocm" in path for path in expected_paths) else ()
    )


def _day(text: str | None) -> date:
    try:
        return date.fromisoformat(text) if text else date.today()
    except ValueError:
        raise UsageError(f"--as-of {text}: expected a date such as 2026-12-31") from None


def _options_again(policy: str | None, rules: Sequence[str]) -> tuple[str, ...]:
    """The options that a command which judges again has to repeat."""
    repeated = ["--policy", policy] if policy else []
    return (*repeated, *(part for rule in rules for part in ("--rule", rule)))


def _scaling(readings: Sequence[Reading], expectations: Sequence[Reading]) -> ScalingTable | None:
    """The side-by-side table of two DDP reports."""
    if [reading.kind for reading in (*readings, *expectations)] != ["ddp", "ddp"]:
        return None
    from torchstone.analyze.scaling import Round, compare_rounds  # noqa: PLC0415
    from torchstone.formats.ddp import group_by_model, ranks_of  # noqa: PLC0415

    def rounds(reading: Reading) -> list[list[Round]]:
        return [
            [Round(model, size, len(ranks_of(o.case)), o.measurements[0].samples) for o in outcomes]
            for model, size, outcomes in group_by_model(reading.run)
        ]

    keys = sorted({key for reading in (*readings, *expectations) for key in reading.run.settings})
    return ScalingTable(keys, compare_rounds(rounds(expectations[0]), rounds(readings[0])))


def _judge(results: Results, expectations: Sequence[Reading], conditions: Conditions) -> Judgement:
    """Judge; the original only ever prints the difference of two DDP reports, and so does its policy."""
    if (
        conditions.policy.is_upstream
        and expectations
        and all(reading.kind == "ddp" for reading in expectations)
    ):
        return Judgement(conditions.policy, [], Counts(), [], [], [], [])
    return judge(results, Baseline(expectations), conditions)


def _show(report: Report, style: str, output: str | None) -> None:
    text = render(report, style, color=wants_color(sys.stdout.isatty()) and not output)
    if output:
        write_text(output, text)
        text = render(report, "text", color=wants_color(sys.stdout.isatty()))
    sys.stdout.write(text)


def render(report: Report, style: str, *, color: bool = False) -> str:
    """The report in one of the formats."""
    match style:
        case "text":
            from torchstone.report.text import render_text  # noqa: PLC0415

            return render_text(report, color=color)
        case "markdown":
            from torchstone.report.markdown import render_markdown as renderer  # noqa: PLC0415
        case "junit":
            from torchstone.report.junit import render_junit as renderer  # noqa: PLC0415
        case "json":
            from torchstone.report.json_report import render_json as renderer  # noqa: PLC0415
        case _:
            from torchstone.report.github import render_github as renderer  # noqa: PLC0415
    return renderer(report)
