"""The page of ``torchstone ab``: what is slower lies to the right, in the color of a failure, before a band that is the margin."""

from __future__ import annotations

import re

from torchstone.reporting.html.ab_page import AbPage, AbRow, render_ab


def make_page(*rows: AbRow, margin: float = 0.02, notes: tuple[str, ...] = ()) -> str:
    return render_ab(AbPage("B against A", (("A", "as things are"),), rows, margin, notes))


def row(name: str, verdict: str, ratio: float | None, interval: tuple[float, float] | None) -> AbRow:
    return AbRow(name, verdict, "+5.0%", ("1 ms", "2 ms"), 11, ratio, interval)


def dots(html: str) -> dict[str, tuple[str, float]]:
    """The color and the place of each dot, by name."""
    found = re.findall(
        r'<li>([\w ]+)<svg[^>]*class="dots (\w+)".*?<circle cx="([\d.]+)%"[^>]*class="dot"', html, re.DOTALL
    )
    return {name: (color, float(place)) for name, color, place in found}


def test_slower_is_to_the_right_and_red_and_faster_to_the_left_and_green() -> None:
    html = make_page(
        row("slow", "regression", 1.05, (1.03, 1.07)),
        row("fast", "improvement", 0.95, (0.93, 0.97)),
        row("alike", "same", 1.001, (0.99, 1.01)),
    )
    found = dots(html)
    assert {name: color for name, (color, _) in found.items()} == {
        "slow": "down",
        "fast": "up",
        "alike": "even",
    }
    assert found["fast"][1] < found["alike"][1] < found["slow"][1]


def test_the_margin_is_a_band_around_no_change() -> None:
    narrow, wide = (
        float(re.findall(r'<rect x="[\d.]+%" width="([\d.]+)%"[^>]*class="band"', html)[0])
        for html in (make_page(row("a", "same", 1.0, (0.99, 1.01)), margin=margin) for margin in (0.02, 0.08))
    )
    assert 3.5 < wide / narrow < 4.5


def test_a_case_without_a_number_or_with_an_endless_interval_has_its_line_all_the_same() -> None:
    html = make_page(
        row("crashed", "regression", None, None),
        row("open", "inconclusive", 1.01, (0.0, float("inf"))),
        notes=("caution: look <here>",),
    )
    assert set(dots(html)) == {"open"}
    assert "crashed" in html
    assert 'class="interval"' not in html
    assert "look &lt;here&gt;" in html
