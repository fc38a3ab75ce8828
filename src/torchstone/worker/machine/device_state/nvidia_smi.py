"""Read the state of an NVIDIA device from ``nvidia-smi``, where its library cannot be used."""

from __future__ import annotations

from torchstone.worker.machine.device_state.nvml import plain_uuid
from torchstone.worker.machine.device_state.snapshots import (
    DeviceFacts,
    DeviceProcess,
    NoStateError,
    Snapshot,
    find_process,
    name_reasons,
)
from torchstone.worker.machine.external_programs import ask
from torchstone.worker.protocol.device_state_found import ReadingFound

PATIENCE = 5.0
_COLUMNS = (
    *("uuid", "name", "driver_version", "power.limit", "clocks.max.sm", "persistence_mode"),
    *("ecc.mode.current", "mig.mode.current", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu"),
)
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The columns of the reasons: the present name, and that of older drivers."""


class NvidiaSmi:
    """One device, through ``nvidia-smi``: every call starts a program, so it is asked before and after only."""

    name = "nvidia-smi"
    is_quick = False

    def __init__(self, uuid: str, index: int | None) -> None:
        self._uuid, self._index = uuid, index
        self._reasons = ""
        problem = ""
        for column in _REASONS:
            rows, problem = self._query(column)
            if rows:
                self._reasons = column
                break
        else:
            raise NoStateError(f"nvidia-smi cannot be used: {problem}")
        self._row(rows)  # raises if the device is not among them

    def _query(self, reasons: str) -> tuple[list[dict[str, str]], str]:
        """Return the rows of all devices by column, or why there are none."""
        columns = (*_COLUMNS, reasons)
        answer = ask(
            ["nvidia-smi", f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits"], PATIENCE
        )
        if answer.code != 0:
            said = (
                answer.out.strip() or answer.err.strip() or f"it ended with exit code {answer.code}"
            ).splitlines()
            return [], said[0]
        split = [[value.strip() for value in line.split(",")] for line in answer.out.splitlines()]
        rows = [dict(zip(columns, values, strict=True)) for values in split if len(values) == len(columns)]
        return rows, "" if rows else (answer.out.strip().splitlines() or ["it printed nothing"])[0]

    def _row(self, rows: list[dict[str, str]]) -> dict[str, str]:
        """Return the row of the device: by uuid, else by number, or the only one."""
        for row in rows:
            if self._uuid and plain_uuid(row["uuid"]) == plain_uuid(self._uuid):
                return row
        if len(rows) == 1:
            return rows[0]
        if not self._uuid and self._index is not None and self._index < len(rows):
            return rows[self._index]
        raise NoStateError(f"nvidia-smi lists no device with the uuid {self._uuid or 'that is asked for'}")

    def read(self) -> ReadingFound | None:
        """Return a reading; None if the device does not answer any more."""
        snapshot = self._ask_for_row()
        return _reading(snapshot, self._reasons) if snapshot else None

    def snapshot(self) -> Snapshot | None:
        """Return everything about the device; None if it does not answer any more."""
        row = self._ask_for_row()
        if row is None:
            return None
        return Snapshot(_facts(row), _reading(row, self._reasons), self._processes(row["uuid"]))

    def _ask_for_row(self) -> dict[str, str] | None:
        rows, _ = self._query(self._reasons)
        try:
            return self._row(rows) if rows else None
        except NoStateError:
            return None

    def _processes(self, uuid: str) -> tuple[DeviceProcess, ...] | None:
        answer = ask(
            ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader"],
            PATIENCE,
        )
        if answer.code != 0:
            return None
        found = []
        for line in answer.out.splitlines():
            device, pid, name = ([part.strip() for part in line.split(",", 2)] + ["", ""])[:3]
            if plain_uuid(device) == plain_uuid(uuid) and pid.isdecimal():
                found.append(find_process(int(pid), name))
        return tuple(each for each in found if each)


def _facts(row: dict[str, str]) -> DeviceFacts:
    return DeviceFacts(
        _text(row["name"]),
        plain_uuid(_text(row["uuid"])),
        _text(row["driver_version"]),
        _number(row["power.limit"]),
        _number(row["clocks.max.sm"]),
        _switch(row["persistence_mode"]),
        _switch(row["ecc.mode.current"]),
        _switch(row["mig.mode.current"]),
    )


def _reading(row: dict[str, str], reasons: str) -> ReadingFound:
    bits = row[reasons]
    return ReadingFound(
        _number(row["clocks.sm"]),
        _number(row["clocks.mem"]),
        _number(row["power.draw"]),
        _number(row["temperature.gpu"]),
        name_reasons(int(bits, 16)) if bits.startswith("0x") and _is_hexadecimal(bits) else (),
    )


def _is_hexadecimal(text: str) -> bool:
    return all(digit in "0123456789abcdefABCDEF" for digit in text.removeprefix("0x"))


def _text(value: str) -> str:
    """Return what a column states; empty for ``[N/A]``, ``[Not Supported]`` and the like."""
    return "" if value.startswith("[") or value in {"N/A", ""} else value


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _switch(value: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(value)
