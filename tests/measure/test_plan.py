"""The plan: every combination once, under names that stay, in shards that agree."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.cautions import Caution
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Outcome, Variant
from torchstone.measure.plan import (
    Axes,
    Listing,
    Selection,
    check_patterns,
    durations_of,
    plan_cases,
    shard_cases,
)

BOTH = ("inference", "training")
AXES = Axes(("performance",), ("cpu",))


def listing(name: str, suite: str = "bench", takes: tuple[str, ...] = ("batch_size", "size")) -> Listing:
    return Listing(suite, name, 8, 4, BOTH, takes)


def names(cases: list[Case]) -> list[str]:
    return [case.benchmark for case in cases]


def test_there_is_a_case_for_each_combination_of_axes_and_each_has_its_own_id() -> None:
    axes = Axes(
        ("performance", "accuracy"),
        ("cpu", "cuda"),
        ("inductor", "eager"),
        BOTH,
        ("float32", "amp"),
        (None, True),
        (1, 16),
    )
    cases = plan_cases([listing("a"), listing("b")], axes, Selection())
    assert len(cases) == 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2
    assert len({case.id for case in cases}) == len(cases)
    assert {case.variant.batch_size for case in cases} == {1, 16}


def test_ids_are_made_of_names_and_axes_alone() -> None:
    (case,) = plan_cases([listing("m(width=64)")], AXES, Selection())
    assert (
        case.id
        == "bench::m(width=64)[device=cpu,backend=inductor,mode=inference,dtype=float32,batch_size=8]::performance"
    )
    axes = Axes(("accuracy",), ("cpu",), dynamics=(True,), size="small", further=(("compile_mode", "max"),))
    (case,) = plan_cases([listing("m")], axes, Selection())
    assert (
        case.id
        == "bench::m[device=cpu,backend=inductor,mode=inference,dtype=float32,dynamic=true,batch_size=2,compile_mode=max,size=small]::accuracy"
    )


def test_accuracy_has_its_own_batch_size_and_small_models_a_small_one() -> None:
    def size(probe: str, size: str) -> int | None:
        (case,) = plan_cases([listing("m")], Axes((probe,), ("cpu",), size=size), Selection())
        return case.variant.batch_size

    assert [size("performance", "full"), size("accuracy", "full"), size("accuracy", "small")] == [8, 4, 2]


def test_a_mode_that_a_benchmark_does_not_have_is_not_planned() -> None:
    only_inference = Listing("bench", "a", modes=("inference",))
    axes = Axes(("performance",), ("cpu",), modes=BOTH)
    assert len(plan_cases([only_inference, listing("b")], axes, Selection())) == 3
    with pytest.raises(UsageError, match="none of these benchmarks has the mode training"):
        plan_cases([only_inference], Axes(("performance",), ("cpu",), modes=("training",)), Selection())


LISTINGS = [listing("Bert"), listing("bert_large"), listing("gpt"), listing("Bert", "other")]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), ["bench::Bert", "bench::bert_large", "bench::gpt", "other::Bert"]),
        (Selection(filters=("bert",)), ["bench::Bert", "bench::bert_large", "other::Bert"]),
        (Selection(filters=("^gpt$", "large")), ["bench::bert_large", "bench::gpt"]),
        (Selection(exclusions=("bert",)), ["bench::gpt"]),
        (Selection(filters=("bert",), exclusions=("large",)), ["bench::Bert", "other::Bert"]),
        (Selection(only=("Bert",)), ["bench::Bert", "other::Bert"]),
        (Selection(only=("bench::Bert",)), ["bench::Bert"]),
        (Selection(only=("b*", "gpt")), ["bench::Bert", "bench::bert_large", "bench::gpt"]),
        (Selection(targets=("bench::Bert", "other::*")), ["bench::Bert", "other::Bert"]),
        (Selection(targets=("bench::Bert", "other::*"), only=("other::Bert",)), ["other::Bert"]),
    ],
)
def test_what_is_selected(selection: Selection, expected: list[str]) -> None:
    assert [f"{case.suite}::{case.benchmark}" for case in plan_cases(LISTINGS, AXES, selection)] == expected


def test_a_case_can_be_named_by_its_id() -> None:
    axes = Axes(("performance", "accuracy"), ("cpu",), modes=BOTH)
    wanted = plan_cases(LISTINGS, axes, Selection())[5]
    assert plan_cases(LISTINGS, axes, Selection(only=(wanted.id,))) == [wanted]
    assert len(plan_cases(LISTINGS, axes, Selection(only=("*::accuracy",)))) == 8


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(only=("Bret",)), "no benchmark matches: Bret\n  did you mean Bert?"),
        (Selection(only=("gpt", "Bret")), "no benchmark matches: Bret"),
        (Selection(targets=("bench::gpt", "bench::gtp")), "no benchmark matches: gtp\n  did you mean gpt?"),
        (Selection(filters=("nothing",)), "no benchmark matches: nothing"),
        (Selection(exclusions=(".",)), "--exclude excludes all benchmarks"),
    ],
)
def test_a_selection_that_means_nothing_is_refused_with_a_hint(selection: Selection, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        plan_cases(LISTINGS, AXES, selection)
    assert str(raised.value).startswith(message)


def test_what_a_builder_would_ignore_is_refused() -> None:
    listings = [listing("a"), listing("b", takes=())]
    sizes = Axes(("performance",), ("cpu",), batch_sizes=(4,))
    with pytest.raises(UsageError, match="--batch-size cannot change bench::b"):
        plan_cases(listings, sizes, Selection(only=("*::b*::performance",)))
    with pytest.raises(UsageError, match="has only one size"):
        plan_cases(listings, Axes(("performance",), ("cpu",), size="small"), Selection())
    assert names(plan_cases(listings, sizes, Selection(exclusions=("b",)))) == ["a"]


def test_benchmarks_without_a_batch_size_are_skipped_with_a_caution() -> None:
    listings = [listing("a"), listing("b", takes=()), counted("c")]
    cautions: list[Caution] = []
    sizes = Axes((), ("cpu",), batch_sizes=(1, 16))
    cases = plan_cases(listings, sizes, Selection(), cautions)
    assert {(case.benchmark, case.variant.batch_size) for case in cases} == {("a", 1), ("a", 16)}
    (caution,) = cautions
    assert (
        caution.text
        == "--batch-size skips 2 benchmarks without a parameter of that name: bench::b, counted::c"
    )
    cautions.clear()
    assert names(plan_cases(listings, sizes, Selection(only=("a",)), cautions)) == ["a"] * 4
    assert not cautions


def test_a_pattern_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(UsageError, match=r"-k \(: not a regular expression"):
        check_patterns("-k", ["good", "("])


CASES = st.lists(
    st.builds(Case, st.text(max_size=5), st.sampled_from(["performance", "accuracy"]), st.just("s")),
    unique=True,
    max_size=20,
)


@given(CASES, st.integers(1, 5), st.dictionaries(st.integers(0, 19), st.floats(0, 100)))
def test_shards_are_disjoint_complete_and_keep_a_benchmark_together(
    cases: list[Case], count: int, seconds: dict[int, float]
) -> None:
    durations = {cases[n]: value for n, value in seconds.items() if n < len(cases)}
    shards = [shard_cases(cases, index, count, durations) for index in range(1, count + 1)]
    assert sorted(itertools.chain(*shards), key=cases.index) == cases
    for one, other in itertools.combinations(shards, 2):
        assert not {case.benchmark for case in one} & {case.benchmark for case in other}


@given(CASES, CASES, st.integers(1, 5))
def test_a_new_benchmark_moves_no_other_to_another_shard(
    cases: list[Case], added: list[Case], count: int
) -> None:
    both = list(dict.fromkeys([*cases, *added]))
    for index in range(1, count + 1):
        before, after = shard_cases(cases, index, count), shard_cases(both, index, count)
        assert [case for case in after if case in set(cases)] == before


def test_shards_take_equally_long_where_durations_are_known() -> None:
    cases = [Case(f"m{n}", "performance", "s") for n in range(12)]
    durations = {case: 100.0 if n == 0 else 10.0 for n, case in enumerate(cases)}
    loads = [sum(durations[case] for case in shard_cases(cases, index, 2, durations)) for index in (1, 2)]
    assert sorted(loads) == [100.0, 110.0]


def test_durations_come_from_the_outcomes_of_earlier_runs() -> None:
    case = Case("m", "performance", "s")
    assert durations_of([Outcome(case, "pass", details=OutcomeDetails(duration=3))]) == {case: 3.0}
    assert (
        durations_of(
            [
                Outcome(case, "pass"),
                Outcome(case, "pass", extra={"duration": "long"}, details=OutcomeDetails()),
            ]
        )
        == {}
    )


def counted(name: str, device: str = "cpu") -> Listing:
    return Listing("counted", name, counted=Variant(device, "eager", dynamic=True))


def test_counted_work_is_one_case_with_axes_of_its_own_whatever_the_axes_are() -> None:
    axes = Axes((), ("cpu", "cuda"))
    cases = plan_cases([counted("c")], axes, Selection())
    assert [case.id for case in cases] == ["counted::c[device=cpu,backend=eager,dynamic=true]::instructions"]


def test_without_probes_each_is_measured_for_what_it_is_made_for() -> None:
    cases = plan_cases([listing("m"), counted("c")], Axes((), ("cpu",)), Selection())
    assert [(case.benchmark, case.probe) for case in cases] == [
        ("m", "performance"),
        ("m", "accuracy"),
        ("c", "instructions"),
    ]


def test_models_are_counted_on_request_and_counted_work_has_no_other_probe() -> None:
    cases = plan_cases([listing("m"), counted("c")], Axes(("instructions",), ("cpu",)), Selection())
    assert [(case.benchmark, case.probe) for case in cases] == [("m", "instructions"), ("c", "instructions")]
    cases = plan_cases([listing("m"), counted("c")], Axes(("performance",), ("cpu",)), Selection())
    assert names(cases) == ["m"]


def test_a_device_that_was_asked_for_chooses_among_counted_work() -> None:
    here, there = counted("here"), counted("there", "cuda")
    assert names(plan_cases([here, there], Axes((), ("cpu",)), Selection())) == ["here", "there"]
    asked = Axes((), ("cuda:1",), asked_devices=("cuda:1",))
    assert names(plan_cases([here, there], asked, Selection())) == ["there"]


@pytest.mark.parametrize(
    ("axes", "option"),
    [
        (Axes((), ("cpu",), backends=("eager",)), "--backend"),
        (Axes((), ("cpu",), modes=("training",)), "--mode"),
        (Axes((), ("cpu",), dtypes=("amp",)), "--dtype"),
        (Axes((), ("cpu",), dynamics=(True,)), "--dynamic"),
        (Axes((), ("cpu",), batch_sizes=(2,)), "--batch-size"),
        (Axes((), ("cpu",), size="small"), "--size"),
        (Axes((), ("cpu",), further=(("compile_mode", "max"),)), "--compile-mode"),
    ],
)
def test_what_counted_work_would_ignore_is_refused(axes: Axes, option: str) -> None:
    with pytest.raises(UsageError, match=option):
        plan_cases([counted("c")], axes, Selection())
