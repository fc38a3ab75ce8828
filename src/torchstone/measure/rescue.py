"""What to do about a run file that is removed, replaced or changed while a run writes it: notice it, and write everything to a new file."""

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
"""What the system says of a file whose disk is no longer there: making room would not help."""


class Damage(Struct, frozen=True):
    """What happened to a run file: the words of a sentence before and after its name."""

    after: str
    before: str = ""

    def describe(self, path: str) -> str:
        """The whole sentence."""
        return " ".join(filter(None, (self.before, path, self.after)))


class Loss(Struct, frozen=True):
    """A run file that was taken away: what happened to it and where everything is now."""

    path: str
    damage: Damage
    new_path: str

    @property
    def problem(self) -> str:
        """What happened to which file."""
        return f"{self.damage.describe(self.path)} during the run"

    @property
    def text(self) -> str:
        """All of it as one line."""
        return f"WARNING: {self.problem}; nothing is lost: everything is in {self.new_path}"


class FileState(Struct, frozen=True):
    """What a file looks like after we wrote to it."""

    size: int
    modified: int


def state_of(handle: int) -> FileState:
    """The state of an open file."""
    found = os.fstat(handle)
    return FileState(found.st_size, found.st_mtime_ns)


def find_damage(handle: int, place: str, text: bytes | bytearray, left: FileState | None) -> Damage | None:
    """What somebody else has done to the file that we write through ``handle``, if anything.

    Its text is compared if its state is not as we ``left`` it, or if we do not say how we did.
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
    """A new, locked handle of what is at the path by now, if that is a file with exactly our text; then nothing needs to be rescued.

    On some network file systems and overlays, a file that nobody has touched gets another number: it only looks replaced. ``handle``
    loses its lock, which would be in the way then.
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
    """A new, locked file with the text that belongs there, beside a lost one or wherever there is room: its handle and its path."""
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
    """Where a new file may go: beside the lost one, else into the working folder, else among temporary files."""
    yield os.path.dirname(place)
    with contextlib.suppress(OSError):  # not even the working folder is there any more
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
            except FileExistsError:  # made just now, by another run
                continue
    raise AssertionError("unreachable")


def lock(handle: int) -> None:
    """Let nobody else write a file; raises BlockingIOError if somebody does."""
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def with_repro(text: bytes, old: str, new: str) -> bytes:
    """A run file's text whose commands for measuring a case again name another run file."""
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
    except (TorchstoneError, ValueError):  # better the old names than no file
        return text
