"""Several cases at once share the untimed phases, and take turns in the timed one."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import make_bench
from live_processes import Bench, wait_until
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Variant
from torchstone.measure.measuring import Settings
from torchstone.measure.supervisor import WorkerLimits

HERE = Path(__file__).parent
TURNS, TROUBLE = HERE / "bench_turns.py", HERE / "bench_trouble.py"

Interval = tuple[float, float]


@pytest.fixture(scope="module", autouse=True)
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the benchmarks note their times; they find it in the environment of the session."""
    path = tmp_path_factory.mktemp("notes") / "notes"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHSTONE_TEST_NOTES", str(path))
        yield path


@pytest.fixture(scope="module")
def bench(notes: Path) -> Iterator[Bench]:
    """A session of its own, which has been told where the notes are."""
    with make_bench("fork") as made:
        yield made


def intervals(notes: Path, what: str) -> dict[str, Interval]:
    """From the first to the last moment of a phase, by benchmark."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in notes.read_text().splitlines():
        name, start, end = line.split()
        if name.startswith(what):
            found[name] += [float(start), float(end)]
    return {name: (min(times), max(times)) for name, times in found.items()}


def overlap(one: Interval, other: Interval) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def test_only_one_case_is_timed_at_a_time_while_others_are_loaded(notes: Path, bench: Bench) -> None:
    names = [f"noting(number={number})" for number in range(6)]
    outcomes = bench.measure(TURNS, names, jobs=3)
    assert {outcome.status for outcome in outcomes.values()} == {"pass"}
    timed, loaded = intervals(notes, "timed:"), intervals(notes, "load:")
    assert len(timed) == len(loaded) == 6
    assert not any(overlap(*pair) for pair in itertools.combinations(timed.values(), 2))
    assert any(overlap(*pair) for pair in itertools.combinations(loaded.values(), 2))
    assert any((name, "waiting") in bench.watcher.seen for name in names)


@pytest.mark.parametrize("name", ["segfault(at=run)", "interrupts(at=run)"])
def test_a_worker_that_dies_while_it_is_timed_does_not_keep_the_turn(bench: Bench, name: str) -> None:
    outcomes = bench.measure(TROUBLE, [name, "good", "prints", "floods"], jobs=3)
    assert outcomes.pop(name).status != "pass"
    assert {outcome.status for outcome in outcomes.values()} == {"pass"}


def test_waiting_for_ones_turn_is_not_counted_as_ones_own_time(bench: Bench) -> None:
    names = ["noting(number=0)", "noting(number=1)"]  # which take longer to load, so that both come to wait
    outcomes = bench.measure(TURNS, ["hanging", *names], jobs=3, timeout=8)
    assert outcomes.pop("hanging").status == "timeout"
    assert {outcome.status for outcome in outcomes.values()} == {"pass"}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [2, 4])
def test_a_case_that_ran_out_of_memory_beside_others_is_measured_again_with_fewer(
    notes: Path, bench: Bench, jobs: int
) -> None:
    outcomes = bench.measure(TURNS, [f"roomy(number={number})" for number in range(jobs)], jobs=jobs)
    assert "no-room:" in notes.read_text()
    assert {outcome.status for outcome in outcomes.values()} == {"pass"}


def test_leaving_the_iterator_ends_all_workers(bench: Bench) -> None:
    source = BenchmarkSource("file", "bench_trouble", str(TROUBLE))
    variant = Variant("cpu", "none", "inference", "float32")
    names = ["good", "hangs_in_python(at=load)", "hangs_with_a_child"]
    settings = Settings(sources={"bench_trouble": source}, threads=1, repeat=20)
    supervisor = bench.session.supervisor(settings, WorkerLimits(600, jobs=3), bench.watcher)
    outcomes = supervisor.execute([Case(name, "performance", "bench_trouble", variant) for name in names])
    assert next(outcomes).case.benchmark == "good"
    wait_until(lambda: bench.count_left("sleep 100") == 2, "the children have not been started")
    outcomes.close()
    wait_until(lambda: not bench.count_left("sleep 100"), "the children are left", 30)
    wait_until(lambda: bench.count_left("zygote") == 1, "a worker is left", 30)
