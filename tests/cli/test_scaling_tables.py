"""What the terminal says about scaling: a line for each round, a table for each benchmark, and which bucket size is best."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pexpect
import pytest

from scaling_samples import (
    LOST,
    MLP,
    STRAGGLER,
    bucket_rounds,
    round_case,
    round_failed,
    round_passed,
    run_of_rounds,
    scaling_run,
    sweep_of,
    times_of,
)
from torchstone.cli.terminal.run_summary import print_summary
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.reporting.dialects.case_label import Labels, round_words
from torchstone.reporting.run_text.case_lines import CaseLines, result_line
from torchstone.reporting.views.scaling_view import (
    conditions_of,
    find_bucket,
    format_part,
    format_peak,
    format_rate,
    format_time,
    format_times,
    interval_note,
    scaling_of,
)

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
SHOW = """
import sys
from torchstone.core.run_file import decode_run
from torchstone.cli.terminal.run_summary import print_summary
for path in sys.argv[1:]:
    print_summary(decode_run(path, open(path).read()).run, path, 1.0)
"""
FOUR = {"1": 0.061, "5": 0.0534, "25": 0.0512, "50": 0.0513}


def summary_of(run: Run, capsys: pytest.CaptureFixture[str]) -> str:
    print_summary(run, "run.jsonl", 16.0)
    return capsys.readouterr().out


def table_of(text: str, title: str) -> list[dict[str, str]]:
    """The lines of the table below a title, each by the heads of its columns."""
    lines = text.split(f"{title}\n", 1)[1].split("\n\n", maxsplit=1)[0].splitlines()
    heads = lines[0].split()
    starts = [lines[0].index(head) for head in heads]
    ends = [*starts[1:], None]
    return [
        {head: line[start:end].strip() for head, start, end in zip(heads, starts, ends, strict=True)}
        for line in lines[1:]
    ]


class TestLine:
    def test_it_says_what_the_round_is_and_its_numbers(self) -> None:
        ddp = sweep_of("mlp", {("none", 1): 0.0251, ("ddp", 2): 0.0290}, talk=22.0)[1]
        line = result_line(ddp)
        assert line == "pass mlp ddp 2 ranks  29.0 ms/iter, 2,208 ex/s, efficiency 86%, communication 22%"

    def test_without_efficiency_and_communication_it_has_the_rest(self) -> None:
        alone = round_passed(round_case("mlp", "none", 1), times_of(0.5, 1, iterations=1, noise=0))
        assert result_line(alone) == "pass mlp none 1 rank  500 ms/iter, 64.0 ex/s"

    def test_a_round_with_a_straggler_says_so(self) -> None:
        slow = sweep_of("mlp", {("none", 1): 0.1, ("ddp", 4): 0.1}, slow=(("ddp", 4),))[1]
        assert result_line(slow).endswith("communication 33%, slowest rank +34%")

    def test_a_failure_names_rank_and_host(self) -> None:
        failed = round_failed(round_case("mlp", "fsdp", 8))
        assert result_line(failed) == f"timeout: mlp fsdp 8 ranks: in run: {LOST}"

    def test_numbers_that_do_not_fit_follow_on_the_next_line(self) -> None:
        run = run_of_rounds(*sweep_of("mlp", MLP))
        lines, whole = CaseLines(run.plan, 60), CaseLines(run.plan)
        for outcome in run.outcomes[:-1]:
            shown = lines.of(outcome)
            assert max(map(len, shown.splitlines())) <= 60
            assert shown.split() == whole.of(outcome).split()

    def test_what_a_round_is_is_said_once(self) -> None:
        run = run_of_rounds(*bucket_rounds("mlp", FOUR), *sweep_of("mlp", {("none", 1): 0.1}))
        labels = Labels(run.plan)
        lines = [result_line(outcome, labels.of(outcome.case)) for outcome in run.outcomes]
        assert lines[0].startswith("pass mlp ddp 2 ranks 1 MB   ")
        assert lines[4].startswith("pass mlp none 1 rank        ")
        assert not any("gloo" in line or "ranks=" in line for line in lines)

    def test_bucket_sizes_are_named_where_they_alone_differ(self) -> None:
        run = run_of_rounds(*bucket_rounds("mlp", FOUR))
        labels = Labels(run.plan)
        assert result_line(run.outcomes[1], labels.of(run.outcomes[1].case)).startswith(
            "pass mlp ddp 2 ranks 5 MB   5"
        )

    @pytest.mark.parametrize("ranks", ["0 1", "x", "9" * 5000])
    def test_ranks_that_are_no_count_are_shown_as_they_are(self, ranks: str) -> None:
        case = Case("mlp", "scaling", variant=Variant(further=(("ranks", ranks), ("strategy", "ddp"))))
        assert round_words(case).startswith(f"ddp ranks {ranks[:80]}")
        assert result_line(Outcome(case, "pass")).startswith("pass mlp ddp ranks")

    def test_other_probes_are_no_rounds(self) -> None:
        assert round_words(Case("mlp", "performance", variant=Variant(further=(("ranks", "2"),)))) == ""


class TestRounds:
    def test_every_round_of_every_benchmark_has_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary_of(scaling_run(), capsys)
        mlp = table_of(text, "mlp: cpu, eager, float32, batch size 32 per rank, 25 MB buckets, gloo")
        assert [(line["strategy"], line["ranks"]) for line in mlp[: len(MLP)]] == [
            (strategy, str(ranks)) for strategy, ranks in MLP
        ]
        assert mlp[2] == {
            "strategy": "ddp",
            "ranks": "2",
            "p50": "29.0 ms",
            "p95": "29.4 ms",
            "ex/s": "2,208",
            "efficiency": "86%",
            "comm.": "11%",
            "peak": "320 MB",
        }
        assert mlp[7]["p50"] == "timeout"
        assert (
            len(table_of(text, "convnet: cpu, eager, float32, batch size 16 per rank, 25 MB buckets, gloo"))
            == 4
        )

    def test_stragglers_are_named_with_their_round(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary_of(scaling_run(), capsys)
        assert f"straggler: ddp on 4 ranks: {STRAGGLER}" in " ".join(text.split())
        assert text.count("straggler:") == 1

    def test_a_long_status_does_not_widen_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        failed = round_failed(round_case("mlp", "ddp", 8), "model_fail_to_load", "rank 0 on a: no")
        text = summary_of(run_of_rounds(*sweep_of("mlp", MLP)[:4], failed), capsys)
        line = next(line for line in text.splitlines() if line.startswith("ddp       8"))
        assert line.split() == ["ddp", "8", "failed"]
        assert "model_fail_to_load in run: rank 0 on a: no" in text

    def test_a_round_that_was_only_planned_is_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        outcomes = sweep_of("mlp", {("none", 1): 0.1, ("ddp", 2): 0.1})
        planned = round_case("mlp", "ddp", 4)
        run = Run("r", (*(outcome.case for outcome in outcomes), planned), tuple(outcomes))
        assert "ddp       4      no result" in summary_of(run, capsys)

    def test_other_probes_have_no_such_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        fast = Outcome(Case("a", "performance", "smoke"), "pass", (Measurement("speedup", (2.0,)),))
        text = summary_of(Run("r", (fast.case,), (fast,)), capsys)
        assert "ranks" not in text
        assert "efficiency" not in text

    def test_it_fits_a_terminal_of_80_columns(self, tmp_path: Path) -> None:
        runs = [
            scaling_run(),
            run_of_rounds(
                *bucket_rounds("large", {"25": 0.00123, "100": 12.3}, ranks=64, trials=3),
                round_failed(round_case("large", "ddp", 128), "worker_died"),
            ),
        ]
        for number, run in enumerate(runs):
            (tmp_path / f"{number}.jsonl").write_text(encode_run(run))
        shown = pexpect.run(
            f"{sys.executable} -c '{SHOW}' 0.jsonl 1.jsonl",
            cwd=str(tmp_path),
            env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"},
            encoding="utf-8",
        )
        text = ESCAPES.sub("", str(shown))
        lines = [line.rstrip() for line in text.splitlines() if "::" not in line]
        assert any(line.split() == ["ddp", "25", "MB", "128", "failed"] for line in lines)
        assert any(line.split()[:2] == ["ddp", "100"] for line in lines)
        assert [line for line in lines if len(line) > 80] == []
        assert not any(line.lstrip() in {"GB", "ms", "MB"} for line in lines)  # nothing is folded


class TestBuckets:
    def test_each_size_has_its_interval_and_how_many_times_the_best_it_is(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = summary_of(run_of_rounds(*bucket_rounds("mlp", FOUR, trials=3, noise=0.0005)), capsys)
        told = text.split("mlp: bucket sizes on 2 ranks\n")[1].splitlines()
        assert told[1].split()[:3] == ["1", "MB", "61.0"]
        assert told[1].endswith("slower")
        assert "to" in told[1]
        assert told[3].endswith("1.000x                   best")
        assert told[5].startswith("25 MB is fastest; 50 MB is as fast, within 1%")

    def test_each_number_of_ranks_has_a_table_and_each_collective_where_there_are_several(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        two, four = bucket_rounds("mlp", FOUR), bucket_rounds("mlp", FOUR, ranks=4)
        text = summary_of(run_of_rounds(*two, *four), capsys)
        assert "mlp: bucket sizes on 2 ranks\n" in text
        assert "mlp: bucket sizes on 4 ranks\n" in text
        other = [
            round_passed(round_case("mlp", "ddp", 2, bucket=bucket, collective="mpi"), times_of(0.1, 2))
            for bucket in FOUR
        ]
        text = summary_of(run_of_rounds(*two, *other), capsys)
        assert "mlp: bucket sizes on 2 ranks, gloo\n" in text
        assert "mlp: bucket sizes on 2 ranks, mpi\n" in text

    def test_a_size_that_failed_is_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = summary_of(run_of_rounds(*bucket_rounds("mlp", {"1": 0.0, "5": 0.2, "25": 0.1})), capsys)
        assert "\n1 MB    timeout\n" in text


def words_of(**given: object) -> tuple[str, str]:
    levels = given.pop("levels", FOUR)
    (shown,) = scaling_of(run_of_rounds(*bucket_rounds("mlp", levels, **given)))  # type: ignore[arg-type]
    (sweep,) = shown.buckets
    return str(find_bucket(sweep)), interval_note(sweep)


class TestWords:
    def test_what_cannot_be_told_apart_is_said_with_what_would_tell(self) -> None:
        words, note = words_of(trials=3)
        assert words == "25 MB is fastest; 5 and 50 MB are not clearly slower: use --trials 12 to find out"
        assert note == "95% intervals over 3 trials each; those of ratios hold for all sizes together"

    def test_what_is_certain_is_said_plainly(self) -> None:
        words, _ = words_of(levels={"1": 0.2, "25": 0.1}, trials=4)
        assert words == "25 MB is fastest"

    def test_of_one_job_each_nothing_is_certain(self) -> None:
        words, note = words_of(levels={"1": 0.2, "25": 0.1})
        assert words == (
            "25 MB is fastest; measured in one job each, and another may differ: use --trials 5 to find out"
        )
        assert "within one job each" in note

    def test_of_few_iterations_there_are_no_intervals(self) -> None:
        words, note = words_of(iterations=10)
        assert words == "25 MB is fastest; 1, 5 and 50 MB are not clearly slower: use --trials 5 to find out"
        assert note == "no intervals: they need 20 iterations, or --trials"

    def test_trials_that_would_not_help_are_not_advised(self) -> None:
        words, _ = words_of(levels={"25": 0.0512, "50": 0.0513}, trials=10, noise=0.05)
        assert words.endswith("not clearly slower: even 50 trials would not show a difference")

    def test_one_result_and_none_are_said(self) -> None:
        assert words_of(levels={"1": 0.0, "25": 0.1})[0] == "only 25 MB has a result"
        assert words_of(levels={"1": 0.0, "25": 0.0})[0] == "no bucket size has a result"

    def test_conditions_leave_out_what_all_share(self) -> None:
        (shown,) = scaling_of(run_of_rounds(*bucket_rounds("mlp", FOUR)))
        assert conditions_of(shown.sweep) == "cpu, eager, float32, batch size 32 per rank, gloo"
        assert conditions_of(shown.sweep, {"device", "dtype", "backend"}) == "batch size 32 per rank, gloo"


def test_numbers_have_as_many_digits_as_they_deserve() -> None:
    assert [format_time(seconds) for seconds in (0.0000123, 0.0512, 0.9999, 1.0, 59.96, 1234.5, None)] == [
        "0.0123 ms",
        "51.2 ms",
        "1.00 s",
        "1.00 s",
        "60.0 s",
        "1,234 s",
        "",
    ]
    assert format_times(0.0501, 0.0523) == "50.1 to 52.3 ms"
    assert format_times(0.95, 1.05) == "950 ms to 1.05 s"
    assert format_times(0.05, float("inf")) == "from 50.0 ms"
    assert [format_rate(rate) for rate in (0.5, 83.21, 99.97, 1250.4, 2.5e7, None)] == [
        "0.500",
        "83.2",
        "100",
        "1,250",
        "25M",
        "",
    ]
    assert [format_part(share) for share in (0.0, 4.46, 9.96, 83.4, 100.4, None)] == [
        "0.0%",
        "4.5%",
        "10%",
        "83%",
        "100%",
        "",
    ]
    assert [format_peak(peak) for peak in (0.3125, 12.0, None)] == ["312 MB", "12 GB", ""]
