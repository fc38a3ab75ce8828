"""The page about scaling: lines over ranks, both runs, the rounds and their ranks, bucket sizes; and all of it in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from page_samples import ATTACK, MARKUP, sample_run
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from test_page import Seen, expect_harmless, hostile_runs, html_of
from test_page_browser import CONTRASTS, QUIETLY, focused

from conftest import Command, WriteFile
from record_strategies import JSON_VALUES, ddp_runs
from scaling_samples import (
    CONVNET,
    LOST,
    MLP,
    STRAGGLER,
    base_run,
    ddp_report,
    round_case,
    round_failed,
    round_passed,
    run_of_rounds,
    scaling_run,
    sweep_of,
    times_of,
)
from stated_facts import with_facts
from torchstone.core.records import Measurement, Outcome, Reading, Run
from torchstone.core.run_file import encode_run
from torchstone.formats.merge import merge
from torchstone.formats.torch import ddp
from torchstone.reporting.html.page import render_page
from torchstone.reporting.html.scaling_details import MOST_RANKS
from torchstone.reporting.html.scaling_section import MOST_SWEEPS, OPEN_TABLES
from torchstone.reporting.svg.line_chart import rank_scale, rate_scale, share_scale
from torchstone.reporting.views.page_view import make_page
from torchstone.reporting.views.scaling_view import format_time, read_ranks, scaling_figures, scaling_of

expect.set_options(timeout=30_000)  # a busy machine may take longer than the usual five seconds

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


def reading_of(run: Run, path: str = "run.jsonl") -> Reading:
    return Reading(path, "run", run, range(2, 2 + len(run.outcomes)))


def beside(run: Run, *baselines: Reading) -> str:
    """The page of a run beside baselines, without what the gate says."""
    return render_page(make_page(merge([reading_of(run)]), None, baselines))


def section_of(html: str) -> str:
    found = re.search(r'<section><h2 id="scaling">.*?</section>', html, re.DOTALL)
    return found[0] if found else ""


def tables_of(html: str, label: str) -> list[list[str]]:
    """The lines of the table with this label, each as the texts of its cells."""
    region = re.search(rf'aria-label="{re.escape(label)}".*?</table>', html, re.DOTALL)
    assert region
    lines = re.findall(r"<tr>(.*?)</tr>", region[0], re.DOTALL)
    return [
        [Seen(cell).text for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.DOTALL)]
        for line in lines
    ]


@pytest.fixture(scope="module")
def html() -> str:
    return beside(scaling_run(), reading_of(base_run(), "old/before.jsonl"))


@pytest.fixture(scope="module")
def seen(html: str) -> Seen:
    return Seen(section_of(html))


class TestSection:
    def test_it_is_there_only_where_scaling_was_measured(self, html: str) -> None:
        assert section_of(html)
        assert 'href="#scaling"' in html
        other = html_of(sample_run())
        assert not section_of(other)
        assert 'href="#scaling"' not in other

    def test_every_round_has_its_numbers_and_leads_to_its_case(self, html: str) -> None:
        head, *lines = tables_of(html, "Rounds of mlp")
        assert head == ["round", "ranks", "p50", "p95", "examples/s", "efficiency", "communication", "slowest rank", "peak"]  # fmt: skip
        assert [(line[0], line[1]) for line in lines] == [(strategy, str(ranks)) for strategy, ranks in MLP]
        assert lines[3][:3] == ["ddp", "4", "34.4 ms"]
        assert lines[3][6:] == ["33%", "+34%", "340 MB"]
        anchors = re.findall(r'<th scope="row"><a href="#([^"]+)"', section_of(html))
        assert len(anchors) == len(scaling_run().outcomes)
        assert all(f'id="{anchor}"' in html for anchor in anchors)

    def test_a_round_that_failed_says_how_and_why(self, html: str) -> None:
        line = tables_of(html, "Rounds of mlp")[-1]
        assert line[:2] == ["fsdp", "8"]
        assert line[2] == f"\u2717\u00a0timeout {LOST}"

    def test_a_column_that_would_be_empty_is_left_out(self, html: str) -> None:
        assert "efficiency" not in tables_of(html, "Rounds of transformer")[0]

    def test_a_round_that_was_only_planned_has_no_result(self) -> None:
        outcomes = sweep_of("mlp", {("none", 1): 0.1, ("ddp", 2): 0.1})
        planned = round_case("mlp", "ddp", 4)
        run = Run("r", (*(outcome.case for outcome in outcomes), planned), tuple(outcomes))
        assert tables_of(html_of(run), "Rounds of mlp")[-1] == ["ddp", "4", "?\u00a0no result "]

    def test_ranks_are_there_one_by_one(self, html: str) -> None:
        head, *lines = tables_of(html, "Ranks of mlp")
        assert head == ["round", "rank", "host", "device", "p50", "own work", "communication", "peak"]
        assert len(lines) == sum(ranks for (_, ranks), level in MLP.items() if level)
        assert ["ddp, 4 ranks", "3", "b", "cpu", "34.4 ms", "23.1 ms", "33%", "340 MB"] in lines

    def test_of_several_trials_it_is_said_that_ranks_speak_of_the_first(self, html: str) -> None:
        assert html.count("<summary>By rank</summary>") == 2
        assert html.count("<summary>By rank, first trial</summary>") == 1  # transformer

    def test_rounds_of_one_rank_need_no_table_of_ranks(self) -> None:
        html = html_of(run_of_rounds(*sweep_of("mlp", {("none", 1): 0.1, ("ddp", 1): 0.11})))
        assert "Rounds of mlp" in html
        assert "By rank" not in html

    def test_stragglers_are_named(self, seen: Seen) -> None:
        assert f"Straggler with ddp on 4 ranks: {STRAGGLER}" in seen.text

    def test_bucket_sizes_have_intervals_and_the_fastest_is_named(self, html: str, seen: Seen) -> None:
        assert (
            "25 MB is fastest; 5 and 50 MB are not clearly slower: use --trials 12 to find out." in seen.text
        )
        lines = tables_of(html, "Bucket sizes on 2 ranks with gloo of transformer")[1:]
        assert [line[0] for line in lines] == ["1 MB", "5 MB", "25 MB", "50 MB"]
        assert [line[-1] for line in lines] == ["slower", "not clearly slower", "fastest", "not clearly slower"]  # fmt: skip
        assert lines[0][1:5] == ["60.7 ms", "58.7 to 62.7 ms", "1.191x", "1.144 to 1.241x"]

    def test_the_whole_is_one_number_in_the_summary(self, html: str) -> None:
        assert "efficiency of mlp with ddp on 8 ranks" in Seen(html).text
        assert scaling_figures(scaling_of(scaling_run())) == (
            "58%",
            ["efficiency of mlp with ddp on 8 ranks", "the lowest of 2 benchmarks, each on its most ranks"],
        )
        assert scaling_figures(scaling_of(run_of_rounds(*sweep_of("mlp", {("none", 1): 0.1})))) == ("", [])

    def test_of_many_benchmarks_tables_are_folded_and_the_last_are_left_to_the_table_of_cases(self) -> None:
        def page(number: int) -> str:
            two = {("none", 1): 0.1, ("ddp", 2): 0.11}
            sweeps = (sweep_of(f"model{each}", two) for each in range(number))
            return section_of(html_of(run_of_rounds(*(outcome for sweep in sweeps for outcome in sweep))))

        assert "<summary>Rounds</summary>" not in page(OPEN_TABLES)
        assert page(OPEN_TABLES + 1).count("<summary>Rounds</summary>") == OPEN_TABLES + 1
        many = page(MOST_SWEEPS + 3)
        assert "3 more are in the table of all cases." in many
        assert many.count('class="sweep"') == MOST_SWEEPS

    def test_of_very_many_ranks_some_are_left_to_their_cases(self) -> None:
        case = round_case("mlp", "ddp", 1000)
        html = html_of(run_of_rounds(round_passed(case, times_of(0.1, 1000, iterations=1))))
        assert len(tables_of(html, "Ranks of mlp")) == MOST_RANKS + 1
        assert "700 more are listed with their cases." in html


class TestPictures:
    def test_there_are_two_for_each_benchmark_on_several_numbers_of_ranks(self, html: str) -> None:
        section = section_of(html)
        assert section.count('class="lines"') == 4  # transformer was measured on two ranks only
        assert section.count("<figcaption>Examples per second") == 2
        assert section.count("<figcaption>Efficiency") == 2

    def test_every_measured_round_is_a_mark_and_every_failed_one_a_cross(self, html: str) -> None:
        section = section_of(html)
        told = re.findall(r"<title>([^<]+)</title>", section)
        ours = [text for text in told if "before.jsonl" not in text]
        measured = sum(bool(level) for level in (*MLP.values(), *CONVNET.values()))
        assert sum("examples per second" in text for text in ours) == measured
        assert sum("efficiency" in text for text in ours) == measured
        assert ours.count("fsdp on 8 ranks: timeout") == 2
        assert section.count('class="failed"') == 2

    def test_a_baseline_is_drawn_dashed_and_named_in_the_legend(self, html: str, seen: Seen) -> None:
        section = section_of(html)
        assert re.search(r'<li class="run-name">.*?run\.jsonl</li>', section)
        assert re.search(r'<li class="base-name">.*?before\.jsonl</li>', section)
        assert "fsdp on 8 ranks: 2,8" in seen.text  # failed now, and was measured before
        assert section.count('<g class="line1 base base1">') == 2

    def test_without_a_baseline_no_file_is_named(self) -> None:
        section = section_of(html_of(scaling_run()))
        assert "run-name" not in section
        assert "base-name" not in section
        assert "ideal" in section

    def test_what_was_is_said_beside_what_is(self, html: str) -> None:
        line = tables_of(html, "Rounds of mlp")[5]
        assert line[4] == "5,905was 4,403 (+34.1%)"
        assert line[5] == "58%was 43%"

    def test_another_batch_size_is_not_set_beside(self, html: str, seen: Seen) -> None:
        assert "before.jsonl has convnet with batch size 64: not comparable, so not shown" in seen.text
        assert all(not line[4].count("was") for line in tables_of(html, "Rounds of convnet"))

    def test_a_report_of_the_original_is_a_baseline_too(self) -> None:
        section = section_of(beside(scaling_run(), ddp.read("ddp.json", ddp_report())))
        assert re.search(r'<li class="base-name">.*?ddp\.json</li>', section)
        assert "ddp on 4 ranks: 3,205 examples per second (ddp.json)" in section
        assert section.count('<g class="line1 base base1">') == 2

    def test_two_baselines_are_told_apart(self) -> None:
        before = reading_of(base_run(), "a/run.jsonl"), reading_of(base_run(), "b/run.jsonl")
        section = section_of(beside(scaling_run(), *before))
        assert re.findall(r'<li class="base-name">.*?([^>]+)</li>', section) == ["a/run.jsonl", "b/run.jsonl"]
        assert section.count("base base1") > 0
        assert section.count("base base2") > 0
        assert "a/run.jsonl: 4,403 (+34.1%)" in section

    def test_another_bucket_size_of_the_baseline_has_a_name_and_a_color_of_its_own(self) -> None:
        run = run_of_rounds(*sweep_of("mlp", MLP))
        outcomes = [
            round_passed(round_case("mlp", "ddp", ranks, bucket="50"), times_of(0.05, ranks))
            for ranks in (2, 4)
        ]
        section = section_of(beside(run, reading_of(run_of_rounds(*outcomes), "before.jsonl")))
        names = re.findall(r'<li class="curve-name">.*?([^>]+)</li>', section)
        assert names == ["none", "ddp 25 MB", "fsdp", "ddp 50 MB"]
        assert "was" not in Seen(section).text

    def test_nothing_is_said_by_a_picture_alone(self, seen: Seen) -> None:
        pictures = [value for tag, name, value in seen.attributes if (tag, name) == ("svg", "class")]
        hidden = [value for tag, name, value in seen.attributes if (tag, name) == ("svg", "aria-hidden")]
        assert len(hidden) == len(pictures)

    def test_scales_hold_what_is_drawn(self) -> None:
        assert rank_scale([1, 2, 4, 8]).ticks == (1, 2, 4, 8)
        assert len(rank_scale(list(range(1, 65))).ticks) < 15
        rates = rate_scale([900.0, 1000.0])
        assert rates.low < 900
        assert rates.high / rates.low >= 2
        assert len(rates.ticks) >= 2
        assert share_scale([96.0]).ticks == (0, 25, 50, 75, 100)
        assert max(share_scale([1234.0]).ticks) <= 1234 * 1.06
        assert len(share_scale([1e9]).ticks) <= 6


class TestBadInput:
    @pytest.mark.parametrize("value", [ATTACK, 7, [ATTACK], [{"rank": ATTACK}], {"rank": 1}, [None, {}]])
    def test_ranks_and_stragglers_of_another_form_are_passed_over(self, value: object) -> None:
        outcome = with_facts(
            round_passed(round_case("mlp", "ddp", 2), times_of(0.1, 2)),
            {"ranks": value, "stragglers": value, "round": value},
        )
        assert read_ranks(outcome) == []
        Seen(html_of(run_of_rounds(outcome)))

    def test_names_and_hosts_are_text_and_nothing_else(self) -> None:
        case = structs.replace(round_case(ATTACK, ATTACK, 2), suite=ATTACK)
        entry = {"rank": 0, "host": ATTACK, "device": ATTACK, "median": ATTACK, "own": -1.0, "peak": 1e299}
        passed = with_facts(round_passed(case, times_of(0.1, 2)), {"ranks": [entry], "stragglers": [ATTACK]})
        failed = round_failed(structs.replace(round_case(ATTACK, ATTACK, 4), suite=ATTACK), "timeout", ATTACK)
        html = beside(run_of_rounds(passed, failed), reading_of(run_of_rounds(passed, failed), ATTACK))
        assert "<img" not in html
        assert "<script>alert" not in html
        Seen(section_of(html))

    @pytest.mark.parametrize("value", [0.0, -3.0, 1e308, 1e-308, 1e29, 1e-29])
    def test_numbers_that_nobody_measured_do_not_break_the_pictures(self, value: float) -> None:
        def outcome(strategy: str, ranks: int, metric: str) -> Outcome:
            passed = round_passed(round_case("mlp", strategy, ranks), times_of(0.1, ranks), smallest=320.0)
            measured = [
                Measurement(metric, (value,)) if m.metric == metric else m for m in passed.measurements
            ]
            return structs.replace(passed, measurements=tuple(measured))

        for metric in ("iteration_time", "examples_per_second", "scaling_efficiency", "peak_memory"):
            html = html_of(
                run_of_rounds(outcome("none", 1, ""), outcome("ddp", 2, metric), outcome("ddp", 4, ""))
            )
            assert "nan" not in section_of(html)
            assert "inf" not in section_of(html)
            Seen(html)

    @given(value=JSON_VALUES, said=st.sampled_from(MARKUP))
    @settings(max_examples=settings().max_examples // 2, deadline=None)
    def test_whatever_a_file_says_of_its_ranks_is_text_or_passed_over(self, value: Any, said: str) -> None:  # noqa: ANN401
        ranks = [
            {"rank": 0, "host": value, "median": value, "own": value},
            {"rank": 1, "host": said, "device": said, "median": value, "own": 0.1},
        ]
        outcome = with_facts(
            round_passed(round_case(f"mlp {said}", "ddp", 2), times_of(0.1, 2, iterations=2)),
            {"ranks": ranks, "stragglers": [said, value]},
        )
        html = html_of(run_of_rounds(outcome))
        expect_harmless(html)
        assert f"mlp {said}" in Seen(section_of(html)).text
        assert said in "\n".join(each for each in Seen(html).texts if "mlp" not in each)  # its host

    @given(run=hostile_runs(ddp_runs()), base=ddp_runs())
    @settings(max_examples=settings().max_examples // 2, deadline=None)
    def test_any_two_reports_can_be_set_side_by_side(self, run: Run, base: Run) -> None:
        cases = {outcome.case: outcome for outcome in run.outcomes}
        html = beside(run_of_rounds(*cases.values()), reading_of(base, "base.json"))
        expect_harmless(html)
        shown = Seen(section_of(html)).text
        for case, outcome in cases.items():
            assert case.benchmark in shown
            seconds = outcome.measurements[0].value
            assert format_time(float(seconds)) in shown
            assert str(ddp.count_ranks(case)) in shown


class TestCommand:
    def test_report_sets_a_run_beside_its_baseline(self, torchstone: Command, write: WriteFile) -> None:
        write("new.jsonl", encode_run(scaling_run()))
        write("before.jsonl", encode_run(base_run()))
        write("ddp.json", ddp_report())
        for baseline in ("before.jsonl", "ddp.json"):
            told = torchstone("report", "new.jsonl", "--baseline", baseline, "-o", "page.html")
            assert told.code == 0
            section = section_of(Path("page.html").read_text())
            assert re.search(rf'<li class="base-name">.*?{re.escape(baseline)}</li>', section)
            assert re.search(r'<li class="run-name">.*?new\.jsonl</li>', section)

    def test_report_shows_a_report_of_the_original(self, torchstone: Command, write: WriteFile) -> None:
        write("ddp.json", ddp_report())
        assert torchstone("report", "ddp.json", "-o", "page.html").code == 0
        html = Path("page.html").read_text()
        assert [line[0] for line in tables_of(html, "Rounds of mlp")[1:]] == ["none", "ddp", "ddp", "ddp"]


Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        reason = "chromium is not installed: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIETLY)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser, html: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the page; afterwards nothing was fetched, and nobody complained."""
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    contexts, complaints = [], []

    def call(width: int = 1280, **options: Any) -> Page:  # noqa: ANN401
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(file.as_uri())
        complaints[:] = [text for text in complaints if text != file.as_uri()]
        return page

    yield call
    for context in contexts:
        context.close()
    assert complaints == []


def middle(mark: Locator) -> tuple[float, float]:
    box = mark.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def marks(page: Page, benchmark: str, caption: str, line: str) -> list[tuple[float, float]]:
    """Where the marks of a line are, from left to right; the first class of the line says which it is."""
    figure = page.locator(".sweep", has_text=benchmark).first.locator("figure", has_text=caption)
    return [middle(mark) for mark in figure.locator(f"g[class='{line}'] > svg > path").all()]


class TestBrowser:
    def test_twice_as_many_ranks_are_always_as_far_apart(self, visit: Open) -> None:
        found = marks(visit(), "mlp", "Examples", "line1")
        assert len(found) == 4
        steps = [after[0] - before[0] for before, after in pairwise(found)]
        assert max(steps) - min(steps) < 2
        assert min(steps) > 100

    def test_faster_is_higher_and_the_baseline_was_lower(self, visit: Open) -> None:
        page = visit()
        ours = marks(page, "mlp", "Examples", "line1")
        before = marks(page, "mlp", "Examples", "line1 base base1")
        assert [y for _, y in ours] == sorted((y for _, y in ours), reverse=True)
        assert ours[-1][1] < before[-1][1] - 5
        assert ours[-1][0] == pytest.approx(before[-1][0], abs=1)

    def test_efficiency_is_as_high_as_its_percentage(self, visit: Open) -> None:
        page = visit()
        figure = page.locator(".sweep", has_text="mlp").first.locator("figure", has_text="Efficiency")
        grid = {
            text.text_content() or "": middle(text)[1]
            for text in figure.locator(".grid text").all()
            if (text.text_content() or "").endswith("%")
        }
        sweep = next(sweep for sweep in scaling_of(scaling_run()) if sweep.title == "mlp")
        expected = [point.efficiency for point in sweep.sweep.curves[1].points]
        found = [
            100 * (grid["0%"] - y) / (grid["0%"] - grid["100%"])
            for _, y in marks(page, "mlp", "Efficiency", "line1")
        ]
        assert found == pytest.approx(expected, abs=2)

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_lines_have_colors_of_their_own_and_the_legend_shows_them(self, scheme: str, visit: Open) -> None:
        page = visit(color_scheme=scheme)
        stroke = "(node) => getComputedStyle(node).stroke"
        legend = page.locator(".lines-legend .curve-name")
        told = {item.inner_text(): item.locator("line").evaluate(stroke) for item in legend.all()}
        assert list(told) == ["none", "ddp", "fsdp"]
        assert len(set(told.values())) == 3
        assert page.locator(".lines .line1 > line").first.evaluate(stroke) == told["ddp"]
        dashes = "(node) => getComputedStyle(node).strokeDasharray"
        assert page.locator(".lines .line1:not(.base) > line").first.evaluate(dashes) == "none"
        assert page.locator(".lines .line1.base > line").first.evaluate(dashes) != "none"
        assert page.locator(".base-name line").evaluate(dashes) != "none"
        assert page.locator(".run-name line").evaluate(dashes) == "none"

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_text_stands_out_from_its_background(self, scheme: str, visit: Open) -> None:
        page = visit(color_scheme=scheme)
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert {name: ratio for name, ratio in page.evaluate(CONTRASTS) if ratio < 4.5} == {}

    @pytest.mark.parametrize("width", [320, 360, 700, 900, 1280, 1900])
    def test_no_width_makes_the_page_scroll_sideways(self, width: int, visit: Open) -> None:
        page = visit(width)
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        for picture in page.locator(".lines").all():
            box = picture.bounding_box()
            assert box
            assert box["x"] + box["width"] <= width
            assert box["width"] > 180

    def test_an_option_is_not_broken_into_two_lines(self, visit: Open) -> None:
        for width in range(320, 420, 20):
            box = visit(width).locator("code", has_text="--trials 12").bounding_box()
            assert box
            assert box["height"] < 24

    def test_numbers_beside_a_picture_are_in_sight(self, visit: Open) -> None:
        for width in (320, 1280):
            for text in visit(width).locator(".lines .grid text").all():
                box = text.bounding_box()
                assert box
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width

    def test_without_the_script_all_of_it_is_there(self, visit: Open) -> None:
        page = visit(java_script_enabled=False)
        expect(page.locator(".lines").first).to_be_visible()
        page.locator(".sweep").first.get_by_text("By rank").click()
        expect(page.get_by_role("region", name="Ranks of mlp")).to_be_visible()

    def test_the_keyboard_reaches_tables_unfolds_ranks_and_follows_a_round(self, visit: Open) -> None:
        page = visit()
        region = page.get_by_role("region", name="Rounds of mlp")
        region.focus()
        page.keyboard.press("Tab")
        assert focused(page) == "none"
        page.locator(".sweep summary").first.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Ranks of mlp")).to_be_visible()
        region.get_by_role("link", name="fsdp").last.focus()
        page.keyboard.press("Enter")
        body = page.locator("#cases-table > .open")
        expect(body.locator(".detail")).to_contain_text(LOST)
