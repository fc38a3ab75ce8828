"""The template is filled once, and how long that took is known to whoever asks later."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from torchstone.worker.cache_template import fill, is_filled, read_probing_seconds


def test_a_filled_template_says_how_long_it_took(tmp_path: Path) -> None:
    template = str(tmp_path)
    assert (is_filled(template), read_probing_seconds(template)) == (False, None)
    began = time.monotonic()
    fill(template, lambda: time.sleep(0.2))
    assert is_filled(template)
    seconds = read_probing_seconds(template)
    assert seconds is not None
    assert 0.199 <= seconds <= time.monotonic() - began + 0.001
    assert [path.name for path in tmp_path.iterdir()] == ["torchstone-filled"]


def test_a_template_whose_filling_failed_is_not_filled(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        fill(str(tmp_path), fail)
    assert not is_filled(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "soon"])
def test_a_template_of_which_nobody_noted_it_is_filled_all_the_same(tmp_path: Path, text: str) -> None:
    (tmp_path / "torchstone-filled").write_text(text)
    assert is_filled(str(tmp_path))
    assert read_probing_seconds(str(tmp_path)) is None


def test_what_a_killed_process_has_left_in_a_template_is_not_taken_for_whole(tmp_path: Path) -> None:
    for name in ("cache/ab/half.so", "tmp/torchinductor_me/half.gch", "torchstone-filled.77.part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    found: list[str] = []

    def compile_anew() -> None:
        found.extend(str(path) for path in tmp_path.rglob("*") if path.is_file())
        (tmp_path / "cache" / "whole.so").write_text("whole")

    fill(str(tmp_path), compile_anew)
    assert found == []
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "torchstone-filled",
        "whole.so",
    ]
    fill(str(tmp_path), compile_anew)  # somebody else has filled it meanwhile
    assert found == []


def test_a_template_is_filled_by_one_process_at_a_time(tmp_path: Path) -> None:
    at_work: list[int] = []

    def compile_slowly() -> None:
        at_work.append(1)
        time.sleep(0.2)

    threads = [threading.Thread(target=fill, args=(str(tmp_path), compile_slowly)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert at_work == [1]
