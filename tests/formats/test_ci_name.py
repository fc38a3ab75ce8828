"""The file names of PyTorch's CI: what they say when read, and that a file of ours has a name that reads the same."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from conftest import Command
from torchstone.core.records import Case, Variant
from torchstone.formats.torch.ci_name import CiName, file_stem, read_ci_name
from torchstone.formats.torch.expected_csv import DTYPES


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "amp_bf16", "amp_fp16", "amp", "int8"])
@pytest.mark.parametrize("suite", ["torchbench", "huggingface", "timm_models"])
def test_names_of_xpu_files_say_suite_dtype_and_mode(suite: str, dtype: str) -> None:
    name = read_ci_name(f"logs/inductor_{suite}_{dtype}_inference_xpu_accuracy.csv", "accuracy")
    assert name == CiName("inductor", suite, dtype, "inference", "xpu", "accuracy")


@pytest.mark.parametrize(
    ("name", "mode", "device"),
    [
        (
            "inductor_torchbench_amp_bf16_inference-no-freezing_xpu_performance.csv",
            "inference-no-freezing",
            "xpu",
        ),
        ("inductor_torchbench_amp_training_cuda_h100_performance.csv", "training", "cuda_h100"),
    ],
)
def test_a_way_of_inference_and_a_model_of_device_are_understood(name: str, mode: str, device: str) -> None:
    found = read_ci_name(name, "performance")
    assert (found.suite, found.mode, found.device) == ("torchbench", mode, device)


@pytest.mark.parametrize(
    ("dtype", "option"),
    [
        ("amp_bf16", "--amp --amp-dtype bfloat16"),
        ("amp_fp16", "--amp --amp-dtype float16"),
        ("amp", "--amp"),
        ("float32", "--float32"),
    ],
)
def test_the_command_has_the_options_that_the_runner_knows(dtype: str, option: str) -> None:
    name = read_ci_name(f"inductor_timm_{dtype}_inference_xpu_max_accuracy.csv", "accuracy")
    assert name.command() == (
        f"python benchmarks/dynamo/timm_models.py --accuracy --inference {option} --backend inductor "
        "--device xpu --only {name}"
    )


def test_a_way_of_inference_that_the_runner_has_no_such_option_for_has_no_command() -> None:
    name = "inductor_torchbench_amp_inference-no-freezing_xpu_accuracy.csv"
    assert read_ci_name(name, "accuracy").command() == ""


@pytest.mark.parametrize("probe", ["accuracy", "performance"])
def test_a_name_that_is_written_reads_the_same(probe: str) -> None:
    for suite, dtype, mode in product(
        ("torchbench", "huggingface_llm", "timm"), DTYPES, ("inference", "training")
    ):
        case = Case("m", probe, suite, Variant("xpu", "inductor", mode, dtype))
        read = read_ci_name(f"{file_stem(case)}.csv", probe)
        assert read == CiName("inductor", suite, dtype, mode, "xpu", probe)


HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks,unique_graph_breaks\n"
WIDE = (
    "name,float32,bfloat16,float16,amp_bf16,amp_fp16\n"
    "alpha_net,pass,pass,pass,pass,pass\n"
    "beta_net,pass,pass,fail_accuracy,pass,eager_two_runs_differ\n"
)


def write_xpu_files(folder: Path, statuses: dict[str, str]) -> list[str]:
    """An accuracy file a dtype, as the XPU jobs name them; the status is that of the second model."""
    paths = []
    for dtype, status in statuses.items():
        path = folder / f"inductor_torchbench_{dtype}_inference_xpu_accuracy.csv"
        path.write_text(f"{HEADER}xpu,alpha_net,4,pass,10,1,0,0\nxpu,beta_net,4,{status},10,1,0,0\n")
        paths.append(str(path))
    (folder / "expected.csv").write_text(WIDE)
    return paths


def test_files_of_two_kinds_of_amp_are_judged_together_each_by_its_own_column(
    torchstone: Command, tmp_path: Path
) -> None:
    paths = write_xpu_files(tmp_path, {"amp_bf16": "pass", "amp_fp16": "eager_two_runs_differ"})
    done = torchstone("check", *paths, "--baseline", "expected.csv")
    assert done.code == 0, done.out + done.err
    assert "judged 4" in done.out


def test_a_status_that_another_column_expects_is_a_regression(torchstone: Command, tmp_path: Path) -> None:
    paths = write_xpu_files(
        tmp_path, {"amp_bf16": "eager_two_runs_differ", "amp_fp16": "eager_two_runs_differ"}
    )
    done = torchstone("check", *paths, "--baseline", "expected.csv")
    assert done.code == 1
    assert "torchbench::beta_net[device=xpu,backend=inductor,mode=inference,dtype=amp_bf16" in done.out
    assert "dtype=amp_fp16" not in done.out


def test_the_memory_gate_takes_results_without_a_speedup(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "memory.csv").write_text(
        "dev,name,batch_size,compression_ratio\ncuda,alpha_net,4,0.97\ncuda,beta_net,4,0.90\n"
    )
    (tmp_path / "expected.csv").write_text("name,compression_ratio\nalpha_net,1.0\nbeta_net,1.0\n")
    done = torchstone("check", "memory.csv", "--baseline", "expected.csv", "--policy", "upstream")
    assert done.code == 1
    assert "red 1" in done.out
    assert "beta_net" in done.out
    assert "alpha_net" not in done.out
