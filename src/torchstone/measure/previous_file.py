"""Replace a run file by that of a new run: the previous one is set aside, and removed once the new one is complete."""

from __future__ import annotations

import contextlib
import itertools
import os

from torchstone.core.disk import LARGEST, fault_of_file, reason
from torchstone.core.errors import InputError, UsageError
from torchstone.measure.rescue import lock


class PreviousFile:
    """A run file that was set aside: ``place`` is where it was, ``aside`` the file it is in now."""

    def __init__(self, path: str, aside: str) -> None:
        self.place = os.path.abspath(path)
        self.aside = aside

    def put_back(self) -> None:
        """Put it back, in place of whatever is there now."""
        os.replace(self.aside, self.place)

    def remove(self) -> None:
        """Remove it, because the new file is complete."""
        with contextlib.suppress(OSError):
            os.unlink(self.aside)


def set_aside(path: str) -> PreviousFile | None:
    """Rename a run file, for example to ``run-before.jsonl``; None if there is none. Raise an error if another run is writing it."""
    if not os.path.exists(path):
        return None
    refuse_if_written(path)
    stem, ending = os.path.splitext(path)
    for number in itertools.count(1):
        aside = f"{stem}-before{f'-{number}' if number > 1 else ''}{ending}"
        if not os.path.lexists(aside):
            break
    try:
        os.rename(path, aside)
    except OSError as error:
        raise InputError(f"cannot be renamed: {reason(error)}", path=path) from None
    return PreviousFile(path, aside)


def refuse_if_written(path: str) -> None:
    """Raise an error if another run is writing a file."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError as error:
        raise InputError(f"cannot be replaced: {reason(error)}", path=path) from None
    try:
        lock_run_file(handle, path)
    finally:
        os.close(handle)


def lock_run_file(handle: int, path: str) -> None:
    """Lock an open run file; raise an error if another run is writing it."""
    try:
        lock(handle)
    except BlockingIOError:
        raise UsageError(
            f"another run is writing {path}", advice="wait for it, or choose another --output"
        ) from None


def is_finished(path: str) -> bool:
    """Return whether a run file has its end line; only its end is read."""
    if fault_of_file(path, LARGEST):
        return False
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 1024))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    except OSError:
        return False
    return b'"kind":"end"' in last.replace(b" ", b"")
