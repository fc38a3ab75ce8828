"""Plan a run: which cases are measured, in which order, and in which shard."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, Variant, matches, matches_name
from torchstone.core.text.suggestions import find_similar
from torchstone.core.text.units import some_of
from torchstone.core.vocabulary import Probe

SMALL_BATCH = 2
TRAINING = "training"


DEFAULT_PROBES = (Probe.PERFORMANCE.value, Probe.ACCURACY.value)


class Listing(Struct, frozen=True):
    """One benchmark as a plan sees it. ``counted`` are the axes of counted work.

    ``probes`` are its default probes; empty means the usual ones. ``metrics`` names its function for metrics of its own.
    ``dashboard_batch_size`` is that of PyTorch's dashboard, if it is another.
    """

    suite: str
    name: str
    batch_size: int | None = None
    accuracy_batch_size: int | None = None
    modes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    counted: Variant | None = None
    probes: tuple[str, ...] = ()
    measures_itself: bool = False
    metrics: str = ""
    dashboard_batch_size: int | None = None


class Axes(Struct, frozen=True):
    """The axes of a plan: a case is planned for each combination. Empty ``probes`` means the defaults of each benchmark.

    ``asked_devices`` are the devices the user named; counted work, which has its own device, is planned only on these.
    ``rounds`` are the further axes of each round of the scaling probe; ``scaled_backends`` are its backends, by default none.
    ``batch_set`` is ``dashboard`` for the batch sizes of PyTorch's dashboard.
    """

    probes: tuple[str, ...]
    devices: tuple[str, ...]
    backends: tuple[str, ...] = ("inductor",)
    modes: tuple[str, ...] = ("inference",)
    dtypes: tuple[str, ...] = ("float32",)
    dynamics: tuple[bool | None, ...] = (None,)
    batch_sizes: tuple[int, ...] = ()
    size: str = "full"
    further: tuple[tuple[str, str], ...] = ()
    asked_devices: tuple[str, ...] = ()
    rounds: tuple[tuple[tuple[str, str], ...], ...] = ()
    scaled_backends: tuple[str, ...] = ("none",)
    batch_set: str = ""


class Selection(Struct, frozen=True):
    """Which cases to plan: those that match ``targets``, ``only`` and a filter, and no exclusion.

    ``targets`` are the names given after a suite or a file, as ``suite::name``.
    """

    only: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def plan_cases(
    listings: Sequence[Listing], axes: Axes, selection: Selection, cautions: list[Caution] | None = None
) -> list[Case]:
    """Return every selected case once, in the order of the benchmarks. Benchmarks that ``batch_sizes`` cannot change are skipped, with a caution."""
    planned = {listing: _cases_of(listing, axes) for listing in listings}
    _check_names(planned, selection)
    wanted = {
        listing: chosen
        for listing, cases in planned.items()
        if (chosen := [case for case in cases if _is_wanted(case, selection)])
    }
    fixed = [listing for listing in wanted if axes.batch_sizes and "batch_size" not in listing.takes]
    if len(fixed) < len(wanted):
        for listing in fixed:
            del wanted[listing]
        if fixed and cautions is not None:
            cautions.append(_skipped(fixed))
    _check_requests(wanted, axes)
    chosen = list(dict.fromkeys(case for cases in wanted.values() for case in cases))
    if not chosen:
        raise _nothing_left(listings, axes, selection)
    return chosen


def _skipped(listings: Sequence[Listing]) -> Caution:
    names = some_of([f"{listing.suite}::{listing.name}" for listing in listings])
    return make_caution(CautionKind.BATCH_SIZE_SKIPPED, benchmarks=len(listings), names=names)


def _cases_of(listing: Listing, axes: Axes) -> list[Case]:
    if listing.counted is not None:
        return _counted_case(listing, listing.counted, axes)
    further = dict(axes.further) | ({"size": axes.size} if axes.size != "full" else {})
    cases = []
    probes = axes.probes or listing.probes or DEFAULT_PROBES
    if Probe.SCALING in probes:
        cases += _rounds_of(listing, axes, further)
    for probe, device, backend, mode, dtype, dynamic in itertools.product(
        [probe for probe in probes if probe != Probe.SCALING],
        axes.devices,
        axes.backends,
        axes.modes,
        axes.dtypes,
        axes.dynamics,
    ):
        if mode not in listing.modes:
            continue
        for batch_size in axes.batch_sizes or (_own_batch_size(listing, probe, axes),):
            variant = Variant(
                device, backend, mode, dtype, dynamic, batch_size, tuple(sorted(further.items()))
            )
            cases.append(Case(listing.name, probe, listing.suite, variant))
    return cases


def _rounds_of(listing: Listing, axes: Axes, further: Mapping[str, str]) -> list[Case]:
    """Return a case for every round; none if the benchmark cannot be trained."""
    if TRAINING not in listing.modes:
        return []
    cases = []
    for device, backend, dtype in itertools.product(axes.devices, axes.scaled_backends, axes.dtypes):
        for batch_size in axes.batch_sizes or (_own_batch_size(listing, Probe.SCALING, axes),):
            for axes_of_round in axes.rounds:
                own = tuple(sorted({**further, **dict(axes_of_round)}.items()))
                variant = Variant(device, backend, TRAINING, dtype, None, batch_size, own)
                cases.append(Case(listing.name, Probe.SCALING.value, listing.suite, variant))
    return cases


def _counted_case(listing: Listing, variant: Variant, axes: Axes) -> list[Case]:
    """Return the case of counted work, if counting and its device are selected."""
    devices = {device.partition(":")[0] for device in axes.asked_devices}
    if (axes.probes and Probe.INSTRUCTIONS not in axes.probes) or (devices and variant.device not in devices):
        return []
    return [Case(listing.name, Probe.INSTRUCTIONS.value, listing.suite, variant)]


def _own_batch_size(listing: Listing, probe: str, axes: Axes) -> int | None:
    own = listing.batch_size
    if axes.batch_set == "dashboard" and listing.dashboard_batch_size:
        own = listing.dashboard_batch_size
    if probe == Probe.ACCURACY and listing.accuracy_batch_size:
        own = listing.accuracy_batch_size
    return min(own, SMALL_BATCH) if own and axes.size == "small" else own


def _check_requests(listings: Iterable[Listing], axes: Axes) -> None:
    """Raise UsageError for options that a builder would silently ignore."""
    for listing in listings:
        if listing.counted is not None:
            _check_counted(listing, axes)
            continue
        if axes.batch_sizes and "batch_size" not in listing.takes:
            raise UsageError(
                f"--batch-size cannot change {listing.suite}::{listing.name}, which does not take a batch_size",
                advice="give its function a parameter called batch_size",
            )
        if axes.size != "full" and "size" not in listing.takes:
            raise UsageError(f"{listing.suite}::{listing.name} has only one size", advice="leave out --size")


def _check_counted(listing: Listing, axes: Axes) -> None:
    plain = Axes((), ())
    given = {
        "--backend": axes.backends != plain.backends,
        "--mode": axes.modes != plain.modes,
        "--dtype": axes.dtypes != plain.dtypes,
        "--dynamic": axes.dynamics != plain.dynamics,
        "--batch-size": bool(axes.batch_sizes),
        "--size": axes.size != plain.size,
        "--compile-mode, --option or --fullgraph": bool(axes.further),
    }
    for option, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{option} cannot change {listing.suite}::{listing.name}, which chooses itself what is compiled and how",
                advice=f"leave out {option}",
            )


def _check_names(planned: Mapping[Listing, Sequence[Case]], selection: Selection) -> None:
    """Raise UsageError for a name that matches nothing, even if other names match."""
    known = [_bare(listing) for listing in planned] + [case for cases in planned.values() for case in cases]
    named: dict[str, list[str]] = {pattern: [pattern] for pattern in selection.only}
    for pattern in selection.targets:
        named.setdefault(pattern.partition("::")[2], []).append(pattern)
    for name, patterns in named.items():
        if not any(matches_case(pattern, case) for pattern in patterns for case in known):
            raise _no_match((name,), list(planned))


def _bare(listing: Listing) -> Case:
    """Return a case with only the benchmark's name and suite."""
    return Case(listing.name, "", listing.suite)


def _is_wanted(case: Case, selection: Selection) -> bool:
    if selection.targets and not any(matches_case(pattern, case) for pattern in selection.targets):
        return False
    if selection.only and not any(matches_case(pattern, case) for pattern in selection.only):
        return False
    if selection.filters and not any(
        re.search(each, case.benchmark, re.IGNORECASE) for each in selection.filters
    ):
        return False
    return not any(re.search(each, case.benchmark, re.IGNORECASE) for each in selection.exclusions)


def matches_case(pattern: str, case: Case) -> bool:
    """Return whether a pattern matches a case: its name, its id or ``suite::name``, each also as a shell pattern."""
    return matches(pattern, case) or matches_name(pattern, f"{case.suite}::{case.benchmark}")


def check_patterns(option: str, patterns: Iterable[str]) -> None:
    """Raise UsageError for a pattern that is not a regular expression."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{option} {pattern}: not a regular expression: {error}") from None


def _nothing_left(listings: Sequence[Listing], axes: Axes, selection: Selection) -> UsageError:
    meant = [listing for listing in listings if _is_wanted(_bare(listing), selection)]
    if axes.probes == (Probe.SCALING.value,) and meant:
        return UsageError(
            "none of these benchmarks can be trained, which the scaling probe needs",
            advice="'torchstone run scaling' has benchmarks that can",
        )
    if meant and not {mode for listing in meant for mode in listing.modes} & set(axes.modes):
        return UsageError(f"none of these benchmarks has the mode {' or '.join(axes.modes)}")
    if asked := (*selection.only, *selection.filters):
        return _no_match(asked, listings)
    return UsageError("--exclude excludes all benchmarks", advice="list them: 'torchstone list'")


def _no_match(asked: Sequence[str], listings: Sequence[Listing]) -> UsageError:
    names = [listing.name for listing in listings]
    texts = [pattern.partition("[")[0].rpartition("::")[2] for pattern in asked]
    close = dict.fromkeys(match for text in texts for match in find_similar(text, names, 3))
    advice = f"did you mean {' or '.join(close)}?" if close else "list all benchmarks: 'torchstone list'"
    return UsageError(f"no benchmark matches: {' '.join(asked)}", advice=advice)


def shard_cases(
    cases: Sequence[Case], index: int, count: int, durations: Mapping[Case, float] | None = None
) -> list[Case]:
    """Return the cases of shard ``index`` of ``count``, from 1. All cases of a benchmark stay together.

    Benchmarks with known durations are distributed so that shards take equally long, longest first; the others by a hash of
    their name. The result depends only on the cases and the durations, so that all shards agree.
    """
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[(case.suite, case.benchmark)].append(case)
    known = {key: _known_duration(group, durations or {}) for key, group in groups.items()}
    loads = [0.0] * count
    place = {key: _hashed(key, count) for key in groups if known[key] is None}
    for key, seconds in sorted(known.items(), key=lambda item: (-(item[1] or 0.0), item[0])):
        if seconds is not None:
            place[key] = min(range(count), key=lambda shard: (loads[shard], shard))
            loads[place[key]] += seconds
    return [case for case in cases if place[(case.suite, case.benchmark)] == index - 1]


def _known_duration(group: Sequence[Case], durations: Mapping[Case, float]) -> float | None:
    found = [durations[case] for case in group if case in durations]
    return sum(found) * len(group) / len(found) if found else None


def _hashed(key: tuple[str, str], count: int) -> int:
    return int.from_bytes(hashlib.sha256("::".join(key).encode()).digest()[:8], "big") % count


def durations_of(outcomes: Iterable[Outcome]) -> dict[Case, float]:
    """Return the duration of each case, if recorded."""
    found: dict[Case, float] = {}
    for outcome in outcomes:
        if outcome.details and outcome.details.duration is not None:
            found[outcome.case] = outcome.details.duration
    return found
