"""What a run's summary says beyond its numbers: cautions, speedups that are badly known, and why cases failed."""

from __future__ import annotations

import pytest

from torchstone.cli.terminal.run_summary import print_summary
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, recorded
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.reporting.run_text.case_lines import result_line

FEW = "only {} pairs of calls were timed: too few for an interval"
AGAIN = "it was recompiled while it was timed, so some samples include compile time"
ADDRESS = "https://github.com/pytorch/benchmark/blob/main/" + "deep/" * 8 + "README.md"


def timed(name: str, *cautions: Caution | str, interval: tuple[float, float] | None = None) -> Outcome:
    told = tuple(each if isinstance(each, Caution) else recorded(each) for each in cautions)
    measured = (Measurement("speedup", (2.0,), MeasurementDetails(interval=interval)),)
    return Outcome(Case(name, "performance"), "pass", measured, cautions=told)


def failed(message: str, status: str = "fail_to_run", phase: str = "compile") -> Outcome:
    return Outcome(Case("m", "performance"), status, (), Failure(phase, message))


def summary(capsys: pytest.CaptureFixture[str], *outcomes: Outcome) -> str:
    print_summary(Run("r", tuple(each.case for each in outcomes), outcomes), "run.jsonl", 1.0)
    return capsys.readouterr().out


def cautions_of(text: str) -> list[str]:
    return text.partition("cautions:\n")[2].partition("\n\n")[0].splitlines()


class TestCautions:
    def test_each_is_told_once_with_its_cases(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary(capsys, *(timed(name, AGAIN) for name in "ab"), timed("c", "odd"), timed("d"))
        assert " ".join(cautions_of(text)).split() == f"- {AGAIN} (2 cases: a, b) - odd (1 case: c)".split()

    def test_those_that_differ_only_in_a_count_are_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        counts = zip("abcde", (7, 5, 19, 5, 6), strict=True)
        told = [timed(name, make_caution(CautionKind.FEW_PAIRS, pairs=count)) for name, count in counts]
        text = " ".join(" ".join(cautions_of(summary(capsys, *told))).split())
        assert text == f"- {FEW.format('5 to 19')} (5 cases: a, b, c, ...)"

    def test_they_take_few_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines = cautions_of(summary(capsys, *(timed(f"m{n}", f"{chr(97 + n)} " * 90) for n in range(20))))
        assert len(lines) <= 9
        assert lines[-1].endswith("more: torchstone show run.jsonl")

    def test_their_advice_is_whole_and_not_what_is_already_so(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = [
            timed(name, make_caution(CautionKind.BUSY_MACHINE, rate=rate, share=share, threads=1))
            for name, rate, share in (("a", 1234.5, 0.61), ("b", 999.0, 0.73))
        ]
        text = " ".join(" ".join(cautions_of(summary(capsys, *told))).split())
        assert text.startswith(
            "- other work took the processor away 999 to 1,234 times a second, for 61 to 73% of the time"
        )
        assert text.endswith("; stop that work (2 cases: a, b)")

    def test_cases_of_one_name_are_told_apart(self, capsys: pytest.CaptureFixture[str]) -> None:
        cases = [Case("a", "performance", variant=Variant(dtype=dtype)) for dtype in ("float32", "bfloat16")]
        told = [Outcome(case, "pass", cautions=(recorded(AGAIN),)) for case in cases]
        assert "(2 cases: a (dtype float32), a (dtype bfloat16))" in " ".join(summary(capsys, *told).split())

    def test_none_can_disturb_the_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary(capsys, timed("a\x1b[2J", "\x1b]0;title\x07\nline"))
        assert not {"\x1b", "\x07"} & set(text)

    def test_where_there_are_none_nothing_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "caution" not in summary(capsys, timed("a"))


class TestPrecision:
    def test_speedups_without_an_interval_or_with_a_wide_one_are_counted(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = summary(
            capsys, timed("a"), timed("b", interval=(1.7, 2.3)), timed("c", interval=(1.9, 2.1)), failed("no")
        )
        assert "\n2 of 3 speedups are not known to within 10 %: see --budget and --repeat\n" in text

    def test_what_is_hardly_known_makes_no_mean_and_the_mean_has_its_interval(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        wide = timed("b", interval=(1.4, 2.5))
        text = summary(capsys, timed("a", interval=(1.9, 2.1)), wide, timed("c", interval=(1.96, 2.04)))
        assert "2.00x (1.95 to 2.05) of 2" in " ".join(text.split())
        assert (
            "1 of 3 speedups is not known to within 10 %: see --budget and --repeat. 1 is left out of the mean, "
            "because its interval is wider than 50 %: b"
        ) in " ".join(text.split())
        text = summary(capsys, wide, timed("d", interval=(0.1, 9.0)))
        assert "2 are left out of the mean, because their intervals are wider than 50 %: b, d" in " ".join(
            text.split()
        )
        assert "2.0" not in text

    def test_where_all_are_known_nothing_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "not known" not in summary(capsys, timed("c", interval=(1.9, 2.1)))
        assert "not known" not in summary(capsys, failed("no"))


TVM = "BackendCompilerFailed: backend='tvm' raised:\nModuleNotFoundError: No module named 'tvm'\n\nSet TORCHDYNAMO_VERBOSE=1"


class TestReasons:
    def test_the_line_of_a_case_has_the_line_that_says_why(self) -> None:
        assert result_line(failed(TVM)) == (
            "fail_to_run: m perf: in compile: BackendCompilerFailed: backend='tvm' raised: "
            "ModuleNotFoundError: No module named 'tvm' Set TORCHDYNAMO_VERBOSE=1"
        )

    def test_a_long_one_is_cut_at_its_end(self) -> None:
        reason = result_line(failed("x" * 1000)).partition("perf: ")[2]
        assert reason.startswith("in compile: xxx")
        assert reason.endswith("x…")
        assert len(reason) == 160

    def test_an_address_is_there_as_a_whole_or_not_at_all(self) -> None:
        assert f"see {ADDRESS} …" in result_line(failed(f"see {ADDRESS} {'x' * 99}"))
        line = result_line(failed(f"{'some words ' * 10}see {ADDRESS}"))
        assert line.endswith("some words see …")

    def test_after_the_table_the_first_lines_stand_one_below_the_other(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert (
            "  fail_to_run in compile: BackendCompilerFailed: backend='tvm' raised:\n"
            "    ModuleNotFoundError: No module named 'tvm'\n"
            "    Set TORCHDYNAMO_VERBOSE=1\n"
        ) in summary(capsys, failed(TVM))

    def test_what_several_cases_say_is_said_once_below_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        cases = [Case(name, "accuracy") for name in "abc"]
        told = zip(cases, ("no", "other", "no"), strict=True)
        text = summary(capsys, *(Outcome(c, "fail_to_run", (), Failure("run", why)) for c, why in told))
        reasons = ["  fail_to_run in run: no", "  fail_to_run in run: other"]
        expected = ["a::accuracy", "c::accuracy", reasons[0], "b::accuracy", reasons[1]]
        assert "\n".join(["", *expected, ""]) in text

    def test_an_address_stays_in_one_piece(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary(capsys, failed(f"{'it is not installed ' * 4}: clone {ADDRESS} and install it"))
        assert ADDRESS in text
        assert "and install it" in text

    def test_of_many_lines_the_first_are_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary(capsys, failed("\n".join(f"line {n}" for n in range(1, 100))))
        assert "line 5\n    …\n" in text
        assert "line 6" not in text
        text = summary(capsys, failed("word " * 1000))
        assert 500 < text.count("word") * 5 <= 600

    def test_one_without_words_is_no_trouble(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "  worker_died\n" in summary(capsys, failed("", "worker_died", ""))

    def test_none_can_disturb_the_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary(capsys, failed("\x1b[2J\r\x07\nnext\x1b"))
        assert not {"\x1b", "\r", "\x07"} & set(text)
