"""Summarise a comparison of two sides: means, environments, cautions, and errors if nothing was compared."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from torchstone.analyze.ratio_interval import mean_effect
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, matches_metric
from torchstone.core.text.intervals import is_too_wide
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import ACCURACY, PASSED
from torchstone.formats.merge import is_same_run
from torchstone.gate.comparing.side_files import SideFiles
from torchstone.gate.criteria import CompareSettings
from torchstone.gate.judgement import MetricMean, Row


def mean_effects(rows: Sequence[Row], alpha: float) -> tuple[list[MetricMean], int]:
    """Return the geometric mean of each metric with noise, over the cases that passed on both sides, and how many rows were left out.

    A ratio whose interval is too wide is in no mean.
    """
    ratios: dict[str, list[float]] = {}
    better: dict[str, str] = {}
    left_out = Counter[str]()
    for row in rows:
        is_count = row.rule is not None and row.rule.kind == "count"
        if row.comparison is None or row.criteria is None or is_count:
            continue
        ratio = row.ratio
        if ratio and ratio > 0 and _has_passed(row.base) and _has_passed(row.new):
            found = row.comparison
            if found.p_value is not None and is_too_wide(ratio, (found.low, found.high)):
                left_out[row.metric] += 1
                continue
            ratios.setdefault(row.metric, []).append(ratio)
            better.setdefault(row.metric, row.criteria.better)
    means = [
        MetricMean(metric, better[metric], mean_effect(kept, alpha), left_out[metric])
        for metric, kept in ratios.items()
    ]
    return means, left_out.total()


def _has_passed(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.status in {PASSED, ""}


def environment_differences(base: SideFiles, new: SideFiles) -> list[str]:
    """Return how the environments of the two sides differ, then those of the files of each side."""
    found = {
        difference: None
        for ours in new.readings
        for theirs in base.readings
        for difference in differences(ours.run.environment, theirs.run.environment)
    }
    for name, side in (("BASE", base), ("NEW", new)):
        for one, other in itertools.combinations(side.readings, 2):
            within = differences(other.run.environment, one.run.environment)
            found |= {f"{difference} (both are {name})": None for difference in within}
    return list(found)


def file_cautions(base: SideFiles, new: SideFiles) -> list[Caution]:
    """Return the cautions of the files, about runs compared with themselves, and about variables with hidden values."""
    files = (*base.readings, *new.readings)
    cautions = [caution for reading in files for caution in reading.cautions]
    cautions += [
        make_caution(CautionKind.COMPARED_WITH_ITSELF, new=ours.path, base=theirs.path)
        for theirs in base.readings
        for ours in new.readings
        if is_same_run(theirs, ours)
    ]
    return cautions + unknowns(*(reading.run.environment for reading in files))


def only_new_cautions(cases_by_metric: Mapping[str, int], cases_by_probe: Mapping[str, int]) -> list[Caution]:
    """Return a caution about metrics that only NEW has, and one about probes, if there are any."""
    found = []
    if cases_by_metric:
        found.append(make_caution(CautionKind.ONLY_IN_NEW, metrics=_counted_cases(cases_by_metric)))
    if cases_by_probe:
        found.append(make_caution(CautionKind.PROBES_ONLY_IN_NEW, probes=_counted_cases(cases_by_probe)))
    return found


def _counted_cases(cases: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count_of(number, 'case')})" for name, number in cases.items())


def no_common_case(base: SideFiles, new: SideFiles) -> UsageError:
    """Return the error for two sides without a common case."""
    for side in (base, new):
        if not side.cases and side.unmeasured:
            return _no_outcome(side)
    ours, theirs = ((*side.cases, *side.unmeasured) for side in (base, new))
    examples = f"BASE has {_example(ours)}, NEW has {_example(theirs)}"
    advice = f"{examples}; name, probe and all axes that both state have to agree, unless --compare-anyway is given"
    return UsageError("no case can be compared: the sides have none in common", advice=advice)


def _no_outcome(side: SideFiles) -> UsageError:
    """Return the error for files that have a plan, but no outcome."""
    paths = " and ".join(reading.path for reading in side.readings)
    cautions = "; ".join(caution.text for reading in side.readings for caution in reading.cautions)
    planned = count_of(len(side.unmeasured), "planned case")
    return UsageError(
        f"nothing can be compared: no outcome of {planned} is in {paths}{f' ({cautions})' if cautions else ''}",
        advice=f"torchstone run --resume {side.readings[0].path} continues it",
    )


def _example(cases: Sequence[Case]) -> str:
    return cases[0].id if cases else "none"


def no_common_metric(pairs: int, only_new: Collection[str]) -> UsageError:
    """Return the error for cases whose compared metrics are not on both sides."""
    more = f"; only NEW has {', '.join(only_new)}" if only_new else ""
    return UsageError(
        f"nothing can be compared: in {count_of(pairs, 'common case')} no compared metric is on both sides{more}",
        advice="choose others with --metric, or measure the same ones on both sides",
    )


def refuse_unknown_patterns(
    settings: CompareSettings, compared: Collection[str], base: SideFiles, new: SideFiles
) -> None:
    """Raise UsageError if a pattern of the settings matches no metric, not even of a case that could not be compared."""
    named = (name for name, _ in (*settings.margins, *settings.better))
    for pattern in dict.fromkeys((*settings.metrics, *named)):
        if any(matches_metric(pattern, metric) for metric in compared):
            continue
        files = (*base.readings, *new.readings)
        outcomes = [outcome for reading in files for outcome in reading.run.outcomes]
        known = {ACCURACY, *(m.metric for outcome in outcomes for m in outcome.measurements)}
        if not any(matches_metric(pattern, metric) for metric in known):
            advice = f"there are: {', '.join(sorted(known))}"
            raise UsageError(f"'{pattern}': neither BASE nor NEW has such a metric", advice=advice)
