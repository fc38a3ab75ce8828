"""Check the counts, durations and shares that a request may have."""

from __future__ import annotations

from torchstone.api.argument_types import describe_value
from torchstone.core.errors import UsageError

MOST = 10**15
"""Upper limit of counts and seconds: beyond it, a number is a mistake."""


MOST_DAYS = 100_000
"""Upper limit of numbers of days: beyond it, there is no date."""


def check_count(flag: str, count: int | None, least: int = 1, most: int = MOST) -> None:
    """Raise an error unless a count lies between two numbers, or is not given."""
    if count is not None and not least <= count <= most:
        raise UsageError(
            f"{flag} {describe_value(count)}: expected a whole number from {least}{_up_to(most)}"
        )


def _up_to(most: int) -> str:
    return f" to {most}" if most < MOST else ""


def check_seconds(flag: str, seconds: float | None) -> None:
    """Raise an error unless a duration is above 0 and finite, or not given."""
    if seconds is not None and not 0 < seconds < MOST:
        raise UsageError(f"{flag} {seconds:g}: expected a duration in seconds, above 0")


def check_share(flag: str, share: float | None, *, may_be_zero: bool = False) -> None:
    """Raise an error unless a share is between 0 and 1, or not given."""
    if share is not None and not (0 < share < 1 or (may_be_zero and share == 0)):
        raise UsageError(f"{flag} {share:g}: expected a share such as 1% or 0.01")
