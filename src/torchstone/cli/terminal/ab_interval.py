"""Draw the confidence interval of a pair's ratio as a bar in the terminal."""

from __future__ import annotations

import math

from torchstone.analyze.sequential import Effect

BAR = 33
SPAN = 4  # margins shown on either side of no change


def draw_interval(effect: Effect | None, margin: float, width: int = BAR) -> str:
    """Draw a confidence interval: ``|`` marks the margins, ``-`` the interval, ``o`` the estimate.

    >>> draw_interval(Effect(1.0, 0.98, 1.02), 0.02, 17)
    '[      |-o-|      ]'
    """
    reach = SPAN * math.log1p(margin)

    def place(ratio: float) -> int:
        log = max(
            -reach, min(reach, math.log(ratio) if 0 < ratio < math.inf else math.copysign(reach, ratio - 1))
        )
        return round((log / reach + 1) / 2 * (width - 1))

    cells = [" "] * width
    if effect is not None:
        for cell in range(place(effect.low), place(effect.high) + 1):
            cells[cell] = "-"
    for edge in (1 / (1 + margin), 1 + margin):
        cells[place(edge)] = "|"
    if effect is not None:
        cells[place(effect.ratio)] = "o"
    return f"[{''.join(cells)}]"
