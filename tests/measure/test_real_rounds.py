"""Real rounds: torchrun jobs of two processes that train together over gloo, and what becomes of them when one gets into trouble."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from live_processes import expect_no_process, read_run, run_torchstone, start_torchstone, wait_until
from stated_facts import facts_of
from torchstone.core.records import Outcome

ROUNDS = Path(__file__).parent / "bench_rounds.py"
TWO = ("--probe", "scaling", "--ranks", "2", "--strategy", "ddp", "--collective-timeout", "6s")


def run_rounds(folder: Path, *arguments: str, mark: str = "") -> tuple[int, list[Outcome], str]:
    shutil.copy(ROUNDS, folder)
    done = run_torchstone(folder, "run", *arguments, "-o", "r.jsonl", mark=mark)
    return done.returncode, list(read_run(folder / "r.jsonl").run.outcomes), done.stdout + done.stderr


def test_two_processes_train_together_and_every_sample_of_each_is_kept(tmp_path: Path) -> None:
    code, outcomes, said = run_rounds(
        tmp_path, "scaling", "--only", "mlp", "--probe", "scaling", "--device", "cpu", "--ranks", "2", "--repeat", "4", "--warm-up", "2"
    )  # fmt: skip
    assert code == 0, said
    assert [dict(each.case.variant.further)["strategy"] for each in outcomes] == ["none", "ddp"]
    plain, together = outcomes
    assert plain.measurements[0].facts() == {"ranks": (4,)}
    assert together.measurements[0].facts() == {"ranks": (4, 4)}
    facts = facts_of(together)
    assert [each["rank"] for each in facts["ranks"]] == [0, 1]
    assert facts["round"]["iterations"] == 4
    assert facts["round"]["warm_up"] == 2
    share = together.value("communication_share")
    assert isinstance(share, float)
    assert 0 < share <= 100
    assert len(next(m for m in together.measurements if m.metric == "peak_memory").samples) == 2
    batch, ranks = together.case.variant.batch_size, 2
    per_second, seconds = together.value("examples_per_second"), together.value("iteration_time")
    assert isinstance(seconds, float)
    assert per_second == pytest.approx(batch * ranks / seconds)  # type: ignore[operator]
    alone = plain.value("examples_per_second")
    assert together.value("scaling_efficiency") == pytest.approx(100 * per_second / alone / 2)  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "status", "message"),
    [
        ("fail", "fail_to_run", "ValueError: no good"),
        ("exhaust", "OOM", "out of memory, says the test"),
        ("die", "worker_died", "ended by SIGKILL in iteration 6"),
        ("leave", "worker_died", "exited with code 7 in iteration 6"),
        ("hang", "timeout", "hangs in iteration 6: rank 0 waited for it until"),
    ],
)
def test_a_rank_in_trouble_is_named_with_its_host_and_leaves_no_process_behind(
    tmp_path: Path, trouble: str, status: str, message: str
) -> None:
    mark = f"rounds-{trouble}"
    began = time.monotonic()
    code, (outcome,), said = run_rounds(
        tmp_path, f"bench_rounds.py::troubled(trouble={trouble})", *TWO, mark=mark
    )
    assert code == 1, said
    assert outcome.status == status
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("rank 1 on ")
    assert message in outcome.failure.message
    assert time.monotonic() - began < 100
    expect_no_process(mark)


@pytest.mark.slow
def test_what_cannot_be_trained_says_why_and_what_straggles_is_named(tmp_path: Path) -> None:
    code, outcomes, said = run_rounds(tmp_path, "bench_rounds.py", "-x", "troubled", *TWO, "--repeat", "5")
    assert code == 1, said
    found = {each.case.benchmark: each for each in outcomes}
    assert "untrained" not in found
    for name, why in (("frozen", "nothing to train"), ("function", "needs a torch.nn.Module")):
        assert found[name].status == "model_fail_to_load"
        assert why in found[name].failure.message  # type: ignore[union-attr]
    assert facts_of(found["straggling"])["stragglers"][0].startswith("rank 1 on ")
    assert "2 parameters get no gradient" in found["straggling"].cautions[0].text


@pytest.mark.slow
def test_models_of_other_suites_scale_too_sharded_compiled_and_in_trials(tmp_path: Path) -> None:
    code, (outcome,), said = run_rounds(
        tmp_path, "smoke::mlp", "--probe", "scaling", "--ranks", "2", "--strategy", "fsdp", "--backend", "inductor",
        "--repeat", "3", "--trials", "2",
    )  # fmt: skip
    assert code == 0, said
    assert outcome.case.variant.backend == "inductor"
    times = outcome.measurements[0]
    assert times.facts() == {"ranks": (3, 3, 3, 3), "trials": (6, 6)}


@pytest.mark.slow
def test_an_interrupted_sweep_keeps_its_rounds_leaves_no_process_and_goes_on(tmp_path: Path) -> None:
    mark, path = "rounds-interrupted", tmp_path / "r.jsonl"
    options = ("--probe", "scaling", "--ranks", "1,2", "--repeat", "3", "--device", "cpu")
    process = start_torchstone(tmp_path, "run", "scaling::mlp", *options, "-o", str(path), mark=mark)
    wait_until(lambda: path.exists() and path.read_text().count('"kind":"outcome"') >= 1, "the first round")
    process.send_signal(2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in err
    expect_no_process(mark)
    done = run_torchstone(tmp_path, "run", "--resume", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = read_run(path).run.outcomes
    assert len(outcomes) == 3
    assert outcomes[-1].value("scaling_efficiency") is not None
    again = run_torchstone(tmp_path, "repro", str(path), outcomes[-1].case.id)
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.slow
def test_processes_that_torchrun_started_are_one_run(tmp_path: Path) -> None:
    mark = "rounds-torchrun"
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "-m",
        "torchstone",
        "run",
        "scaling::mlp",
    ]
    done = subprocess.run(
        [*command, "--device", "cpu", "--repeat", "3", "--ranks", "2", "-o", "r.jsonl"],
        cwd=tmp_path,
        env={**os.environ, "TORCHSTONE_TEST_MARK": mark},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.status for each in read_run(tmp_path / "r.jsonl").run.outcomes] == ["pass", "pass"]
    expect_no_process(mark)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--collective-backend", "pigeons"), "this torch has no such backend\n  available: "),
        (("--mode", "inference"), "--mode inference cannot be used with the probe scaling"),
        (("--budget", "5s"), "--budget cannot be used with the probe scaling"),
        (("--strategy", "zap"), "--strategy zap: expected none, ddp, fsdp"),
        (("--bucket-mb", "0"), "--bucket-mb 0: expected megabytes"),
        (("--ranks", "two"), "--ranks two: expected a whole number"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run_torchstone(tmp_path, "run", "scaling", "--probe", "scaling", "--device", "cpu", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_options_of_rounds_are_for_the_probe_scaling(tmp_path: Path) -> None:
    done = run_torchstone(tmp_path, "run", "smoke", "--probe", "performance", "--ranks", "2")
    assert done.returncode == 2
    assert "--ranks requires the probe scaling" in done.stderr
