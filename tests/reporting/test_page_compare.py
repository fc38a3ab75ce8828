"""The page of a comparison: the verdict, then changed rows with the trials of both sides on one axis, then the rest."""

from __future__ import annotations

import math
import re
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from page_samples import MARKUP
from test_page import Seen, expect_harmless

import torchstone as public
from comparison_files import case_of, counts, failed, passed, times, write_run
from conftest import Command
from scaling_samples import ddp_report
from torchstone.analyze.evidence import WELCH, Comparison, Evidence
from torchstone.core.records import Measurement, Outcome
from torchstone.core.text.units import format_value
from torchstone.core.vocabulary import METRICS, Verdict
from torchstone.gate.blocking_policy import comparison_policy
from torchstone.gate.criteria import Criteria
from torchstone.gate.judgement import Judgement, Overview, Row, Ruling
from torchstone.reporting.html.comparison_page import render_html
from torchstone.reporting.svg.drawing import Scale, write_ticks
from torchstone.reporting.svg.strip_plot import (
    LARGEST,
    SMALLEST,
    TrialStrip,
    draw_strip,
    format_ticks,
    strip_axis,
)
from torchstone.reporting.views.comparison.comparison_view import MOST_ROWS
from torchstone.reporting.views.comparison_rows import CompareReport

LATENCY = "abs_latency"


def row(
    name: str,
    verdict: Verdict,
    ratio: float,
    interval: tuple[float, float],
    *,
    blocks: bool = False,
    margin: float = 0.02,
    trials: tuple[float, ...] = (9.9, 10.0, 10.1),
) -> Row:
    """A judged latency, with a base of about 10 ms."""
    base = Evidence(trials, 3 * len(trials))
    new = Evidence(tuple(each * ratio for each in trials), 3 * len(trials))
    found = Comparison(base, new, WELCH, ratio, *interval)
    return Row(
        Ruling(verdict, blocks),
        case_of(name),
        LATENCY,
        passed(name),
        passed(name),
        comparison=found,
        criteria=Criteria(margin, better="lower"),
    )


def page_of(*rows: Row, command: str = "compare") -> str:
    judgement = Judgement(comparison_policy(), list(rows), [], overview=Overview(0.01, len(rows)))
    return render_html(CompareReport(judgement, ("base.jsonl",), ("new.jsonl",), command=command))


def tone_of(html: str) -> str:
    found = re.search(r'<h1(?: class="tone (\w+)")?>', html)
    assert found
    return found[1] or ""


def lines_of(html: str) -> dict[str, str]:
    """The markup of each row, by the name of its case."""
    found = re.findall(r'<li><div class="what">.*?(?=<li><div class="what">|</section>)', html, re.DOTALL)
    return {unescape(re.findall(r"<strong>(.*?)</strong>", line)[0]): line for line in found}


def centers(line: str, kind: str) -> list[float]:
    """The places of the trials of a side, or of the effect, in percent."""
    group = re.findall(rf'<g class="{kind}">(.*?)</g>', line) or re.findall(
        rf'<circle [^>]*class="{kind}"/>', line
    )
    return [float(place) for each in group for place in re.findall(r'cx="([\d.]+)%"', each)]


class TestPictures:
    def test_slower_lies_to_the_right_of_the_base_and_faster_to_the_left_each_in_its_color(self) -> None:
        lines = lines_of(
            page_of(
                row("slow", Verdict.REGRESSION, 1.2, (1.15, 1.25), blocks=True),
                row("fast", Verdict.IMPROVEMENT, 0.8, (0.75, 0.85)),
                row("alike", Verdict.SAME, 1.001, (0.99, 1.01)),
            )
        )
        assert {name: re.findall(r'class="strips (\w+)"', line) for name, line in lines.items()} == {
            "slow": ["down"],
            "fast": ["up"],
            "alike": ["even"],
        }
        assert max(centers(lines["slow"], "base-trials")) < min(centers(lines["slow"], "new-trials"))
        assert min(centers(lines["fast"], "base-trials")) > max(centers(lines["fast"], "new-trials"))
        assert all(len(centers(line, "base-trials")) == 3 for line in lines.values())

    def test_both_sides_the_margin_and_the_interval_are_on_one_axis_in_the_unit_of_the_metric(self) -> None:
        strip = TrialStrip((10.0, 10.2), (11.0, 11.4), 10.1, "ms", (9.9, 10.3), 11.2, (10.8, 11.6))
        scale, texts = strip_axis(strip)
        assert (scale.low, scale.high) == (9.9, 11.6)
        assert texts == ["10.0 ms", "10.5 ms", "11.0 ms", "11.5 ms"]
        drawn = draw_strip(strip, "down")
        assert centers(drawn, "new-trials") == pytest.approx([scale.at(11.0), scale.at(11.4)], abs=0.01)
        band = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"', drawn)[0]
        assert float(band[0]) == pytest.approx(scale.at(9.9), abs=0.01)
        assert float(band[1]) == pytest.approx(scale.at(10.3) - scale.at(9.9), abs=0.01)
        ends = re.findall(r'<line x1="([\d.]+)%" x2="([\d.]+)%"[^>]*class="interval"', drawn)[0]
        assert [float(end) for end in ends] == pytest.approx([scale.at(10.8), scale.at(11.6)], abs=0.01)

    def test_an_interval_that_would_flatten_the_trials_is_cut_off_with_arrows(self) -> None:
        strip = TrialStrip((1.0, 1.1), (1.2, 1.3), 1.05, "ms", None, 1.25, (1e-6, 1e6))
        scale, texts = strip_axis(strip)
        assert 0.5 < scale.low < 1.0
        assert 1.3 < scale.high < 2.0
        assert len(texts) >= 2, "there are ticks where the data is"
        assert draw_strip(strip, "even").count('class="beyond"') == 2

    def test_a_label_at_the_edge_is_aligned_with_it_and_one_that_would_touch_another_is_left_out(
        self,
    ) -> None:
        scale = Scale(1.0, 10.0, True, (1.0, 1.1, 3.0, 10.0))
        labels = write_ticks(scale, ["1.0 ms", "1.1 ms", "3.0 ms", "10.0 ms"], 12)
        found = [re.findall(r'text-anchor="(\w+)">(.*?)<', each)[0] for each in labels]
        assert found == [("start", "1.0 ms"), ("middle", "3.0 ms"), ("end", "10.0 ms")]

    def test_counts_have_whole_ticks(self) -> None:
        for new, ticks in ((1.0, ["0", "1"]), (3.0, ["0", "1", "2", "3"]), (7.0, ["0", "2", "4", "6"])):
            assert strip_axis(TrialStrip((0.0,), (new,), 0.0))[1] == ticks
        assert strip_axis(TrialStrip((0.0,), (1.0,), 0.0, "ms"))[1] == ["0.0 ms", "0.5 ms", "1.0 ms"]
        assert strip_axis(TrialStrip((0.5,), (1.5,), 0.5))[1] == ["0.5", "1.0", "1.5"]

    def test_no_two_ticks_read_alike(self) -> None:
        assert format_ticks([100.001, 100.002], 0.001, "ms") == ["100.001 ms", "100.002 ms"]

    @given(
        st.lists(st.floats(SMALLEST, LARGEST), min_size=1, max_size=4),
        st.lists(st.floats(SMALLEST, LARGEST), min_size=1, max_size=4),
        st.floats(0, 1e308),
        st.floats(0, 1e308),
    )
    @settings(deadline=None)
    def test_every_trial_is_on_the_axis_and_every_tick_too(
        self, base: list[float], new: list[float], one: float, other: float
    ) -> None:
        ends = min(one, other), max(one, other)
        strip = TrialStrip(tuple(base), tuple(new), base[0], "ms", None, new[0], ends)
        scale, texts = strip_axis(strip)
        assert all(scale.low <= each <= scale.high for each in (*base, *new))
        assert all(scale.low * (1 - 1e-9) <= tick <= scale.high * (1 + 1e-9) for tick in scale.ticks)
        assert len(texts) == len(scale.ticks) <= 4
        Seen(draw_strip(strip, "even"))


class TestOrderAndHeadline:
    def test_what_blocks_comes_first_then_changes_then_what_is_undecided_then_the_rest(self) -> None:
        html = page_of(
            row("alike", Verdict.SAME, 1.0, (0.99, 1.01)),
            row("better", Verdict.IMPROVEMENT, 0.8, (0.75, 0.85)),
            row("open", Verdict.INCONCLUSIVE, 1.01, (0.9, 1.1)),
            row("worse", Verdict.REGRESSION, 1.3, (1.2, 1.4), blocks=True),
        )
        assert list(lines_of(html)) == ["worse", "better", "open", "alike"]
        assert re.findall(r"<h2[^>]*>(.*?)</h2>", html) == ["Changed: 2", "Undecided: 1", "Unchanged: 1"]

    def test_a_page_that_fails_says_so_in_red_and_an_undecided_one_is_not_green(self) -> None:
        worse = row("worse", Verdict.REGRESSION, 1.3, (1.2, 1.4), blocks=True)
        unknown = row("open", Verdict.INCONCLUSIVE, 1.01, (0.9, 1.1))
        alike = row("alike", Verdict.SAME, 1.0, (0.99, 1.01))
        assert tone_of(page_of(worse, unknown, alike)) == "bad"
        assert tone_of(page_of(unknown, alike)) == "open"
        blocking = structs.replace(unknown, ruling=Ruling(Verdict.INCONCLUSIVE, blocks=True))
        assert tone_of(page_of(blocking, alike)) == "open"
        assert tone_of(page_of(alike)) == "good"

    def test_the_headline_is_that_of_every_other_report(self) -> None:
        html = page_of(row("worse", Verdict.REGRESSION, 1.3, (1.2, 1.4), blocks=True))
        assert "FAIL: 1 regression of 1 row in 1 common case" in re.findall(r"<h1.*?</h1>", html)[0]

    def test_an_effect_with_a_wide_interval_is_marked_and_one_with_a_narrow_one_is_not(self) -> None:
        lines = lines_of(
            page_of(
                row("wide", Verdict.INCONCLUSIVE, 0.5, (0.2, 0.9)),
                row("endless", Verdict.INCONCLUSIVE, 1.1, (0.0, math.inf)),
                row("narrow", Verdict.INCONCLUSIVE, 1.0, (0.9, 1.1)),
            )
        )
        for name in ("wide", "endless"):
            assert ">uncertain<" in lines[name]
            assert "<b>" not in lines[name]
        assert 'class="strips even wide"' in lines["wide"]
        assert "uncertain" not in lines["narrow"]
        assert "<b>+0.0%</b>" in lines["narrow"]

    def test_of_very_many_rows_those_that_changed_are_kept_and_the_others_counted(self) -> None:
        many = MOST_ROWS + 500
        verdicts = [Verdict.REGRESSION if n % 1_000 == 999 else Verdict.SAME for n in range(many)]
        rows = [row(f"m{n}", verdict, 1.01, (1.0, 1.02)) for n, verdict in enumerate(verdicts)]
        html = page_of(*rows)
        shown = lines_of(html)
        assert len(shown) == MOST_ROWS
        assert {"m999", "m1999"} <= set(shown)
        assert "500 more rows are not on this page." in Seen(html).text
        assert "torchstone compare base.jsonl new.jsonl --format json" in Seen(html).text


SLOWER = [passed("slow", times(12.0, seed=2)), passed("alike", times(5.0, seed=3)), failed("ends")]
BEFORE = [
    passed("slow", times(10.0, seed=1)),
    passed("alike", times(5.0, seed=4)),
    passed("ends", times(3.0)),
]


class TestCommand:
    def test_a_page_is_written_where_its_name_asks_for_one_and_the_text_report_is_printed(
        self, torchstone: Command, tmp_path: Path
    ) -> None:
        files = write_run(tmp_path, "base.jsonl", BEFORE), write_run(tmp_path, "new.jsonl", SLOWER)
        ran = torchstone("compare", *files, "-o", "page.html")
        html = (tmp_path / "page.html").read_text()
        assert ran.code == 1
        assert ran.out.startswith("FAIL: 2 regressions")
        assert ran.out.splitlines()[0][:40] in html
        assert tone_of(html) == "bad"
        seen = expect_harmless(html)
        for told in ("slow", "alike", "ends", "timeout", "ended after 30 s", "base.jsonl", "new.jsonl"):
            assert told in seen.text
        printed = torchstone("compare", *files, "--format", "html")
        assert printed.out == html
        torchstone("compare", *files, "--report", "html=other.html", "-o", "told.txt")
        assert (tmp_path / "other.html").read_text() == html
        assert (tmp_path / "told.txt").read_text().startswith("FAIL")

    def test_several_files_of_a_side_are_one_strip(self, torchstone: Command, tmp_path: Path) -> None:
        for name, level, seed in (("a1", 10, 1), ("a2", 10, 2), ("b1", 13, 3), ("b2", 13, 4)):
            write_run(tmp_path, f"{name}.jsonl", [passed("m", times(level, 3, seed=seed))])
        torchstone(
            *("compare", "a1.jsonl", "b1.jsonl", "--base", "a2.jsonl", "--new", "b2.jsonl", "-o", "page.html")
        )
        html = (tmp_path / "page.html").read_text()
        assert "base files a1.jsonl, a2.jsonl" in Seen(html).text
        line = lines_of(html)["m"]
        assert (len(centers(line, "base-trials")), len(centers(line, "new-trials"))) == (6, 6)

    def test_differences_of_the_environment_and_cautions_are_above_the_rows(
        self, torchstone: Command, tmp_path: Path
    ) -> None:
        for name, version in (("base", "2.12.0"), ("new", "2.13.0")):
            facts = {"versions": {"torch": version}}
            write_run(
                tmp_path,
                f"{name}.jsonl",
                [passed("m", times(5), *([counts("graph_breaks", 1)] if name == "new" else []))],
                environment=facts,
            )
        torchstone("compare", "base.jsonl", "new.jsonl", "-o", "page.html")
        html = (tmp_path / "page.html").read_text()
        alerts = [Seen(each).text for each in re.findall(r'<div class="alert">.*?</div>', html)]
        assert any("2.12.0" in each and "2.13.0" in each for each in alerts)
        assert any("graph_breaks" in each for each in alerts), "only NEW has it"
        assert html.index('class="alert"') < html.index('class="compared"')

    def test_python_returns_and_writes_the_page_that_the_command_writes(
        self, torchstone: Command, tmp_path: Path
    ) -> None:
        files = write_run(tmp_path, "base.jsonl", BEFORE), write_run(tmp_path, "new.jsonl", SLOWER)
        torchstone("compare", *files, "-o", "page.html")
        result = public.compare(*files)
        result.write(tmp_path / "mine.html")
        assert (tmp_path / "mine.html").read_text() == result.html == (tmp_path / "page.html").read_text()

    @pytest.mark.parametrize(
        ("command", "told"),
        [
            (("compare", "gone.jsonl", "gone2.jsonl", "-o", "nowhere/page.html"), "nowhere"),
            (
                ("compare", "gone.jsonl", "gone2.jsonl", "--format", "markdown", "-o", "p.html"),
                "not an HTML page",
            ),
            (("compare", "gone.jsonl", "gone2.jsonl", "--report", "json=p.HTM"), "not an HTML page"),
            (
                ("check", "gone.jsonl", "--baseline", "gone2.jsonl", "-o", "p.html"),
                "'torchstone report' writes",
            ),
            (("check", "gone.jsonl", "--baseline", "gone2.jsonl", "--format", "html"), "--format"),
            (
                ("ab", "gone.py", "--b", "mode=default", "--format", "json", "-o", "p.html"),
                "not an HTML page",
            ),
        ],
    )
    def test_a_bad_output_is_refused_before_any_file_is_read(
        self, command: tuple[str, ...], told: str, torchstone: Command, tmp_path: Path
    ) -> None:
        ran = torchstone(*command)
        assert ran.code == 2
        assert told in ran.err
        assert "gone" not in ran.err
        assert list(tmp_path.iterdir()) == []

    def test_two_ddp_reports_have_their_rounds_on_the_page(self, torchstone: Command, tmp_path: Path) -> None:
        (tmp_path / "base.json").write_text(ddp_report())
        (tmp_path / "new.json").write_text(ddp_report())
        torchstone("compare", "base.json", "new.json", "--policy", "upstream", "-o", "page.html")
        text = Seen((tmp_path / "page.html").read_text()).text
        assert "75th percentile" in text
        assert "mlp" in text


@st.composite
def outcomes(draw: st.DrawFn) -> list[tuple[Outcome, Outcome]]:
    """Cases of two sides whose names are markup, with times, counts and failures of any kind."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        name = f"m{number} {draw(st.sampled_from(MARKUP))}"
        sides = []
        for _ in range(2):
            trials = draw(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=4))
            if draw(st.integers(0, 5)) == 0:
                sides.append(failed(name, message=f"{draw(st.sampled_from(MARKUP))} was said"))
            else:
                timed = structs.replace(times(1, len(trials), samples=1), samples=tuple(trials))
                found_counts = Measurement("graph_breaks", (draw(st.integers(0, 3)),))
                sides.append(passed(name, timed, found_counts))
        found.append((sides[0], sides[1]))
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(outcomes())
def test_whatever_was_compared_is_on_the_page_with_its_verdict_and_both_values(
    tmp_path: Path, pairs: list[tuple[Outcome, Outcome]]
) -> None:
    for side, name in enumerate(("base.jsonl", "new.jsonl")):
        write_run(tmp_path, name, [each[side] for each in pairs])
    result = public.compare(tmp_path / "base.jsonl", tmp_path / "new.jsonl")
    html = result.html
    text = expect_harmless(html).text
    assert result.headline in text
    for each in result.rows:
        assert each.case.benchmark in text
        for value in (each.base_value, each.new_value):
            unit = METRICS[each.metric].unit if each.metric in METRICS else ""
            assert format_value(value, unit) in text
        assert each.verdict.value in text
        assert each.detail in text
    verdicts = re.findall(r'<li><span class="badge \w+">(\w+)</span> (\d+)</li>', html)
    assert {name: int(number) for name, number in verdicts} == result.report.summary
    strips = [each for each in result.rows if each.ratio not in {None, 1.0}]
    assert html.count('class="strips') >= len(strips)
