from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from conftest import Command, WriteFile, start_on_terminal
from torchstone.cli.commands.judging.check import OPTIONS, check
from torchstone.cli.group import COMMANDS
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import parse_plainly
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.run_file import encode_run

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"


@pytest.fixture
def files(write: WriteFile) -> tuple[str, ...]:
    write("r.csv", HEADER + "cuda,a,8,OOM,1,1,0\n")
    write("e.csv", "name,accuracy\na,pass\n")
    return "r.csv", "--baseline", "e.csv"


def shell(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchstone", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_exit_codes_are_0_fine_1_no_2_bad_input(
    torchstone: Command, files: tuple[str, ...], write: WriteFile
) -> None:
    assert torchstone("check", *files).code == 1
    assert torchstone("check", *files, "--allow", "regression").code == 0
    assert torchstone("check", "nowhere.csv", "--baseline", "e.csv").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "r.csv"),
        ("check", "r.csv", "--baseline"),
        ("check", "r.csv", "--baseline", "e.csv", "--polcy", "strict"),
        ("check", "r.csv", "--baseline", "e.csv", "--policy", "lax"),
        ("check", "r.csv", "--baseline", "e.csv", "--format", "pdf"),
        ("check", "r.csv", "--baseline", "e.csv", "--set", "color=red"),
        ("check", "r.csv", "--baseline", "e.csv", "--set", "batch_size=many"),
        ("check", "r.csv", "--baseline", "e.csv", "--set", "batch_size=\u00b2"),
        ("check", "r.csv", "--baseline", "e.csv", "--set", "device=cpu"),
        ("check", "r.csv", "--baseline", "e.csv", "--only", "nothing"),
        ("check", "r.csv", "--baseline", "e.csv", "--metric", "nothing"),
        ("check", "r.csv", "--baseline", "e.csv", "--rule", "speedup=floor:1"),
        ("check", "r.csv", "--baseline", "e.csv", "--as-of", "tomorrow"),
        ("check", "r.csv", "--baseline", "e.csv", "--block", "new", "--allow", "new"),
        ("check", "r.csv", "--baseline", "e.csv", "--kind", "xml"),
        ("check", "r.csv", "--baseline", "e.csv", "--kind", "performance"),
        ("check", "r.csv", "--baseline", "e.csv", "--quarantine", "nowhere.toml"),
        ("check", "r.csv", "--baseline", "e.csv", "--config", "nowhere.toml"),
        ("check", "r.csv", "--baseline", "e.csv", "--output", "no/such/folder/report.txt"),
        ("accept", "r.csv"),
        ("accept", "--baseline", "e.csv"),
        ("export", "r.csv"),
        ("export", "r.csv", "--to", "xml"),
        ("quarantine", "add", "a"),
        ("quarantine", "list", "--file", "nowhere.toml"),
        ("check", "r.csv", "--baseline", "e.csv", "--output", "r.csv"),
        ("check", "r.csv", "--baseline", "e.csv", "--report", "junit=e.csv"),
        ("check", "r.csv", "--baseline", "e.csv", "--report", "report.xml"),
        ("check", "e.csv", "--baseline", "r.csv"),
        ("check", "r.csv", "--baseline", "e.csv", "--rule", "graph_breaks@nothing=count:lower"),
        ("accept", "r.csv", "--baseline", "e.csv", "--only", "nothing"),
        ("accept", "r.csv", "--baseline", "e.csv", "--metric", "nothing"),
        ("accept", "e.csv", "--baseline", "r.csv"),
        ("nonsense",),
    ],
)
def test_a_mistake_gets_one_clear_message_and_exit_code_2(
    arguments: tuple[str, ...], torchstone: Command, files: tuple[str, ...]
) -> None:
    ran = torchstone(*arguments)
    assert ran.code == 2
    assert ran.err.strip()


def test_no_color_is_respected_on_a_terminal(files: tuple[str, ...], tmp_path: Path) -> None:
    def on_terminal(**environment: str) -> str:
        return str(start_on_terminal(tmp_path, "check", *files, env=environment).read())

    assert "\x1b[" in on_terminal()
    assert "\x1b[" not in on_terminal(NO_COLOR="1")
    assert "\x1b[" not in on_terminal(TERM="dumb")


def test_a_reader_that_stops_reading_is_no_error(files: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(f"cuda,model{n},8,OOM,1,1,0\n" for n in range(5000))
    (tmp_path / "many.csv").write_text(HEADER + rows)
    command = f"{sys.executable} -m torchstone check many.csv --baseline e.csv | head -1"
    ran = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.startswith("FAIL")
    assert ran.stderr == ""
    command = f"set -o pipefail; {sys.executable} -m torchstone export many.csv --to v3 | true"
    ran = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_plain_parser_agrees_with_click(files: tuple[str, ...]) -> None:
    arguments = [
        "r.csv",
        "x.csv",
        "--baseline=e.csv",
        "--baseline",
        "f.csv",
        "--policy",
        "upstream",
        "--compare-anyway",
        "--only",
        "a*",
        "-o",
        "report.txt",
    ]
    plain = parse_plainly(arguments, OPTIONS)
    assert plain is not None
    context = make_command("check", check, OPTIONS, "", required=False).make_context("check", list(arguments))
    assert {"arguments": plain[0], **plain[1]} == context.params


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["-h"], ["--polcy", "x"], ["--policy", "lax"], ["--baseline"], ["--compare-anyway=1"]],
)
def test_the_plain_parser_leaves_what_is_not_plain_to_click(arguments: list[str]) -> None:
    assert parse_plainly(["r.csv", *arguments], OPTIONS) is None


@pytest.mark.parametrize("command", ["check", "accept", "import", "export", "quarantine", "quarantine add"])
def test_help_has_an_example(command: str, torchstone: Command) -> None:
    ran = torchstone(*command.split(), "--help")
    assert ran.code == 0
    assert f"torchstone {command}" in ran.out.partition("Example")[2]
    assert all(len(line) <= 80 for line in ran.out.splitlines())


def test_a_gate_imports_neither_torch_nor_anything_slow(files: tuple[str, ...], tmp_path: Path) -> None:
    program = (
        "import sys; from torchstone.cli.main import run; run(sys.argv[1:]); "
        "print([m for m in ('torch', 'numpy', 'pandas', 'rich', 'click', 'tomllib', 'json') if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "check", *files]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize("command", [(), ("quarantine",), ("accept",), ("import",)])
def test_without_arguments_there_is_help(command: tuple[str, ...], tmp_path: Path) -> None:
    ran = shell(*command, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.startswith("Usage: torchstone")
    assert "\n  " in ran.stderr


def test_tables_have_no_escapes_where_color_is_not_wanted(tmp_path: Path, write: WriteFile) -> None:
    write("quarantine.toml", '[[quarantine]]\ncase = "a"\nreason = "b"\n')
    child = start_on_terminal(tmp_path, "quarantine", "list", env={"NO_COLOR": "1"})
    assert "\x1b[" not in str(child.read())


def test_errors_of_the_parser_read_as_all_others_do(torchstone: Command) -> None:
    _, _, err = torchstone("check", "results.csv", "--baseline")
    assert err == "error: option '--baseline' requires an argument\n  see 'torchstone check --help'\n"
    _, _, err = torchstone("doctor", "here")
    assert err == "error: got unexpected extra argument (here)\n  see 'torchstone doctor --help'\n"


def test_a_table_in_place_of_a_run_file_is_named(torchstone: Command, write: WriteFile) -> None:
    path = write("results.csv", "dev,name,batch_size,accuracy\ncpu,net,1,pass\n")
    code, _, err = torchstone("repro", path, "net")
    assert code == 2
    assert "results.csv:1: this is not a run file: its format is accuracy (accuracy CSV of" in err
    assert "give a file that 'torchstone run' has written" in err


def test_a_misspelt_command_gets_a_suggestion(torchstone: Command) -> None:
    assert "did you mean 'check'?" in torchstone("chek", "r.csv").err


def test_a_full_disk_below_standard_output_is_an_error_and_not_a_verdict(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "torchstone", "check", *files]
        ran = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert ran.returncode == 2
    assert ran.stderr == "error: the output cannot be written: no space left on device\n"


def test_a_terminal_without_the_letters_of_a_name_shows_escapes(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(HEADER + "cuda,mod\u00e8le,8,OOM,1,1,0\n", encoding="utf-8")
    (tmp_path / "e.csv").write_text("name,accuracy\nmod\u00e8le,pass\n", encoding="utf-8")
    ran = shell("check", "r.csv", "--baseline", "e.csv", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 1
    assert "mod\\xe8le" in ran.stdout


def test_a_file_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    command = [
        sys.executable.encode(),
        b"-m",
        b"torchstone",
        b"check",
        b"\xff.csv",
        b"--rule",
        b"speedup=floor:1",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert "not valid UTF-8" in ran.stderr


def test_a_narrow_terminal_gets_narrow_lines(files: tuple[str, ...], tmp_path: Path) -> None:
    child = start_on_terminal(tmp_path, "check", *files, columns=60, env={"NO_COLOR": "1"})
    assert [line for line in str(child.read()).splitlines() if len(line) > 60] == []


def test_results_that_the_baseline_does_not_speak_of_are_named_as_such(
    torchstone: Command, write: WriteFile
) -> None:
    performance = write("p.csv", "dev,name,batch_size,speedup,abs_latency\ncuda,a,8,1.5,2.0\n")
    ran = torchstone("check", performance, "--baseline", write("e.csv", "name,accuracy\na,pass\n"))
    assert ran.code == 2
    assert "expects accuracy, but these are results of performance" in ran.err


def test_one_run_can_write_several_reports(
    torchstone: Command, files: tuple[str, ...], tmp_path: Path
) -> None:
    ran = torchstone(
        "check", *files, "--format", "github", "--report", "junit=r.xml", "--report", "markdown=c.md"
    )
    assert ran.out.startswith("::error")
    assert "<failure" in (tmp_path / "r.xml").read_text()
    assert (tmp_path / "c.md").read_text().startswith("### torchstone")


def test_suggested_commands_repeat_what_they_depend_on(torchstone: Command, write: WriteFile) -> None:
    write("ci.toml", '[[rule]]\nmetric = "graph_breaks"\nkind = "count"\nbetter = "lower"\ntolerance = 1\n')
    write("r.csv", HEADER + "cuda,a,8,pass,1,1,5\n")
    write("wide.csv", "name,float32,bfloat16\na,OOM,OOM\n")
    write("e.csv", "name,accuracy,graph_breaks\na,pass,0\n")
    judged = (
        "check",
        "r.csv",
        "--baseline",
        "e.csv",
        "--config",
        "ci.toml",
        "--policy",
        "upstream",
        "--metric",
        "graph_breaks",
    )
    (row,) = json.loads(torchstone(*judged, "--format", "json").out)["rows"]
    assert torchstone(*shlex.split(row["reproduce"])[1:]).code == 1
    assert torchstone(*shlex.split(row["accept"])[1:], "--yes").code == 0
    assert torchstone(*judged).code == 0
    wide = ("check", "r.csv", "--baseline", "wide.csv", "--set", "dtype=float32", "--block", "improvement")
    (row,) = json.loads(torchstone(*wide, "--format", "json").out)["rows"]
    assert torchstone(*shlex.split(row["reproduce"])[1:]).code == 1
    assert torchstone(*shlex.split(row["accept"])[1:], "--yes").code == 0
    assert torchstone(*wide).code == 0
    assert Path("wide.csv").read_text() == "name,float32,bfloat16\na,pass,OOM\n"


def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    fifo = tmp_path / "results.csv"
    os.mkfifo(fifo)
    child = start_on_terminal(tmp_path, "check", str(fifo), "--baseline", "e.csv")
    try:
        child.expect_exact("judging", timeout=20)
        child.sendintr()
        child.expect(pexpect.EOF)
    finally:
        child.close()
    assert child.exitstatus == 130
    assert "Traceback" not in str(child.before)


def test_a_long_wait_is_explained_on_a_terminal(tmp_path: Path) -> None:
    fifo = tmp_path / "results.csv"
    os.mkfifo(fifo)
    (tmp_path / "e.csv").write_text("name,accuracy\na,pass\n")
    child = start_on_terminal(tmp_path, "check", "results.csv", "--baseline", "e.csv")
    child.expect_exact("judging ... ")
    fifo.write_text(HEADER + "cuda,a,8,pass,1,1,0\n")
    child.expect_exact("PASS")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_version_is_told(tmp_path: Path) -> None:
    assert shell("--version", cwd=tmp_path).stdout.startswith("torchstone, version ")


def test_two_files_with_the_same_case_are_named_with_what_to_do(
    torchstone: Command, write: WriteFile
) -> None:
    case = Case("mlp", "performance", "smoke")
    run = encode_run(Run("r", (case,), (Outcome(case, "pass"),)))
    write("a.jsonl", run)
    write("b.jsonl", run)
    ran = torchstone("report", "a.jsonl", "b.jsonl")
    assert ran.code == 2
    assert ran.err == (
        "error: b.jsonl:2: mlp is already in a.jsonl:2: both files have a result of smoke::mlp::performance\n"
        "  name only one of a.jsonl and b.jsonl; to compare two files, make one the --baseline\n"
    )
    ran = torchstone("report", "a.jsonl", "a.jsonl")
    assert ran.err.endswith("\n  a.jsonl is named twice: name it once\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_the_summary_of_every_command_fits_into_a_line_of_80_columns(
    torchstone: Command, arguments: list[str]
) -> None:
    lines = torchstone(*arguments).out.splitlines()
    assert max(map(len, lines)) <= 80
    for name in COMMANDS:
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith(".")
        assert not line.endswith("...")


def test_the_options_of_run_stand_in_sections(torchstone: Command) -> None:
    lines = torchstone("run", "--help").out.splitlines()
    sections = [line.rstrip(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert sections == [
        "What to measure",
        "Which cases",
        "How long",
        "Workers",
        "Judging",
        "Output",
        "Probe accuracy",
        "Probe compile_cache",
        "Probe instructions",
        "Probe scaling",
        "History",
        "Options",
    ]
    assert max(map(len, lines)) <= 80
