"""What is done before model libraries are imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from suite_steps import no_network

from torchstone.suites import model_preparation


def run_python(script: str) -> str:
    """In a process of its own: a library is imported once, and reads its settings then."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True
    )
    return done.stdout


def test_libraries_are_told_to_stay_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in model_preparation.OFFLINE:
        monkeypatch.delenv(name, raising=False)
    model_preparation.prepare()
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"


@pytest.mark.slow
def test_timm_and_transformers_can_be_imported_with_a_torchvision_made_for_another_torch() -> None:
    script = """
from torchstone.suites.model_preparation import prepare
prepare()
prepare()
import timm, torchvision, transformers.modeling_utils, huggingface_hub.constants
print(timm.is_model("resnet18"), torchvision.models.resnet18() is not None, huggingface_hub.constants.HF_HUB_OFFLINE)
"""
    assert run_python(script) == "True True True\n"


@pytest.mark.slow
def test_only_a_torchvision_that_needs_it_is_mended() -> None:
    script = """
import torch
from torchstone.suites import model_preparation
torch.version.cuda = "13.0"
model_preparation.fix_torchvision()
print(model_preparation._KEPT)
"""
    assert run_python(script) == "[]\n"


def test_a_missing_torchvision_is_nobodys_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.setattr(
        model_preparation, "find_spec", lambda name: None if name == "torchvision" else object()
    )
    model_preparation.fix_torchvision()


def test_the_guard_of_these_tests_notices_the_network() -> None:
    import socket  # noqa: PLC0415  (as a library would)

    with no_network(), pytest.raises(AssertionError, match="the network was touched"):
        socket.create_connection(("127.0.0.1", 9), timeout=0.1)
