"""Models of torchbenchmark are built with random weights, and what they cannot do without is said; nothing is downloaded."""

from __future__ import annotations

import importlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from suite_steps import assert_finite, build, run
from torch import nn
from torchbench_package import write_package

from conftest import Command
from live_processes import read_run
from torchstone.define.unavailable import NotAvailableError
from torchstone.suites.torchbench.random_weights import Unfetched, random_weights
from torchstone.worker.failures import status_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:The parameter 'pretrained' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:Arguments other than a weight enum:UserWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to get default timeout for nccl backend:UserWarning"),
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.syspath_prepend(tmp_path)
    yield write_package(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchbenchmark"]:
        del sys.modules[name]


def model_of(name: str) -> nn.Module:
    model = build("torchbench", name, batch_size=2).model
    assert isinstance(model, nn.Module)
    return model


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "squeezenet1_1"])
def test_models_of_torchvision_run_with_random_weights(
    package: Path, tmp_path: Path, name: str, mode: str
) -> None:
    work = build("torchbench", name, mode, batch_size=2)
    assert_finite(run(work, mode))
    assert not (tmp_path / "torch").exists()


def test_random_weights_are_the_same_every_time(package: Path) -> None:
    one, other = (model_of("resnet18").state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_weights_in_a_cache_are_not_read(package: Path, tmp_path: Path) -> None:
    cached = tmp_path / "torch" / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"no weights")
    assert_finite(run(build("torchbench", "resnet18", batch_size=2), "inference"))


@pytest.mark.parametrize("name", ["from_hub", "from_hub_by_name"])
def test_models_that_load_from_an_address_keep_their_weights(package: Path, name: str) -> None:
    assert_finite(run(build("torchbench", name, batch_size=2), "inference"))


def test_a_model_of_transformers_is_built_from_a_configuration_that_is_here(package: Path) -> None:
    sizes = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    configuration = {"model_type": "bert", "intermediate_size": 8, "max_position_embeddings": 16, **sizes}
    place = package / "models" / "local_configuration" / "config.json"
    place.write_text(json.dumps(configuration))
    weights = model_of("local_configuration").state_dict()
    assert weights["bert.embeddings.word_embeddings.weight"].shape == (50, 8)


def test_weights_that_a_model_has_itself_are_loaded(package: Path) -> None:
    plain = model_of("from_hub").state_dict()["weight"]
    assert torch.equal(model_of("own_weights").state_dict()["weight"], plain + 1)


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("code_of_hub", "the code of big_model from author/project"),
        ("file_of_hub", "https://host.invalid/words.txt"),
        ("own_connection", "a connection to host.invalid"),
        ("own_address", "a connection to 192.0.2.1"),
        ("hub_configuration", "files of the Hugging Face hub"),
    ],
)
def test_a_model_that_needs_more_says_what(package: Path, name: str, needs: str) -> None:
    with pytest.raises(NotAvailableError, match="it needs") as raised:
        build("torchbench", name, batch_size=2)
    assert needs in str(raised.value)
    assert "nothing is downloaded" in str(raised.value)
    assert status_of(raised.value, "load", "performance") == "not_available"


@pytest.mark.parametrize("name", ["moco", "gpu_only"])
def test_a_model_that_needs_an_accelerator_is_not_available_on_a_cpu(package: Path, name: str) -> None:
    with pytest.raises(NotAvailableError, match="it needs an accelerator: NotImplementedError"):
        build("torchbench", name, batch_size=2)


@pytest.mark.parametrize(
    ("name", "error", "status"),
    [
        ("own_failure", FileNotFoundError, "eager_fail_to_run"),
        ("no_such_test", NotImplementedError, "model_fail_to_load"),
    ],
)
def test_any_other_failure_stays_one(package: Path, name: str, error: type[Exception], status: str) -> None:
    with pytest.raises(error) as raised:
        build("torchbench", name, batch_size=2)
    assert status_of(raised.value, "load", "performance") == status


def test_afterwards_everything_is_as_it_was(package: Path) -> None:
    api = importlib.import_module("torchvision.models._api")

    def state() -> list[object]:
        return [
            torch.hub.load_state_dict_from_url,
            torch.hub.load,
            torch.hub.download_url_to_file,
            nn.Module.load_state_dict,
            socket.getaddrinfo,
            socket.socket.connect,
            api.load_state_dict_from_url,
            torch.manual_seed,
        ]

    before = state()
    build("torchbench", "resnet18", batch_size=2)
    build("torchbench", "from_hub_by_name", batch_size=2)
    assert state() == before
    module = sys.modules["torchbenchmark.models.from_hub_by_name"]
    assert module.load_state_dict_from_url is torch.hub.load_state_dict_from_url


def test_this_machine_can_be_reached_meanwhile() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, random_weights():
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with socket.create_connection((host, port), timeout=5):
                pass


def test_unfetched_weights_have_every_part_and_no_content() -> None:
    weights = Unfetched()
    assert isinstance(weights["model"]["state"], Unfetched)
    assert isinstance(weights.pop("head"), Unfetched)
    assert isinstance(weights.get("ema", None), Unfetched)
    assert list(weights.items()) == []


@pytest.mark.slow
def test_a_run_measures_what_can_be_built_and_fails_for_nothing_else(
    torchstone: Command, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ("resnet18", "moco", "code_of_hub")
    only = [word for name in names for word in ("--only", name)]
    options = ("--device", "cpu", "--backend", "none", "--probe", "performance", "--batch-size", "2")
    ran = torchstone("run", "torchbench", *only, *options, "--repeat", "3", "-o", "run.jsonl")
    assert ran.code == 0, ran.err
    outcomes = {each.case.benchmark: each for each in read_run(tmp_path / "run.jsonl").run.outcomes}
    assert {name: each.status for name, each in outcomes.items()} == {
        "resnet18": "pass",
        "moco": "not_available",
        "code_of_hub": "not_available",
    }
    told = [each.failure.message for each in outcomes.values() if each.failure]
    assert any("it needs an accelerator" in message for message in told)
    assert any("author/project" in message and "nothing is downloaded" in message for message in told)
