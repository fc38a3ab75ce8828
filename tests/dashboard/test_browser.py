"""The dashboard in a real browser: served, and from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_clients import record_nights, running
from playwright.sync_api import Browser, Page, expect, sync_playwright

import torchstone

pytestmark = pytest.mark.slow  # starts a browser
CHROMIUM = "/usr/bin/chromium"
QUIETLY = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return record_nights(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def address(store: str) -> Iterator[str]:
    with running(store) as serving:
        yield serving.address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIETLY)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page; whatever its console or its content policy complains of fails the test, and so does a request that leaves this machine."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    opened.on(
        "console",
        lambda message: wrong.append(message.text) if message.type in {"error", "warning"} else None,
    )
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: None if is_here(request.url) else wrong.append(request.url))
    yield opened
    opened.close()
    assert not wrong


def is_here(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "file://", "data:"))


PAGES = (
    "",
    "changes",
    "change/1",
    "cases",
    "compare?a=2026-01-23&b=main",
    "runs",
    "run/117",
    "machines",
    "case/5?second=abs_latency",
    "case/5?by=time",
)


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_their_window_and_break_no_rule(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for path in PAGES:
        page.goto(address + path)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_chart_is_drawn_and_a_click_opens_the_run(page: Page, address: str) -> None:
    page.goto(f"{address}case/5?metric=speedup&second=abs_latency")
    expect(page.locator(".uplot canvas")).to_have_count(2)
    expect(page.locator("svg.history-chart")).to_have_count(0)
    over = page.locator(".u-over").first
    box = over.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".tip").first).to_contain_text("x, noise")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/run/*")


def test_shift_and_drag_compares_the_two_ends(page: Page, address: str) -> None:
    page.goto(f"{address}case/5")
    over = page.locator(".u-over").first
    box = over.bounding_box()
    assert box
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url("**/compare?a=*&b=*")
    page.keyboard.up("Shift")
    expect(page.locator(".sides")).to_be_visible()


def test_keys_and_filters_work_and_the_address_has_the_state(page: Page, address: str) -> None:
    page.goto(f"{address}cases")
    page.keyboard.press("/")
    page.keyboard.type("resnet50")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cases?case=resnet50&branch=main")
    expect(page.locator("table.rows tbody tr")).to_have_count(2)
    page.select_option("select[name=mode]", "training")
    page.wait_for_url("**mode=training**")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/case/*")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()


def test_pages_read_without_a_script(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}case/5")
    expect(page.locator("svg.history-chart")).to_be_visible()
    assert page.locator("table.rows tbody tr").count() == 39
    page.goto(f"{address}cases")
    page.fill("input[name=case]", "resnet50")
    page.click("button[type=submit]")
    assert page.locator("table.rows tbody tr").count() == 2
    context.close()


def test_the_site_works_from_a_disk(page: Page, store: str, tmp_path: Path) -> None:
    made = torchstone.make_site(tmp_path / "site", store, runs=3)
    page.goto(Path(made.first).as_uri())
    page.click("text=Cases")
    page.fill("[data-find]", "resnet50")
    expect(page.locator("table.rows tbody tr:visible")).to_have_count(2)
    page.locator("table.rows tbody tr:visible th a").first.click()
    expect(page.locator(".uplot canvas")).to_have_count(5)
