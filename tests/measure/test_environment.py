"""What a worker says about where it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchstone
from torchstone.core.environments import fingerprint
from torchstone.core.run_settings import environment_from
from torchstone.worker.machine import accelerators
from torchstone.worker.machine import recorded_environment as environment
from torchstone.worker.machine.accelerators import (
    VendorFacts,
    read_accelerators,
    read_nvidia,
    read_nvidia_processes,
    read_rocm,
)
from torchstone.worker.machine.recorded_environment import (
    probe_environment,
    read_compiler,
    read_variables,
    read_versions,
)
from torchstone.worker.protocol.codec import to_json

NVIDIA = "GPU-1fd204e4, NVIDIA H200, 580.159.04, 143771, Enabled, 700.00, 405, 1980, 3201, 40, 0\n"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401  (a function)
    """Puts a program of this name before all others."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def call(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return call


def test_an_environment_can_be_written_as_json_and_has_all_parts() -> None:
    found: Any = to_json(probe_environment(["pytest", "no_such_library"], "cpu"))
    assert json.loads(json.dumps(found)) == found
    assert {"machine", "accelerators", "software", "versions", "variables", "threads"} < set(found)
    assert found["versions"]["pytest"] == pytest.__version__
    assert "no_such_library" not in found["versions"]
    assert found["machine"]["cores"]["allowed"] >= 1
    assert found["accelerators"] == []
    assert found["software"]["python"]["version"].startswith(f"3.{sys.version_info.minor}.")
    assert fingerprint(environment_from(found)) == fingerprint(
        environment_from(to_json(probe_environment(["pytest"], "cpu")))
    )


def test_torch_is_described_where_there_is_one() -> None:
    pytest.importorskip("torch")
    found = probe_environment((), "cpu")
    assert found.versions["torch"] == found.software["torch"]["version"]
    assert found.software["torch"]["git"]
    assert found.threads is not None
    assert found.threads >= 1


def test_the_probe_runs_where_nothing_but_the_standard_library_is_installed() -> None:
    program = (
        "import sys; sys.path.append(sys.argv[1]); from torchstone.worker.machine.recorded_environment import probe_environment; "
        "found = probe_environment(['torch'], 'cuda'); print(found.versions, found.software['torch'], found.threads)"
    )
    source = Path(torchstone.__file__).parent.parent
    command = [sys.executable, "-I", "-S", "-c", program, str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "{} {} None"


def test_only_variables_that_matter_are_kept_and_secrets_are_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "OMP_NUM_THREADS": "4",
        "TORCHINDUCTOR_CACHE_DIR": "/cache",
        "TORCH_HUB_TOKEN": "secret",
        "CUDA_API_KEY": "secret",
        "PYTORCH_INDEX_URL": "https://user:secret@example.com",
        "TORCH_HUB_PASS": "secret",
        "PYTORCH_TOKEN_2": "secret",
        "TORCH_ACCESSKEY": "secret",
        "TORCH_AUTH_HEADER": "Bearer secret",
        "TRITON_PWD": "secret",
        "NCCL_MY_OWN": "secret",
        "TORCH_HOME": "https://user:secret@example.com/models",
        "TORCHSTONE_CONFIG": "x.toml",
        "HOME": "/root",
        "OMPI_MCA": "1",
    }.items():
        monkeypatch.setenv(name, value)
    found = read_variables(own={"TORCHINDUCTOR_CACHE_DIR"})
    assert found["OMP_NUM_THREADS"] == "4"
    hidden = {name for name, value in found.items() if value == "(hidden)"}
    assert {
        "TORCH_HUB_TOKEN",
        "CUDA_API_KEY",
        "PYTORCH_INDEX_URL",
        "TORCH_HUB_PASS",
        "PYTORCH_TOKEN_2",
    } <= hidden
    assert {"TORCH_ACCESSKEY", "TORCH_AUTH_HEADER", "TRITON_PWD", "NCCL_MY_OWN"} <= hidden
    assert found["TORCH_HOME"] == "https://***@example.com/models"
    assert not {"TORCHINDUCTOR_CACHE_DIR", "TORCHSTONE_CONFIG", "HOME", "OMPI_MCA"} & set(found)
    assert "secret" not in str(found)


def test_what_torchrun_says_of_one_job_does_not_set_it_apart_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = read_variables()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_x/error.json")  # noqa: S108
    assert read_variables() == before


def test_the_compiler_is_the_one_that_cxx_names(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    tool("my-cxx", 'echo "my compiler 1.0 $1"; echo more')
    monkeypatch.setenv("CXX", "my-cxx --fast")
    assert read_compiler() == "my compiler 1.0 --fast"
    monkeypatch.setenv("CXX", "/no/such/compiler")
    assert read_compiler() is None
    monkeypatch.setenv("CXX", "'unclosed")
    assert environment.compiler_command() == ["g++"]


def test_a_library_that_is_imported_tells_its_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest, "__version__", "99.0")
    assert read_versions(["pytest"])["pytest"] == "99.0"


def test_a_device_that_torch_does_not_have_is_no_error() -> None:
    assert read_accelerators("cpu") == []
    assert read_accelerators("no_such_device") == []
    assert read_accelerators("cuda:7") == [] or read_accelerators("cuda:7")[0].name


def test_nvidia_smi_is_read(tool: Any) -> None:  # noqa: ANN401
    tool("nvidia-smi", f"printf '{NVIDIA}'")
    (found,) = read_nvidia()
    assert found.name == "NVIDIA H200"
    assert (found.uuid, found.power_limit_w, found.sm_clock_max_mhz) == ("1fd204e4", 700, 1980)


@pytest.mark.parametrize(
    "script",
    ["exit 9", "echo 'No devices were found'", "printf '\\377\\n'", "kill -9 $$", "echo a,b"],
)
def test_a_vendor_tool_that_fails_is_no_error(script: str, tool: Any) -> None:  # noqa: ANN401
    tool("nvidia-smi", script)
    tool("rocm-smi", script)
    assert read_nvidia() == read_rocm() == []
    assert read_nvidia_processes() == []
    assert accelerators.read_nvidia_reasons() == {}


def test_a_fact_that_the_driver_does_not_have_is_left_out(tool: Any) -> None:  # noqa: ANN401
    tool("nvidia-smi", f"printf '{NVIDIA.replace('700.00', '[N/A]')}'")
    assert read_nvidia()[0].power_limit_w is None


def test_rocm_smi_is_read(tool: Any) -> None:  # noqa: ANN401
    told = {
        "card0": {"Max Graphics Package Power (W)": "750.0"},
        "system": {"Driver version": "6.10.5"},
    }
    tool("rocm-smi", f"echo '{json.dumps(told)}'")
    assert read_rocm() == [VendorFacts(driver="6.10.5", power_limit_w=750)]


class FakeModule:
    """A device's module as a backend of one's own might offer it: with a count and a name, and nothing else."""

    __name__ = "torch.mine"

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def get_device_name(self, number: int) -> str:
        return f"Mine {number}"


def test_a_device_of_ones_own_needs_to_offer_no_more_than_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "get_device_module", lambda _: FakeModule())
    found = read_accelerators("mine")
    assert [facts.name for facts in found] == ["Mine 0", "Mine 1"]
    assert found[0].memory is None
