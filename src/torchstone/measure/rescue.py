"""Detect a run file that is removed, replaced or changed while it is written, and write everything to a new file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from torchstone.core.disk import LARGEST, create_whole, fault_of_file, holds, reason
from torchstone.core.errors import TorchstoneError
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.text.safe_text import quote_word
from torchstone.measure.executors.protocol import CannotMeasureError

GONE = {errno.ESTALE, errno.EIO, errno.ENODEV, errno.ENXIO, errno.EROFS}
"""Errors of a file whose disk is gone: freeing space would not help."""


class Damage(Struct, frozen=True):
    """What happened to a run file, as the words before and after its name."""

    after: str
    before: str = ""

    def describe(self, path: str) -> str:
        """Return the whole sentence."""
        return " ".join(filter(None, (self.before, path, self.after)))


class Loss(Struct, frozen=True):
    """A lost run file: what happened to it, and the new file."""

    path: str
    damage: Damage
    new_path: str

    @property
    def problem(self) -> str:
        """Return what happened to the file."""
        return f"{self.damage.describe(self.path)} during the run"

    @property
    def text(self) -> str:
        """Return a one-line warning."""
        return f"WARNING: {self.problem}; nothing is lost: everything is in {self.new_path}"


class FileState(Struct, frozen=True):
    """Size and modification time of a file after our last write."""

    size: int
    modified: int


def state_of(handle: int) -> FileState:
    """Return the state of an open file."""
    found = os.fstat(handle)
    return FileState(found.st_size, found.st_mtime_ns)


def find_damage(handle: int, place: str, text: bytes | bytearray, left: FileState | None) -> Damage | None:
    """Return what another program did to the file behind ``handle``; None if nothing.

    The content is compared if the state differs from ``left``, or if ``left`` is None.
    """
    try:
        own, there = os.fstat(handle), os.stat(place)
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            whole = os.path.isdir(os.path.dirname(place))
            return Damage("was removed or renamed" if whole else "was removed together with its folder")
        return Damage(f"became unreachable ({reason(error)})")
    if not os.path.samestat(own, there):
        kind = "a folder" if stat.S_ISDIR(there.st_mode) else "another file"
        return Damage(f"was replaced by {kind}")
    if own.st_size < len(text):
        return Damage(f"was truncated from {len(text)} to {own.st_size} bytes")
    if own.st_size > len(text):
        return Damage("", before="another program wrote to")
    if FileState(own.st_size, own.st_mtime_ns) != left and not holds(handle, text):
        return Damage("", before="another program overwrote")
    return None


def reopen_equal(handle: int, place: str, text: bytes | bytearray) -> int | None:
    """Return a new, locked handle of the file at the path if it has exactly our content; then nothing needs to be rescued.

    On some network file systems and overlays, the inode number of an untouched file changes, so that it only looks replaced.
    ``handle`` is unlocked first, because its lock would block the new one.
    """
    if fault_of_file(place, LARGEST):
        return None
    try:
        there = os.open(place, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
        lock(there)
        if os.fstat(there).st_size == len(text) and holds(there, text):
            return there
    os.close(there)
    return None


def rescue(place: str, text_at: Callable[[str], bytes]) -> tuple[int, str]:
    """Create a new, locked file beside the lost one, or in another folder; return its handle and path."""
    tried = []
    for folder in _folders(place):
        try:
            return _create_in(folder, place, text_at)
        except OSError as error:
            tried.append(f"{folder}: {reason(error)}")
    raise CannotMeasureError(
        f"{place} was removed or replaced during the run, and no replacement could be written",
        advice=f"tried {'; '.join(tried)}",
    )


def _folders(place: str) -> Iterator[str]:
    """Yield folders for the new file: that of the lost one, the working folder, the temporary folder."""
    yield os.path.dirname(place)
    with contextlib.suppress(OSError):  # the working folder is gone too
        yield os.getcwd()
    yield tempfile.gettempdir()


def _create_in(folder: str, place: str, text_at: Callable[[str], bytes]) -> tuple[int, str]:
    stem, ending = os.path.splitext(os.path.basename(place))
    for number in itertools.count(1):
        name = f"{stem}-rescued{f'-{number}' if number > 1 else ''}{ending}"
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            try:
                return create_whole(path, text_at(path), lock), path
            except FileExistsError:  # just created by another run
                continue
    raise AssertionError("unreachable")


def lock(handle: int) -> None:
    """Lock a file for writing; raise BlockingIOError if it is locked."""
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def with_repro(text: bytes, old: str, new: str) -> bytes:
    """Return a run file's text with repro commands that name the new path."""
    before, after = (f"torchstone repro {quote_word(path)} " for path in (old, new))
    try:
        run = decode_run(old, text.decode()).run
        named = tuple(
            structs.replace(each, repro=after + each.repro.removeprefix(before))
            if each.repro.startswith(before)
            else each
            for each in run.outcomes
        )
        return encode_run(structs.replace(run, outcomes=named)).encode()
    except (TorchstoneError, ValueError):  # old repro commands are better than no file
        return text
