"""Every status that the accuracy and performance probes can give, each by a model that deserves it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from probe_steps import TORCH_WARNINGS, Ended, changing, linear, measure, no_memory, only, raising, refusing
from torch import Tensor, nn

from torchstone.core.vocabulary import STATUSES
from torchstone.define.benchmarks import Check
from torchstone.worker import worker
from torchstone.worker.channel import Channel
from torchstone.worker.protocol.jobs import CaseAxes, MeasureJob, encode_job
from torchstone.worker.protocol.replies import CaseReply
from torchstone.worker.protocol.source_message import SourceMessage

pytestmark = TORCH_WARNINGS

CALLS = itertools.count(1)
"""Numbers the calls of this module's models, of all copies together; every test begins at one."""
FIRST_OF_1ST_RUN, FIRST_OF_2ND_RUN = 3, 5  # two steps each, after the two of the float64 run


@pytest.fixture(autouse=True)
def _nothing_called_yet() -> None:
    global CALLS  # noqa: PLW0603  (state that every copy of a model shares is the point)
    CALLS = itertools.count(1)


class Counting(nn.Module):
    """Adds one, and at one of its calls does something else."""

    def __init__(self, number: int, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.number, self.then = number, then

    def forward(self, x: Tensor) -> Tensor:
        return self.then(x) if next(CALLS) == self.number else x + 1


class Scaled(nn.Module):
    """Multiplies by a number that a later version of the model has another of."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def fail(x: Tensor) -> Tensor:
    raise ValueError("not today")


def run_out(x: Tensor) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 TiB")


def counting(number: int, then: Callable[[Tensor], Tensor], probe: str = "accuracy") -> Ended:
    return measure(only(Counting(number, then), torch.ones(3)), probe)


def scaled(factor: float, **settings: str) -> Ended:
    return measure(only(Scaled(factor), torch.ones(3)), settings=settings)


def later_version(folder: Path, factor: float) -> Ended:
    file = str(folder / "kept" / "it.pt")
    assert scaled(2.0, save_outputs=file).status == "pass"
    return scaled(factor, compare_outputs=file)


def in_batches(model: Callable[[Tensor], Tensor], size: int = 8) -> Ended:
    return measure(only(model, torch.arange(float(size)).reshape(-1, 1)), settings={"batch_invariant": True})


def unhappy_with_two(x: Tensor) -> Tensor:
    if x.shape[0] == 2:
        raise ValueError("never two")
    return x + 1


def build_in_worker(folder: Path, trouble: str) -> Ended:
    """A benchmark whose builder raises, measured the way a worker does."""
    file = folder / "bench_trouble.py"
    name = f"trouble_{next(CALLS)}"
    sys.modules.pop(name, None)
    file.write_text(f"import torchstone\n\n@torchstone.benchmark\ndef trouble():\n    {trouble}\n")
    source = SourceMessage("file", name, str(file))
    axes = CaseAxes("cpu", "eager", "inference", "float32")
    job = MeasureJob(source, "trouble", "accuracy", axes, str(folder))

    class Deaf:
        def send(self, *_: object) -> None:
            return None

    reply = worker.do_job(encode_job(job), worker.WorkerReporter(cast("Channel", Deaf())))
    assert isinstance(reply, CaseReply)
    assert reply.failure is not None
    assert reply.failure.phase == "load"
    return Ended(reply.status, reply.failure.message, None, cast("Any", None), [])


REACHED: dict[str, tuple[Callable[[Path], Ended], str]] = {
    "pass": (lambda _: measure(linear), ""),
    "pass_due_to_skip": (lambda _: measure(linear, check=Check(skip="float64 does not fit")), "does not fit"),
    "fail_accuracy": (lambda _: measure(linear, backend="wrong_by_one"), "RMSE to float64 is 1"),
    "fail_to_run": (lambda _: measure(linear, backend="refusing"), "cannot compile"),
    "OOM": (lambda _: measure(linear, backend=raising(no_memory)), "DefaultCPUAllocator"),
    "eager_1st_run_fail": (lambda _: counting(FIRST_OF_1ST_RUN, fail), "not today"),
    "eager_1st_run_OOM": (lambda _: counting(FIRST_OF_1ST_RUN, run_out), "2 TiB"),
    "eager_2nd_run_fail": (lambda _: counting(FIRST_OF_2ND_RUN, fail), "not today"),
    "eager_2nd_run_OOM": (lambda _: counting(FIRST_OF_2ND_RUN, run_out), "2 TiB"),
    "eager_two_runs_differ": (
        lambda _: counting(FIRST_OF_2ND_RUN + 1, lambda x: x + 2),
        "output: 3 of 3 elements differ",
    ),
    "eager_fail_to_run": (lambda folder: build_in_worker(folder, "raise KeyError('weights')"), "weights"),
    "model_fail_to_load": (
        lambda folder: build_in_worker(folder, "raise NotImplementedError('no training')"),
        "no training",
    ),
    "warmup_failed": (lambda _: counting(2, fail, "performance"), "not today"),
    "not_bitwise_equivalent": (
        lambda folder: later_version(folder, 2.000001),
        "output: 3 of 3 elements differ",
    ),
    "fail_batch_invariance_at_N": (lambda _: in_batches(lambda x: x - x.mean(0)), "first 4 results"),
    "fail_to_run_at_batch_N": (lambda _: in_batches(unhappy_with_two), "never two"),
}
OF_OTHERS = {
    "not_available",
    "timeout",
    "worker_died",
}  # of a process that can no longer say anything: tests/measure
LEGACY = {"worker_fail", "eager_variation", "infra_error", "0.0000", "failed"}


def test_there_is_a_model_here_for_every_status() -> None:
    assert REACHED.keys() | OF_OTHERS | LEGACY == STATUSES.keys()


@pytest.mark.parametrize("status", REACHED)
def test_status_is_reached_and_says_why(status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    run, why = REACHED[status]
    ended = run(tmp_path)
    assert ended.status == {
        "fail_batch_invariance_at_N": "fail_batch_invariance_at_4",
        "fail_to_run_at_batch_N": "fail_to_run_at_batch_2",
    }.get(status, status)
    assert why in f"{ended.message} {ended.error}"


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        ("raise ImportError('no timm')", "model_fail_to_load"),
        ("raise MemoryError", "OOM"),
        ("return 5", "eager_fail_to_run"),
        ("import torch; return torch.nn.Linear(2, 2), iter(())", "eager_fail_to_run"),
    ],
)
def test_builder_that_cannot_build_has_its_own_status(
    trouble: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert build_in_worker(tmp_path, trouble).status == status


@pytest.mark.parametrize(
    "backend",
    [
        refusing(lambda: torch.OutOfMemoryError("no room")),
        refusing(MemoryError),
        raising(lambda: torch.OutOfMemoryError("no room")),
        raising(lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")),
    ],
)
@pytest.mark.parametrize("probe", ["accuracy", "performance"])
def test_memory_that_runs_out_in_compiling_or_in_compiled_code_is_told_from_other_errors(
    backend: object, probe: str
) -> None:
    assert measure(linear, probe, backend=backend).status == "OOM"


def test_error_only_in_compiling_is_no_eager_failure() -> None:
    def model(x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            torch._dynamo.graph_break()
        return x + 1

    assert measure(only(model, torch.ones(3))).status == "pass"
    assert measure(only(model, torch.ones(3)), fullgraph=True).status == "fail_to_run"


def test_model_that_leaves_the_process_is_stopped_at_its_place() -> None:
    def leave(x: Tensor) -> Tensor:
        sys.exit("enough")

    ended = counting(FIRST_OF_2ND_RUN, leave)
    assert (ended.status, str(ended.error)) == ("eager_2nd_run_fail", "enough")


@pytest.mark.parametrize("probe", ["accuracy", "performance"])
def test_warm_up_out_of_memory_is_the_first_eager_run_out_of_memory(probe: str) -> None:
    assert (
        counting(1 if probe == "performance" else FIRST_OF_1ST_RUN, run_out, probe).status
        == "eager_1st_run_OOM"
    )


def test_compiled_failure_in_performance_is_no_failed_warm_up() -> None:
    assert measure(linear, "performance", backend="refusing").status == "fail_to_run"


def test_skip_is_for_accuracy_only() -> None:
    ended = measure(linear, "performance", check=Check(skip="float64 does not fit"))
    assert ended.status == "pass"
    assert "speedup" in ended.metrics


def test_phases_are_told_as_they_begin() -> None:
    assert measure(linear).heard == ["eager", "compile", "compare"]
    assert measure(linear, "performance").heard == ["eager", "compile", "run", "wait", "run", "end"]
    assert counting(FIRST_OF_1ST_RUN, fail).heard == ["eager"]


def test_turn_to_time_is_given_back_even_if_timing_fails() -> None:
    assert counting(12, fail, "performance").heard == ["eager", "compile", "run", "wait", "run", "end"]


# Two eager runs, and models that are allowed to differ


def test_non_deterministic_model_passes_with_a_caution() -> None:
    def drift(x: Tensor) -> Tensor:
        return x.roll(next(CALLS))

    single = torch.eye(50)[0]
    assert measure(only(drift, single)).status == "eager_two_runs_differ"
    ended = measure(only(drift, single), check=Check(non_deterministic=True))
    assert ended.status == "pass"
    assert ended.cautions[-1].startswith("passed although output: ")


def test_what_is_not_compared_is_compiled_all_the_same() -> None:
    """Of a model that does not agree with itself, crashes and graph breaks can still be found."""

    def drift(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return x.roll(next(CALLS))

    check = Check(uncompared="eager differs from run to run")
    ended = measure(only(drift, torch.eye(50)[0]), check=check)
    assert (ended.status, ended.message) == ("pass_due_to_skip", "eager differs from run to run")
    assert ended.value("graph_breaks") > 0
    assert ended.heard == ["eager", "compile"]
    assert measure(linear, backend="refusing", check=check).status == "fail_to_run"


@pytest.mark.parametrize(
    ("wrong_runs", "status"), [({1}, "pass"), ({1, 2}, "fail_accuracy"), ({2, 3}, "fail_accuracy")]
)
def test_majority_of_runs_decides(wrong_runs: set[int], status: str) -> None:
    compiled = itertools.count(1)

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        return changing(lambda x: x + 1)(graph, inputs) if next(compiled) in wrong_runs else graph

    ended = measure(linear, backend=backend, check=Check(runs=3))
    assert ended.status == status
    told = ended.message if ended.message else ended.cautions[-1]
    assert f"(in {len(wrong_runs)} of 3 runs)" in told


def test_repeated_compiled_run_that_fails_is_a_failure_of_the_compiled_run() -> None:
    compiled = itertools.count(1)

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        return graph if next(compiled) == 1 else raising(no_memory)(graph, inputs)

    assert measure(linear, backend=backend, check=Check(runs=2)).status == "OOM"


# Outputs that were kept


def test_outputs_that_are_the_same_bit_by_bit_pass(tmp_path: Path) -> None:
    assert later_version(tmp_path, 2.0).status == "pass"


def test_case_without_kept_outputs_is_not_equivalent_to_them(tmp_path: Path) -> None:
    ended = scaled(2.0, compare_outputs=str(tmp_path / "nowhere.pt"))
    assert ended.status == "not_bitwise_equivalent"
    assert "no outputs were kept" in ended.message


@pytest.mark.parametrize("content", [b"", b"not a file of torch", b"PK\x03\x04"])
def test_damaged_file_of_outputs_is_no_success(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "kept.pt"
    file.write_bytes(content)
    ended = scaled(2.0, compare_outputs=str(file))
    assert ended.status == "not_bitwise_equivalent"
    assert "cannot be read" in ended.message


def test_outputs_that_cannot_be_kept_are_a_caution(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = scaled(2.0, save_outputs=str(tmp_path / "file" / "kept.pt"))
    assert ended.status == "pass"
    assert ended.cautions[-1].startswith("the outputs could not be saved: ")


def test_outputs_are_kept_in_the_current_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert scaled(2.0, save_outputs="it.pt").cautions == []
    assert [path.name for path in tmp_path.iterdir()] == ["it.pt"]
    assert scaled(2.0, compare_outputs="it.pt").status == "pass"


def test_kept_outputs_of_another_form_are_not_equivalent(tmp_path: Path) -> None:
    file = str(tmp_path / "it.pt")
    assert (
        measure(only(lambda x: {"a": x, "b": "text"}, torch.ones(3)), settings={"save_outputs": file}).status
        == "pass"
    )
    for model in (lambda x: {"a": x}, lambda x: {"a": x[:2], "b": "text"}, lambda x: {"a": x, "b": "other"}):
        ended = measure(only(model, torch.ones(3)), settings={"compare_outputs": file})
        assert ended.status == "not_bitwise_equivalent"


# Batches


def test_model_that_treats_every_example_alone_passes() -> None:
    assert in_batches(lambda x: x * 2).status == "pass"


def test_first_size_at_which_results_change_is_named() -> None:
    assert in_batches(lambda x: x + (x.shape[0] == 1)).status == "fail_batch_invariance_at_1"
    assert in_batches(lambda x: x + (x.shape[0] == 3), size=6).status == "fail_batch_invariance_at_3"


def test_nan_for_an_example_is_the_same_in_every_batch() -> None:
    assert in_batches(lambda x: x / x).status == "fail_accuracy"  # NaN is no result in float32
    half = measure(
        only(lambda x: x / x, torch.zeros(4, 1)), settings={"batch_invariant": True}, dtype="bfloat16"
    )
    assert half.status == "pass"


@pytest.mark.parametrize(
    ("model", "inputs", "why"),
    [
        (lambda x, _: x, (torch.ones(4, 1), torch.ones(3, 1)), "do not share a first dimension"),
        (lambda x: x, (torch.ones(1, 4),), "do not share a first dimension"),
        (lambda: torch.ones(3), (), "do not share a first dimension"),
        (lambda x: x.sum(), (torch.ones(4, 1),), "not every output has the batch"),
        (lambda _: 3, (torch.ones(4, 1),), "not every output has the batch"),
    ],
)
def test_batch_that_cannot_be_varied_is_a_skip_with_a_reason(
    model: Callable[..., Any], inputs: tuple[Tensor, ...], why: str
) -> None:
    ended = measure(only(model, *inputs), settings={"batch_invariant": True})
    assert ended.status == "pass_due_to_skip"
    assert why in ended.message


def test_training_has_no_batches_to_vary() -> None:
    ended = measure(linear, mode="training", settings={"batch_invariant": True})
    assert (ended.status, ended.message) == ("pass_due_to_skip", "batch invariance is about inference")


def test_every_batch_size_is_tried_on_the_inputs_as_they_were() -> None:
    assert in_batches(lambda x: x.add_(1)).status == "pass"
