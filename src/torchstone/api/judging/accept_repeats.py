"""Repeats for ``accept``: measure the counted cases of a run file again, to find margins."""

from __future__ import annotations

from torchstone.api.judging.accept_request import Adoption, require_place_for_margins
from torchstone.api.measuring.consent import Ask, refuse
from torchstone.api.measuring.events import EventWatcher, OnEvent, RunWatcher
from torchstone.api.repeating.repeats import check_repeats, measure_again
from torchstone.baselines.propose import find_repeatable
from torchstone.core.errors import UsageError
from torchstone.core.records import Reading


def measure_with_events(adoption: Adoption, on_event: OnEvent | None) -> list[Reading]:
    """Measure repeats for a Python caller: report progress to a callback, and refuse code that is not trusted."""
    return measure_repeats(adoption, EventWatcher(on_event), refuse)


def measure_repeats(adoption: Adoption, watcher: RunWatcher, ask: Ask) -> list[Reading]:
    """Measure the counted cases again as often as requested. Raise every foreseeable error before measuring."""
    request, readings = adoption.request, adoption.readings
    if request.repeat is None:
        return []
    check_repeats(request.repeat)
    if len(readings) != 1 or readings[0].kind != "run":
        raise UsageError(
            "--repeat requires exactly one run file",
            advice="name one file written by 'torchstone run', or leave out --repeat",
        )
    if request.axes:
        raise UsageError("--set cannot be used with --repeat")
    require_place_for_margins(adoption.baseline, "--repeat")
    cases = find_repeatable(adoption.baseline, readings[0], adoption.options)
    if not cases:
        raise UsageError(
            "--repeat: nothing to measure again: no case to be accepted has a count",
            advice="check --only and --add-new, and measure with 'torchstone run --probe instructions'",
        )
    return measure_again(readings[0], cases, request.repeat, watcher, trust=request.trust, ask=ask)
