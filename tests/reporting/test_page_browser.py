"""The page in a real browser: Debian's chromium, driven by playwright, offline."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_samples import cache_run, large_run, mixed_run, nasty_run, old_run, sample_run
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

import torchstone as public
from comparison_files import counts, failed, passed, times, write_run
from torchstone.core.records import Reading, Run
from torchstone.formats.merge import merge
from torchstone.gate.baseline import Baseline
from torchstone.gate.blocking_policy import make_policy
from torchstone.gate.checking.against_baseline import check_against_baseline
from torchstone.gate.judgement import Conditions
from torchstone.gate.rules import RuleBook
from torchstone.reporting.html.page import render_page
from torchstone.reporting.views.accepting import acceptance_for
from torchstone.reporting.views.check_rows import Context, Report
from torchstone.reporting.views.page_view import make_page

expect.set_options(timeout=30_000)  # a busy machine may take longer than the usual five seconds

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIETLY = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]
Open = Callable[..., Page]

CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const known = new Map();
  const parse = (color) => {
    if (!known.has(color)) {
      canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
      known.set(color, Array.from(canvas.getImageData(0, 0, 1, 1).data));
    }
    return known.get(color);
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] / 255 + below[i] * (1 - top[3] / 255));
  const back = (node) => {
    const chain = [];
    for (let at = node; at; at = at.parentElement) chain.push(parse(getComputedStyle(at).backgroundColor));
    return chain.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const worst = new Map();
  for (const node of document.querySelectorAll('body *')) {
    const own = Array.from(node.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('svg')) continue;
    const [a, b] = [light(over(parse(getComputedStyle(node).color), back(node))), light(back(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = node.tagName + '.' + node.className;
    if (!worst.has(name) || worst.get(name) > ratio) worst.set(name, ratio);
  }
  return Array.from(worst);
}"""


AXIS_LABELS = """() => {
  const wrong = [];
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = Array.from(svg.querySelectorAll(':scope > text'), (node) => [node.textContent, node.getBoundingClientRect()]);
    for (const [text, box] of boxes)
      if (box.left < 0 || box.right > document.documentElement.clientWidth) wrong.push('cut: ' + text);
    boxes.forEach(([text, box], at) => boxes.slice(at + 1).forEach(([other, next]) => {
      if (box.left < next.right && next.left < box.right && box.top < next.bottom && next.top < box.bottom)
        wrong.push(text + ' over ' + other);
    }));
  }
  return wrong;
}"""


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


def html_of(run: Run, baseline: Run | None = None) -> str:
    results = merge([Reading("run.jsonl", "run", run, range(2, 2 + len(run.outcomes)))])
    if baseline is None:
        return render_page(make_page(results))
    old = Reading("old.jsonl", "run", baseline, range(2, 2 + len(baseline.outcomes)))
    rules = RuleBook()
    judgement = check_against_baseline(
        results, Baseline([old]), Conditions(make_policy("strict", (), ()), rules)
    )
    probes = {"old.jsonl": frozenset({"performance", "accuracy"})}
    context = Context(("run.jsonl",), probes, acceptance_for(results.readings, [old], rules))
    report = Report(judgement, context)
    return render_page(make_page(results, report))


def compared_page(folder: Path) -> str:
    """A comparison with a regression, a failure, a wide interval, counts, and names that need their room."""
    long = "a_model_with_a_rather_long_name_ForMaskedLanguageModelling"
    sides = [
        [
            passed("slow", times(12.0 * worse, seed=1 + number)),
            passed(long, times(80.0 / worse, seed=3 + number)),
            passed("noisy", times(0.02, 3, seed=5 + number, spread=0.9)),
            passed("counted", counts("instruction_count", round(1_914_643_426 * worse))),
            passed("alike", times(5.0, seed=7 + number), counts("graph_breaks", 2)),
            failed("ends") if number else passed("ends", times(3.0)),
        ]
        for number, worse in enumerate((1.0, 1.25))
    ]
    names = [write_run(folder, name, side) for name, side in zip(("a.jsonl", "b.jsonl"), sides, strict=True)]
    return public.compare(*(folder / name for name in names)).html


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages that the tests look at."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "plain": html_of(sample_run()),
        "judged": html_of(sample_run(), old_run()),
        "nasty": html_of(nasty_run()),
        "caches": html_of(cache_run()),
        "mixed": html_of(mixed_run()),
        "compared": compared_page(folder),
    }
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.fixture
def visit(browser: Browser, files: dict[str, Path]) -> Iterator[Open]:
    """Opens a page; afterwards nothing was fetched, and nobody complained."""
    contexts, complaints = [], []

    def call(name: str = "judged", *, hash_: str = "", width: int = 1280, **options: Any) -> Page:  # noqa: ANN401
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on(
            "request", lambda request: complaints.append(request.url) if request.url != page.url else None
        )
        page.goto(f"{files[name].as_uri()}{hash_}")
        complaints[:] = [text for text in complaints if not text.startswith(files[name].as_uri())]
        return page

    yield call
    for context in contexts:
        context.close()
    assert complaints == []


def names(page: Page) -> list[str]:
    """The cases in sight, from top to bottom."""
    return page.locator("#cases-table > tbody:not([hidden]) > tr:first-child > th button").all_inner_texts()


def column(page: Page, name: str) -> list[float]:
    """The numbers of a column, where there are any."""
    cells = page.locator(f"#cases-table > tbody:not([hidden]) > tr:first-child > td[data-name='{name}']")
    return [float(text.split("x")[0].split("\n")[0]) for text in cells.all_inner_texts()]


def head(page: Page, name: str) -> Locator:
    return page.locator("#cases-table > thead th", has_text=name)


def row(page: Page, name: str, probe: str = "performance") -> Locator:
    return page.locator(f"#cases-table > tbody[data-probe='{probe}']").filter(
        has=page.get_by_role("button", name=name, exact=True)
    )


class TestSorting:
    def test_a_click_sorts_up_a_second_down_a_third_as_it_was(self, visit: Open) -> None:
        page = visit()
        before = names(page)
        button = head(page, "Speedup").get_by_role("button")
        button.click()
        expect(head(page, "Speedup")).to_have_attribute("aria-sort", "ascending")
        rising = column(page, "Speedup")
        assert rising == sorted(rising)
        button.click()
        expect(head(page, "Speedup")).to_have_attribute("aria-sort", "descending")
        falling = column(page, "Speedup")
        assert falling == sorted(falling, reverse=True)
        button.click()
        expect(head(page, "Speedup")).to_have_attribute("aria-sort", "none")
        assert names(page) == before

    def test_cases_without_a_number_come_last_either_way(self, visit: Open) -> None:
        page = visit()
        for _ in range(2):
            head(page, "Speedup").get_by_role("button").click()
            there = [
                bool(text.strip())
                for text in page.locator(
                    "#cases-table > tbody > tr:first-child > td:nth-child(5)"
                ).all_inner_texts()
            ]
            assert there == sorted(there, reverse=True)

    def test_names_sort_as_people_read_them(self, visit: Open) -> None:
        page = visit()
        head(page, "Case").get_by_role("button").click()
        assert names(page) == sorted(names(page), key=str.lower)


class TestFiltering:
    def test_words_find_names_and_messages(self, visit: Open) -> None:
        page = visit()
        page.get_by_label("Find").fill("out of memory")
        expect(page.locator("#shown")).to_have_text("2 of 50 cases shown")
        assert set(names(page)) == {"BlenderbotForCausalLM"}
        page.get_by_label("Find").fill("t5small accuracy")
        expect(page.locator("#shown")).to_have_text("1 of 50 cases shown")

    def test_status_gate_and_probe_narrow_it_together(self, visit: Open) -> None:
        page = visit()
        page.get_by_label("fail_to_run").check()
        expect(page.locator("#shown")).to_have_text("3 of 50 cases shown")
        page.get_by_label("fail_accuracy").check()
        expect(page.locator("#shown")).to_have_text("5 of 50 cases shown")
        page.get_by_label("Probe").select_option("performance")
        expect(page.locator("#shown")).to_have_text("1 of 50 cases shown")
        page.get_by_role("button", name="Clear filters").click()
        expect(page.locator("#shown")).to_have_text("50 cases shown")
        page.locator("fieldset", has_text="Gate").get_by_label("missing").check()
        expect(page.locator("#shown")).to_have_text("2 of 50 cases shown")

    def test_nothing_found_is_said(self, visit: Open) -> None:
        page = visit()
        page.get_by_label("Find").fill("no such thing")
        expect(page.get_by_text("No case matches.")).to_be_visible()
        page.get_by_label("Find").press("Enter")
        expect(page.locator("#shown")).to_have_text("0 of 50 cases shown")


class TestOpening:
    def test_rows_are_closed_until_they_are_clicked(self, visit: Open) -> None:
        page = visit()
        body = row(page, "convnext_base")
        details = body.locator(".detail")
        expect(details).to_be_hidden()
        body.get_by_role("button", name="convnext_base").click()
        expect(details).to_be_visible()
        expect(body.locator("th button")).to_have_attribute("aria-expanded", "true")
        expect(details).to_contain_text("LoweringException")
        body.get_by_text("Traceback (9 lines)").click()
        expect(details).to_contain_text("torch/_dynamo/eval_frame.py")
        body.get_by_role("button", name="convnext_base").click()
        expect(details).to_be_hidden()

    def test_the_command_that_measures_it_again_can_be_copied(self, visit: Open) -> None:
        page = visit(permissions=["clipboard-read", "clipboard-write"])
        body = row(page, "T5Small")
        body.get_by_role("button", name="T5Small").click()
        command = body.locator(".command").last
        command.get_by_role("button", name="Copy").click()
        expect(command.get_by_role("button")).to_have_text("Copied")
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert copied.startswith("torchstone repro run.jsonl 'huggingface::T5Small[")

    def test_a_link_to_a_row_opens_it_and_focuses_it(self, visit: Open) -> None:
        page = visit()
        anchor = row(page, "DebertaV2ForMaskedLM").get_attribute("id")
        linked = visit(hash_=f"#{anchor}")
        body = linked.locator(f"#{anchor}")
        expect(body.locator(".detail")).to_be_visible()
        expect(body.locator("th button")).to_be_focused()
        expect(body.locator("th button")).to_be_in_viewport()

    def test_a_link_by_the_id_of_the_case_works_too(self, visit: Open) -> None:
        case = next(o.case.id for o in sample_run().outcomes if o.case.benchmark == "resnet50")
        page = visit(hash_=f"#{case}")
        expect(row(page, "resnet50").locator(".detail")).to_be_visible()

    def test_a_link_within_the_page_finds_a_row_that_is_filtered_away(self, visit: Open) -> None:
        page = visit()
        page.get_by_label("Find").fill("albert")
        expect(page.locator("#shown")).to_contain_text(" of 50")
        page.locator(".troubles a", has_text="M2M100ForConditionalGeneration").first.click()
        expect(row(page, "M2M100ForConditionalGeneration").locator(".detail")).to_be_visible()
        expect(page.get_by_label("Find")).to_have_value("")

    def test_a_hash_that_means_nothing_does_nothing(self, visit: Open) -> None:
        page = visit(hash_="#%E0%A4%A")
        expect(page.locator("#cases-table > .open")).to_have_count(0)


class TestKeyboard:
    def test_sorting_filtering_and_opening_need_no_mouse(self, visit: Open) -> None:
        page = visit()
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the table")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Find")).to_be_focused()
        page.keyboard.type("swin")
        expect(page.locator("#shown")).to_have_text("2 of 50 cases shown")
        reach(page, lambda: focused(page) == "Speedup")
        page.keyboard.press("Space")
        expect(head(page, "Speedup")).to_have_attribute("aria-sort", "ascending")
        reach(page, lambda: focused(page).startswith("swin_base"))
        page.keyboard.press("Enter")
        expect(row(page, "swin_base_patch4_window7_224").locator(".detail")).to_be_visible()
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"

    def test_chips_are_boxes_to_tick(self, visit: Open) -> None:
        page = visit()
        page.get_by_label("Find").focus()
        reach(page, lambda: page.evaluate("() => document.activeElement.value") == "timeout")
        page.keyboard.press("Space")
        expect(page.locator("#shown")).to_have_text("1 of 50 cases shown")


def focused(page: Page) -> str:
    text: str = page.evaluate("() => document.activeElement.textContent")
    return text


def reach(page: Page, there: Callable[[], bool]) -> None:
    """Press Tab until it is there."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if there():
            return
    pytest.fail("Tab does not lead there")


class TestLooks:
    def test_dark_mode_has_other_colors(self, visit: Open) -> None:
        colors = [
            visit(color_scheme=scheme).evaluate("() => getComputedStyle(document.body).backgroundColor")
            for scheme in ("light", "dark")
        ]
        assert colors == ["rgb(255, 255, 255)", "rgb(19, 22, 26)"]

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_text_stands_out_from_its_background(self, scheme: str, visit: Open) -> None:
        page = visit(color_scheme=scheme)
        for name in ("convnext_base", "T5Small", "XLNetLMHeadModel"):
            row(page, name).locator("th button").click()
        page.mouse.move(0, 0)
        weak = {name: ratio for name, ratio in page.evaluate(CONTRASTS) if ratio < 4.5}
        assert weak == {}

    @pytest.mark.parametrize("name", ["plain", "judged", "nasty", "caches", "mixed", "compared"])
    @pytest.mark.parametrize("width", [320, 360, 700, 900, 1280, 1900])
    def test_no_width_makes_the_page_scroll_sideways(self, width: int, name: str, visit: Open) -> None:
        page = visit(name, width=width)
        page.evaluate(
            "() => document.querySelectorAll('#cases-table > tbody th button').forEach((b) => b.click())"
        )
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width

    def test_on_a_phone_each_case_is_a_card_with_named_numbers(self, visit: Open) -> None:
        page = visit(width=360, has_touch=True)
        body = row(page, "T5Small")
        assert body.evaluate("(node) => getComputedStyle(node).display") == "block"
        label = "(node) => getComputedStyle(node, '::before').content"
        assert body.locator("td[data-name='Speedup']").evaluate(label) != "none"
        assert row(visit(), "T5Small").locator("td[data-name='Speedup']").evaluate(label) == "none"
        body.locator("th button").tap()
        expect(body.locator(".detail")).to_be_visible()

    def test_without_the_script_everything_is_in_sight(self, visit: Open) -> None:
        page = visit(java_script_enabled=False)
        expect(row(page, "convnext_base").locator(".detail")).to_be_visible()
        expect(page.locator("#filters")).to_be_hidden()
        expect(page.locator("#cases-table > tbody > tr:first-child").last).to_be_visible()

    def test_print_hides_what_only_a_screen_needs(self, visit: Open) -> None:
        page = visit(color_scheme="dark")
        page.emulate_media(media="print")
        expect(page.locator("#filters")).to_be_hidden()
        expect(page.locator("nav")).to_be_hidden()
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


class TestPictures:
    @pytest.mark.parametrize("name", ["judged", "compared"])
    @pytest.mark.parametrize("width", [360, 1280])
    def test_no_label_of_an_axis_is_cut_or_written_over_another(
        self, width: int, name: str, visit: Open
    ) -> None:
        page = visit(name, width=width)
        assert page.evaluate(AXIS_LABELS) == []
        assert page.locator("svg text").count() > 5

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_a_page_that_fails_is_red_at_the_top_and_readable(self, scheme: str, visit: Open) -> None:
        page = visit("compared", color_scheme=scheme)
        expect(page.locator("h1")).to_have_text(re.compile("^FAIL: 3 regressions"))
        red, green, blue = map(
            int, re.findall(r"\d+", page.locator("h1").evaluate("(node) => getComputedStyle(node).color"))[:3]
        )
        assert red > 1.5 * max(green, blue)
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert {name: ratio for name, ratio in page.evaluate(CONTRASTS) if ratio < 4.5} == {}

    @pytest.mark.parametrize("width", [360, 1280])
    def test_an_opened_row_uses_the_whole_width(self, width: int, visit: Open) -> None:
        page = visit("compared", width=width)
        line = page.locator(".compared > li", has_text="slow")
        line.locator("summary").click()
        whole, opened = line.bounding_box(), line.locator(".command").bounding_box()
        assert whole
        assert opened
        assert opened["width"] > 0.95 * whole["width"]
        plain = visit("plain", width=width)
        body = row(plain, "T5Small").first
        body.locator("th button").click()
        frame, table = (
            body.locator(".detail").bounding_box(),
            body.locator(".detail table").first.bounding_box(),
        )
        assert frame
        assert table
        assert table["width"] > (0.9 if width > 1000 else 0.8) * frame["width"]


class TestCompileCaches:
    def test_bars_are_as_long_as_the_seconds_they_stand_for(self, visit: Open) -> None:
        page = visit("caches")
        lines = page.locator(".pictures > div", has_text="resnet50").locator(".starts li")
        widths, seconds = [], []
        for line in lines.all():
            boxes = [box for rect in line.locator("rect").all() if (box := rect.bounding_box())]
            widths.append(max(box["x"] + box["width"] for box in boxes) - min(box["x"] for box in boxes))
            seconds.append(float(line.locator(".value").inner_text().split(" ")[0]))
        assert len(seconds) == 4
        longest = max(widths) / max(seconds)
        for width, amount in zip(widths, seconds, strict=True):
            assert width == pytest.approx(amount * longest, rel=0.02, abs=1.5)

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_every_phase_has_its_own_color_and_the_legend_shows_it(self, scheme: str, visit: Open) -> None:
        page = visit("caches", color_scheme=scheme)
        drawn = page.evaluate(
            """() => Object.fromEntries(Array.from(document.querySelectorAll('.starts rect'),
                 (rect) => [rect.getAttribute('class'), getComputedStyle(rect).fill]))"""
        )
        told = page.evaluate(
            """() => Object.fromEntries(Array.from(document.querySelectorAll('#main .legend li[class^=part-]'),
                 (item) => [item.className, getComputedStyle(item, '::before').backgroundColor]))"""
        )
        assert drawn == told
        assert len(set(drawn.values())) == len(drawn) == 8

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_text_stands_out_from_its_background(self, scheme: str, visit: Open) -> None:
        page = visit("caches", color_scheme=scheme)
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        page.locator("#cases-table th button", has_text="AllenaiLongformerBase").click()
        page.mouse.move(0, 0)
        assert {name: ratio for name, ratio in page.evaluate(CONTRASTS) if ratio < 4.5} == {}

    def test_the_keyboard_unfolds_the_numbers_and_follows_a_case_to_its_row(self, visit: Open) -> None:
        page = visit("caches")
        page.locator(".pictures a", has_text="BertForMaskedLM").focus()
        page.keyboard.press("Tab")
        assert focused(page) == "Seconds by phase"
        page.keyboard.press("Enter")
        table = page.get_by_role("region", name="Seconds by phase of BertForMaskedLM")
        expect(table).to_be_visible()
        expect(table.get_by_role("row", name="native")).to_contain_text("8.761 s")
        page.locator(".pictures a", has_text="BertForMaskedLM").focus()
        page.keyboard.press("Enter")
        body = page.locator("#cases-table > .open")
        expect(body.locator(".detail")).to_contain_text("Reasons for cache misses")
        expect(body.locator("th button").first).to_be_focused()

    def test_reasons_are_found_by_the_words_in_them(self, visit: Open) -> None:
        page = visit("mixed")
        page.get_by_label("Find").fill("unsupported operators")
        expect(page.locator("#shown")).to_have_text("1 of 59 cases shown")
        assert names(page) == ["AllenaiLongformerBase"]

    def test_rows_of_caches_sort_with_the_others_and_come_last_by_speedup(self, visit: Open) -> None:
        page = visit("mixed")
        head(page, "Speedup").get_by_role("button").click()
        rising = column(page, "Speedup")
        assert rising == sorted(rising)
        head(page, "Warm saves").get_by_role("button").click()
        expect(page.locator("#cases-table > tbody").first).to_have_attribute("data-probe", "compile_cache")
        cells = page.locator("#cases-table > tbody > tr:first-child > td[data-name='Warm saves']")
        shares = [float(text.split("%")[0]) for text in cells.all_inner_texts()]
        assert len(shares) == 6
        assert shares == sorted(shares)


class TestSafety:
    def test_an_attack_in_every_field_has_no_effect(self, visit: Open) -> None:
        page = visit("nasty")
        page.evaluate(
            "() => document.querySelectorAll('#cases-table > tbody th button').forEach((b) => b.click())"
        )
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        page.get_by_label("Find").fill("<img")
        expect(page.locator("#shown")).to_contain_text("shown")
        for button in page.locator("#cases-table > thead button").all():
            button.click()
        for link in page.locator(".alert a").all()[:3]:
            link.click()
        assert page.locator("img, iframe, body script, body style").count() == 0
        assert page.evaluate("() => document.scripts.length") == 1

    def test_the_policy_stops_what_would_get_through(self, browser: Browser, files: dict[str, Path]) -> None:
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(files["plain"].as_uri())
        page.evaluate("() => { document.body.innerHTML = '<img src=x onerror=window.hit=1>'; }")
        page.wait_for_timeout(100)
        assert page.evaluate("() => window.hit") is None
        assert any("Content Security Policy" in text for text in said)
        page.close()


def test_a_page_of_very_many_rows_stays_usable(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(html_of(large_run(1_200)), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#shown")).to_have_text("1,200 cases, the first 500 shown", timeout=30_000)
    page.get_by_label("Find").fill("resnet50_1195")
    expect(page.locator("#shown")).to_have_text("1 of 1,200 cases shown")
    page.get_by_label("Find").fill("")
    expect(page.locator("#shown")).to_have_text("1,200 cases, the first 500 shown")
    head(page, "Speedup").get_by_role("button").click()
    expect(head(page, "Speedup")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#shown")).to_have_text("1,200 cases shown")
    page.close()


def test_a_page_that_left_out_cases_says_so_in_sight_and_its_links_work(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "bounded.html"
    run = large_run(3_000)
    results = merge([Reading("run.jsonl", "run", run, range(2, 3_002))])
    path.write_text(
        render_page(make_page(results, most_rows=600, command=("torchstone", "report", "run.jsonl")))
    )
    page = browser.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#shown")).to_have_text("600 cases, the first 500 shown", timeout=30_000)
    told = page.get_by_text("The table shows 600 of 3,000 cases")
    expect(told).to_be_in_viewport()
    told.get_by_role("link", name="omitted cases").click()
    expect(page.locator("#left-out")).to_be_in_viewport()
    expect(page.locator("#left-out")).to_contain_text("2,400 cases not in this table: 2,400 pass.")
    expect(page.locator("#left-out code").last).to_have_text("torchstone report run.jsonl --most-rows 3000")
    expect(page.locator(".chip", has_text="fail_to_run")).to_have_text("fail_to_run 300")
    page.get_by_label("Find").fill("resnet50_1195")
    expect(page.locator("#none-found")).to_be_visible()
    page.close()
