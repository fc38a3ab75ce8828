"""Flame graphs: as wide as what they show, as colored as what changed, safe whatever is in them, and usable in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from conftest import Command, WriteFile
from profile_samples import ATTACK, case_of, outcome_of, profile, run_of, sample_profile, sample_run, stacks
from torchstone.analyze.attribution import Frame, compare
from torchstone.analyze.profiles import read_profile
from torchstone.core.records import Run
from torchstone.core.run_file import encode_run
from torchstone.reporting.html.page import hash_of, read_asset
from torchstone.reporting.html.profile_section import ALL_FRAMES, Explained, explain_rows, render_cases
from torchstone.reporting.svg.flame_graph import MOST_FRAMES, SMALLEST, Box, draw_flame, lay_out, shade_of

expect.set_options(timeout=30_000)  # a busy machine may take longer than the usual five seconds

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
Open = Callable[..., Page]


def tree(name: str, base: float, new: float, *below: Frame) -> Frame:
    """A frame with this cost of its own, and those below it."""
    return Frame(
        name,
        base + sum(frame.base for frame in below),
        new + sum(frame.new for frame in below),
        {frame.name: frame for frame in below},
    )


def by_name(root: Frame, most: int = MOST_FRAMES) -> dict[str, Box]:
    return {box.name: box for box in lay_out(root, most)}


class TestLayout:
    def test_frames_are_as_wide_as_they_cost_now(self) -> None:
        boxes = by_name(tree("all", 0, 10, tree("a", 5, 60), tree("b", 500, 30)))
        assert (boxes["all"].left, boxes["all"].width) == (0, 100)
        assert boxes["a"].width == pytest.approx(60)
        assert boxes["b"].width == pytest.approx(30)
        assert (boxes["a"].depth, boxes["all"].depth) == (1, 0)

    def test_what_is_gone_is_a_thin_stripe(self) -> None:
        boxes = by_name(tree("all", 0, 0, tree("gone", 400, 0, tree("below", 100, 0)), tree("b", 500, 1000)))
        assert 0.2 < boxes["gone"].width < 0.5
        assert boxes["below"].width == pytest.approx(boxes["gone"].width / 5)

    def test_where_all_is_gone_its_old_cost_is_drawn(self) -> None:
        boxes = by_name(tree("all", 0, 0, tree("a", 75, 0), tree("b", 25, 0)))
        assert boxes["a"].width == pytest.approx(75)

    def test_nothing_at_all_is_not_drawn(self) -> None:
        assert lay_out(Frame("all")) == []
        assert draw_flame(Frame("all"), "calls", "x", plain=False) == ""

    def test_frames_too_small_to_see_are_one(self) -> None:
        small = [tree(f"s{number}", 1, 1) for number in range(500)]
        boxes = by_name(tree("all", 0, 0, tree("large", 9_000, 9_000), *small))
        assert set(boxes) == {"all", "large", "(500 smaller)"}
        assert (boxes["(500 smaller)"].base, boxes["(500 smaller)"].new) == (500, 500)

    def test_there_are_never_too_many(self) -> None:
        rows = [tree(f"a{n}", 1, 1, tree(f"b{n}", 1, 1, tree(f"c{n}", 1, 1))) for n in range(300)]
        wide = tree("all", 0, 0, *rows)
        assert len(lay_out(wide)) == 1 + 3 * 300
        few = lay_out(wide, 400)
        assert [box.new for box in few] == [900, *([3] * 300)]
        assert [box.name for box in lay_out(wide, 100)] == ["all", "(300 smaller)"]

    @given(
        st.recursive(
            st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.just(())),
            lambda below: st.tuples(
                st.integers(0, 1000), st.integers(0, 1000), st.lists(below, max_size=5).map(tuple)
            ),
            max_leaves=30,
        )
    )
    def test_every_frame_is_within_the_one_above_it_and_beside_its_neighbours(self, drawn: Any) -> None:  # noqa: ANN401
        def grow(node: Any, name: str) -> Frame:  # noqa: ANN401
            return tree(
                name, node[0], node[1], *(grow(below, f"{name}.{n}") for n, below in enumerate(node[2]))
            )

        root = grow(drawn, "r")
        boxes = lay_out(root)
        assert bool(boxes) == bool(root.size)
        ends: list[
            tuple[float, float]
        ] = []  # of the frames above: where the next below begins, and where it must end
        for box in boxes:
            del ends[box.depth :]
            if ends:
                at, end = ends[-1]
                assert box.left == pytest.approx(at, abs=1e-6)
                assert box.left + box.width <= end + 1e-6
                ends[-1] = (box.left + box.width, end)
            ends.append((box.left, box.left + box.width))
            assert box.width > 0
            assert max(box.base, box.new) >= SMALLEST * root.size * 0.999


@pytest.mark.parametrize(
    ("base", "new", "shade"),
    [
        *((100, 100, "s"), (10_000, 10_001, "s"), (0, 0, "s"), (0, 5, "m4"), (5, 0, "l4")),
        *((1000, 1005, "m1"), (100, 102, "m2"), (100, 110, "m3"), (100, 125, "m4"), (100, 60, "l4")),
        *((1000, 995, "l1"), (100, 98, "l2"), (100, 90, "l3")),
    ],
)
def test_the_color_is_the_change_relative_to_base(base: int, new: int, shade: str) -> None:
    assert shade_of(base, new) == shade


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        self.attributes |= {name for name, _ in attrs}


def explained(base: object, new: object, label: str = "add_loop") -> Explained:
    return Explained(label, "", compare(read_profile(base, "b", 2), read_profile(new, "n", 2)))


class TestPages:
    """The pages as the commands write them."""

    @pytest.fixture
    def page(self, torchstone: Command, write: WriteFile, tmp_path: Path) -> Callable[..., str]:
        def call(new: Run, base: Run | None = None, command: str = "report") -> str:
            write("new.jsonl", encode_run(new))
            write("base.jsonl", encode_run(base or new))
            against = ("--baseline", "base.jsonl") if base else ()
            arguments = (
                ("report", "new.jsonl", *against)
                if command == "report"
                else ("explain", "base.jsonl", "new.jsonl")
            )
            self.err = torchstone(*arguments, "-o", "page.html").err
            return (tmp_path / "page.html").read_text(encoding="utf-8")

        return call

    def test_the_report_with_a_baseline_shows_where_changes_came_from(self, page: Callable[..., str]) -> None:
        html = page(sample_run(changed=True), sample_run(changed=False))
        assert "Causes of the changes: 3 cases" in html
        assert "+61,884,024 (+2.1%), counted by simulated." in html
        assert html.count('class="frames"') == 5
        assert html.count("run_extra_pass (torch/_inductor/fx_passes/walk.py)") == 2

    def test_without_a_baseline_it_shows_where_counts_went(self, page: Callable[..., str]) -> None:
        html = page(sample_run(changed=True))
        assert "Profiles: 3 cases" in html
        assert 'class="p0' in html
        assert "data-base" not in Tags(html).attributes
        assert "shades" not in html.partition("<body>")[2]

    def test_without_a_profile_nothing_of_it_is_in_the_page(self, page: Callable[..., str]) -> None:
        html = page(run_of(outcome_of(case_of("a"), None)))
        assert ".frames" not in html
        assert "explained" not in html

    def test_another_counter_in_the_baseline_is_said_and_not_compared(self, page: Callable[..., str]) -> None:
        old = sample_profile(changed=False, counter="python")
        html = page(
            run_of(outcome_of(case_of("a"), sample_profile(changed=True))),
            run_of(outcome_of(case_of("a"), old)),
        )
        assert "Not compared: this is counted by simulated, the baseline by python." in html
        assert 'class="p0' in html

    def test_a_malformed_profile_is_a_caution_with_its_place(self, page: Callable[..., str]) -> None:
        bad = sample_profile(changed=True) | {"total": "lots"}
        html = page(
            run_of(outcome_of(case_of("good"), sample_profile(changed=True)), outcome_of(case_of("bad"), bad))
        )
        assert (
            "the profile of bad is not shown: new.jsonl:3: column outcome.details.profile.total" in self.err
        )
        assert "the profile of bad is not shown" in html
        assert "Profiles: 1 case" in html

    def test_a_profile_is_not_told_again_among_what_else_is_known(self, page: Callable[..., str]) -> None:
        html = page(sample_run(changed=True))
        details = "".join(re.findall(r'<tr class="detail">.*?</tr>', html, re.DOTALL))
        assert "adds in a loop" in details
        assert "_PyEval_EvalFrameDefault" not in details

    @pytest.mark.parametrize("command", ["report", "explain"])
    def test_an_attack_in_a_name_is_text(self, page: Callable[..., str], command: str) -> None:
        evil = profile([[ATTACK, ATTACK, ATTACK, 9]], stacks=stacks([ATTACK, 5, [["\u202eab\x00", 5, []]]]))
        html = page(
            run_of(outcome_of(case_of(ATTACK), evil)), run_of(outcome_of(case_of(ATTACK), evil)), command
        )
        tags = Tags(html)
        assert tags.seen["script"] == tags.seen["style"] == 1
        assert tags.seen["img"] == 0
        assert not [name for name in tags.attributes if name.startswith("on") or name == "style"]
        assert "\u202e" not in html
        assert "\\u202e" in html

    @pytest.mark.parametrize(("command", "scripts"), [("report", ["page", "flame"]), ("explain", ["flame"])])
    def test_the_policy_allows_just_what_is_in_the_page(
        self, page: Callable[..., str], command: str, scripts: list[str]
    ) -> None:
        html = page(sample_run(changed=True), sample_run(changed=False), command)
        script = "".join(read_asset(f"{name}.js") for name in scripts)
        style = read_asset("page.css") + read_asset("flame.css")
        assert f"script-src '{hash_of(script)}'" in html.replace("&#x27;", "'")
        assert f"style-src '{hash_of(style)}'" in html.replace("&#x27;", "'")
        assert f"<script>{script}</script>" in html
        assert f"<style>{style}</style>" in html
        assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")

    def test_many_cases_share_the_room(self) -> None:
        def bush(depth: int, name: str) -> list[Any]:
            return [name, 1, [bush(depth - 1, f"{name}{n}") for n in range(5)] if depth else []]

        stated = profile([["dynamo", "l", "f", 9]], stacks=stacks(bush(4, "f")))
        alone = render_cases([explained(stated, stated)])
        many = render_cases([explained(stated, stated, f"case{number}") for number in range(60)])
        assert 781 <= alone.count("<rect/>") <= 790
        assert many.count("<rect/>") <= ALL_FRAMES < 60 * 781
        first, *_, last = (part.count("<rect/>") for part in many.split("<details")[1:] if "<rect/>" in part)
        assert first >= 781
        assert 5 < last <= 200

    def test_rows_without_profiles_cost_nothing(self) -> None:
        assert explain_rows([], None) == ((), ())


# ---- In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        reason = "chromium is not installed: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        quietly = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=quietly)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that the tests look at, as the commands write them."""
    from profile_samples import main  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("flames")
    main(folder)
    return folder


@pytest.fixture
def visit(browser: Browser, pages: Path) -> Iterator[Open]:
    """Opens a page; afterwards nothing was fetched, and nobody complained."""
    contexts, complaints = [], []

    def call(name: str = "explain", *, width: int = 1280, **options: Any) -> Page:  # noqa: ANN401
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        url = (pages / f"{name}.html").as_uri()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: complaints.append(request.url) if request.url != url else None)
        page.goto(url)
        return page

    yield call
    for context in contexts:
        context.close()
    assert complaints == []


def graph(page: Page, number: int = 0) -> Locator:
    return page.locator(".flame").nth(number)


def frame(flame: Locator, name: str) -> Locator:
    """The frame of this name: the first there is."""
    return flame.locator(".frames svg svg").filter(has=flame.page.get_by_text(name)).first


def width_of(node: Locator) -> float:
    box = node.bounding_box()
    assert box
    return box["width"]


class TestLooking:
    def test_pointing_at_a_frame_tells_what_it_cost(self, visit: Open) -> None:
        flame = graph(visit())
        frame(flame, "inductor").hover()
        told = flame.locator(".frame-status")
        expect(told).to_have_text(
            "inductor 1,532,999,995 instructions, was 1,399,999,997: +132,999,998 (+9.5%); 52.1% of all"
        )
        flame.page.mouse.move(0, 0)
        expect(told).to_contain_text("Hover over a frame")

    def test_frames_are_as_wide_as_their_cost(self, visit: Open) -> None:
        flame = graph(visit())
        whole = width_of(frame(flame, "all"))
        new = sample_profile(changed=True)
        for phase in ("dynamo", "inductor"):
            share = new["phases"][phase] / new["total"]
            assert width_of(frame(flame, phase)) / whole == pytest.approx(share, rel=0.02)

    def test_more_is_red_less_is_blue_same_is_grey(self, visit: Open) -> None:
        flame = graph(visit())

        def color(name: str) -> list[int]:
            fill = frame(flame, name).locator("rect").evaluate("(node) => getComputedStyle(node).fill")
            return [int(part) for part in re.findall(r"\d+", fill)]

        red, _, blue = color("inductor")
        assert red > blue + 30
        red, _, blue = color("dynamo")
        assert blue > red + 30
        assert max(color("aot_autograd")) - min(color("aot_autograd")) < 10

    def test_what_is_gone_can_be_seen_and_read(self, visit: Open) -> None:
        flame = graph(visit())
        gone = frame(flame, "LeafGuard::check")
        assert 1 <= width_of(gone) < 8
        gone.hover()
        expect(flame.locator(".frame-status")).to_contain_text(
            "LeafGuard::check 0 instructions, was 59,808,452"
        )
        expect(flame.locator(".frame-status")).to_contain_text("(\u2212100.0%)")


class TestZooming:
    def test_a_click_looks_closer_and_the_button_shows_all(self, visit: Open) -> None:
        flame = graph(visit())
        whole = width_of(frame(flame, "all"))
        before = width_of(frame(flame, "inductor"))
        reset = flame.get_by_role("button", name="Show all")
        expect(reset).to_be_disabled()
        frame(flame, "inductor").click()
        assert width_of(frame(flame, "inductor")) == pytest.approx(whole, abs=2)
        assert width_of(frame(flame, "all")) == pytest.approx(whole, abs=2)
        expect(frame(flame, "dynamo")).to_be_hidden()
        expect(flame.locator(".frame-status")).to_contain_text("inductor 1,532,999,995")
        below = flame.locator(".frames svg svg:visible").filter(has=flame.page.get_by_text("libc.so.6"))
        share = 0.2876  # of inductor, that is
        assert width_of(below.first) / whole == pytest.approx(share, abs=0.02)
        reset.click()
        expect(frame(flame, "dynamo")).to_be_visible()
        assert width_of(frame(flame, "inductor")) == pytest.approx(before, abs=1)
        expect(reset).to_be_disabled()

    def test_a_click_on_a_frame_above_goes_back_up(self, visit: Open) -> None:
        flame = graph(visit(), 1)
        frame(flame, "run_extra_pass").click()
        expect(frame(flame, "symbolic_convert.py")).to_be_hidden()
        frame(flame, "compile_inner").click()
        expect(frame(flame, "symbolic_convert.py")).to_be_visible()

    def test_names_come_into_sight_where_there_is_room_for_them(self, visit: Open) -> None:
        flame = graph(visit())
        name = flame.locator("text", has_text="PySet_Contains")
        expect(name).to_be_hidden()
        frame(flame, "PySet_Contains").click()
        expect(name).to_be_visible()


class TestKeyboard:
    def test_arrows_move_enter_looks_closer_and_escape_shows_all(self, visit: Open) -> None:
        page = visit()
        flame = graph(page)
        flame.get_by_label("Find").focus()
        page.keyboard.press("Tab")  # the button is of no use yet, and so is passed over
        frames = flame.locator(".frames")
        expect(frames).to_be_focused()
        told = flame.locator(".frame-status")
        expect(told).to_contain_text("all 2,942,007,469 instructions")
        page.keyboard.press("ArrowDown")
        expect(told).to_contain_text("dynamo 879,692,474")
        page.keyboard.press("ArrowLeft")
        expect(told).to_contain_text("dynamo 879,692,474")
        page.keyboard.press("ArrowRight")
        expect(told).to_contain_text("guards 9,191,547")
        page.keyboard.press("Enter")
        expect(frame(flame, "dynamo")).to_be_hidden()
        page.keyboard.press("ArrowRight")
        expect(told).to_contain_text("guards 9,191,547")
        page.keyboard.press("Escape")
        expect(frame(flame, "dynamo")).to_be_visible()
        page.keyboard.press("ArrowUp")
        expect(told).to_contain_text("all 2,942,007,469 instructions")
        expect(frames).to_be_focused()

    def test_the_focus_can_be_seen(self, visit: Open) -> None:
        page = visit()
        graph(page).get_by_label("Find").focus()
        page.keyboard.press("Tab")
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"

    def test_screen_readers_get_the_tables_and_one_thing_to_operate(self, visit: Open) -> None:
        page = visit()
        expect(page.locator(".frames > svg[aria-hidden=true]")).to_have_count(2)
        expect(page.locator(".frames :is([tabindex], a, button)")).to_have_count(0)
        expect(page.get_by_role("application").first).to_have_accessible_name(re.compile("Arrow keys move"))
        table = page.get_by_role("region", name="Functions that changed most in add_loop_inductor")
        expect(table.get_by_role("row", name="LeafGuard::check")).to_contain_text("59,808,452")


class TestSearching:
    def test_names_are_found_and_counted(self, visit: Open) -> None:
        flame = graph(visit())
        flame.get_by_label("Find").fill("MALLOC")
        told = flame.locator(".frame-status")
        expect(told).to_have_text(re.compile(r"3 frames match, \d+\.\d% of all"))
        expect(flame.locator(".hit")).to_have_count(3)
        flame.get_by_label("Find").fill("no such thing")
        expect(told).to_have_text("0 frames match")
        flame.get_by_label("Find").fill("")
        expect(told).to_contain_text("Hover over a frame")
        expect(flame.locator(".searching")).to_have_count(0)

    def test_each_graph_has_its_own(self, visit: Open) -> None:
        page = visit()
        graph(page, 1).get_by_label("Find").fill("run_extra_pass")
        expect(graph(page, 1).locator(".frame-status")).to_have_text("1 frame matches, 16.3% of all")
        expect(graph(page).locator(".hit")).to_have_count(0)


CONTRAST = """(node) => {
  const numbers = (color) => color.match(/[0-9.]+/g).slice(0, 3).map(Number);
  const light = (color) => numbers(color).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const worst = new Map();
  for (const item of node.querySelectorAll('.frames svg svg, .frames svg > svg')) {
    const [rect, text] = item.children;
    const [a, b] = [light(getComputedStyle(rect).fill), light(getComputedStyle(text).fill)];
    worst.set(item.getAttribute('class').split(' ')[0], (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return Array.from(worst);
}"""


class TestLooks:
    @pytest.mark.parametrize("name", ["explain", "plain"])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_names_stand_out_from_their_frames(self, visit: Open, scheme: str, name: str) -> None:
        found = dict(visit(name, color_scheme=scheme).locator("body").evaluate(CONTRAST))
        assert len(found) >= 3
        assert {shade: ratio for shade, ratio in found.items() if ratio < 4.5} == {}

    def test_dark_mode_has_other_colors(self, visit: Open) -> None:
        fills = [
            frame(graph(visit(color_scheme=scheme)), "inductor")
            .locator("rect")
            .evaluate("(n) => getComputedStyle(n).fill")
            for scheme in ("light", "dark")
        ]
        assert fills[0] != fills[1]

    @pytest.mark.parametrize("name", ["explain", "all", "report", "plain"])
    @pytest.mark.parametrize("width", [320, 360, 700, 1280])
    def test_no_width_makes_the_page_scroll_sideways(self, visit: Open, width: int, name: str) -> None:
        page = visit(name, width=width)
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width

    def test_on_a_phone_the_graph_scrolls_and_a_tap_looks_closer(self, visit: Open) -> None:
        flame = graph(visit(width=360, has_touch=True))
        assert flame.locator(".frames").evaluate("(node) => node.scrollWidth > node.clientWidth")
        frame(flame, "dynamo").tap()
        expect(frame(flame, "inductor")).to_be_hidden()
        expect(flame.locator(".frame-status")).to_contain_text("dynamo 879,692,474")

    def test_without_the_script_the_graph_is_a_picture(self, visit: Open) -> None:
        flame = graph(visit(java_script_enabled=False))
        expect(frame(flame, "inductor")).to_be_visible()
        expect(flame.locator(".tools")).to_be_hidden()
        expect(flame.locator(".frame-status")).to_be_hidden()

    def test_print_hides_what_only_a_screen_needs(self, visit: Open) -> None:
        page = visit()
        page.emulate_media(media="print")
        expect(graph(page).locator(".tools")).to_be_hidden()
        expect(frame(graph(page), "inductor")).to_be_visible()


class TestReport:
    def test_graphs_that_are_folded_away_work_once_they_are_opened(self, visit: Open) -> None:
        page = visit("report")
        part = page.locator("details.explained", has_text="add_loop_inductor")
        part.locator("summary").first.click()
        flame = part.locator(".flame").first
        frame(flame, "inductor").click()
        expect(frame(flame, "dynamo")).to_be_hidden()

    def test_the_rest_of_the_report_works_beside_them(self, visit: Open) -> None:
        page = visit("report")
        page.locator("#filters").get_by_label("Find").fill("mm_loop")
        expect(page.locator("#shown")).to_have_text("1 of 4 cases shown")
        page.get_by_role("link", name="Row in the table").first.click()
        expect(page.locator("#cases-table > .open")).to_have_count(1)

    def test_a_plain_graph_tells_the_cost_alone(self, visit: Open) -> None:
        flame = graph(visit("plain"))
        frame(flame, "inductor").hover()
        expect(flame.locator(".frame-status")).to_have_text(
            "inductor 1,532,999,995 instructions; 52.1% of all"
        )
        expect(flame.locator(".legend")).to_have_count(0)

    def test_an_attack_in_a_name_has_no_effect(self, visit: Open) -> None:
        page = visit("report")
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        flame = graph(page)
        flame.get_by_label("Find").fill("<script")
        expect(flame.locator(".hit")).to_have_count(1)
        flame.locator(".hit").hover()
        expect(flame.locator(".frame-status")).to_contain_text(ATTACK)
        assert page.locator("img, body script").count() == 0
        assert page.evaluate("() => document.scripts.length") == 1
