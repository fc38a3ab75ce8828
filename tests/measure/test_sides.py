"""The two sides: what is said about them, worktrees that come and go, and interpreters that can or cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchstone.core.errors import UsageError
from torchstone.measure.ab.side_spec import SideSpec, parse_side_spec
from torchstone.measure.ab.sides import _world, choose_cores, find_python
from torchstone.measure.ab.worktrees import check_out
from torchstone.worker import worker_environment
from torchstone.worker.scratch import Scratch, make_scratch
from torchstone.worker.worker_environment import World, template_folder, worker_variables


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder, as somebody."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    ran = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits, which is also the working folder."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in ("one", "two"):
        (folder / "number.txt").write_text(number)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", number)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scratch]:
    """A scratch folder beside the repository."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = make_scratch()
    yield made
    made.remove()


def test_a_spec_says_what_a_side_is() -> None:
    spec = parse_side_spec(
        "--b", ["rev=HEAD~1", "env:A=1=2", "env:B=", "backend=eager", "option:max_autotune=true"]
    )
    assert spec.revision == "HEAD~1"
    assert spec.variables == (("A", "1=2"), ("B", ""))
    assert spec.backend == "eager"
    assert spec.options == (("max_autotune", True),)
    assert parse_side_spec("--a", [""]) == parse_side_spec("--a", []) == SideSpec()


def test_the_values_of_variables_that_are_not_known_settings_are_used_and_not_shown() -> None:
    given = {
        "HF_TOKEN": "abc=",
        "HF_PASS": "abc",
        "FUSE": "1",
        "TORCHINDUCTOR_MAX_AUTOTUNE": "12",
        "TORCH_HOME": "https://me:abc@example.com/",
    }
    spec = parse_side_spec("--b", [f"env:{name}={value}" for name, value in given.items()])
    assert dict(spec.variables) == given
    assert spec.texts == (
        "env:HF_TOKEN=(hidden)",
        "env:HF_PASS=(hidden)",
        "env:FUSE=1",
        "env:TORCHINDUCTOR_MAX_AUTOTUNE=12",
        "env:TORCH_HOME=https://***@example.com/",
    )
    for text in ("HF_TOKEN=abc", "environment:HF_TOKEN=https://me:abc@example.com"):
        with pytest.raises(UsageError) as raised:
            parse_side_spec("--b", [text])
        assert "abc" not in f"{raised.value} {raised.value.advice}"


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["HEAD"], "--b HEAD: expected one of rev=REVISION"),
        (["rev="], "expected one of"),
        (["speed=9"], "expected one of"),
        (["env:=1"], "expected one of"),
        (["env:NAME"], "expected one of"),
        (["rev=a", "rev=b"], "rev is given twice"),
        (["env:HF_TOKEN=(set)"], "its value was not saved"),
        (["env:HF_TOKEN=(hidden)"], "its value was not saved"),
        (["env:TORCH_HOME=https://***@example.com/"], "its value was not saved"),
        (["env:X=1", "env:X=2"], "X is given twice"),
        (["mode=default", "option:x=1"], "exclude each other"),
        (["env:TMPDIR=/x"], "TMPDIR cannot be set"),
        (["env:TORCHINDUCTOR_COMPILE_THREADS=3"], "cannot be set"),
    ],
)
def test_a_spec_that_cannot_be_meant_is_refused(texts: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_side_spec("--b", texts)


def test_a_revision_is_checked_out_beside_the_repository_and_removed_whatever_happens(
    repository: Path, scratch: Scratch
) -> None:
    def fail_inside() -> None:
        with check_out("HEAD~1", scratch) as tree:
            assert Path(tree.path, "number.txt").read_text() == "one"
            assert (repository / "number.txt").read_text() == "two"
            assert tree.place(str(repository / "a" / "b.py")) == os.path.join(tree.path, "a", "b.py")
            assert tree.place("/elsewhere/b.py") == "/elsewhere/b.py"
            assert tree.commit == git(repository, "rev-parse", "HEAD~1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert os.listdir(scratch.path) == ["torchstone-owner"]
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_revision_that_is_not_there_is_refused(repository: Path, scratch: Scratch) -> None:
    with pytest.raises(UsageError, match="has no such revision"), check_out("nonsense", scratch):
        pass
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_folder_without_git_has_no_revisions(
    tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="not in a git repository"), check_out("HEAD", scratch):
        pass


def test_an_interpreter_is_found_by_its_file_its_environment_or_its_name() -> None:
    prefix = Path(sys.prefix)
    world = find_python(str(prefix), "--b")
    assert world.python == str(prefix / "bin" / "python")
    assert world.torch
    assert find_python(sys.executable, "--b").version == world.version


def test_an_interpreter_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such interpreter"):
        find_python(str(tmp_path), "--b")
    with pytest.raises(UsageError, match="no such interpreter"):
        find_python("python-of-nowhere", "--b")
    broken, old = tmp_path / "broken", tmp_path / "old"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    old.write_text('#!/bin/sh\necho \'{"version": "3.9.1", "tuple": [3, 9], "torch": "2.0"}\'\n')
    for path in (broken, old):
        path.chmod(0o755)
    with pytest.raises(UsageError, match="does not start: out of order"):
        find_python(str(broken), "--b")
    with pytest.raises(UsageError, match=r"it is Python 3\.9\.1"):
        find_python(str(old), "--b")


def test_another_interpreter_finds_torchstone_and_nothing_else_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    world = _world("B", SideSpec(python=sys.executable), None, str(tmp_path))
    assert world.path == (str(tmp_path / "link"),)
    assert os.listdir(tmp_path / "link") == ["torchstone"]
    assert os.path.samefile(tmp_path / "link" / "torchstone", worker_environment.PACKAGE)
    assert worker_variables(str(tmp_path), world)["PYTHONPATH"] == str(tmp_path / "link")


# What every worker imports, in an interpreter that has nothing of ours but torch.
BARE = """
import sys
for name in ("msgspec", "click", "rich"):
    sys.modules[name] = None
import torchstone, torchstone.worker.zygote, torchstone.worker.survey
assert "torch" not in sys.modules, "a worker without a job, and a keeper, must not import torch"
import torchstone.worker.probes.run_case, torchstone.worker.probes.scaling, torchstone.worker.machine.torch_survey
"""


def test_workers_need_nothing_but_torch() -> None:
    subprocess.run([sys.executable, "-c", BARE], check=True)


def test_a_worktree_comes_before_the_paths_that_lead_to_the_repository(
    repository: Path, tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository / "lib"), "/else"]))
    with check_out("HEAD", scratch) as tree:
        world = _world("B", SideSpec(revision="HEAD"), tree, str(tmp_path))
        assert world.path == (
            str(tmp_path / "link"), tree.path, f"{tree.path}/src", f"{tree.path}/lib", "/else",
        )  # fmt: skip


def test_variables_of_a_side_reach_its_workers_and_those_of_the_compiler_have_a_template_of_their_own(
    tmp_path: Path,
) -> None:
    world = World(variables=(("SLOW", "5"),))
    assert worker_variables(str(tmp_path), world)["SLOW"] == "5"
    assert template_folder(world=world) == template_folder()
    assert template_folder(world=World(variables=(("CXX", "clang++"),))) != template_folder()
    assert template_folder(world=World(torch="1.0")) != template_folder()


def test_cores_are_chosen_for_a_processor_and_not_for_an_accelerator() -> None:
    assert len(choose_cores("cpu", 1)) == 1
    assert set(choose_cores("cpu", 1000)) == os.sched_getaffinity(0)
    assert choose_cores("cuda:0", 1) == []
