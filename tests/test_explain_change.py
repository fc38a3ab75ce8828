"""What the runs on both sides of a change say about its cause; what they do not say is said, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from comparison_files import VARIANT, case_of, counts
from made_changes import change_of
from stored_runs import EPYC, opened, recorded, run_of
from torchstone.api.explaining.explain_change import ChangeExplanation, explain_change
from torchstone.core.details.capture_details import CaptureDetails, GraphBreak
from torchstone.core.details.compile_cache_details import CacheDetails, CacheMiss
from torchstone.core.details.outcome_details import OutcomeDetails, TorchSettingsDetails
from torchstone.core.details.time_profile import KernelTime, SideTime, TimeProfile
from torchstone.core.records import Case, Failure, Measurement, Outcome
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import list_runs

NET = case_of("net")
CACHE = Case("net", "compile_cache", "smoke", VARIANT)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(str(tmp_path / "history.db")) as found:
        yield found


def outcome(*measured: tuple[str, float], case: Case = NET, **further: Any) -> Outcome:  # noqa: ANN401  (fields of any kind)
    measurements = tuple(Measurement(metric, (value,)) for metric, value in measured)
    return Outcome(case, further.pop("status", "pass"), measurements, **further)


def explained(
    database: Database,
    old: list[Outcome],
    new: list[Outcome],
    metric: str = "abs_latency",
    **further: Any,  # noqa: ANN401  (fields of any kind)
) -> ChangeExplanation:
    recorded(database, run_of(1, old), run_of(2, new, **further))
    first, second = list_runs(database)
    change = change_of(2, NET, metric)
    ends = [
        structs.replace(end, run_id=run.id, run=run.name)
        for end, run in zip((change.last_old, change.first_new), (first, second), strict=True)
    ]
    return explain_change(database, structs.replace(change, last_old=ends[0], first_new=ends[1]))


def test_graph_breaks_are_told_with_their_reason(database: Database) -> None:
    broken = CaptureDetails((GraphBreak("Unsupported: print()", "net.py:12", "print(x)", 3),))
    new = structs.replace(outcome(("abs_latency", 14.0)), capture=broken)
    new = structs.replace(new, measurements=(*new.measurements, counts("graph_breaks", 3)))
    old = outcome(("abs_latency", 10.0))
    old = structs.replace(old, measurements=(*old.measurements, counts("graph_breaks", 0)))
    found = explained(database, [old], [new])
    assert found.lines == (
        "graph breaks 0 -> 3",
        "graph breaks at net.py:12 0 -> 3: Unsupported: print()",
    )


def test_compile_phases_of_another_probe_are_clues(database: Database) -> None:
    phases = [
        ("cold_dynamo_seconds", 1.0, 1.01),
        ("cold_inductor_seconds", 2.1, 2.2),
        ("cold_codegen_seconds", 2.1, 5.0),
    ]
    old = [outcome(("compile_seconds", 5.0)), outcome(*((name, one) for name, one, _ in phases), case=CACHE)]
    new = [outcome(("compile_seconds", 8.0)), outcome(*((name, two) for name, _, two in phases), case=CACHE)]
    found = explained(database, old, new, "compile_seconds")
    assert found.lines == ("compile phase codegen (cold) 2.1 s -> 5 s",)


def test_phases_of_a_case_are_told_if_they_matter(database: Database) -> None:
    old = outcome(details=OutcomeDetails(phases={"load": 0.01, "compile": 4.0, "run": 1.0}))
    new = outcome(details=OutcomeDetails(phases={"load": 0.03, "compile": 9.0, "run": 1.02}))
    assert explained(database, [old], [new]).lines == ("phase compile 4 s -> 9 s",)


def test_kernels_are_told_by_their_change(database: Database) -> None:
    def profile(**times: float) -> OutcomeDetails:
        kernels = tuple(KernelTime(name, "pointwise", "", 1, time) for name, time in times.items())
        side = SideTime(wall=9, busy=sum(times.values()), launches=len(times), kernels=kernels)
        return OutcomeDetails(time_profile=TimeProfile("cuda", "H200", "2.13.0", "float32", side, side))

    old, new = (
        outcome(details=profile(gemm=1.0, add=0.5, tiny=0.001)),
        outcome(details=profile(gemm=1.01, copy=2.0, tiny=0.01)),
    )
    found = explained(database, [old], [new])
    assert found.lines == ("kernel copy absent -> 2.000 ms", "kernel add 0.500 ms -> absent")


def test_cache_look_ups_and_why_they_missed(database: Database) -> None:
    old = outcome(
        ("warm_cache_hit", 4),
        ("warm_cache_miss", 0),
        case=CACHE,
        details=OutcomeDetails(compile_cache=CacheDetails()),
    )
    missed = CacheMiss("config differs: triton.x", "warm", 1, "[0/0]", "fxgraph", "miss")
    found = OutcomeDetails(compile_cache=CacheDetails(not_warm=(missed,)))
    new = outcome(("warm_cache_hit", 3), ("warm_cache_miss", 1), case=CACHE, details=found)
    timed = outcome(("abs_latency", 1.0))
    assert explained(database, [timed, old], [timed, new]).lines == (
        "compile-cache look-ups that were hits (warm) 4 -> 3",
        "compile-cache look-ups that were misses (warm) 0 -> 1",
        "look-ups in fxgraph that found nothing 0 -> 1: config differs: triton.x",
    )


def test_a_failure_is_told_with_its_message(database: Database) -> None:
    new = outcome(status="fail_to_run", failure=Failure("compile", "BackendError: no kernel\nmore", "", ""))
    assert explained(database, [outcome()], [new], "accuracy").lines == (
        "status pass -> fail_to_run: BackendError: no kernel",
    )


def test_settings_and_environments_that_differ_are_told(database: Database) -> None:
    details = [OutcomeDetails(torch=TorchSettingsDetails(tf32=allowed)) for allowed in (True, False)]
    found = explained(
        database,
        [outcome(details=details[0])],
        [outcome(details=details[1])],
        environment={**EPYC, "versions": {"torch": "2.14.0"}},
    )
    assert found.lines == ("settings of torch: TF32 allowed -> TF32 not allowed",)
    assert any("torch" in each for each in found.differences)


def test_other_numbers_of_the_case_are_clues_and_the_one_that_changed_is_none(database: Database) -> None:
    old = outcome(("abs_latency", 10.0), ("eager_latency", 20.0), ("dynamo_peak_mem", 1.0))
    new = outcome(("abs_latency", 15.0), ("eager_latency", 30.0), ("dynamo_peak_mem", 1.01))
    assert explained(database, [old], [new]).lines == ("eager latency 20 ms -> 30 ms",)


def test_nothing_found_is_said(database: Database) -> None:
    found = explained(database, [outcome(("abs_latency", 10.0))], [outcome(("abs_latency", 15.0))])
    assert not found.clues
    assert "does not explain it" in found.lines[0]
    assert "--profile" in found.lines[0]


def test_a_run_that_was_removed_is_said(database: Database) -> None:
    recorded(database, run_of(1))
    assert explain_change(database, change_of(900, NET)).note == "run run899 is no longer in the store"


def test_a_case_without_an_outcome_is_said(database: Database) -> None:
    other = outcome(("abs_latency", 1.0), case=case_of("other"))
    found = explained(database, [outcome(("abs_latency", 1.0)), other], [other])
    assert found.note.endswith("has no outcome of this case")
