"""Measure the repeats of ``torchstone accept --repeat``, with progress on the terminal."""

from __future__ import annotations

from torchstone.api.judging.accept_repeats import measure_repeats
from torchstone.api.judging.accept_request import Adoption
from torchstone.cli.options.consent import ask
from torchstone.cli.terminal.run_display import make_display
from torchstone.core.records import Reading


def measure_on_terminal(adoption: Adoption) -> list[Reading]:
    """Measure repeats; show progress, and ask before executing code that is not trusted."""
    return measure_repeats(adoption, make_display(), ask)
