"""Whatever a model does to its worker, its case has one outcome with a status and a phase, and the next case runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from live_processes import Bench, marked_processes, wait_until
from stated_facts import facts_of
from torchstone.core.records import Failure, Outcome

TROUBLE = Path(__file__).parent / "bench_trouble.py"
MEGABYTE = 10**6


def failure_of(outcome: Outcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


ENDINGS = [
    ("segfault(at=load)", "worker_died", "load", "ended by SIGSEGV"),
    ("segfault(at=eager)", "worker_died", "eager", "ended by SIGSEGV"),
    ("segfault(at=compile)", "worker_died", "compile", "ended by SIGSEGV"),
    ("segfault(at=run)", "worker_died", "run", "ended by SIGSEGV"),
    ("killed(at=load)", "worker_died", "load", "ended by SIGKILL"),
    ("killed(at=run)", "worker_died", "run", "ended by SIGKILL"),
    ("leaves(at=load)", "worker_died", "load", "exited with code 3"),
    ("leaves(at=compile)", "worker_died", "compile", "exited with code 3"),
    ("exits(at=load)", "eager_fail_to_run", "load", "SystemExit: enough"),
    ("exits(at=eager)", "warmup_failed", "eager", "SystemExit: enough"),
    ("exits(at=compile)", "fail_to_run", "compile", "SystemExit: enough"),
    ("interrupts(at=load)", "eager_fail_to_run", "load", "KeyboardInterrupt"),
    ("interrupts(at=eager)", "warmup_failed", "eager", "KeyboardInterrupt"),
    ("interrupts(at=run)", "fail_to_run", "run", "KeyboardInterrupt"),
    ("raises(at=load)", "eager_fail_to_run", "load", "UnspeakableError"),
    ("raises(at=eager)", "warmup_failed", "eager", "UnspeakableError"),
    ("raises(at=compile)", "fail_to_run", "compile", "UnspeakableError"),
    ("out_of_memory(at=load)", "OOM", "load", "MemoryError: no more"),
    ("out_of_memory(at=eager)", "eager_1st_run_OOM", "eager", "MemoryError: no more"),
    ("out_of_memory(at=compile)", "OOM", "compile", "MemoryError: no more"),
    ("unsupported", "model_fail_to_load", "load", "NotImplementedError: not for this device"),
    ("speaks_in_surrogates", "eager_fail_to_run", "load", "ValueError: ?? is not text"),
    ("prints_and_fails", "eager_fail_to_run", "load", "ValueError: no"),
    ("answers_nonsense", "worker_died", "eager", "reply is invalid"),
    ("closes_the_channel(then=return)", "worker_died", "eager", "exited with code 1"),
    ("closes_the_channel(then=hang)", "worker_died", "eager", "channel was closed"),
]


def check_endings(bench: Bench, jobs: int) -> None:
    outcomes = bench.measure(TROUBLE, [*(name for name, *_ in ENDINGS), "good"], jobs=jobs)
    for name, status, phase, message in ENDINGS:
        failure = failure_of(outcomes[name])
        assert (outcomes[name].status, failure.phase) == (status, phase), (name, failure)
        assert message in failure.message
    assert outcomes["good"].status == "pass"


def test_each_kind_of_trouble_has_its_status_and_phase_and_the_next_case_runs(bench: Bench) -> None:
    check_endings(bench, jobs=1)


@pytest.mark.parametrize(
    "name", ["hangs_in_python(at=load)", "hangs_in_c(how=lock)", "hangs_in_c(how=pause)"]
)
def test_a_hang_ends_as_a_timeout_with_the_python_stacks_in_its_log(bench: Bench, name: str) -> None:
    outcome = bench.measure(TROUBLE, [name], timeout=5)[name]
    failure = failure_of(outcome)
    assert (outcome.status, failure.phase) == ("timeout", "load" if "load" in name else "eager")
    assert failure.message == "did not finish within 5 s; its stack traces are at the end of the log"
    assert "bench_trouble.py" in failure.log
    assert "forever" in failure.log  # the function that hangs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hangs_in_python(at=run)", "hangs_in_c(how=sleep)"])
def test_other_hangs_end_as_a_timeout_too(bench: Bench, name: str) -> None:
    outcome = bench.measure(TROUBLE, [name], timeout=3)[name]
    assert outcome.status == "timeout"
    assert "forever" in failure_of(outcome).log


def test_a_timeout_ends_the_children_too_even_one_in_a_session_of_its_own(bench: Bench) -> None:
    outcomes = bench.measure(TROUBLE, ["hangs_with_a_child"], timeout=3)
    assert outcomes["hangs_with_a_child"].status == "timeout"
    wait_until(lambda: not bench.count_left("sleep 100"), "the children are left", 30)


@pytest.mark.parametrize("how", ["child", "session", "daemon"])
def test_a_child_that_a_model_leaves_behind_is_ended_with_its_case(bench: Bench, how: str) -> None:
    name = f"leaves_a_child(how={how})"
    assert bench.measure(TROUBLE, [name])[name].status == "pass"
    wait_until(lambda: not bench.count_left("sleep 1003"), "the child is left", 30)


def test_a_model_that_floods_its_output_still_has_a_result_and_the_end_of_it_is_kept(bench: Bench) -> None:
    outcome = bench.measure(TROUBLE, ["floods"])["floods"]
    assert outcome.status == "pass"
    assert outcome.value("speedup")
    log = facts_of(outcome)["log"]
    assert log.endswith("x" * 1023 + "\n")
    assert len(log) < 10_000


def test_what_a_model_prints_is_kept_in_its_outcome(bench: Bench) -> None:
    outcomes = bench.measure(TROUBLE, ["prints", "prints_and_fails"])
    log = facts_of(outcomes["prints"])["log"]
    assert "said aloud\n" in log
    assert "said aside\n" in log
    assert "not utf-8: \ufffd\ufffd\n" in log
    assert "last words\n" in failure_of(outcomes["prints_and_fails"]).log
    assert "prints_and_fails" in failure_of(outcomes["prints_and_fails"]).traceback


def test_garbage_in_every_descriptor_spoils_nothing(bench: Bench) -> None:
    outcome = bench.measure(TROUBLE, ["writes_everywhere"])["writes_everywhere"]
    assert outcome.status == "pass"
    assert outcome.value("speedup")


def test_a_model_that_closes_its_output_or_leaves_a_thread_is_measured_all_the_same(bench: Bench) -> None:
    outcomes = bench.measure(TROUBLE, ["closes_its_output", "leaves_a_thread"])
    assert {outcome.status for outcome in outcomes.values()} == {"pass"}


def test_a_flooded_channel_does_not_keep_the_parent_from_its_watch(bench: Bench) -> None:
    outcome = bench.measure(TROUBLE, ["floods_the_channel"], timeout=3)["floods_the_channel"]
    assert outcome.status == "timeout"


def test_memory_beyond_the_limit_ends_a_case_as_out_of_memory(bench: Bench) -> None:
    outcomes = bench.measure(TROUBLE, ["allocates", "good"], memory=1500 * MEGABYTE)
    failure = failure_of(outcomes["allocates"])
    assert (outcomes["allocates"].status, failure.phase) == ("eager_1st_run_OOM", "eager")
    used = re.match(
        r"used (\S+) GB of memory \(proportional set size\), more than the limit of 1.50 GB", failure.message
    )
    assert used
    assert 1.5 <= float(used[1]) < 4.0  # it would go on to 4 GB and more
    assert outcomes["good"].status == "pass"


def test_memory_that_a_model_shares_with_its_forks_counts_once(bench: Bench) -> None:
    outcome = bench.measure(TROUBLE, ["shares_memory_with_forks"], memory=1500 * MEGABYTE)[
        "shares_memory_with_forks"
    ]
    assert outcome.status == "pass", outcome.failure


def test_a_model_that_kills_the_process_that_starts_workers_is_one_outcome_and_the_run_goes_on(
    bench: Bench,
) -> None:
    outcomes = bench.measure(TROUBLE, ["kills_its_parent", "good"])
    assert outcomes["kills_its_parent"].status == "worker_died"
    assert outcomes["good"].status == "pass"


@pytest.mark.parametrize("whom", ["itself", "parent"])
def test_a_model_that_stops_a_process_cannot_stop_the_timeout(bench: Bench, whom: str) -> None:
    name = f"stops(whom={whom})"
    outcomes = bench.measure(TROUBLE, [name, "good"], timeout=3)
    failure = failure_of(outcomes[name])
    assert (outcomes[name].status, failure.phase) == ("timeout", "eager")
    assert "in stop" in failure.log  # its stacks, although it was stopped
    assert outcomes["good"].status == "pass"


def test_a_keeper_that_is_stopped_goes_on_and_no_case_is_lost(bench: Bench) -> None:
    name = "stops(whom=parent_and_goes_on)"
    outcomes = bench.measure(TROUBLE, [name, "good", "prints"], jobs=2)
    assert {each: outcome.status for each, outcome in outcomes.items()} == {
        name: "pass",
        "good": "pass",
        "prints": "pass",
    }


@pytest.mark.slow
def test_a_keeper_that_is_kept_from_acting_is_replaced(bench: Bench) -> None:
    (before,) = keepers(bench)
    outcomes = bench.measure(TROUBLE, ["holds_its_parent", "good"], timeout=3)
    if outcomes["holds_its_parent"].status == "worker_died":
        pytest.skip("this system does not let a process hold its parent")
    assert outcomes["holds_its_parent"].status == "timeout"
    assert outcomes["good"].status == "pass"
    wait_until(lambda: before not in keepers(bench), "the old one is left", 30)


def keepers(bench: Bench) -> list[int]:
    return [
        pid for pid, command in marked_processes(bench.mark).items() if "torchstone.worker.zygote" in command
    ]


def test_a_name_that_is_no_longer_in_the_file_is_an_outcome(bench: Bench) -> None:
    outcome = bench.measure(TROUBLE, ["gone"])["gone"]
    assert outcome.status == "eager_fail_to_run"
    assert "there is no benchmark 'gone'" in failure_of(outcome).message


def test_a_file_may_print_and_start_threads_when_it_is_imported(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "bench_noisy.py"
    path.write_text(
        "import sys, threading, time\n"
        "import torch, torchstone\n"
        "print('imported', flush=True)\n"
        "for _ in range(3):\n"
        "    threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "@torchstone.benchmark\n"
        "def noisy():\n"
        "    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)\n"
    )
    for probe in ("performance", "accuracy"):
        outcome = bench.measure(path, ["noisy"], probe=probe, backend="eager")["noisy"]
        assert outcome.status == "pass"
        assert "imported\n" in facts_of(outcome)["log"]


def test_how_workers_were_started_is_part_of_what_a_compile_time_means(bench: Bench) -> None:
    outcome = bench.measure(TROUBLE, ["good"], backend="eager")["good"]
    (measurement,) = [m for m in outcome.measurements if m.metric == "compilation_latency"]
    assert measurement.facts() == {"start": bench.session.launcher.start, "cache": "cold"}


SPAWNED = ["segfault(at=eager)", "leaves_a_child(how=session)"]


@pytest.mark.parametrize("bench", ["spawn"], indirect=True)
def test_spawned_workers_end_as_forked_ones_do(bench: Bench) -> None:
    outcomes = bench.measure(TROUBLE, SPAWNED, jobs=2)
    statuses = [outcomes[name].status for name in SPAWNED]
    assert statuses == ["worker_died", "pass"]
    wait_until(lambda: not bench.count_left("sleep 1003"), "the child is left", 30)


@pytest.mark.slow
@pytest.mark.parametrize("bench", ["spawn"], indirect=True)
def test_spawned_workers_survive_all_other_trouble_too(bench: Bench) -> None:
    check_endings(bench, jobs=2)
    hangs = "hangs_in_c(how=pause)"
    assert "forever" in failure_of(bench.measure(TROUBLE, [hangs], timeout=30)[hangs]).log
    stops = "stops(whom=parent)"
    assert bench.measure(TROUBLE, [stops], timeout=30)[stops].status == "timeout"
    others = ["floods", "writes_everywhere", "kills_its_parent", "leaves_a_thread", "good"]
    outcomes = bench.measure(TROUBLE, others)
    assert [outcomes[name].status for name in others] == ["pass", "pass", "worker_died", "pass", "pass"]
