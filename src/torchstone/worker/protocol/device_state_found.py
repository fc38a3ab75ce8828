"""The state of a device while a case was timed, as a worker reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadingFound:
    """The device at one moment; None for what its tool does not state.

    ``reasons`` say why its clock is below the highest one, in words.
    """

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceStateFound:
    """The device before, between and after the timed blocks.

    ``source`` is the library or tool that was asked. ``throttled`` are the reasons that lowered its clock below what was set,
    ``processes`` the processes of others on it; None if they cannot be told from the own ones.
    """

    source: str
    name: str = ""
    uuid: str = ""
    driver: str = ""
    power_limit_w: float | None = None
    sm_clock_max_mhz: float | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    mig: bool | None = None
    before: ReadingFound | None = None
    during: tuple[ReadingFound, ...] = ()
    after: ReadingFound | None = None
    throttled: tuple[str, ...] = ()
    processes: tuple[str, ...] | None = None
