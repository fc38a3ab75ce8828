"""The page says all there is to say, says it safely, and stays a page."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import zipfile
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from math import exp, hypot, log
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from page_samples import (
    ATTACK,
    BREAKS,
    ENVIRONMENT,
    FAILURES,
    MARKUP,
    large_run,
    nasty_run,
    old_run,
    sample_run,
)

from conftest import Command, WriteFile
from record_strategies import full_runs
from sample_files import CANONICAL, TOOLS
from stated_facts import measurement_of, with_facts
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import environment_from
from torchstone.core.text.safe_text import clean_log, escape_lines
from torchstone.core.text.units import format_value
from torchstone.core.vocabulary import METRICS
from torchstone.formats.merge import merge
from torchstone.reporting.html.elements import element, escape, join, long_text
from torchstone.reporting.html.page import render_page
from torchstone.reporting.svg.drawing import MOST_TICKS, draw_samples, ratio_scale
from torchstone.reporting.views.page_view import MANY, Page, make_page

ROOT = Path(__file__).parent.parent.parent
VOID = {"meta", "link", "input", "br", "line", "rect", "circle", "path"}
BLOCKS = {"p", "div", "ul", "ol", "dl", "pre", "table", "h1", "h2", "h3", "section", "details", "form"}


class Seen(HTMLParser):
    """The elements of a page as a browser would see them; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        assert "p" not in self._open or tag not in BLOCKS
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in {"script", "style"}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def page_of(*runs: Run) -> Page:
    readings = [
        Reading(f"run{n or ''}.jsonl", "run", run, range(2, 2 + len(run.outcomes)))
        for n, run in enumerate(runs)
    ]
    return make_page(merge(readings))


def html_of(*runs: Run) -> str:
    return render_page(page_of(*runs))


@pytest.fixture(scope="module")
def html() -> str:
    return html_of(sample_run())


@pytest.fixture(scope="module")
def seen(html: str) -> Seen:
    return Seen(html)


def expect_harmless(html: str) -> Seen:
    """The page as a browser would see it, in which no text has become markup."""
    seen = Seen(html)
    assert (seen.tags["script"], seen.tags["style"]) == (1, 1)
    assert not {"img", "iframe", "object", "base"} & set(seen.tags)
    assert not [name for _, name, _ in seen.attributes if name.startswith("on") or name == "style"]
    assert all(value.startswith(("#", "data:image/svg+xml,")) for value in seen.values("href"))
    html.encode("utf-8")
    return seen


@st.composite
def hostile_runs(draw: st.DrawFn, runs: st.SearchStrategy[Run]) -> Run:
    """Runs in which the name of every case, and whatever is said about its end, is markup as well."""
    run = draw(runs)
    renamed = {
        case: structs.replace(case, benchmark=f"{case.benchmark}{draw(st.sampled_from(MARKUP))}{number}")
        for number, case in enumerate(dict.fromkeys((*run.plan, *(each.case for each in run.outcomes))))
    }
    outcomes = []
    for outcome in run.outcomes:
        failure = outcome.failure and structs.replace(
            outcome.failure,
            message=f"{draw(st.sampled_from(MARKUP))} was said",
            log=draw(st.sampled_from(MARKUP)),
        )
        outcomes.append(structs.replace(outcome, case=renamed[outcome.case], failure=failure))
    return structs.replace(run, plan=tuple(renamed[case] for case in run.plan), outcomes=tuple(outcomes))


def expect_whole(row: str, outcome: Outcome | None) -> None:
    """The row of a case has its status, its numbers, its cautions, and why it failed."""
    if outcome is None:
        assert "missing" in row
        return
    assert (outcome.status or "(no status)") in row
    for measurement in outcome.measurements:
        assert measurement.metric in row
        unit = METRICS[measurement.metric].unit if measurement.metric in METRICS else ""
        zero_in_line = not measurement.value and f"0 {measurement.metric}" in row
        assert format_value(measurement.value, unit) in row or zero_in_line
    for caution in outcome.cautions:
        assert escape_lines(clean_log(caution.text).strip("\n")) in row
    if outcome.failure:
        assert outcome.failure.message in row
        assert outcome.failure.log in row
        if outcome.failure.traceback.strip():  # a blank one has no fold
            assert escape_lines(clean_log(outcome.failure.traceback).strip("\n")) in row


def outcome_of(
    name: str, probe: str, status: str, speedup: float = 0, batch_size: int | None = None
) -> Outcome:
    measured = (Measurement("speedup", (speedup,)),) if speedup else ()
    return Outcome(Case(name, probe, "", Variant("cuda", batch_size=batch_size)), status, measured)


def timed(name: str, speedup: float, interval: tuple[float, float] | None) -> Outcome:
    measured = measurement_of("speedup", (speedup,), {"interval": list(interval)} if interval else {})
    return Outcome(Case(name, "performance", "", Variant("cuda")), "pass", (measured,))


def run_of(*outcomes: Outcome) -> Run:
    return Run("r", tuple(outcome.case for outcome in outcomes), outcomes)


def failing(name: str, message: str) -> Outcome:
    return structs.replace(outcome_of(name, "performance", "OOM"), failure=Failure("run", message))


class TestSummary:
    def test_the_headline_counts_what_passed_failed_and_is_missing(self) -> None:
        assert page_of(sample_run()).headline == "39 of 50 cases passed: 9 failed, 2 have no result"
        assert page_of(old_run()).headline == "All 50 cases passed"

    def test_the_pass_rate_is_of_what_was_planned(self, seen: Seen) -> None:
        assert "39 / 50" in seen.text
        assert "78.0% of 50 cases" in seen.text

    def test_the_geometric_mean_leaves_out_cases_whose_accuracy_failed_whatever_their_batch_size(
        self,
    ) -> None:
        run = run_of(
            outcome_of("good", "performance", "pass", 2.0, 8),
            outcome_of("good", "accuracy", "pass", batch_size=4),
            outcome_of("wrong", "performance", "pass", 100.0, 8),
            outcome_of("wrong", "accuracy", "fail_accuracy", batch_size=4),
            outcome_of("unchecked", "performance", "pass", 0.5, 8),
            outcome_of("skipped", "performance", "pass", 4.0, 8),
            outcome_of("skipped", "accuracy", "pass_due_to_skip"),
            outcome_of("failed", "performance", "fail_to_run", 50.0),
        )
        summary = page_of(run).summary
        assert summary.speedup
        assert summary.speedup.cases == 3
        assert summary.speedup.mean == pytest.approx(exp((log(2) + log(0.5) + log(4)) / 3))
        assert [row.case.benchmark for row in summary.unsound] == ["wrong"]

    def test_what_is_hardly_known_is_in_no_mean_and_is_neither_slowest_nor_fastest(self) -> None:
        def known(name: str, value: float, low: float, high: float) -> Outcome:
            details = MeasurementDetails(interval=(low, high))
            outcome = outcome_of(name, "performance", "pass")
            return structs.replace(outcome, measurements=(Measurement("speedup", (value,), details),))

        narrow = [known("a", 2.0, 1.9, 2.1), known("b", 1.0, 0.9, 1.1)]
        wide = [known("wild", 9.0, 1.0, 20.0), known("slow", 0.1, 0.01, 0.9)]
        page = page_of(run_of(*narrow, *wide))
        speedup = page.summary.speedup
        assert speedup
        assert (speedup.cases, speedup.least.case.benchmark, speedup.most.case.benchmark) == (2, "b", "a")
        assert speedup.mean == pytest.approx(2**0.5)
        reach = hypot(log(2.1 / 1.9) / 2, log(1.1 / 0.9) / 2) / 2
        assert speedup.interval == pytest.approx((2**0.5 * exp(-reach), 2**0.5 * exp(reach)))
        assert {row.case.benchmark for row in page.summary.uncertain} == {"wild", "slow"}
        text = render_page(page)
        assert "geometric mean over 2 cases, 1.34 to 1.50" in text
        assert "left out, interval wider than 50 %: 2" in text
        assert "not known" in html_of(run_of(*wide))

    def test_a_mean_of_values_without_intervals_has_none(self) -> None:
        speedup = page_of(run_of(outcome_of("good", "performance", "pass", 2.0, 8))).summary.speedup
        assert speedup
        assert speedup.interval is None

    def test_compile_time_and_memory_are_summed_up(self) -> None:
        run = sample_run()
        times = [o.value("compile_seconds") for o in run.outcomes if o.status == "pass"]
        summary = page_of(run).summary
        assert summary.compile_time
        assert summary.compile_time.total == pytest.approx(sum(float(t) for t in times if t))
        assert summary.memory
        assert summary.compression

    def test_a_speedup_whose_interval_is_wide_is_in_no_mean_and_named_instead(self) -> None:
        run = run_of(
            timed("good", 2.0, (1.9, 2.1)), timed("wild", 9.0, (1.0, 40.0)), timed("bare", 2.0, None)
        )
        page = page_of(run)
        assert page.summary.speedup
        assert page.summary.speedup.cases == 2
        assert page.summary.speedup.mean == pytest.approx(2.0)
        text = Seen(render_page(page)).text
        assert "geometric mean over 2 cases" in text
        assert "left out, interval wider than 50 %: 1 wild" in text
        assert "9.000xuncertain, 1.000\u201340.000" in text
        only_wild = Seen(html_of(run_of(timed("wild", 9.0, (1.0, 40.0))))).text
        assert "Speedupnot knownleft out, interval wider than 50 %: 1 wild" in only_wild

    def test_a_wide_interval_is_dashed_comes_last_and_does_not_stretch_the_scale(self) -> None:
        html = html_of(
            run_of(
                timed("wild", 0.5, (0.01, 90.0)),
                timed("slow", 0.9, (0.89, 0.91)),
                timed("fast", 2.0, (1.9, 2.1)),
            )
        )
        plot = re.findall(r'<ol class="plot dots-plot">.*?</ol>', html, re.DOTALL)[0]
        kinds = re.findall(r'<li>.*?>(\w+) ?</a><svg class="dots ([\w ]+)"', plot)
        assert kinds == [("slow", "down"), ("fast", "up"), ("wild", "even wide")]
        assert plot.count('class="beyond"') == 2, "arrows where the interval goes on"
        ticks = [float(text) for text in re.findall(r">([\d.]+)x</text>", html)]
        assert max(ticks) < 2.2

    def test_the_headline_is_red_if_anything_failed_and_plain_if_nothing_was_judged(self) -> None:
        assert '<h1 class="tone bad">39 of 50 cases passed' in html_of(sample_run())
        assert "<h1>All 50 cases passed</h1>" in html_of(old_run())

    def test_tables_say_what_is_a_sum_and_what_is_a_mean(self, seen: Seen) -> None:
        for head in ("mean speedup", "compile time, sum", "mean memory ratio"):
            assert head in seen.texts
        assert "in total; mean" in seen.text

    def test_bars_of_two_probes_of_one_benchmark_are_told_apart(self, html: str) -> None:
        bars = html.split('id="compile-time"', maxsplit=1)[1].split("</section>", maxsplit=1)[0]
        names = [Seen(each).text for each in re.findall(r"<li>(<a .*?</a>)", bars)]
        assert len(set(names)) == len(names) > 30
        assert {name.split()[-1] for name in names} == {"performance", "accuracy"}

    def test_groups_have_a_line_for_each_suite_and_probe(self) -> None:
        page = page_of(sample_run())
        assert page.group_axes == ("suite", "probe")
        assert [group.axes for group in page.groups] == [
            *(("huggingface", "accuracy"), ("huggingface", "performance")),
            *(("timm", "accuracy"), ("timm", "performance")),
        ]
        assert sum(group.summary.planned for group in page.groups) == 50

    def test_cases_without_a_result_are_named_at_the_top(self, html: str) -> None:
        top = html.split('class="tiles"', maxsplit=1)[0]
        assert "2 cases were planned or expected, but have no result" in top
        assert "swin_base_patch4_window7_224" in top
        assert "the run did not finish; it has 48 of 50 planned outcomes" in top

    def test_a_run_of_nothing_but_failures_is_still_a_page(self) -> None:
        text = Seen(html_of(run_of(outcome_of("a", "performance", "timeout")))).text
        assert "0 of 1 case passed: 1 failed" in text

    def test_a_plan_without_any_outcome_is_still_a_page(self) -> None:
        run = Run("r", (Case("a", "performance"),), (), finished=False)
        assert "1 case was planned or expected, but has no result" in Seen(html_of(run)).text


class TestContents:
    @pytest.mark.parametrize("status", FAILURES)
    def test_every_failure_has_phase_message_traceback_log_and_repro(self, status: str, html: str) -> None:
        rows = re.findall(
            rf'<tbody id="[^"]+" data-status="{status}".*?(?=<tbody id=|</section>)', html, re.DOTALL
        )
        assert rows
        phase, message = FAILURES[status]
        for row in rows:
            text = re.sub(r"<[^>]*>", "", row)
            assert f"Failed during {phase}" in text
            assert str(escape(message)) in text
            assert "AUTOTUNE mm(4096x768, 768x3072)" in text
            assert "torchstone repro run.jsonl" in text
            if status not in {"timeout", "worker_died"}:
                assert "torch/_dynamo/eval_frame.py" in text

    def test_failures_that_say_the_same_but_for_numbers_are_one_entry(self) -> None:
        outcomes = [failing(f"m{n}", f"Tried to allocate {n}.5 GiB") for n in range(5)]
        page = page_of(run_of(*outcomes, failing("other", "no kernel")))
        assert [(t.message, len(t.rows)) for t in page.failures] == [
            ("Tried to allocate 0.5 GiB", 5),
            ("no kernel", 1),
        ]

    def test_graph_breaks_have_reason_place_and_source_line(self, seen: Seen) -> None:
        for cause in BREAKS[:2]:
            assert cause["place"] in seen.text
            assert cause["source"] in seen.text
        assert "Reasons for recompiling" in seen.text

    def test_the_environment_is_there_whole(self, seen: Seen) -> None:
        for group in ("machine", "software", "variables"):
            for key, value in ENVIRONMENT[group].items():
                assert key in seen.texts
                assert str(value) in seen.text
        assert "NVIDIA A100-SXM4-40GB" in seen.text

    def test_intervals_are_drawn_and_written(self, html: str, seen: Seen) -> None:
        assert html.count('class="dot"') == 21
        assert html.count('class="interval"') == 21
        assert "(95%)" in seen.text

    def test_case_cautions_are_said_once_with_the_cases_they_are_about(self) -> None:
        page = page_of(sample_run())
        (text, rows), *others = page.case_cautions
        assert "too noisy" in text
        assert {row.case.benchmark for row in rows} == {"T5Small", "DistillGPT2"}
        assert others == []

    def test_every_link_leads_to_something_in_the_page(self, seen: Seen) -> None:
        ids = seen.values("id")
        assert len(set(ids)) == len(ids)
        links = [value for tag, name, value in seen.attributes if tag == "a" and name == "href"]
        assert len(links) > 100
        assert {link.removeprefix("#") for link in links} <= set(ids)

    def test_a_case_has_the_same_anchor_in_every_page(self) -> None:
        anchors = [
            {row.case.id: row.anchor for row in page_of(run).rows} for run in (sample_run(), old_run())
        ]
        assert anchors[0] == anchors[1]

    def test_the_same_results_make_the_same_page(self, html: str) -> None:
        assert html_of(sample_run()) == html

    def test_what_has_an_unexpected_form_is_shown_all_the_same(self) -> None:
        extra = {
            "graph_breaks": "many",
            "phases": [1],
            "duration": "long",
            "cautions": 3,
            "accuracy": {"tolerance": 0.5},
        }
        outcome = with_facts(outcome_of("a", "performance", "pass"), extra)
        text = Seen(html_of(run_of(outcome))).text
        assert "many" in text
        assert "long" in text
        assert "tolerance" in text

    @pytest.mark.parametrize("interval", [None, [], [1], ["a", "b"], [2, 1], [1, 10**400], {"low": 1}])
    def test_an_interval_that_is_none_is_not_drawn(self, interval: object) -> None:
        outcome = outcome_of("a", "performance", "pass")
        measured = measurement_of("speedup", (1.5,), {"interval": interval})
        assert 'class="interval"' not in html_of(run_of(structs.replace(outcome, measurements=(measured,))))


class TestSafety:
    def test_no_name_or_message_becomes_markup(self) -> None:
        html = html_of(nasty_run())
        seen = expect_harmless(html)
        assert ATTACK in seen.text
        assert not seen.values("src")

    def test_characters_that_hide_or_reorder_text_are_spelled_out(self) -> None:
        html = html_of(nasty_run())
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
        assert "ab\\u202ecd\\u2066e\\u200bf\\ud800" in html
        assert "\x1b" not in html
        html.encode("utf-8")

    def test_colors_of_a_terminal_are_dropped(self) -> None:
        assert (
            long_text("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\r\nnext", 100)
            == "red link\nnext"
        )

    def test_a_long_message_loses_its_middle_and_says_so(self) -> None:
        outcome = failing("a", "start " + "m" * 100_000 + " end")
        text = Seen(html_of(run_of(outcome))).text
        assert "start mmm" in text
        assert "mmm end" in text
        assert "[... 80,010 characters left out here ...]" in text

    def test_the_policy_allows_this_script_and_this_style_and_nothing_else(
        self, html: str, seen: Seen
    ) -> None:
        policy = next(value for value in seen.values("content") if "default-src" in value)
        for tag, directive in (("script", "script-src"), ("style", "style-src")):
            (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
            digest = b64encode(sha256(text.encode()).digest()).decode()
            assert f"{directive} 'sha256-{digest}'" in policy
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert html.index("Content-Security-Policy") < html.index("<style>")

    def test_nothing_is_fetched(self, html: str) -> None:
        assert not re.search(r"\b(?:src|action|srcset)=|url\(|@import", html)
        assert set(re.findall(r"https?://[\w./]+", html)) == {"http://www.w3.org/2000/svg"}

    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(hostile_runs(full_runs()))
    def test_any_run_makes_a_sound_page_that_shows_every_case_and_all_that_is_known_of_it(
        self, run: Run
    ) -> None:
        html = html_of(run)
        expect_harmless(html)
        pieces = html.split('<tbody id="case-')[1:]
        rows = [unescape(re.sub(r"<[^>]*>", "", piece.partition("</section>")[0])) for piece in pieces]
        assert len(rows) == len(run.plan)
        outcomes = {outcome.case: outcome for outcome in run.outcomes}
        for case in run.plan:
            (row,) = [each for each in rows if escape_lines(case.id) in each]
            expect_whole(row, outcomes.get(case))

    def test_elements_escape_text_and_attributes(self) -> None:
        assert element("a", "<b>&\"'", None, title="\"'<>&") == (
            '<a title="&quot;&#x27;&lt;&gt;&amp;">&lt;b&gt;&amp;"\'</a>'
        )
        assert element("input", type="checkbox", checked=True, name=None, hidden=False) == (
            '<input type="checkbox" checked/>'
        )
        assert join("a<", element("b", ["x", "y"]), separator=" & ") == "a&lt; &amp; <b>xy</b>"


class TestGate:
    def test_a_page_whose_gate_cannot_decide_is_neither_red_nor_green(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        fine = run_of(timed("fine", 2.0, (1.99, 2.01)))
        for name, version in (("run", "2.13.0"), ("old", "2.12.0")):
            facts = environment_from({"versions": {"torch": version}})
            write(f"{name}.jsonl", encode_run(structs.replace(fine, environment=facts, finished=True)))
        assert torchstone("report", "run.jsonl", "--baseline", "old.jsonl").code == 0
        html = (tmp_path / "report.html").read_text()
        assert '<h1 class="tone open">' in html
        assert '<div class="tile open"><h3>Gate</h3><p class="figure">undecided</p>' in html
        assert "<title>gate undecided, 1/1 passed" in html
        torchstone("report", "run.jsonl", "--baseline", "old.jsonl", "--cross-environment")
        html = (tmp_path / "report.html").read_text()
        assert '<h1 class="tone good">1 case passed</h1>' in html
        assert '<div class="tile good"><h3>Gate</h3><p class="figure">pass</p>' in html


class TestSize:
    def test_five_thousand_rows_take_seconds_and_a_sane_file(self) -> None:
        run = large_run(5_000)
        start = time.process_time()
        html = html_of(run)
        assert time.process_time() - start < 20
        assert len(html.encode()) < 15_000_000
        assert html.count("<tbody id=") == 5_000
        assert "4,500 of 5,000 cases passed: 500 failed" in html

    def test_a_large_page_is_more_compact_a_row(self) -> None:
        few, many = html_of(large_run(100)), html_of(large_run(MANY + 100))
        assert len(many) / (MANY + 100) < 0.8 * len(few) / 100

    def test_samples_far_off_do_not_flatten_the_others(self) -> None:
        samples = [1.0, 1.1, 1.2, 1.3] * 10 + [500.0]
        heights = [int(y) for _, y in re.findall(r"M(\d+) (\d+)z", draw_samples(samples, 1.2, 80))]
        assert len(set(heights)) == 5
        assert min(heights) == heights[-1] == 3

    def test_of_many_samples_some_are_drawn_and_the_extremes_always(self) -> None:
        samples = [1.0] * 10_000
        samples[1234], samples[8765] = 0.5, 2.0
        drawn = draw_samples(samples, 1.0, 40)
        points = re.findall(r"M(\d+) (\d+)z", drawn)
        assert len(points) <= 40
        assert {int(y) for _, y in points} >= {3, 21}

    @pytest.mark.parametrize(
        "numbers", [[1.0], [0.999, 1.001], [0.2, 7], [1e-300, 1e300], [0.5], [3000.0], []]
    )
    def test_a_scale_has_one_on_it_and_not_too_many_ticks(self, numbers: list[float]) -> None:
        scale = ratio_scale(numbers)
        assert 1.0 in scale.ticks
        assert len(scale.ticks) <= MOST_TICKS
        assert all(0 <= scale.at(number) <= 100 for number in numbers)
        assert 0 < scale.at(1) < 100


class TestCommand:
    def test_it_writes_report_html_and_says_so(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        ran = torchstone("report", write("run.jsonl", encode_run(sample_run())))
        assert ran.code == 0
        assert ran.out == "39 of 50 cases passed: 9 failed, 2 have no result\nwrote 50 cases to report.html\n"
        assert "2 of 50 planned cases have no outcome" in ran.err
        Seen((tmp_path / "report.html").read_text(encoding="utf-8"))

    def test_it_writes_where_it_is_told_to(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        run = write("run.jsonl", encode_run(old_run()))
        assert torchstone("report", run, "-o", "there.html").out.endswith("to there.html\n")
        assert (tmp_path / "there.html").exists()
        assert not (tmp_path / "report.html").exists()

    def test_a_baseline_shows_what_the_gate_says_and_where_the_speedup_was(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        run, old = write("run.jsonl", encode_run(sample_run())), write("old.jsonl", encode_run(old_run()))
        write(
            "torchstone.toml",
            '[[rule]]\nmetric = "eager_latency"\nkind = "ignore"\n\n[[rule]]\nmetric = "recompiles"\nkind = "ignore"\n',
        )
        assert torchstone("report", run, "--baseline", old).code == 0
        html = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert html.count('class="old"') == 21 + 1  # one in the legend
        assert 'data-gate="regression"' in html
        assert 'data-gate="pass"' in html
        text = Seen(html).text
        assert "policy strict blocks red rows: exit code 1" in text
        assert "Worse than the baseline allows" in text
        assert "<title>gate fails, " in html
        assert '<h1 class="tone bad">FAIL: ' in html
        assert "torchstone accept run.jsonl --baseline old.jsonl --metric" in text

    def test_what_the_baseline_expects_and_nobody_measured_has_a_row(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        results = write("r.csv", "dev,name,batch_size,accuracy\ncuda,here,8,pass\n")
        expected = write("e.csv", "name,accuracy\nhere,pass\ngone,pass\n")
        assert torchstone("report", results, "--baseline", expected).code == 0
        text = Seen((tmp_path / "report.html").read_text(encoding="utf-8")).text
        assert "1 case was planned or expected, but has no result: gone" in text
        assert "expected by e.csv:3, but neither planned nor measured" in text

    def test_quarantine_is_respected_as_check_does(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        results = write("r.csv", "dev,name,batch_size,accuracy\ncuda,flaky,8,timeout\n")
        expected = write("e.csv", "name,accuracy\nflaky,pass\n")
        write("quarantine.toml", '[[quarantine]]\ncase = "flaky"\nreason = "races"\n')
        torchstone("report", results, "--baseline", expected)
        html = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert 'data-gate="quarantined"' in html

    @pytest.mark.parametrize(
        "kind", ["run", "performance", "accuracy", "pr-time", "v3", "cachebench", "ddp", *TOOLS]
    )
    def test_any_kind_of_results_makes_a_page(
        self, kind: str, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        assert torchstone("report", write("results", CANONICAL[kind])).code == 0
        seen = Seen((tmp_path / "report.html").read_text(encoding="utf-8"))
        assert [value for value in seen.values("id") if value.startswith("case-")]

    def test_files_are_merged_and_named_where_they_differ(
        self, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        run = old_run()
        for name, outcomes, driver in (("a", run.outcomes[:20], "570"), ("b", run.outcomes[20:], "575")):
            environment = structs.replace(run.environment, machine={"cpu": "EPYC", "driver": driver})
            plan = tuple(outcome.case for outcome in outcomes)
            part = structs.replace(run, id=name, plan=plan, outcomes=outcomes, environment=environment)
            write(f"{name}.jsonl", encode_run(part))
        assert torchstone("report", "a.jsonl", "b.jsonl").code == 0
        text = Seen((tmp_path / "report.html").read_text(encoding="utf-8")).text
        assert "All 50 cases passed" in text
        assert "Differences between the files" in text
        assert "environment / machine / driver570 a.jsonl575 b.jsonl" in text
        assert text.count("\u00b7 a.jsonl") == 20

    def test_the_same_case_in_two_files_is_an_error(self, torchstone: Command, write: WriteFile) -> None:
        run = encode_run(old_run())
        ran = torchstone("report", write("a.jsonl", run), write("b.jsonl", run))
        assert ran.code == 2
        assert "is already in a.jsonl:2" in ran.err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["none.jsonl"], "none.jsonl: no such file"),
            (["run.jsonl", "--output", "run.jsonl"], "run.jsonl is an input file"),
            (["run.jsonl", "--baseline", "old.jsonl", "-o", "old.jsonl"], "old.jsonl is an input file"),
            (["run.jsonl", "--output", "no/such/folder/x.html"], "no/such/folder/x.html: the parent folder does not exist"),
            (["run.jsonl", "--output", "."], "this is a folder, expected a file"),
            (["run.jsonl", "--only", "nothing*"], "--only nothing*: no case matches"),
            (["e.csv"], "e.csv holds expected values, not results"),
            (["run.jsonl", "--baseline", "none.csv"], "none.csv: no such file"),
            (["run.jsonl", "--config", "none.toml"], "none.toml: no such file"),
        ],
    )  # fmt: skip
    def test_bad_input_is_said_and_nothing_is_written(
        self, arguments: list[str], message: str, torchstone: Command, write: WriteFile, tmp_path: Path
    ) -> None:
        write("run.jsonl", encode_run(sample_run()))
        write("old.jsonl", encode_run(old_run()))
        write("e.csv", CANONICAL["expected"])
        ran = torchstone("report", *arguments)
        assert ran.code == 2
        assert message in ran.err
        assert not (tmp_path / "report.html").exists()
        assert decode_run("run.jsonl", (tmp_path / "run.jsonl").read_text(encoding="utf-8"))

    def test_only_chooses_cases(self, torchstone: Command, write: WriteFile) -> None:
        run = write("run.jsonl", encode_run(old_run()))
        assert "wrote 2 cases" in torchstone("report", run, "--only", "T5Small").out


def test_the_wheel_has_what_the_page_is_made_of(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"torchstone/reporting/html/page.css", "torchstone/reporting/html/page.js"} <= set(names)
