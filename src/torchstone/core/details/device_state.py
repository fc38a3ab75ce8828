"""The state of a device while a case was timed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs


class DeviceReading(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The device at one moment; None for what its tool does not state. ``reasons`` say why its clock is below the highest one."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: tuple[str, ...] = ()


class DeviceState(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The device before, between and after the timed blocks.

    ``source`` is the library or tool that was asked. ``throttled`` are the faults that lowered its clock, ``processes`` the
    processes of others on it; None if they cannot be told from the own ones.
    """

    source: str = ""
    name: str = ""
    uuid: str = ""
    driver: str = ""
    power_limit_w: float | None = None
    sm_clock_max_mhz: float | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    mig: bool | None = None
    before: DeviceReading | None = None
    during: tuple[DeviceReading, ...] = ()
    after: DeviceReading | None = None
    throttled: tuple[str, ...] = ()
    processes: tuple[str, ...] | None = None

    def with_reading(
        self, reading: DeviceReading, throttled: tuple[str, ...], processes: tuple[str, ...] | None
    ) -> DeviceState:
        """Return the state with its one reading, and what was found at that moment."""
        return structs.replace(self, before=reading, throttled=throttled, processes=processes)

    @property
    def text(self) -> str:
        """Return the state in a line: ``NVIDIA H200, driver 570.133.20, 700 W at most; 1,755 to 1,980 MHz, 431 W, 52 °C``."""
        facts = [
            self.name or "unnamed device",
            self.driver and f"driver {self.driver}",
            "" if self.power_limit_w is None else f"{self.power_limit_w:g} W at most",
            *(f"{name} {'on' if on else 'off'}" for name, on in self._switches() if on is not None),
        ]
        spans = [
            _span([getattr(each, field) for each in self.readings], unit)
            for field, unit in (("sm_clock_mhz", "MHz"), ("power_w", "W"), ("temperature_c", "\u00b0C"))
        ]
        reasons = dict.fromkeys(reason for each in self.readings for reason in each.reasons)
        read = [*spans, "limited by " + ", ".join(reasons) if reasons else "", f"by {self.source}"]
        return "; ".join(", ".join(filter(None, part)) for part in (facts, read))

    def _switches(self) -> tuple[tuple[str, bool | None], ...]:
        return ("persistence", self.persistence), ("ECC", self.ecc), ("MIG", self.mig)

    @property
    def readings(self) -> tuple[DeviceReading, ...]:
        """Return all readings in order."""
        return tuple(each for each in (self.before, *self.during, self.after) if each is not None)


def _span(values: Sequence[float | None], unit: str) -> str:
    """Return the smallest and the largest of the known values; empty if none is known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
