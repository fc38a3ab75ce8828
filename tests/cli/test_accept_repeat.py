"""``torchstone accept --repeat``: counts that are measured again get margins that fit them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command, WriteFile
from torchstone.core.records import Case, Measurement, Outcome, Run
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import settings_from

CALLS = "python_calls"
BENCHMARKS = '''
from pathlib import Path
from torchstone.define.counted import counted


def times_made(name: str) -> int:
    """How many processes have prepared this benchmark before."""
    marks = Path(__file__).with_name(name)
    before = len(marks.read_text()) if marks.exists() else 0
    marks.write_text("x" * (before + 1))
    return before


@counted
def steady():
    return lambda: [abs(number) for number in range(1000)]


@counted
def wandering():
    length = 1000 + 2 * times_made("wandering.marks")
    return lambda: [abs(number) for number in range(length)]


@counted
def breaking():
    if times_made("breaking.marks") == 2:
        raise RuntimeError("gone with the wind")
    return lambda: [abs(number) for number in range(1000)]
'''


@pytest.mark.slow
def test_counts_are_measured_again_and_get_margins_from_their_spread(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    write("bench.py", BENCHMARKS)
    assert torchstone("run", "bench.py", "--counter", "python", "-o", "run.jsonl").code == 0
    counts = {outcome.case.name: outcome.value(CALLS) for outcome in run_in(tmp_path / "run.jsonl").outcomes}
    steady = counts["steady"]
    assert isinstance(steady, int)
    rows = f"steady,{CALLS},{2 * steady},0.1\nbreaking,{CALLS},{steady},0.1\n"
    baseline = Path(write("expected.csv", rows))

    ran = torchstone(
        "accept", "run.jsonl", "--baseline", "expected.csv", "--repeat", "2", "--add-new", "--yes"
    )

    assert ran.code == 0
    assert "[6/6]" in ran.out
    assert "repeat 2 of 2: loading torch" in ran.err
    lines = {line.split()[1]: line.split() for line in ran.out.splitlines() if line.split()[2:3] == [CALLS]}
    assert lines["steady"][:6] == ["change", "steady", CALLS, f"{2 * steady:,}", f"{steady:,}", "0%"]
    assert "10% -> 0.1%" in ran.out
    assert "repeat 2 of 2 failed: model_fail_to_load (RuntimeError: gone with the wind" in ran.out
    spread, margin = (float(cell.removesuffix("%")) for cell in lines["wandering"][5:7])
    assert spread == pytest.approx(0.4, abs=0.01)
    assert margin == pytest.approx(36.5 * 0.2, rel=0.05)  # 36.5 standard deviations, for only three values
    written = {line.split(",")[0]: line.split(",")[1:] for line in baseline.read_text().split() if line}
    assert written["steady"] == [CALLS, str(steady), "0.001"]
    assert written["breaking"] == [CALLS, str(steady), "0.1"]
    assert float(written["wandering"][2]) == pytest.approx(margin / 100)
    assert torchstone("check", "run.jsonl", "--baseline", "expected.csv").code == 0

    (tmp_path / "bench.py").write_text(BENCHMARKS.replace("1000", "2000"))
    ran = torchstone("accept", "run.jsonl", "--baseline", "expected.csv", "--repeat", "2", "--yes")
    assert ran.code == 2
    assert "bench.py has changed since the run" in ran.err
    assert "torchstone run" in ran.err


def run_in(path: Path) -> Run:
    return decode_run(str(path), path.read_text()).run


def counted_run(**values: int) -> str:
    """A run file such as 'torchstone run' writes, of counts."""
    outcomes = tuple(
        Outcome(Case(name, "instructions", "suite"), "pass", (Measurement(CALLS, (value,)),))
        for name, value in values.items()
    )
    settings = {"sources": {"suite": {"kind": "suite", "name": "smoke"}}, "counter": "python"}
    return encode_run(Run("run", tuple(o.case for o in outcomes), outcomes, settings=settings_from(settings)))


@pytest.mark.parametrize(
    ("repeat", "said"),
    [
        ("1", "too few to estimate a spread"),
        ("0", "expected a whole number from 1"),
        ("many", "expected a whole number from 1"),
    ],
)
def test_too_few_repeats_are_refused(repeat: str, said: str, torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", counted_run(a=1000))
    write("e.csv", f"a,{CALLS},1000,0.1\n")
    ran = torchstone("accept", "run.jsonl", "--baseline", "e.csv", "--repeat", repeat)
    assert ran.code == 2
    assert said in ran.err


def refused(torchstone: Command, *arguments: str) -> str:
    ran = torchstone("accept", *arguments, "--repeat", "3", "--yes")
    assert ran.code == 2
    return ran.err


def test_only_one_run_file_can_be_measured_again(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", counted_run(a=1000))
    write("r.csv", f"a,{CALLS},1000\n")
    write("e.csv", f"a,{CALLS},1000,0.1\n")
    for files in (["r.csv"], ["run.jsonl", "r.csv"]):
        assert "--repeat requires exactly one run file" in refused(torchstone, *files, "--baseline", "e.csv")
    assert "--set cannot be used with --repeat" in refused(
        torchstone, "run.jsonl", "--baseline", "e.csv", "--set", "mode=training"
    )


def test_a_run_that_was_not_measured_by_torchstone_cannot_be_measured_again(
    torchstone: Command, write: WriteFile
) -> None:
    outcome = Outcome(Case("a", "instructions"), "pass", (Measurement(CALLS, (1000,)),))
    write("run.jsonl", encode_run(Run("run", (outcome.case,), (outcome,))))
    write("e.csv", f"a,{CALLS},1000,0.1\n")
    assert "it was not measured by 'torchstone run'" in refused(
        torchstone, "run.jsonl", "--baseline", "e.csv"
    )


def test_a_baseline_without_margins_is_refused(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", counted_run(a=1000))
    write("r.csv", f"a,{CALLS},1000\n")
    said = refused(torchstone, "run.jsonl", "--baseline", "r.csv")
    assert "the format pr-time cannot hold the margins that --repeat finds" in said
    assert "pr-time-expected or run" in said


def test_where_nothing_is_counted_nothing_is_measured_again(torchstone: Command, write: WriteFile) -> None:
    write("run.jsonl", counted_run(a=1000))
    write("e.csv", f"b,{CALLS},1000,0.1\n")
    assert "nothing to measure again" in refused(torchstone, "run.jsonl", "--baseline", "e.csv")


def test_code_of_another_revision_is_not_measured_again(torchstone: Command, write: WriteFile) -> None:
    text = counted_run(a=1000).replace('"settings"', '"revision":{"commit":"0123456789abcdef"},"settings"', 1)
    write("run.jsonl", text)
    write("e.csv", f"a,{CALLS},1000,0.1\n")
    said = refused(torchstone, "run.jsonl", "--baseline", "e.csv")
    assert "was 0123456789ab" in said
