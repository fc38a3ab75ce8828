"""Read the state of AMD and Intel devices from ``rocm-smi`` and ``xpu-smi``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from torchstone.worker.machine.device_state.snapshots import DeviceFacts, NoStateError, Snapshot
from torchstone.worker.machine.external_programs import ask
from torchstone.worker.protocol.device_state_found import ReadingFound

PATIENCE = 5.0
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_ROCM_COMMAND = (
    *("rocm-smi", "--showclocks", "--showpower", "--showtemp", "--showmaxpower", "--showdriverversion"),
    *("--showproductname", "--showuniqueid", "--json"),
)


class RocmSmi:
    """One AMD device, through ``rocm-smi``; it tells neither why a clock is low nor which processes use which device."""

    name = "rocm-smi"
    is_quick = False

    def __init__(self, uuid: str, index: int | None) -> None:
        del uuid  # torch states another one than rocm-smi
        self._card = f"card{index or 0}"
        if self.snapshot() is None:
            raise NoStateError(
                f"rocm-smi cannot be used: {_ask_for_json(_ROCM_COMMAND)[1] or 'it lists no ' + self._card}"
            )

    def read(self) -> ReadingFound | None:
        """Return a reading; None if the device does not answer any more."""
        found = self.snapshot()
        return found.reading if found else None

    def snapshot(self) -> Snapshot | None:
        """Return everything about the device; None if it does not answer any more."""
        stated, _ = _ask_for_json(_ROCM_COMMAND)
        card = stated.get(self._card) if isinstance(stated, Mapping) else None
        if not isinstance(card, Mapping):
            return None
        system = stated.get("system") if isinstance(stated, Mapping) else None
        driver = system.get("Driver version") if isinstance(system, Mapping) else None
        facts = DeviceFacts(
            _text(card, "Card Series", "Card series", "Device Name"),
            _text(card, "Unique ID"),
            str(driver or ""),
            _number(card, "Max Graphics Package Power"),
        )
        reading = ReadingFound(
            _number(card, "sclk clock speed"),
            _number(card, "mclk clock speed"),
            _number(card, "Average Graphics Package Power", "Current Socket Graphics Package Power"),
            _number(card, "Temperature (Sensor junction)", "Temperature (Sensor edge)"),
        )
        return Snapshot(facts, reading)


class XpuSmi:
    """One Intel device, through ``xpu-smi``."""

    name = "xpu-smi"
    is_quick = False

    def __init__(self, uuid: str, index: int | None) -> None:
        del uuid  # xpu-smi addresses devices by number
        self._device = str(index or 0)
        if self.snapshot() is None:
            _, problem = _ask_for_json(self._command("stats"))
            raise NoStateError(
                f"xpu-smi cannot be used: {problem or 'it states no numbers of device ' + self._device}"
            )

    def _command(self, what: str) -> tuple[str, ...]:
        return "xpu-smi", what, "-d", self._device, "-j"

    def read(self) -> ReadingFound | None:
        """Return a reading; None if the device does not answer any more."""
        stated, _ = _ask_for_json(self._command("stats"))
        values = dict(_statistics(stated))
        found = ReadingFound(
            values.get("XPUM_STATS_GPU_FREQUENCY"),
            values.get("XPUM_STATS_MEMORY_FREQUENCY"),
            values.get("XPUM_STATS_POWER"),
            values.get("XPUM_STATS_GPU_CORE_TEMPERATURE"),
        )
        return None if found == ReadingFound() else found

    def snapshot(self) -> Snapshot | None:
        """Return everything about the device; None if it does not answer any more."""
        reading = self.read()
        stated, _ = _ask_for_json(self._command("discovery"))
        facts = stated if isinstance(stated, Mapping) else {}
        found = DeviceFacts(_text(facts, "device_name"), _text(facts, "uuid"), _text(facts, "driver_version"))
        return Snapshot(found, reading) if reading else None


def _ask_for_json(command: Sequence[str]) -> tuple[object, str]:
    """Return what a tool prints as JSON, or why it prints none."""
    answer = ask(command, PATIENCE)
    if answer.code != 0:
        return {}, (
            answer.err.strip() or answer.out.strip() or f"it ended with exit code {answer.code}"
        ).splitlines()[0]
    try:
        return json.loads(answer.out), ""
    except ValueError:
        return {}, "it did not print JSON"


def _statistics(stated: object) -> Iterator[tuple[str, float]]:
    """Yield the types and values of all metrics, on whatever level they are listed."""
    if isinstance(stated, Mapping):
        kind, value = stated.get("metrics_type"), stated.get("value")
        if isinstance(kind, str) and isinstance(value, int | float):
            yield kind, float(value)
        for each in stated.values():
            yield from _statistics(each)
    elif isinstance(stated, list):
        for each in stated:
            yield from _statistics(each)


def _text(stated: Mapping[object, object], *names: str) -> str:
    found = (stated.get(name) for name in names)
    return next((str(value) for value in found if value not in (None, "", "N/A")), "")


def _number(stated: Mapping[object, object], *names: str) -> float | None:
    """Return the first number of a key that begins with one of these names; values have units and brackets."""
    for name in names:
        for key, value in stated.items():
            if str(key).startswith(name) and (found := _NUMBER.search(str(value))):
                return float(found[0])
    return None
