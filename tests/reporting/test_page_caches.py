"""The page about compile caches: what each start costs and saves, why one was not warm, and nothing of it elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_samples import (
    BYPASSED,
    MARKUP,
    NO_PRECOMPILE,
    cache_failed,
    cache_run,
    cached,
    mixed_run,
    nasty_run,
    sample_run,
)
from test_page import Seen, expect_harmless, hostile_runs, html_of, page_of, run_of

from record_strategies import JSON_VALUES
from stated_facts import with_facts
from torchstone.core.records import Case, Measurement, Outcome, Run
from torchstone.core.text.units import format_value
from torchstone.core.vocabulary import METRICS, SCENARIOS, Probe
from torchstone.reporting.html.cache_section import MOST_LINES, MOST_PICTURES
from torchstone.reporting.views.caches import (
    PHASES,
    format_size,
    graphs_text,
    group_reasons,
    hits_text,
    make_cases,
    read_reasons,
    read_starts,
    split_metric,
)
from torchstone.reporting.views.page_view import title_of


def section_of(html: str) -> str:
    """The section about compile caches, or nothing."""
    found = re.search(r'<section><h2 id="compile-caches">.*?</section>', html, re.DOTALL)
    return found[0] if found else ""


def timed(
    name: str,
    *,
    status: str = "pass",
    extra: dict[str, Any] | None = None,
    **seconds: float | tuple[float, ...],
) -> Outcome:
    """A compile_cache case with nothing but compile seconds."""
    measured = tuple(
        Measurement(f"{scenario}_compile_seconds", amount if isinstance(amount, tuple) else (amount,))
        for scenario, amount in seconds.items()
    )
    return with_facts(Outcome(Case(name, "compile_cache"), status, measured), extra)


def totals_of(*outcomes: Outcome) -> dict[str, Any]:
    return {total.scenario: total for total in page_of(run_of(*outcomes)).summary.caches}


@pytest.fixture(scope="module")
def html() -> str:
    return html_of(cache_run())


@pytest.fixture(scope="module")
def seen(html: str) -> Seen:
    return Seen(section_of(html))


class TestSection:
    def test_it_is_there_only_where_caches_were_measured(self, html: str) -> None:
        assert section_of(html)
        assert 'href="#compile-caches"' in html
        other = html_of(sample_run())
        assert not section_of(other)
        assert "compile-caches" not in other

    def test_every_start_of_every_case_has_its_seconds_and_its_saving(self, seen: Seen) -> None:
        for outcome in cache_run().outcomes:
            for start in read_starts(outcome):
                if start.seconds is not None:
                    assert f"{start.seconds:.4g} s" in seen.text
                if start.saved is not None:
                    assert f"saves {start.saved:.1f}%" in seen.text
                if start.interval:
                    assert f"{start.interval[0]:.1f}% to {start.interval[1]:.1f}%" in seen.text

    def test_the_numbers_of_every_picture_are_there_as_text(self, seen: Seen) -> None:
        bert = read_starts(cache_run().outcomes[0])
        for start in bert:
            for _, amount in start.parts:
                assert f"{amount:.4g} s" in seen.texts
        assert seen.values("aria-hidden").count("true") == seen.tags["svg"]
        assert "Seconds by phase of BertForMaskedLM" in seen.values("aria-label")

    def test_hit_rates_files_bytes_and_artifacts_are_in_the_table(self, seen: Seen) -> None:
        assert "warm 50% (6/12)" in seen.texts
        assert "warm 100% (24/24)" in seen.texts
        assert "36 files" in seen.texts
        assert "1.3 MB" in seen.texts
        assert "portable 183 kB" in seen.texts

    def test_reasons_name_cache_state_case_and_graphs(self, seen: Seen) -> None:
        assert "warm: fx_graph bypass in AllenaiLongformerBase (graphs 0/0, 1/0)" in seen.text
        assert BYPASSED in seen.texts
        assert "(with other numbers in other cases)" in seen.text

    def test_starts_without_a_result_say_why(self, seen: Seen) -> None:
        assert "precompile not available: mobilenetv3_large_100, T5Small" in seen.text
        assert seen.texts.count(NO_PRECOMPILE) == 1
        assert "warm fail_accuracy: XLNetLMHeadModel" in seen.text
        assert "cold fail_to_run: convnext_base" in seen.text

    def test_where_all_was_served_that_is_said(self) -> None:
        outcome = cached("a", 3.0)
        facts = {name: value for name, value in outcome.facts().items() if name != "not_warm"}
        text = Seen(section_of(html_of(run_of(with_facts(outcome, facts))))).text
        assert "After the cold start, every cache look-up was a hit." in text
        assert "Reasons for cache misses" not in text

    def test_misses_that_nobody_explains_are_not_called_served(self) -> None:
        outcome = cached("a", 3.0, missed=1)
        text = Seen(section_of(html_of(run_of(with_facts(outcome, {}))))).text
        assert "Some cache look-ups were not hits; no reason was recorded." in text

    def test_a_cold_start_alone_leaves_out_what_it_does_not_have(self) -> None:
        text = Seen(section_of(html_of(run_of(timed("a", cold=2.0), timed("b", cold=1.0))))).text
        assert "hit rate" not in text
        assert "warm" not in text
        assert "all 2 cases3 s" in text

    def test_of_very_many_cases_some_are_drawn_and_the_rest_are_counted(self) -> None:
        outcomes = [timed(f"m{number}", cold=3.0, warm=1.0) for number in range(MOST_LINES + 30)]
        section = section_of(html_of(run_of(*outcomes)))
        assert section.count('class="plot starts"') == MOST_PICTURES
        text = Seen(section).text
        assert f"{MOST_LINES + 30 - MOST_PICTURES:,} more are in the table below." in text
        assert "30 more are in the table of all cases." in text
        assert f"all {MOST_LINES + 30} cases" in text


class TestSums:
    def test_the_saving_of_several_cases_is_that_of_the_sums(self) -> None:
        totals = totals_of(timed("a", cold=10.0, warm=1.0), timed("b", cold=2.0, warm=2.0))
        assert (totals["warm"].cold, totals["warm"].seconds) == (12.0, 3.0)
        assert totals["warm"].saved == pytest.approx(75.0)
        assert totals["cold"].saved is None

    def test_it_counts_only_cases_that_have_both(self) -> None:
        wrong = {
            "scenarios": {"cold": {"status": "pass"}, "warm": {"status": "fail_accuracy", "reason": "x"}}
        }
        totals = totals_of(
            timed("a", cold=10.0, warm=1.0),
            timed("only cold", cold=100.0),
            timed("wrong when warm", status="fail_accuracy", extra=wrong, cold=100.0, warm=0.1),
        )
        assert (totals["warm"].cases, totals["warm"].cold) == (1, 10.0)
        assert totals["warm"].saved == pytest.approx(90.0)
        assert totals["cold"].cases == 3

    def test_a_case_that_failed_in_one_scenario_counts_for_the_others(self) -> None:
        stated = {name: {"status": "pass"} for name in ("cold", "warm")}
        extra = {"scenarios": {**stated, "portable": {"status": "fail_to_run", "reason": "damaged"}}}
        totals = totals_of(timed("a", status="fail_to_run", extra=extra, cold=4.0, warm=1.0))
        assert totals["warm"].saved == pytest.approx(75.0)
        assert "portable" not in totals

    def test_repeats_are_summed_as_the_case_itself_sums_them(self) -> None:
        totals = totals_of(timed("a", cold=(4.0, 4.0, 10.0), warm=(1.0, 1.0, 1.0)))
        assert totals["warm"].saved == pytest.approx(100 * (1 - 3 / 18))

    def test_nothing_spent_is_nothing_saved(self) -> None:
        assert totals_of(timed("a", cold=0.0, warm=0.0))["warm"].saved is None

    def test_phases_and_the_rest_add_up_to_the_seconds(self) -> None:
        for start in read_starts(cached("a", 12.0)):
            assert sum(amount for _, amount in start.parts) == pytest.approx(start.seconds)
            assert {phase for phase, _ in start.parts} <= set(PHASES)


class TestReasons:
    def test_the_same_reason_in_other_repeats_and_graphs_is_one(self) -> None:
        stated = [
            {"scenario": "warm", "repeat": repeat, "graph": graph, "cache": "fx_graph", "state": "miss", "reason": f"took {repeat}.5 s"}
            for repeat in (1, 2)
            for graph in ("0/0", "1/0")
        ]  # fmt: skip
        (reason,) = read_reasons(timed("a", extra={"not_warm": stated}))
        assert (reason.graphs, reason.repeats, reason.text) == (("0/0", "1/0"), ("1", "2"), "took 1.5 s")

    def test_warm_comes_before_the_others(self) -> None:
        groups = group_reasons(make_cases(page_of(cache_run()).rows))
        assert [group.reason.scenario for group in groups] == ["warm", "warm", "portable"]

    @pytest.mark.parametrize("stated", [None, "x", 3, {"reason": "x"}, [1], [{"reason": 5}], [{}]])
    def test_what_has_another_form_is_no_reason(self, stated: object) -> None:
        assert read_reasons(timed("a", extra={"not_warm": stated})) == ()

    def test_many_graphs_are_counted(self) -> None:
        assert graphs_text(["0/0"]) == "graph 0/0"
        assert graphs_text(["all"]) == graphs_text([]) == "all graphs"
        assert graphs_text([f"{n}/0" for n in range(9)], 2) == "graphs 0/0, 1/0 and 7 more"


class TestElsewhere:
    def test_the_summary_says_what_warm_saves_and_links_to_the_least(self, html: str) -> None:
        top = Seen(html).text.partition("Failures")[2].partition("Failures")[0]
        page = page_of(cache_run())
        (warm,) = [total for total in page.summary.caches if total.scenario == "warm"]
        assert f"Compile caches{warm.saved:.1f}%saved by a warm start" in top
        assert "hit rate of the warm start 90.3% (56/62)" in top
        assert "smallest saving BertForMaskedLM" in top
        assert f"warm saves {warm.saved:.1f}%" in title_of(page)

    def test_columns_are_those_of_the_starts(self) -> None:
        columns = page_of(cache_run()).columns
        assert columns[:3] == ("cold_compile_seconds", "warm_compile_seconds", "warm_saved")
        mixed = page_of(mixed_run()).columns
        assert mixed[0] == "speedup"
        assert mixed[-2:] == ("cold_compile_seconds", "warm_saved")
        assert len(mixed) == 6
        assert (
            page_of(sample_run()).columns
            == page_of(mixed_run()).columns[:4] + page_of(sample_run()).columns[4:]
        )

    def test_groups_say_what_warm_saves(self) -> None:
        text = Seen(html_of(mixed_run())).text
        assert re.search(r"huggingfacecompile_cache4 / 6 \(67%\)saves [\d.]+% in 4 cases", text)

    def test_a_row_opens_to_a_column_for_each_start(self, html: str) -> None:
        (row,) = re.findall(r'<tbody id="case-bertformaskedlm.*?(?=<tbody id=|</section>)', html, re.DOTALL)
        assert '<th scope="col">precompile</th>' in row
        assert '<th scope="row">hit_rate</th><td>0%</td><td>100%</td>' in row
        assert "start fork; repeats 3" in row

    def test_each_word_is_explained_once(self, html: str) -> None:
        words = Seen(html).texts
        assert words.count("\u2026_compile_seconds") == 1
        assert "time torch spent compiling, by its own timers [s]" in words

    def test_a_failure_in_one_scenario_is_among_what_went_wrong(self, html: str) -> None:
        assert "in the warm scenario: the first result is not that of the cold start" in html

    def test_every_link_leads_to_something(self) -> None:
        found = Seen(html_of(mixed_run()))
        ids = found.values("id")
        assert len(set(ids)) == len(ids)
        links = [value for tag, name, value in found.attributes if tag == "a" and name == "href"]
        assert {link.removeprefix("#") for link in links} <= set(ids)


class TestSafety:
    def test_no_name_or_reason_becomes_markup(self) -> None:
        section = section_of(html_of(nasty_run()))
        found = Seen(section)
        assert found.tags["script"] == found.tags["img"] == 0
        assert not [name for _, name, _ in found.attributes if name.startswith("on") or name == "style"]
        assert max(map(len, re.findall(r"[\d,]+", found.text))) < 30

    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_any_numbers_and_any_words_make_a_sound_page_that_shows_every_case_and_every_reason(
        self, data: st.DataObject
    ) -> None:
        run, said = data.draw(hostile_runs(cache_runs())), data.draw(st.sampled_from(MARKUP))
        why = {"scenario": "warm", "graph": "0/0", "cache": said, "state": "miss", "reason": f"{said}!"}
        sound = timed(f"sound {said}", cold=2.0, warm=1.0, extra={"not_warm": [why]})
        html = html_of(run_of(*run.outcomes, sound))
        shown = expect_harmless(html).text
        for outcome in run.outcomes:
            assert outcome.case.benchmark in shown
            for measurement in outcome.measurements:
                known = METRICS[measurement.metric]
                assert known.quantity in shown
                assert format_value(measurement.value, known.unit.removesuffix(" of look-ups")) in shown
        section = Seen(section_of(html)).text
        assert f"sound {said}" in section
        assert f"{said}!" in section


@st.composite
def cache_runs(draw: st.DrawFn) -> Run:
    """Runs whose metrics have the right names, and of which nothing else need be right."""
    metrics = [name for name, metric in METRICS.items() if metric.probes == (Probe.COMPILE_CACHE,)]
    numbers = st.lists(
        st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | st.floats(0, 100), min_size=1, max_size=3
    )
    states = st.sampled_from(["pass", "not available", "fail_to_run", ""]) | JSON_VALUES
    stated = st.dictionaries(
        st.sampled_from(list(SCENARIOS)),
        st.fixed_dictionaries({"status": states, "reason": JSON_VALUES}) | JSON_VALUES,
    )
    reasons = st.lists(
        st.fixed_dictionaries(
            {
                key: st.text(max_size=4) | st.sampled_from(MARKUP) | JSON_VALUES
                for key in ("scenario", "graph", "cache", "state", "reason")
            }
        ),
        max_size=3,
    )
    outcomes = []
    for number in range(draw(st.integers(1, 3))):
        chosen = draw(st.sets(st.sampled_from(metrics), max_size=12))
        measured = tuple(Measurement(metric, tuple(draw(numbers))) for metric in sorted(chosen))
        extra = {
            "scenarios": draw(stated | JSON_VALUES),
            "not_warm": draw(reasons | JSON_VALUES),
            "artifacts": draw(JSON_VALUES),
        }
        status = draw(st.sampled_from(["pass", "fail_accuracy"]))
        outcomes.append(with_facts(Outcome(Case(f"m{number}", "compile_cache"), status, measured), extra))
    return run_of(*outcomes)


def test_metrics_are_told_apart_from_those_of_other_probes() -> None:
    assert split_metric("warm_aot_autograd_seconds") == ("warm", "aot_autograd_seconds")
    assert split_metric("graph_breaks") is None
    assert split_metric("cold_nonsense") is None


def test_all_but_a_few_hits_are_never_all() -> None:
    assert hits_text(2, 2) == "100% (2/2)"
    assert hits_text(99_999, 100_000) == "99.9% (99,999/100,000)"
    assert hits_text(0, 0) == ""


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (999_900, "1 MB"), (1e9, "1 GB"), (5e17, "5e+05 TB")]
)
def test_sizes_are_short(number: float, text: str) -> None:
    assert format_size(number) == text


def test_a_case_that_failed_cold_has_no_bars_but_its_status() -> None:
    section = section_of(html_of(run_of(cache_failed("a", "cold", "OOM", "too large"))))
    assert "<svg" not in section
    assert "OOM" in Seen(section).text
