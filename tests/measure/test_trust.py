"""What a run file may have executed without a person saying so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Variant
from torchstone.measure.code.locating import Located, extends_torch, is_installed_suite, locate
from torchstone.measure.code.trust import (
    CHANGED,
    FOREIGN_ARTIFACTS,
    INSTALLED,
    NO_HASH,
    NOT_A_FILE,
    NOT_FOUND,
    NOT_INSTALLED,
    OUTSIDE,
    PROGRAM,
    RELATIVE,
    ExecutedItem,
    UntrustedItem,
    find_artifacts,
    find_untrusted,
    list_executed,
    record_imported,
    trusted_roots,
)
from torchstone.measure.measuring import Settings, case_file
from torchstone.measure.targets import hash_file
from torchstone.worker.probes.compiler.own_artifacts import is_made_here, note_made
from torchstone.worker.worker_environment import make_case_folder

HASH = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in no repository."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return here


def settings_for(path: Path, recorded: str = "", **others: object) -> Settings:
    source = BenchmarkSource("file", "bench", str(path), recorded)
    return structs.replace(Settings(sources={"bench": source}, folder=os.getcwd()), **others)


def reasons(settings: Settings) -> list[str]:
    executed = list_executed(settings, settings.sources)
    return [doubt.reason for doubt in find_untrusted(executed, trusted_roots())]


@pytest.mark.parametrize(
    ("executed", "reason"),
    [
        (ExecutedItem("x", ("/here/a.py", "/here"), HASH, HASH), ""),
        (ExecutedItem("x", ("/here/a.py", "/here"), HASH[:16], HASH), ""),
        (ExecutedItem("x", ("/here/a.py", "/here"), HASH[:8], HASH), CHANGED),
        (ExecutedItem("x", ("/here/a.py", "/here"), HASH, "cd" * 32), CHANGED),
        (ExecutedItem("x", ("/here/a.py", "/here"), "", HASH), NO_HASH),
        (ExecutedItem("x", ("/heretoo/a.py", "/here"), HASH, HASH), OUTSIDE),
        (ExecutedItem("x", ("/here/a.py", "/evil"), HASH, HASH), OUTSIDE),
        (ExecutedItem("x", ("/here",)), ""),
        (ExecutedItem("x", ("/",)), OUTSIDE),
        (ExecutedItem("x", ("/here/a.py", "/here"), HASH, HASH, PROGRAM), PROGRAM),
    ],
)
def test_what_is_unchanged_and_below_a_trusted_folder_is_trusted(executed: ExecutedItem, reason: str) -> None:
    assert find_untrusted([executed], ["/here"]) == ([UntrustedItem("x", reason)] if reason else [])


def test_a_file_is_trusted_while_it_is_as_it_was(folder: Path) -> None:
    path = folder / "bench.py"
    path.write_text("a = 1\n")
    recorded = hash_file(str(path))
    assert reasons(settings_for(path, recorded)) == []
    assert reasons(settings_for(path, recorded[:16])) == []  # as earlier versions recorded it
    assert reasons(settings_for(path)) == [NO_HASH]
    path.write_text("a = 2\n")
    assert reasons(settings_for(path, recorded)) == [CHANGED]
    path.unlink()
    assert (
        reasons(settings_for(path, recorded)) == []
    )  # nothing is executed: the worker will say that it is missing


def test_files_outside_are_not_trusted_however_they_are_reached(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    real = outside / "bench.py"
    real.write_text("a = 1\n")
    recorded = hash_file(str(real))
    assert reasons(settings_for(real, recorded)) == [OUTSIDE]
    assert reasons(settings_for(folder / ".." / "outside" / "bench.py", recorded)) == [OUTSIDE]
    link = folder / "bench.py"
    link.symlink_to(real)
    assert reasons(settings_for(link, recorded)) == [OUTSIDE]
    # A file of ours, reached through a folder of theirs: modules would be imported from that folder.
    own = folder / "own.py"
    own.write_text("a = 1\n")
    (outside / "own.py").symlink_to(own)
    assert reasons(settings_for(outside / "own.py", hash_file(str(own)))) == [OUTSIDE]
    assert reasons(settings_for(own, hash_file(str(own)), folder=str(outside))) == [OUTSIDE]


def test_the_repository_around_the_current_folder_is_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "bench.py"
    path.write_text("a = 1\n")
    below = folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    settings = settings_for(path, hash_file(str(path)))
    assert reasons(settings) == [OUTSIDE]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    assert reasons(settings) == []


def test_what_is_no_file_with_one_meaning_is_not_trusted(folder: Path) -> None:
    os.mkfifo(folder / "bench.py")
    assert reasons(settings_for(folder / "bench.py", HASH)) == [NOT_A_FILE]
    assert reasons(settings_for(Path("/dev/zero"), HASH)) == [NOT_A_FILE]
    (folder / "own.py").write_text("")
    assert reasons(settings_for(Path("own.py"), hash_file("own.py"))) == [RELATIVE]
    assert reasons(Settings(folder="below")) == [RELATIVE]


def test_suites_are_our_own_or_those_of_installed_packages() -> None:
    sources = {
        "smoke": BenchmarkSource("suite", "smoke"),
        "package": BenchmarkSource("package", "not_there"),
        "nothing": BenchmarkSource("suite", "os"),  # no suite of ours: nothing of this name is imported
    }
    doubts = find_untrusted(list_executed(Settings(sources=sources), sources), ["/"])
    assert doubts == [UntrustedItem("the suite not_there of another package", NOT_INSTALLED)]
    assert not is_installed_suite("smoke")


def test_modules_of_ones_own_that_are_imported_first_are_recorded(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    code = f"open({str(marker)!r}, 'w')\n"
    package = folder / "mine"
    package.mkdir()
    (package / "__init__.py").write_text(code)
    (package / "backend.py").write_text(code)
    settings = Settings(folder=str(folder), imports=("mine.backend",))
    files = [str(package / "__init__.py"), str(package / "backend.py")]
    assert locate("mine.backend", str(folder)) == Located(tuple(files), is_installed=False, is_complete=True)
    assert reasons(settings) == [NO_HASH, NO_HASH]
    recorded = {file: hash_file(file) for file in files}
    assert reasons(structs.replace(settings, imported=recorded)) == []
    (package / "backend.py").write_text(code * 2)
    assert set(reasons(structs.replace(settings, imported=recorded))) == {CHANGED}
    assert not marker.exists()
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("this", "this.py", INSTALLED),
        ("json.decoder", "json/decoder.py", INSTALLED),
        ("msgspec", "msgspec/__init__.py", INSTALLED),
        ("time", "(built-in)", INSTALLED),
        ("no_such_module", "no_such_module", NOT_FOUND),
        ("json.no_such_module", "json.no_such_module", NOT_FOUND),
    ],
)
def test_installed_modules_that_are_imported_first_are_named(
    folder: Path, name: str, file: str, reason: str
) -> None:
    settings = Settings(folder=str(folder), imports=(name,))
    (doubt, *others) = find_untrusted(list_executed(settings, ()), trusted_roots())
    assert not [each for each in others if each.reason != OUTSIDE]
    assert doubt.reason == reason
    assert file in doubt.what
    path = doubt.what.rpartition("(")[2].rstrip(")")
    if os.path.isfile(path):  # a run file that brings the hash of it, too, gains nothing
        recorded = structs.replace(settings, imported={path: hash_file(path)})
        assert reason in reasons(recorded) or OUTSIDE in reasons(recorded)


def test_an_installed_package_that_extends_torch_is_trusted_and_its_neighbours_are_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    for name, group in (("extends", "torch_dynamo_backends"), ("other", "console_scripts")):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("raise SystemExit\n")
        about = packages / f"{name}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}:register\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    assert extends_torch("extends.inner")
    settings = Settings(folder=str(folder), imports=("extends", "other"))
    doubts = find_untrusted(list_executed(settings, ()), trusted_roots())
    file = packages / "other" / "__init__.py"
    assert doubts == [UntrustedItem(f"the module other ({file})", INSTALLED)]
    assert not {"extends", "other"} & set(sys.modules)


def test_a_warm_cache_is_trusted_if_it_was_made_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(folder.parent / "kept"))
    settings = Settings(cache="warm")
    assert reasons(settings) == []  # nothing to load
    cache = folder / ".torchstone" / "cache"
    make_case_folder(str(folder), 1, "", str(cache))
    assert reasons(settings) == []
    cache.rename(folder / "moved")
    cache.mkdir()
    assert reasons(settings) == [FOREIGN_ARTIFACTS]
    assert reasons(Settings(cache="cold")) == []
    make_case_folder(str(folder), 2, "", str(cache))  # it is used as it is, which does not make it ours
    assert reasons(settings) == [FOREIGN_ARTIFACTS]
    (cache / "torchstone-made-here").write_bytes(b"guessed")
    assert reasons(settings) == [FOREIGN_ARTIFACTS]
    (cache / "torchstone-made-here").unlink()
    cache.rmdir()
    (folder / "moved").rename(cache)
    assert reasons(settings) == []
    cache.chmod(0o777)
    assert reasons(settings) == [FOREIGN_ARTIFACTS]


@pytest.mark.parametrize("name", ["save_outputs", "save_artifacts"])
def test_a_run_file_does_not_say_where_else_to_write(folder: Path, tmp_path: Path, name: str) -> None:
    assert reasons(structs.replace(Settings(), **{name: str(folder / "kept")})) == []
    assert reasons(structs.replace(Settings(), **{name: str(tmp_path / "kept")})) == [OUTSIDE]
    assert reasons(structs.replace(Settings(), **{name: "kept"})) == [RELATIVE]
    (folder / "link").symlink_to(tmp_path)
    assert reasons(structs.replace(Settings(), **{name: str(folder / "link" / "kept")})) == [OUTSIDE]


def test_what_the_benchmarks_import_is_recorded_as_far_as_it_is_the_users_own(
    folder: Path, tmp_path: Path
) -> None:
    for path in (folder / "bench.py", folder / "helper.py", tmp_path / "elsewhere.py"):
        path.write_text("")
    settings = settings_for(folder / "bench.py")
    files = [str(folder / "bench.py"), str(folder / "helper.py"), str(tmp_path / "elsewhere.py")]
    assert record_imported(files, settings) == {files[1]: hash_file(files[1])}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cpp.cxx", ["/tmp/evil"], PROGRAM),  # noqa: S108
        ("cuda.cuda_cxx", "/tmp/evil", PROGRAM),  # noqa: S108
        ("some.future_option", "evil", PROGRAM),
        ("max_autotune", True, ""),
        ("cpp.threads", 4, ""),
        ("max_autotune_gemm_backends", "TRITON", ""),
    ],
)
def test_an_option_of_the_compiler_that_may_name_a_program_is_not_trusted(
    name: str, value: object, reason: str
) -> None:
    doubts = find_untrusted(list_executed(Settings(options={name: value}), ()), ["/"])
    assert [doubt.reason for doubt in doubts] == ([reason] if reason else [])


def test_artifacts_are_trusted_if_this_machine_made_them(tmp_path: Path) -> None:
    case = Case("plain", "compile_cache", "bench", Variant("cpu", "inductor", "inference", "float32"))
    made_here = str(tmp_path / "cache" / "made-here")
    settings = Settings(load_artifacts=str(tmp_path))
    assert list(find_artifacts(settings, [case], made_here)) == []  # nothing to load
    path = Path(case_file(str(tmp_path), case, "artifacts"))
    path.write_bytes(b"pickle")
    (executed,) = find_artifacts(settings, [case], made_here)
    assert executed.problem == FOREIGN_ARTIFACTS
    assert str(path) in executed.what
    note_made(made_here, b"pickle")
    assert list(find_artifacts(settings, [case], made_here)) == []
    path.write_bytes(b"pickled")
    assert len(list(find_artifacts(settings, [case], made_here))) == 1
    os.chmod(made_here, 0o777)  # noqa: S103  (anybody could have put a mark there)
    assert not is_made_here(made_here, b"pickle")
