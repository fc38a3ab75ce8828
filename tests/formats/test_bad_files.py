"""Bad files on a real disk, through the real command: exit code 2, one message that names the place, nothing half-written."""

from __future__ import annotations

import ctypes
import gzip
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sample_files import ACCURACY, DDP, EXPECTED, PERFORMANCE, PR_TIME, PR_TIME_EXPECTED, QUARANTINE, RUN, V3
from torchstone.core.disk import read_text, write_text
from torchstone.core.errors import InputError

HEADER = "dev,name,batch_size,accuracy,graph_breaks\n"
RESULTS = f"{HEADER}cuda,a,4,pass,0\ncuda,b,4,pass,2\n"
BASELINE = "name,accuracy,graph_breaks\na,pass,0\nb,pass,2\n"
Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.csv").write_text(RESULTS)
    (tmp_path / "expected.csv").write_text(BASELINE)
    return tmp_path


def torchstone(
    folder: Path, *arguments: str, prepare: Callable[[], None] | None = None, stdout: int = -1
) -> Ran:
    """Run the real command in a folder; ``prepare`` runs in the child before it starts."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "torchstone", *arguments],
        cwd=folder,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=prepare,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and os.access(path, os.R_OK)
    }


def assert_one_error(ran: Ran, start: str) -> None:
    """Exactly one message, which begins so, with at most one line of advice under it."""
    first, *advice = ran.stderr.splitlines()
    assert first.startswith(f"error: {start}"), ran.stderr
    assert len(advice) <= 1
    assert all(line.startswith("  ") for line in advice)
    assert len(ran.stderr) < 2000
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 2


COMMANDS: dict[str, tuple[str, ...]] = {
    "results": ("check", "BAD", "--baseline", "expected.csv"),
    "baseline": ("check", "good.csv", "--baseline", "BAD"),
    "accept": ("accept", "BAD", "--baseline", "expected.csv", "--add-new", "--yes"),
    "accept into": ("accept", "good.csv", "--baseline", "BAD", "--add-new", "--yes"),
    "import": ("import", "BAD", "--output", "out.jsonl"),
    "export": ("export", "BAD", "--to", "v3", "--lossy", "--output", "out.json"),
}

BAD: dict[str, tuple[bytes, str]] = {
    "cut off in a row": (RESULTS[:-4].encode(), ":3: column graph_breaks: "),
    "cut off in the header": (b"dev,name,batch", ":1: no column is a metric"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\x00", ":1:8: "),
    "binary after some text": (RESULTS.encode() + b"cuda,\x00c,4,pass,2\n", ":4:6: "),
    "empty": (b"", ":1: "),
    "only blank lines": (b"\n\r\n  \n", ":1: "),
    "only a header": (HEADER.encode(), ":1: "),
    "semicolons": (RESULTS.replace(",", ";").encode(), ":1:4: "),
    "tabs": (RESULTS.replace(",", "\t").encode(), ":1:4: "),
    "a line break in a name": (f'{HEADER}cuda,"a\nb",4,pass,0\n'.encode(), ":2: column name: "),
    "an escape sequence in a name": (f"{HEADER}cuda,\x1b[2J,4,pass,0\n".encode(), ":2: column name: "),
    "Latin-1": (f"{HEADER}cuda,café,4,pass,0\n".encode("latin-1"), ":2:9: "),
    "UTF-16": (RESULTS.encode("utf-16"), ":1:1: "),
    "compressed": (gzip.compress(RESULTS.encode()), ":1:1: "),
    "NaN in a count": (f"{HEADER}cuda,a,4,pass,NaN\n".encode(), ":2: column graph_breaks: "),
    "text in a count": (f"{HEADER}cuda,a,4,pass,none\n".encode(), ":2: column graph_breaks: "),
    "text in a batch size": (f"{HEADER}cuda,a,four,pass,0\n".encode(), ":2: column batch_size: "),
    "inf in a time": (PERFORMANCE.replace("12.300000", "inf").encode(), ":2: column abs_latency: "),
    "a negative time": (PERFORMANCE.replace("12.300000", "-12.3").encode(), ":2: column abs_latency: "),
    "no name": (f"{HEADER}cuda,,4,pass,0\n".encode(), ":2: column name: "),
    "no status": (f"{HEADER}cuda,a,4,,0\n".encode(), ":2: column accuracy: "),
    "a column too many": (f"{HEADER}cuda,a,b,4,pass,0\n".encode(), ":2:6: "),
    "a column twice": (RESULTS.replace("graph_breaks", "dev").encode(), ":1: column dev: "),
    "an expected zero": (b"name,compression_ratio\na,1\nb,0.0\n", ":3: column compression_ratio: "),
    "an expected metric that is none": (b"name,accuracy,colour\na,pass,red\n", ":1: column colour: "),
    "a negative margin": (PR_TIME_EXPECTED.replace("0.015", "-0.015").encode(), ":5: column margin: "),
    "a margin of more than all": (PR_TIME_EXPECTED.replace("0.015", "1.5").encode(), ":5: column margin: "),
    "an expected count of zero": (b"a,instruction_count,0,0.1\n", ":1: column expected: "),
    "a count twice": (PR_TIME.encode() + b"\nadd_loop_eager,instruction_count,1\n", ":5: column name: "),
    "an open quotation mark": (f'{HEADER}cuda,"a,4,pass,0\ncuda,b,4,pass,0\n'.encode(), ":2:6: "),
    "text after a quotation mark": (f'{HEADER}cuda,"a"b,4,pass,0\n'.encode(), ":2:8: "),
    "10 MB in one cell": (HEADER.encode() + b"cuda," + b"x" * 10_000_000 + b",4,pass,0\n", ":2:6: "),
    "10 MB of quotation marks": (HEADER.encode() + b'"' * 10_000_000, ":2:1: "),
    "10 MB of brackets": (b'{"metric": ' + b"[" * 10_000_000, ":1: "),
    "JSON that is cut off": (V3[:-2].encode(), f":2:{len(V3.splitlines()[1])}: "),
    "NaN in JSON": (DDP.replace("0.5]", "NaN]").encode(), ":1: "),
    "a key twice in JSON": (b'{"metric": {"name": "a", "name": "b"}}', ":1: "),
    "half a character in JSON": (V3.replace('"sam"', r'"\ud83d"').encode(), ":2: "),
    "a run file of the future": (RUN.replace('"format":2', '"format":3').encode(), ":1: column format: "),
    "a run file with a surplus field": (RUN.replace('"status"', '"state"').encode(), ":2: column outcome: "),
    "a run file cut off in its head": (RUN[:100].encode(), ":1: "),
    "prose": (b"This is not a benchmark.\n", ":1: "),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_file_is_one_clear_error(fault: str, folder: Path) -> None:
    data, place = BAD[fault]
    (folder / "bad.csv").write_bytes(data)
    before = contents(folder)
    for command in ("results", "baseline", "accept into", "import"):
        ran = torchstone(folder, *("bad.csv" if word == "BAD" else word for word in COMMANDS[command]))
        assert_one_error(ran, f"bad.csv{place}")
        assert ran.stdout == ""
        assert contents(folder) == before


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_folder_and_a_missing_file_are_clear_errors(command: tuple[str, ...], folder: Path) -> None:
    (folder / "sub").mkdir()
    before = contents(folder)
    may_be_folder = command in (COMMANDS["baseline"], COMMANDS["accept into"])
    ran = torchstone(folder, *("sub" if word == "BAD" else word for word in command if word != "--add-new"))
    assert_one_error(ran, "sub: no baseline " if may_be_folder else "sub: this is a folder")
    if command[:3] != ("accept", "good.csv", "--baseline"):
        ran = torchstone(folder, *("no\nsuch.csv" if word == "BAD" else word for word in command))
        assert_one_error(ran, "no\\nsuch.csv: no such file")
    assert contents(folder) == before


def test_a_baseline_that_is_missing_is_not_made_by_chance(folder: Path) -> None:
    ran = torchstone(folder, "accept", "good.csv", "--baseline", "expcted.csv", "--yes")
    assert_one_error(ran, "expcted.csv: no such file")
    assert "--add-new" in ran.stderr
    assert not (folder / "expcted.csv").exists()


def without_permissions() -> None:
    """Give up root's right to open anything, as any other user would have to."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for dac_override_and_read_search in (1, 2):
        prctl(24, dac_override_and_read_search, 0, 0, 0)


def may_still_read(path: Path) -> bool:
    """Whether this machine does not let us give up that right."""
    command = ["cat", str(path)]
    return (
        subprocess.run(command, capture_output=True, check=False, preexec_fn=without_permissions).returncode
        == 0
    )


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_file_that_may_not_be_read_is_a_clear_error(command: tuple[str, ...], folder: Path) -> None:
    secret = folder / "secret.csv"
    secret.write_text(RESULTS)
    secret.chmod(0)
    if may_still_read(secret):
        pytest.skip("this user may read everything, and cannot give that up")
    before = contents(folder)
    words = ("secret.csv" if word == "BAD" else word for word in command)
    assert_one_error(
        torchstone(folder, *words, prepare=without_permissions), "secret.csv: no permission to read it"
    )
    assert contents(folder) == before


def test_a_folder_that_may_not_be_written_to_is_a_clear_error(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    (closed / "expected.csv").write_text(BASELINE)
    (folder / "new.csv").write_text(RESULTS.replace("b,4,pass", "b,4,fail_accuracy"))
    closed.chmod(0o555)
    try:
        if may_still_read(Path("/proc/1/environ")):
            pytest.skip("this user may do everything, and cannot give that up")
        arguments = ("accept", "new.csv", "--baseline", "closed/expected.csv", "--yes")
        ran = torchstone(folder, *arguments, prepare=without_permissions)
        assert_one_error(ran, "closed/expected.csv: cannot be written: permission denied")
    finally:
        closed.chmod(0o755)
    assert [path.name for path in closed.iterdir()] == ["expected.csv"]
    assert (closed / "expected.csv").read_text() == BASELINE


def test_a_case_twice_names_both_places(folder: Path) -> None:
    (folder / "twice.csv").write_text(f"{RESULTS}\ncuda,a,4,pass,0\n")
    for command in (
        ("check", "twice.csv", "--baseline", "expected.csv"),
        ("import", "twice.csv", "--output", "o"),
    ):
        ran = torchstone(folder, *command)
        assert_one_error(ran, "twice.csv:5: column name: a is already in twice.csv:2")
    ran = torchstone(folder, "check", "good.csv", "twice.csv", "--baseline", "expected.csv")
    assert_one_error(ran, "twice.csv:2: column name: a is already in good.csv:2")
    (folder / "expected twice.csv").write_text(BASELINE + "\n\na,fail_accuracy,0\n")
    ran = torchstone(folder, "check", "good.csv", "--baseline", "expected twice.csv")
    assert_one_error(
        ran, "expected twice.csv:6: column name: a is expected twice; the first is in expected twice.csv:2"
    )
    assert not (folder / "o").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\n\n\n# a comment\n"),
        lambda text: "".join(
            ",".join(f'"{cell}"' for cell in line.split(",")) + "\n" for line in text.splitlines()
        ),
    ],
    ids=["byte-order mark", "Windows line ends", "both", "comments", "quotation marks"],
)
def test_what_other_programs_do_to_a_file_is_accepted(change: Callable[[str], str], folder: Path) -> None:
    (folder / "changed.csv").write_bytes(change(RESULTS).encode())
    (folder / "changed expected.csv").write_bytes(change(BASELINE).encode())
    plain = torchstone(folder, "check", "good.csv", "--baseline", "expected.csv")
    changed = torchstone(folder, "check", "changed.csv", "--baseline", "changed expected.csv")
    assert (changed.returncode, changed.stdout, changed.stderr) == (0, plain.stdout, "")


def test_quotation_marks_commas_and_other_scripts_in_names_are_accepted(folder: Path) -> None:
    rows = ['"a ""quoted"" name"', '"a,b"', "モデル", "#1", "=cmd()", "🔥"]
    quoted = ['"#1"' if row == "#1" else row for row in rows]
    (folder / "names.csv").write_text(HEADER + "".join(f"cuda,{row},4,pass,0\n" for row in rows))
    (folder / "old.csv").write_text("name,accuracy\n" + "".join(f"{row},pass\n" for row in quoted))
    assert torchstone(folder, "check", "names.csv", "--baseline", "old.csv").returncode == 0
    assert (
        torchstone(folder, "accept", "names.csv", "--baseline", "new.csv", "--add-new", "--yes").returncode
        == 0
    )
    again = torchstone(folder, "check", "names.csv", "--baseline", "new.csv")
    assert (again.returncode, again.stderr) == (0, "")
    assert "6 cases judged" in again.stdout


BAD_TOML: dict[str, tuple[bytes, str]] = {
    "empty value": (QUARANTINE.replace('"yolov3"', "").encode(), ":3:8: "),
    "cut off": (QUARANTINE[:80].encode(), ":4:"),
    "Latin-1": ('[[quarantine]]\ncase = "é"\n'.encode("latin-1"), ":2:9: "),
    "UTF-16": (QUARANTINE.encode("utf-16"), ":1:1: "),
    "binary": (b"\x00\x01", ":1:1: "),
    "an unknown key": (QUARANTINE.replace("owner", "holder").encode(), ":6: column holder: "),
    "no reason": (b'\n\n[[quarantine]]\ncase = "a"\n', ":3: column reason: "),
    "a date in quotes": (QUARANTINE.replace("2026-01-31", '"2026-01-31"').encode(), ":7: column since: "),
    "a date that does not exist": (QUARANTINE.replace("2026-01-31", "2026-02-31").encode(), ":7:"),
    "the wrong way round": (QUARANTINE.replace("2099", "1999").encode(), ":8: column expires: "),
    "a number as a case": (QUARANTINE.replace('"yolov3"', "3").encode(), ":3: column case: "),
    "another table": (b"[check]\n", ":1: column check: "),
    "a table that is no list": (b"[quarantine]\ncase = 1\n", ":1: column quarantine: "),
    "deep nesting": (b"a = " + b"[" * 100_000, ":1"),
}


@pytest.mark.parametrize("fault", BAD_TOML)
def test_a_bad_quarantine_is_one_clear_error_for_every_command(fault: str, folder: Path) -> None:
    data, place = BAD_TOML[fault]
    (folder / "quarantine.toml").write_bytes(data)
    before = contents(folder)
    for command in (
        ("quarantine", "list"),
        ("quarantine", "add", "x", "--reason", "y"),
        ("quarantine", "remove", "yolov3"),
        ("check", "good.csv", "--baseline", "expected.csv"),
    ):
        assert_one_error(torchstone(folder, *command), f"quarantine.toml{place}")
        assert contents(folder) == before


def test_a_quarantine_that_is_no_file_is_a_clear_error(folder: Path) -> None:
    assert_one_error(torchstone(folder, "quarantine", "list", "--file", "no.toml"), "no.toml: no such file")
    assert_one_error(torchstone(folder, "quarantine", "list", "--file", "."), ".: this is a folder")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[check\n", ":1:7: "),
        ('[check]\npolicy = "lax"\n', ":2: column policy: "),
        ("[checks]\n", ":1: column checks: "),
        ('\n[[rule]]\nmetric = "speedup"\nkind = "floor"\n', ":2: column low: "),
        ('[[rule]]\nmetric = "speedup"\nkind = "floor"\nlow = nan\n', ":4: column low: "),
    ],
)
def test_bad_settings_are_one_clear_error(text: str, place: str, folder: Path) -> None:
    (folder / "torchstone.toml").write_text(text)
    for command in (
        ("check", "good.csv", "--baseline", "expected.csv"),
        ("accept", "good.csv", "--baseline", "n.csv"),
    ):
        assert_one_error(torchstone(folder, *command), f"torchstone.toml{place}")


@pytest.mark.parametrize(
    "command",
    [
        ("check", "good.csv", "--baseline", "expected.csv", "--format", "json", "--output", "/dev/full"),
        ("import", "good.csv", "--output", "/dev/full"),
        ("export", "good.csv", "--to", "v3", "--output", "/dev/full"),
    ],
    ids=["check", "import", "export"],
)
def test_a_full_device_is_a_clear_error(command: tuple[str, ...], folder: Path) -> None:
    assert_one_error(torchstone(folder, *command), "/dev/full: cannot be written: no space left on device")


@pytest.mark.parametrize(
    "command",
    [("check", "good.csv", "--baseline", "expected.csv"), ("import", "good.csv")],
    ids=["check", "import"],
)
def test_a_full_standard_output_is_a_clear_error(command: tuple[str, ...], folder: Path) -> None:
    with open("/dev/full", "w") as full:
        ran = torchstone(folder, *command, stdout=full.fileno())
    assert_one_error(ran, "")


def little_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


WRITING: dict[str, tuple[str, ...]] = {
    "accept": ("accept", "changed.csv", "--baseline", "target", "--yes"),
    "accept anew": ("accept", "changed.csv", "--baseline", "new", "--add-new", "--yes"),
    "import": ("import", "changed.csv", "--output", "target"),
    "import anew": ("import", "changed.csv", "--output", "new"),
    "export": ("export", "changed.csv", "--to", "v3", "--output", "target"),
    "check": (
        "check",
        "changed.csv",
        "--baseline",
        "expected.csv",
        "--format",
        "markdown",
        "--output",
        "target",
    ),
    "quarantine": ("quarantine", "add", "a", "--reason", "r" * 100, "--file", "new"),
}


@pytest.mark.parametrize("command", WRITING.values(), ids=WRITING)
def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(
    command: tuple[str, ...], folder: Path
) -> None:
    names = [f"a model with a rather long name, number {number}" for number in range(20)]
    rows = [f'cuda,"{name}",4,fail_accuracy,0\n' for name in names]
    (folder / "changed.csv").write_text(HEADER + "".join(rows))
    (folder / "target").write_text("name,accuracy\n" + "".join(f'"{name}",pass\n' for name in names))
    before = contents(folder)
    ran = torchstone(folder, *command, prepare=little_room)
    assert_one_error(ran, f"{'new' if 'new' in command else 'target'}: cannot be written: file too large")
    assert contents(folder) == before
    assert torchstone(folder, *command).returncode in {0, 1}
    assert contents(folder) != before


def test_writing_keeps_permissions_links_and_leaves_nothing_beside(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("real.csv")
    write_text(str(link), "new\r\n")
    assert real.read_bytes() == b"new\r\n"
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "real.csv"]


def test_a_new_file_gets_the_permissions_that_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(str(tmp_path / "new.csv"), "x")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.csv").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "no/such/folder/file", "."])
def test_a_place_that_cannot_be_written_to_is_a_clear_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_text(f"{tmp_path}/{name}", "text")
    with pytest.raises(InputError):
        read_text(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


def test_half_a_character_is_never_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(InputError, match="UTF-8"):
        write_text(str(tmp_path / "file"), "half: \ud83d")
    assert contents(tmp_path) == {str(tmp_path / "file"): b"old"}


def test_the_good_files_of_these_tests_are_good(folder: Path) -> None:
    assert torchstone(folder, "check", "good.csv", "--baseline", "expected.csv").returncode == 0
    (folder / "accuracy.csv").write_text(ACCURACY)
    (folder / "all.csv").write_text(EXPECTED)
    (folder / "quarantine.toml").write_text(QUARANTINE)
    assert torchstone(folder, "quarantine", "list").returncode == 0
    assert torchstone(folder, "check", "accuracy.csv", "--baseline", "all.csv").returncode == 1
