"""Hypothesis strategies for records that a format can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution, recorded
from torchstone.core.details.compile_cache_details import CacheDetails, CacheMiss
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.details.round_details import RankDetails, RoundDetails
from torchstone.core.records import (
    Case,
    Failure,
    Measurement,
    Number,
    Outcome,
    Provenance,
    Revision,
    Run,
    Variant,
)
from torchstone.core.run_settings import Environment, Settings, environment_from
from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import CAPTURE_METRICS, FAILED, METRICS, PASSED, SKIPPED, STATUSES, Probe
from torchstone.formats.torch.expected_csv import DTYPES

_VISIBLE = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
NAMES = st.one_of(
    st.sampled_from(
        [
            "resnet50",
            "openai/whisper-tiny",
            "name",
            "#1",
            'a "b"',
            "a,b",
            "'",
            "=1+1",
            "-",
            "0",
            "café",
            "🔥",
            "👩\u200d💻",
            "\u0646\u200c\u0645",
        ]
    ),
    st.text(_VISIBLE | st.sampled_from(' ,"#'), min_size=1, max_size=12)
    .map(str.strip)
    .filter(lambda name: name and is_plain(name)),
)
STATUS_WORDS = st.sampled_from([*STATUSES, "fail_to_run_at_batch_4"]) | NAMES
FAILURES = STATUS_WORDS.filter(lambda status: status not in {PASSED, SKIPPED})
COUNTS = st.integers(0, 5000) | st.integers(0, 2**63 - 1)
POSITIVE = (
    st.floats(1e-300, 1e300)
    | st.integers(1, 10**15)
    | st.decimals(0, 10_000, places=6).map(float).filter(bool)
)
NUMBERS: st.SearchStrategy[Number] = POSITIVE | st.just(0)
BATCH_SIZES = st.none() | st.integers(1, 4096)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=8,
)
JSON_OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, max_size=3)

_PERFORMANCE_METRICS = (
    "abs_latency",
    "baseline",
    "speedup_vs_baseline",
    "compilation_latency",
    "compression_ratio",
    "eager_peak_mem",
    "dynamo_peak_mem",
    "cache_lookup_latency",
)


CAUTIONS = st.builds(recorded, TEXTS) | st.builds(
    lambda pairs: make_caution(CautionKind.FEW_PAIRS, pairs=pairs), st.integers(0, 10**6)
)


PROVENANCES = st.builds(Provenance, NAMES, NAMES, NAMES, st.integers(1, 9), st.just("2/8"), NAMES)


def run_with(outcomes: Sequence[Outcome]) -> Run:
    return Run("file", tuple(outcome.case for outcome in outcomes), tuple(outcomes))


def _measurements(
    draw: st.DrawFn, metrics: Sequence[str], numbers: st.SearchStrategy[Number]
) -> list[Measurement]:
    """One sample of some of the metrics, in their order."""
    chosen = draw(st.sets(st.sampled_from(metrics)))
    return [
        Measurement(metric, (draw(COUNTS if metric in CAPTURE_METRICS else numbers),))
        for metric in metrics
        if metric in chosen
    ]


def _runner_variant(draw: st.DrawFn) -> Variant:
    tag = draw(st.none() | NAMES)
    return Variant(draw(NAMES), batch_size=draw(BATCH_SIZES), further=(("tag", tag),) if tag else ())


@st.composite
def performance_runs(draw: st.DrawFn) -> Run:
    own = sorted(draw(st.sets(NAMES.map("my {}".format), max_size=2)))
    outcomes = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=5)):
        case = Case(name, Probe.PERFORMANCE.value, variant=_runner_variant(draw))
        if draw(st.booleans()):
            speedup = Measurement("speedup", (draw(POSITIVE),))
            others = _measurements(draw, (*_PERFORMANCE_METRICS, *CAPTURE_METRICS, *own), NUMBERS)
            outcomes.append(Outcome(case, PASSED, (speedup, *others)))
        else:
            outcomes.append(Outcome(case, FAILED))
    return run_with(outcomes)


@st.composite
def accuracy_runs(draw: st.DrawFn) -> Run:
    outcomes = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=5)):
        variant, status = _runner_variant(draw), draw(STATUS_WORDS)
        measurements: list[Measurement] = []
        if status == PASSED or variant.batch_size:  # else zeros are read as padding
            measurements = _measurements(draw, (*CAPTURE_METRICS, "compile_seconds"), NUMBERS)
        case = Case(name, Probe.ACCURACY.value, variant=variant)
        outcomes.append(Outcome(case, status, tuple(measurements)))
    return run_with(outcomes)


@st.composite
def expected_runs(draw: st.DrawFn) -> Run:
    """Statuses with the customary counts, counts alone, or whatever else was measured."""
    stated = draw(st.sampled_from(["status", "counts", "numbers"]))
    customary = ("graph_breaks", "calls_captured", "fallbacks_to_eager")
    timed = [name for name, metric in METRICS.items() if metric.probes == (Probe.PERFORMANCE,)]
    probe = {"status": "accuracy", "counts": "", "numbers": "performance"}[stated]
    outcomes = []
    for number, name in enumerate(draw(st.lists(NAMES, min_size=1, max_size=5))):
        status = ""
        first: list[Measurement] = []
        if stated == "status":
            status = draw(STATUS_WORDS) if number == 0 else draw(STATUS_WORDS | st.just(""))
            metrics: Sequence[str] = customary
        elif stated == "counts":
            metrics = CAPTURE_METRICS
            first = [] if number else [Measurement("calls_captured", (draw(COUNTS),))]
        else:
            metrics = [metric for metric in METRICS if metric in {*timed, *CAPTURE_METRICS}]
            first = [] if number else [Measurement("speedup", (draw(POSITIVE),))]
        others = [
            m for m in _measurements(draw, metrics, POSITIVE) if m.metric not in {f.metric for f in first}
        ]
        outcomes.append(Outcome(Case(name, probe), status, (*first, *others)))
    return run_with(outcomes)


@st.composite
def by_dtype_runs(draw: st.DrawFn) -> Run:
    outcomes = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        chosen = draw(st.sets(st.sampled_from(DTYPES), min_size=1))
        for dtype in DTYPES:
            if dtype in chosen:
                case = Case(name, Probe.ACCURACY.value, variant=Variant(dtype=dtype))
                outcomes.append(Outcome(case, draw(STATUS_WORDS)))
    return run_with(outcomes)


@st.composite
def pr_time_runs(draw: st.DrawFn, *, margins: bool) -> Run:
    outcomes = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        measurements = []
        for metric in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
            margin = draw(st.floats(0, 1, exclude_max=True)) if margins else None
            details = MeasurementDetails(margin=margin) if margins else None
            measurements.append(Measurement(metric, (draw(POSITIVE if margins else NUMBERS),), details))
        outcomes.append(Outcome(Case(name, Probe.INSTRUCTIONS.value), PASSED, tuple(measurements)))
    return run_with(outcomes)


@st.composite
def v3_runs(draw: st.DrawFn) -> Run:
    """Runs whose cases differ in more than the probe, which a record does not state."""
    outcomes: dict[tuple[str, str, Variant], Outcome] = {}
    axes = st.just("") | NAMES
    for _ in range(draw(st.integers(1, 4))):
        further = tuple((axis, draw(NAMES)) for axis in ("ranks", "strategy", "tag") if draw(st.booleans()))
        variant = Variant(
            draw(axes),
            draw(axes),
            draw(axes),
            draw(axes),
            draw(st.none() | st.booleans()),
            draw(BATCH_SIZES),
            further,
        )
        suite, name = draw(axes), draw(NAMES)
        outcomes[suite, name, variant] = _v3_outcome(draw, suite, name, variant)
    return run_with(list(outcomes.values()))


def _v3_outcome(draw: st.DrawFn, suite: str, name: str, variant: Variant) -> Outcome:
    probe = draw(st.sampled_from([*Probe]))
    case = Case(name, probe.value, suite, variant)
    if probe is Probe.PERFORMANCE and draw(st.booleans()):
        return Outcome(case, FAILED)
    samples = st.lists(st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300), min_size=1, max_size=4)
    main = {
        Probe.PERFORMANCE: "speedup",
        Probe.ACCURACY: "compile_seconds",
        Probe.INSTRUCTIONS: "instruction_count",
        Probe.SCALING: "iteration_time",
    }
    if probe not in main:
        case, probe = Case(name, Probe.PERFORMANCE.value, suite, variant), Probe.PERFORMANCE
    first = Measurement(main[probe], tuple(draw(samples.filter(lambda found: found not in ([0], [0.0])))))
    others = [
        Measurement(metric, tuple(draw(samples)))
        for metric in sorted(draw(st.sets(NAMES.map("my {}".format), max_size=2)))
    ]
    return Outcome(case, draw(STATUS_WORDS) if probe is Probe.ACCURACY else PASSED, (first, *others))


@st.composite
def ddp_runs(draw: st.DrawFn) -> Run:
    outcomes = []
    seconds = st.floats(1e-9, 1e6)
    for name in draw(st.lists(NAMES, min_size=1, max_size=3)):
        size = draw(st.integers(1, 512))
        for number in range(draw(st.integers(1, 4))):
            usual = st.integers(1, 16).map(range).map(list)
            ranks = draw(usual | st.lists(st.integers(0, 10_000), min_size=1, max_size=8))
            listed = [] if ranks == list(range(len(ranks))) else [("rank_list", " ".join(map(str, ranks)))]
            further = (*listed, ("ranks", str(len(ranks))), ("strategy", "ddp" if number else "none"))
            case = Case(name, Probe.SCALING.value, variant=Variant(batch_size=size, further=further))
            samples = draw(st.lists(seconds, min_size=1, max_size=5))
            outcomes.append(Outcome(case, PASSED, (Measurement("iteration_time", tuple(samples)),)))
    settings = draw(
        st.dictionaries(TEXTS.filter(lambda key: key != "benchmark_results"), JSON_VALUES, max_size=3)
    )
    run = run_with(outcomes)
    return Run(run.id, run.plan, run.outcomes, settings=Settings(rest=settings))


@st.composite
def full_runs(draw: st.DrawFn) -> Run:
    """Runs with all that a run file holds."""
    cases = draw(
        st.lists(
            st.builds(
                Case,
                NAMES,
                st.sampled_from([probe.value for probe in Probe]),
                st.just("") | NAMES,
                st.builds(
                    Variant,
                    NAMES,
                    dynamic=st.none() | st.booleans(),
                    batch_size=BATCH_SIZES,
                    further=st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple),
                ),
            ),
            max_size=4,
            unique=True,
        )
    )
    measured = [case for case in cases if draw(st.booleans())]
    samples = st.lists(st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300), min_size=1, max_size=4).map(
        tuple
    )
    details = st.builds(
        MeasurementDetails,
        counter=NAMES,
        pairs=st.none() | NAMES | COUNTS,
        interval=st.none() | st.tuples(POSITIVE.map(float), POSITIVE.map(float)),
        trials=st.lists(st.integers(1, 9), max_size=3).map(tuple),
        margin=st.none() | st.floats(0, 1, exclude_max=True),
    )
    measurements = st.builds(Measurement, NAMES, samples, st.none() | details, st.none() | JSON_OBJECTS)
    failures = st.builds(Failure, TEXTS, TEXTS, TEXTS, TEXTS)
    outcome_details = st.builds(
        OutcomeDetails,
        duration=st.none() | st.floats(0, 1e300),
        phases=st.none() | st.dictionaries(TEXTS, st.floats(0, 1e300), max_size=2),
        category=TEXTS,
        profile=st.none() | JSON_OBJECTS,
        log=TEXTS,
        compile_cache=st.none() | st.builds(CacheDetails, not_warm=st.tuples(st.builds(CacheMiss, TEXTS))),
        scaling=st.none() | st.builds(RoundDetails, ranks=st.tuples(st.builds(RankDetails, COUNTS, TEXTS))),
    )
    outcomes = [
        Outcome(
            case,
            draw(STATUS_WORDS),
            tuple(draw(st.lists(measurements, max_size=3, unique_by=lambda m: m.metric))),
            draw(st.none() | failures),
            draw(TEXTS),
            draw(st.none() | JSON_OBJECTS),
            tuple(draw(st.lists(CAUTIONS, max_size=2))),
            draw(st.none() | PROVENANCES),
            details=draw(st.none() | outcome_details),
        )
        for case in measured
    ]
    revision = draw(st.builds(Revision, TEXTS, TEXTS, st.none() | st.booleans(), TEXTS))
    environment, settings = draw(JSON_OBJECTS), draw(JSON_OBJECTS)
    for ours in Environment.__struct_fields__:
        environment.pop(ours, None)  # these have types; other keys may have any value
    settings.pop("sources", None)  # with sources, the settings would be torchstone's own
    return Run(
        draw(TEXTS),
        tuple(cases),
        tuple(outcomes),
        revision,
        environment_from(environment),
        Settings(rest=settings),
        draw(st.booleans()),
    )
