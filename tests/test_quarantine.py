from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Command, WriteFile
from torchstone.core.errors import InputError
from torchstone.core.text.safe_text import is_plain
from torchstone.gate.quarantine_file import add_entry, read_quarantine, remove_entries

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"
ENTRY = '[[quarantine]]\ncase = "flaky*"\nreason = "races"\nsince = 2026-01-01\nexpires = 2026-12-31\n'


@pytest.fixture
def files(write: WriteFile) -> tuple[str, ...]:
    write("r.csv", HEADER + "cuda,flaky1,8,fail_to_run,1,1,0\ncuda,good,8,pass,1,1,0\n")
    write("e.csv", "name,accuracy,graph_breaks\nflaky1,pass,0\ngood,pass,0\n")
    write("quarantine.toml", ENTRY)
    return "r.csv", "--baseline", "e.csv"


def test_a_quarantined_row_does_not_block(torchstone: Command, files: tuple[str, ...]) -> None:
    ran = torchstone("check", *files, "--as-of", "2026-06-01", "--format", "json")
    report = json.loads(ran.out)
    assert ran.code == 0
    (row,) = [row for row in report["rows"] if row["verdict"] == "quarantined"]
    assert (row["name"], row["metric"], row["quarantine"]["reason"]) == ("flaky1", "accuracy", "races")
    assert "would be: regression" in row["detail"]


@pytest.mark.parametrize(("day", "code"), [("2026-12-31", 0), ("2027-01-01", 1)])
def test_an_entry_covers_its_last_day_and_blocks_after_it(
    day: str, code: int, torchstone: Command, files: tuple[str, ...]
) -> None:
    ran = torchstone("check", *files, "--as-of", day)
    assert ran.code == code
    assert ("ended 2026-12-31" in ran.out) == bool(code)


def test_an_entry_covers_nothing_before_its_first_day(torchstone: Command, files: tuple[str, ...]) -> None:
    assert torchstone("check", *files, "--as-of", "2025-12-31").code == 1
    assert torchstone("check", *files, "--as-of", "2026-01-01").code == 0


def test_an_expired_entry_blocks_even_if_its_case_passes(torchstone: Command, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,flaky1,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\nflaky1,pass\n")
    write("quarantine.toml", ENTRY)
    for style in ("text", "markdown", "junit", "json", "github"):
        ran = torchstone("check", results, "--baseline", baseline, "--as-of", "2027-01-01", "--format", style)
        assert ran.code == 1
        assert "2026-12-31" in ran.out


def test_an_expired_entry_is_the_reason_for_the_exit_code_if_nothing_else_is(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,flaky1,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\nflaky1,pass\n")
    write("quarantine.toml", ENTRY)
    ran = torchstone("check", results, "--baseline", baseline, "--as-of", "2027-01-01")
    assert ran.code == 1
    headline = (
        "FAIL: 1 quarantine entry expired; policy strict blocks expired quarantine entries: exit code 1"
    )
    assert " ".join(ran.out.split()).startswith(headline)


def test_an_expired_entry_for_cases_that_are_not_here_does_not_block(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,good,8,pass,1,1,0\n")
    write("quarantine.toml", ENTRY)
    ran = torchstone(
        "check", results, "--baseline", write("e.csv", "name,accuracy\ngood,pass\n"), "--as-of", "2027-01-01"
    )
    assert ran.code == 0


def test_quarantine_does_not_hide_a_case_that_vanished_unless_it_says_so(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,good,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\ngood,pass\nflaky1,pass\n")
    write("quarantine.toml", ENTRY)
    assert torchstone("check", results, "--baseline", baseline, "--as-of", "2026-06-01").code == 1
    write("quarantine.toml", ENTRY + "allow_missing = true\n")
    assert torchstone("check", results, "--baseline", baseline, "--as-of", "2026-06-01").code == 0


def test_a_quarantined_case_that_passes_could_be_released(torchstone: Command, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,flaky1,8,pass,1,1,0\ncuda,flaky2,8,pass,1,1,9\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks\nflaky1,pass,0\nflaky2,pass,0\n")
    write("quarantine.toml", ENTRY)
    ran = torchstone("check", results, "--baseline", baseline, "--as-of", "2026-06-01", "--format", "json")
    (release,) = json.loads(ran.out)["could_be_released"]
    assert (release["name"], release["passed"], release["seen"]) == ("flaky1", 1, 1)


@pytest.mark.parametrize(("platform", "code"), [("cuda", 0), ("cpu", 1)])
def test_an_entry_may_be_for_one_device_or_platform(
    platform: str, code: int, torchstone: Command, files: tuple[str, ...]
) -> None:
    Path("quarantine.toml").write_text(f'{ENTRY}platform = "{platform}"\n')
    assert torchstone("check", *files, "--as-of", "2026-06-01").code == code
    assert torchstone("check", *files, "--as-of", "2026-06-01", "--platform", platform).code == 0


def test_an_entry_may_be_for_some_metrics(torchstone: Command, files: tuple[str, ...]) -> None:
    Path("quarantine.toml").write_text(f'{ENTRY}metric = ["graph_breaks", "calls_captured"]\n')
    assert torchstone("check", *files, "--as-of", "2026-06-01").code == 1


def test_quarantine_check_counts_passes_over_all_files(torchstone: Command, write: WriteFile) -> None:
    statuses = ("pass", "fail_to_run", "pass")
    runs = [
        write(f"r{n}.csv", HEADER + f"cuda,a,8,{s},1,1,0\ncuda,b,8,pass,1,1,0\n")
        for n, s in enumerate(statuses)
    ]
    entries = "".join(f'[[quarantine]]\ncase = "{case}"\nreason = "flaky"\n' for case in ("a", "b", "c"))
    write("quarantine.toml", entries)
    lines = torchstone("quarantine", "check", *runs).out.splitlines()[2:]
    assert [line.split()[:5] for line in lines] == [
        ["active", "a", "2", "of", "3"],
        ["release", "b", "3", "of", "3"],
        ["unused", "c", "0", "of", "0"],
    ]


def test_quarantine_check_does_not_release_a_case_that_left_no_row_in_some_file(
    torchstone: Command, write: WriteFile
) -> None:
    runs = [
        write("r0.csv", HEADER + "cuda,a,8,pass,1,1,0\n"),
        write("r1.csv", HEADER + "cuda,b,8,pass,1,1,0\n"),
    ]
    write("quarantine.toml", '[[quarantine]]\ncase = "a"\nreason = "flaky"\n')
    out = torchstone("quarantine", "check", *runs).out
    assert "no row in 1 file" in out
    assert "released" not in out


@pytest.mark.parametrize(
    ("entry", "baseline", "state"),
    [
        ('platform = "rocm"', "name,accuracy,graph_breaks\na,pass,0\n", "unused"),
        ('platform = "cuda"', "name,accuracy,graph_breaks\na,pass,0\n", "release"),
        ('metric = "graph_breaks"', "name,accuracy,graph_breaks\na,pass,0\n", "release"),
        ('metric = "graph_breaks"', "name,accuracy,graph_breaks\na,pass,-", "active"),
        ('metric = "graph_breaks"', "", "unused"),
    ],
)
def test_quarantine_check_judges_as_the_gate_does(
    entry: str, baseline: str, state: str, torchstone: Command, write: WriteFile
) -> None:
    results = write(
        "r.csv",
        HEADER + "cuda,a,8,pass,1,1,0\n".replace(",0\n", ",9\n" if baseline.endswith("-") else ",0\n"),
    )
    write("quarantine.toml", f'[[quarantine]]\ncase = "a"\nreason = "flaky"\n{entry}\n')
    expected = ("--baseline", write("e.csv", baseline.replace("-", "0\n"))) if baseline else ()
    assert torchstone("quarantine", "check", results, *expected).out.splitlines()[2].split()[0] == state


def test_quarantine_check_does_not_release_a_pattern_of_which_a_case_vanished(
    torchstone: Command, write: WriteFile
) -> None:
    header = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks,unique_graph_breaks\n"
    both = write("1.csv", f"{header}cpu,flaky1,4,pass,1,1,0,0\ncpu,flaky2,4,pass,1,1,0,0\n")
    one = write("2.csv", f"{header}cpu,flaky1,4,pass,1,1,0,0\n")
    write("quarantine.toml", ENTRY)
    arguments = ("quarantine", "check", "--as-of", "2026-06-01", "--set", "dtype=float32")
    told = torchstone(*arguments, both, one).out
    assert "a case without a row in 1 file" in told
    assert "release" not in told
    assert "could be released" in torchstone(*arguments, both).out


@pytest.mark.parametrize("named", [(), ("--quarantine", "quarantine.toml")])
def test_no_report_is_written_over_the_list(
    named: tuple[str, ...], torchstone: Command, files: tuple[str, ...]
) -> None:
    ran = torchstone("check", *files, *named, "--output", "quarantine.toml")
    assert ran.code == 2
    assert "quarantine.toml is an input file" in ran.err
    assert Path("quarantine.toml").read_text() == ENTRY


def test_an_improvement_under_quarantine_is_still_an_improvement(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,flaky1,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\nflaky1,OOM\n")
    write("quarantine.toml", ENTRY)
    ran = torchstone("check", results, "--baseline", baseline, "--as-of", "2026-06-01", "--format", "json")
    assert json.loads(ran.out)["summary"]["improved"] == 1


def test_what_quarantine_covers_can_be_made_to_block(torchstone: Command, files: tuple[str, ...]) -> None:
    assert torchstone("check", *files, "--as-of", "2026-06-01", "--block", "quarantined").code == 1


def test_removing_an_entry_leaves_comments_that_are_not_its_own(
    torchstone: Command, write: WriteFile
) -> None:
    text = f"{ENTRY}\n# ---- other cases ----\n\n[[quarantine]]\ncase = 'x'\nreason = 'y'\n\n# the end\n"
    path = Path(write("quarantine.toml", text))
    torchstone("quarantine", "remove", "flaky*")
    assert (
        path.read_text()
        == "# ---- other cases ----\n\n[[quarantine]]\ncase = 'x'\nreason = 'y'\n\n# the end\n"
    )
    torchstone("quarantine", "remove", "x")
    assert path.read_text() == "# ---- other cases ----\n\n# the end\n"


def test_a_byte_order_mark_is_no_obstacle(torchstone: Command, write: WriteFile) -> None:
    path = write("quarantine.toml", "\ufeff" + ENTRY)
    assert torchstone("quarantine", "add", "x", "--reason", "y").code == 0
    assert torchstone("quarantine", "remove", "flaky*").code == 0
    assert [entry.case for entry in read_quarantine(path)] == ["x"]


def test_quarantine_check_fails_on_expired_entries(torchstone: Command, write: WriteFile) -> None:
    write("quarantine.toml", ENTRY)
    assert torchstone("quarantine", "check", "--as-of", "2026-06-01").code == 0
    assert torchstone("quarantine", "check", "--as-of", "2027-06-01").code == 1


def test_add_list_remove_leave_the_rest_of_the_file_alone(torchstone: Command, write: WriteFile) -> None:
    text = f"# our flaky cases\n\n{ENTRY}\n# about the other one\n[[quarantine]]\ncase = 'x'\nreason = 'y'  # why\n"
    path = Path(write("quarantine.toml", text))
    assert (
        torchstone("quarantine", "add", "resnet*", "--reason", 'say "no"', "--expires", "2027-01-31").code
        == 0
    )
    assert path.read_text().startswith(text)
    (added,) = [entry for entry in read_quarantine(str(path)) if entry.case == "resnet*"]
    assert (added.reason, added.expires) == ('say "no"', date(2027, 1, 31))
    assert "resnet*" in torchstone("quarantine", "list").out
    assert torchstone("quarantine", "remove", "resnet*").code == 0
    assert path.read_text().rstrip() == text.rstrip()
    assert torchstone("quarantine", "remove", "x").code == 0
    assert path.read_text() == f"# our flaky cases\n\n{ENTRY}\n"


def test_adding_the_same_entry_twice_is_refused(torchstone: Command) -> None:
    assert torchstone("quarantine", "add", "a", "--reason", "r").code == 0
    before = Path("quarantine.toml").read_text()
    assert torchstone("quarantine", "add", "a", "--reason", "r").code == 2
    assert Path("quarantine.toml").read_text() == before


def test_an_entry_can_be_given_a_new_date(torchstone: Command, write: WriteFile) -> None:
    path = write("quarantine.toml", ENTRY + "\n[[quarantine]]\ncase = 'other'\nreason = 'r'\n")
    assert (
        torchstone(
            "quarantine", "add", "flaky*", "--reason", "races", "--expires", "2028-01-01", "--replace"
        ).code
        == 0
    )
    entries = {entry.case: entry for entry in read_quarantine(path)}
    assert entries["flaky*"].expires == date(2028, 1, 1)
    assert entries["flaky*"].since == date(2026, 1, 1)
    assert entries.keys() == {"other", "flaky*"}


def test_without_a_file_nothing_is_quarantined(torchstone: Command) -> None:
    ran = torchstone("quarantine", "list")
    assert (ran.code, "nothing is quarantined" in ran.out) == (0, True)


def test_entries_added_at_the_same_time_are_not_lost(tmp_path: Path) -> None:
    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "torchstone", "quarantine", "add", name, "--reason", "r"]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    running = {name: start(name) for name in ("a", "b", "c", "d")}
    codes = {name: process.wait(60) for name, process in running.items()}
    for process in running.values():
        process.communicate()
    added = {entry.case for entry in read_quarantine(str(tmp_path / "quarantine.toml"))}
    assert added == {name for name, code in codes.items() if code == 0}
    assert set(codes.values()) <= {0, 2}


def test_an_entry_that_would_end_before_it_begins_is_not_written(torchstone: Command) -> None:
    ran = torchstone("quarantine", "add", "a", "--reason", "r", "--expires", "2020-01-01")
    assert (ran.code, "before the first day" in ran.err) == (2, True)
    assert not Path("quarantine.toml").exists()


def test_removing_what_is_not_there_says_what_is(torchstone: Command, write: WriteFile) -> None:
    write("quarantine.toml", ENTRY)
    ran = torchstone("quarantine", "remove", "nothing")
    assert ran.code == 2
    assert "flaky*" in ran.err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[[quarantine]]\nreason = 'no case'\n", 1),
        (ENTRY + "\n[[quarantine]]\ncase = 'no reason'\n", 7),
        (ENTRY + "\n[[quarantine]]\ncase = 'a'\nreason = 'b'\nexpires = 'soon'\n", 10),
        (
            ENTRY + "\n[[quarantine]]\ncase = 'a'\nreason = 'b'\nsince = 2026-02-01\nexpires = 2026-01-01\n",
            11,
        ),
        (ENTRY + "\n[[quarantine]]\ncase = 'a'\nreason = 'b'\nexpired = 2026-01-01\n", 10),
        ("[[quarantine]]\ncase = 'a'\nreason = 'b'\nexpires = 2026-01-01T00:00:00\n", 4),
        ("[[quarantines]]\ncase = 'a'\n", 1),
        ("[[quarantine]]\ncase = \n", 2),
    ],
)
def test_a_bad_entry_is_an_error_that_names_its_line(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "quarantine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_quarantine(str(path))
    assert caught.value.line == line


TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn")),
    min_size=1,
    max_size=20,
).filter(is_plain)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4, unique_by=lambda pair: pair[0]))
def test_whatever_is_added_can_be_read_and_removed_again(entries: list[tuple[str, str]]) -> None:
    text = ""
    for case, reason in entries:
        text = add_entry("q.toml", text, {"case": case, "reason": reason})
    for case, _ in entries:
        text, gone = remove_entries("q.toml", text, case)
        assert [entry.case for entry in gone] == [case]
    assert text.strip() == ""


def test_replacing_leaves_the_other_entries_of_a_case_alone(torchstone: Command, write: WriteFile) -> None:
    write(
        "quarantine.toml",
        '[[quarantine]]\ncase = "a"\nmetric = "accuracy"\nplatform = "rocm"\nreason = "one"\n\n'
        '[[quarantine]]\ncase = "a"\nmetric = "graph_breaks"\nreason = "two"\n',
    )
    add = ("quarantine", "add", "a", "--reason", "three", "--expires", "2099-06-01", "--replace")
    refused = torchstone(*add)
    assert refused.code == 2
    assert "2 entries for a" in refused.err
    assert torchstone(*add, "--metric", "graph_breaks").code == 0
    text = Path("quarantine.toml").read_text()
    assert 'reason = "one"' in text
    assert 'reason = "two"' not in text
    assert text.count("rocm") == 1


def test_an_entry_that_is_made_to_block_is_a_failure_in_junit_too(
    torchstone: Command, files: tuple[str, ...]
) -> None:
    ran = torchstone("check", *files, "--as-of", "2026-06-01", "--format", "junit", "--block", "quarantined")
    assert ran.code == 1
    assert 'failures="1"' in ran.out
    assert "<skipped" not in ran.out
    assert "<failure" in ran.out


def test_an_entry_about_one_number_covers_no_crash(torchstone: Command, write: WriteFile) -> None:
    write("r.csv", "dev,name,batch_size,speedup,abs_latency\ncpu,a,4,0.0,0.0\n")
    write("b.csv", "dev,name,batch_size,speedup,abs_latency\ncpu,a,4,1.5,10\n")
    entry = '[[quarantine]]\ncase = "a"\n{}reason = "noisy"\nsince = 2026-01-01\n'
    for metric, code in (('metric = "speedup"\n', 1), ('metric = "abs_latency"\n', 1), ("", 0)):
        write("quarantine.toml", entry.format(metric))
        assert torchstone("check", "r.csv", "--baseline", "b.csv").code == code


def test_of_two_entries_the_one_that_allows_a_case_to_be_missing_does(
    torchstone: Command, write: WriteFile
) -> None:
    write("r.csv", HEADER + "cuda,good,8,pass,1,1,0\n")
    write("e.csv", "name,accuracy\nflaky1,pass\ngood,pass\n")
    write(
        "quarantine.toml", ENTRY + '[[quarantine]]\ncase = "flaky1"\nallow_missing = true\nreason = "gone"\n'
    )
    arguments = ("check", "r.csv", "--baseline", "e.csv", "--as-of", "2026-06-01")
    assert torchstone(*arguments).code == 0
