"""The table of red rows: one line for each finding, in 80 columns, with names that tell cases apart."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

import torchstone as product
from comparison_files import case_of, counts, failed, passed, times, write_run
from conftest import Command
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution
from torchstone.core.records import Case, Measurement, Outcome
from torchstone.reporting.dialects.styles import render_report

LONG = "a_library_with_a_name_that_leaves_no_room_for_numbers_attention_forward"
NAMES = (*(f"model_{number:02}" for number in range(22)), f"{LONG}_small", f"{LONG}_large")
AXES = {"device": "cpu", "mode": "inference", "dtype": "float32"}


def speedup(level: float, seed: int) -> Measurement:
    measured = times(level, seed=seed)
    return Measurement("speedup", measured.samples, measured.details)


def slower(factor: float) -> list[Outcome]:
    """Models that all became slower at once: two red metrics each."""
    return [
        passed(name, times(factor, seed=number + 1), speedup(1.5 / factor, number + 50))
        for number, name in enumerate(NAMES)
    ]


def table_of(text: str) -> list[str]:
    """The lines of the table: from its head to the empty line that follows."""
    lines = text.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("regression") and "actual" in line)
    return lines[begin : lines.index("", begin)]


def judged(torchstone: Command, folder: Path, *command: str) -> str:
    write_run(folder, "base.jsonl", slower(1.0))
    write_run(folder, "new.jsonl", slower(1.5))
    ran = torchstone(*command)
    assert ran.code == 1, ran.err
    return ran.out


def test_24_red_cases_have_a_line_each_and_only_ten_have_details(torchstone: Command, tmp_path: Path) -> None:
    for command in (
        ("check", "new.jsonl", "--baseline", "base.jsonl"),
        ("compare", "base.jsonl", "new.jsonl"),
    ):
        text = judged(torchstone, tmp_path, *command)
        table = table_of(text)
        for name in NAMES:
            (line,) = [line for line in table if line.split()[:1] == [name]]
            assert len(name) > 20 or " +1  " in line, line
        assert len(table) == 1 + len(NAMES) + 2 + 1  # a head, two names with a line of their own, a note
        assert max(map(len, table)) <= 80
        assert sum(line.startswith("  reproduce  ") for line in text.splitlines()) == 10
        assert "... and 14 more red rows; --report json=FILE and --report junit=FILE list all" in " ".join(
            text.split()
        )
        assert len(text.splitlines()) < 180


def test_a_name_that_leaves_no_room_is_whole_and_its_numbers_follow(
    torchstone: Command, tmp_path: Path
) -> None:
    table = table_of(judged(torchstone, tmp_path, "check", "new.jsonl", "--baseline", "base.jsonl"))
    for size in ("small", "large"):
        at = table.index(f"  {LONG}_{size}")
        assert table[at + 1].split()[0] in {"abs_latency", "speedup"}
        assert table[at + 1].startswith("   ")


def test_cases_of_one_name_are_told_apart_by_their_axes(torchstone: Command, tmp_path: Path) -> None:
    def outcomes(factor: float) -> list[Outcome]:
        cases = [
            case_of("mlp", **{**AXES, "mode": mode, "dtype": dtype})
            for mode in ("inference", "training")
            for dtype in ("float32", "bfloat16")
        ]
        return [passed("mlp", times(factor, seed=number + 1), case=case) for number, case in enumerate(cases)]

    write_run(tmp_path, "base.jsonl", outcomes(1.0))
    write_run(tmp_path, "new.jsonl", outcomes(1.5))
    expected = {
        f"mlp (mode {mode}, dtype {dtype})"
        for mode in ("inference", "training")
        for dtype in ("float32", "bfloat16")
    }
    for command in (
        ("check", "new.jsonl", "--baseline", "base.jsonl"),
        ("compare", "base.jsonl", "new.jsonl"),
    ):
        table = table_of(torchstone(*command).out)
        assert {line.strip() for line in table} >= expected


def test_compare_shows_statuses_first_and_then_the_largest_counts(
    torchstone: Command, tmp_path: Path
) -> None:
    def breaks(number: int, *, has_failed: bool) -> list[Outcome]:
        found = [passed(f"breaks_{each}", counts("graph_breaks", each * number)) for each in (1, 3, 2, 4)]
        return [*found, failed("dead") if has_failed else passed("dead", counts("graph_breaks", 0))]

    write_run(tmp_path, "base.jsonl", breaks(0, has_failed=False))
    write_run(tmp_path, "new.jsonl", breaks(1, has_failed=True))
    table = table_of(torchstone("compare", "base.jsonl", "new.jsonl").out)
    assert [line.split()[:2] for line in table[1:]] == [
        ["dead", "status"],
        *(["breaks_" + each, "graph_breaks"] for each in "4321"),
    ]


def test_a_case_without_a_namesake_has_no_axes(torchstone: Command, tmp_path: Path) -> None:
    case = Case("mlp", "performance", "smoke", case_of("mlp", **AXES).variant)
    others = [f"model_{number}" for number in range(4)]
    for file, factor in (("base.jsonl", 1.0), ("new.jsonl", 1.5)):
        slow = [passed(name, times(factor, seed=at)) for at, name in enumerate(others)]
        write_run(tmp_path, file, [passed("mlp", times(factor), case=case), *slow])
    table = table_of(torchstone("check", "new.jsonl", "--baseline", "base.jsonl").out)
    assert sum(line.startswith("  mlp  ") for line in table) == 1


def test_a_reason_that_many_cases_share_is_said_once(torchstone: Command, tmp_path: Path) -> None:
    busy = (make_caution(CautionKind.BUSY_MACHINE, rate=100.0, share=0.6),)
    alike = [structs.replace(each, cautions=busy) for each in slower(1.0)]
    write_run(tmp_path, "base.jsonl", slower(1.0))
    write_run(tmp_path, "new.jsonl", alike)
    for command in (
        ("check", "new.jsonl", "--baseline", "base.jsonl"),
        ("compare", "base.jsonl", "new.jsonl"),
    ):
        ran = torchstone(*command)
        words = " ".join(ran.out.split())
        assert ran.code == 1
        assert (
            words.count("it was disturbed while it was timed: other work had the processor 60% of the time")
            == 1
        )
        assert words.count("measure it again on a quiet machine") == 1
        assert f"inconclusive {len(NAMES)} cases" in words
        assert len(ran.out.splitlines()) < 80


def test_undecided_rows_and_their_headline_are_amber_and_red_ones_red(tmp_path: Path) -> None:
    busy = (make_caution(CautionKind.BUSY_MACHINE, rate=100.0, share=0.6),)
    first, second, *_ = slower(1.0)
    write_run(tmp_path, "base.jsonl", [first, second])
    disturbed = structs.replace(first, cautions=busy)
    write_run(tmp_path, "undecided.jsonl", [disturbed, second])
    write_run(tmp_path, "red.jsonl", [disturbed, slower(2.0)[1]])
    base, undecided, red = (str(tmp_path / f"{name}.jsonl") for name in ("base", "undecided", "red"))
    text = render_report(product.compare(base, undecided).report, "text", color=True)
    assert "\x1b[1;33mUNDECIDED" in text
    assert "\x1b[33minconclusive" in text
    assert "\x1b[31m" not in text
    text = render_report(product.compare(base, red).report, "text", color=True)
    assert "\x1b[1;31mFAIL" in text
    assert "\x1b[31mregression" in text
    assert "\x1b[33minconclusive" in text
    page = product.compare(base, red).html
    assert '<span class="badge absent">inconclusive</span>' in page
    assert '<span class="badge fail">regression</span>' in page


def test_the_headline_tells_disturbed_rows_from_those_that_need_more_trials(tmp_path: Path) -> None:
    busy = (make_caution(CautionKind.BUSY_MACHINE, rate=100.0, share=0.6),)
    first, second, *_ = slower(1.0)
    write_run(tmp_path, "base.jsonl", [first, second])
    write_run(tmp_path, "new.jsonl", [structs.replace(first, cautions=busy), second])
    result = product.compare(str(tmp_path / "base.jsonl"), str(tmp_path / "new.jsonl"))
    assert "UNDECIDED: 2 of 4 rows (2 were disturbed)" in result.render("text")
