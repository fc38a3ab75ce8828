"""What a worker finds around it: caches that are cold but for the compiler's own probes, and temporary files that go with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from torchstone.core.errors import InputError
from torchstone.worker.worker_environment import (
    make_case_folder,
    remove_case_folder,
    template_folder,
    worker_variables,
)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A template that holds one probe."""
    folder = tmp_path / "template"
    (folder / "cache" / "probes").mkdir(parents=True)
    (folder / "cache" / "probes" / "isa.so").write_bytes(b"probe")
    return folder


def test_a_cold_cache_holds_what_the_template_holds_and_goes_with_its_case(
    template: Path, tmp_path: Path
) -> None:
    variables = make_case_folder(str(tmp_path), 7, str(template), None)
    cache = Path(variables["TORCHINDUCTOR_CACHE_DIR"])
    assert (cache / "probes" / "isa.so").read_bytes() == b"probe"
    assert Path(variables["TMPDIR"]).is_dir()
    (cache / "model.so").write_bytes(b"compiled")
    remove_case_folder(str(tmp_path), 7)
    assert not cache.exists()
    assert not (template / "cache" / "model.so").exists()
    remove_case_folder(str(tmp_path), 7)


def test_a_kept_cache_stays(template: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    variables = make_case_folder(str(tmp_path), 7, str(template), str(kept))
    assert variables["TORCHINDUCTOR_CACHE_DIR"] == str(kept)
    remove_case_folder(str(tmp_path), 7)
    assert kept.is_dir()


def test_a_file_that_another_run_has_just_renamed_is_passed_over(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy2

    def rename_then_copy(source: str, target: str) -> str:
        if source.endswith("isa.so"):
            Path(source).unlink()
        return copy(source, target)

    (template / "cache" / "other").write_bytes(b"stays")
    monkeypatch.setattr(shutil, "copy2", rename_then_copy)
    cache = Path(make_case_folder(str(tmp_path), 1, str(template), None)["TORCHINDUCTOR_CACHE_DIR"])
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["other"]


def test_a_cache_that_cannot_be_made_is_told(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", fail)
    with pytest.raises(InputError, match=r"cannot create a compiler cache: .*No space left on device"):
        make_case_folder(str(tmp_path), 1, str(template), None)


def test_the_template_is_for_this_compiler_and_lies_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "here"))
    ours = Path(template_folder())
    assert ours.parent == tmp_path / "here"
    monkeypatch.setenv("CXX", "some-other-compiler --with-options")
    assert Path(template_folder()) != ours
    monkeypatch.delenv("TORCHSTONE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    assert Path(template_folder()).parent == tmp_path / "there" / "torchstone"


def test_a_worker_inherits_the_users_variables_but_not_their_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_LOGS", "graph_breaks")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/users/own")
    monkeypatch.setenv("PYTHONPATH", "/users/modules")
    variables = worker_variables(str(tmp_path))
    assert variables["TORCH_LOGS"] == "graph_breaks"
    assert variables["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path))
    assert variables["PYTHONPATH"].endswith(":/users/modules")
    assert variables["OPENBLAS_NUM_THREADS"] == "1"
