"""The journal: the run file while it is being written, one line a case, each on disk before the next case starts."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable

from msgspec import structs

from torchstone.core.disk import (
    LARGEST,
    create_whole,
    fault_of_file,
    make_folder,
    read_text,
    read_whole,
    reason,
    write_whole,
)
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Outcome, Reading, Run
from torchstone.core.run_file import EndLine, OutcomeLine, decode_run, encode_line, encode_run
from torchstone.core.run_settings import settings_from
from torchstone.core.text.redaction import redact_values
from torchstone.core.text.safe_text import quote_word
from torchstone.measure.rescue import (
    GONE,
    Damage,
    Loss,
    find_damage,
    lock,
    reopen_equal,
    rescue,
    state_of,
    with_repro,
)
from torchstone.worker.process_tree import ignoring_interrupts

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Tell = Callable[[str], None]


class Journal:
    """Appends outcomes to a run file that nobody else is writing; ``again`` is the command that measures what could not be written.

    All that was written is kept here too. If the file is removed, replaced or changed by somebody else, everything is written to a new file, ``path`` names
    that one from then on, ``loss`` tells what happened, and ``tell`` is told at once.
    """

    def __init__(self, path: str, handle: int, text: bytes, written: int, again: str, tell: Tell) -> None:
        self.path = path
        self.loss: Loss | None = None
        self._place = os.path.abspath(path)
        self._again = again
        self._tell = tell
        self._handle = handle
        self._text = bytearray(text)
        self._written = written
        self._is_open = True
        self._left = state_of(handle)

    def append(self, outcome: Outcome) -> None:
        """Write one outcome; it is on disk when this returns."""
        self._write(encode_line(OutcomeLine(outcome)).encode())
        self._written += 1

    def finish(self) -> None:
        """Say that the run is complete, and make sure that all of it can be read."""
        self._write(encode_line(EndLine(self._written)).encode())
        self.secure(thoroughly=True)

    def secure(self, *, thoroughly: bool = False) -> None:
        """Go on in a new file if this one is no longer as it was left; ``thoroughly`` compares every byte."""
        damage = find_damage(self._handle, self._place, self._text, None if thoroughly else self._left)
        if damage:
            with ignoring_interrupts():
                self._recover(damage)
        else:
            self._left = state_of(self._handle)

    def close(self) -> None:
        """Let go of the file, which holds everything; doing so again changes nothing."""
        if self._is_open:
            try:
                self.secure()
            finally:
                self._is_open = False
                os.close(self._handle)

    def discard(self) -> None:
        """Remove the file, unless somebody has put another one in its place."""
        self._is_open = False
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._handle), os.stat(self._place)):
                os.unlink(self._place)
        os.close(self._handle)

    def _recover(self, damage: Damage) -> None:
        """Go on with what is there now if it has the same text, else in a new file."""
        there = reopen_equal(self._handle, self._place, self._text)
        if there is None:
            self._move(damage)
            return
        os.close(self._handle)
        self._handle, self._left = there, state_of(there)

    def _move(self, damage: Damage) -> None:
        """Write everything to a new file, and go on there."""
        old = self.path

        def text_at(place: str) -> bytes:
            return with_repro(bytes(self._text), old, _shown(place, old))

        handle, place = rescue(self._place, text_at)
        os.close(self._handle)
        self.path, self._place, self._handle = _shown(place, old), place, handle
        self._text = bytearray(read_whole(handle))
        self._left = state_of(handle)
        if self._again == resume_command(old):
            self._again = resume_command(self.path)
        self.loss = Loss(self.loss.path if self.loss else old, damage, self.path)
        _sync_folder(os.path.dirname(place))
        self._tell(self.loss.text)

    def _write(self, data: bytes) -> None:
        """A whole line or nothing: if the disk is full, or Ctrl-C comes, what was written of it is taken back."""
        self.secure()
        start = len(self._text)
        try:
            os.lseek(self._handle, start, os.SEEK_SET)
            write_whole(self._handle, data)
            self._text += data
            self._left = state_of(self._handle)
        except OSError as error:
            self._cut_off(start)
            if error.errno in GONE:
                self._text += data
                with ignoring_interrupts():
                    self._move(Damage(f"became unwritable ({reason(error)})"))
                return
            raise InputError(
                f"cannot be written: {reason(error)}",
                path=self.path,
                advice=f"all that was measured before is in it; make room, then: {self._again}",
            ) from None
        except BaseException:
            self._cut_off(start)
            raise

    def _cut_off(self, start: int) -> None:
        del self._text[start:]
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, start)
            self._left = state_of(self._handle)


def _shown(place: str, like: str) -> str:
    """A path as it is shown: relative, if the other one is and it is not far away."""
    if os.path.isabs(like):
        return place
    try:
        near = os.path.relpath(place)
    except OSError:  # the working folder is gone
        return place
    return place if near.startswith(os.pardir) and not like.startswith(os.pardir) else near


def resume_command(path: str) -> str:
    """The command that goes on with a run."""
    return f"torchstone run --resume {quote_word(path)}"


def taken(path: str) -> UsageError:
    """Why no new run file can have this name, and what to do instead."""
    if os.path.isdir(path) or path.endswith(os.sep):
        advice = f"name a file in it, such as {quote_word(os.path.join(path, 'run.jsonl'))}"
        return UsageError(f"{path} is a folder, and --output is the name of a file", advice=advice)
    if os.path.exists(path) and (fault := fault_of_file(path, sys.maxsize)):
        return UsageError(f"{path}: {fault}", advice="choose another --output")
    if not _is_run_file(path):
        return UsageError(f"{path} is there already, and is no run file", advice="choose another --output")
    return UsageError(
        f"{path} is there already", advice=f"choose another --output, or finish it: {resume_command(path)}"
    )


def _is_run_file(path: str) -> bool:
    """Whether a file begins as a run file does; nothing but its beginning is read."""
    if fault_of_file(path, LARGEST):
        return False
    try:
        with open(path, "rb") as file:
            return _begins_a_run(file.read(65_536).decode(errors="replace"))
    except OSError:
        return False


def _begins_a_run(text: str) -> bool:
    return '"kind":"run"' in text.partition("\n")[0].replace(" ", "")


def create_journal(path: str, run: Run, again: str = "", tell: Tell = lambda _: None) -> Journal:
    """A new run file with its head; without that, there is no file. A file that is there already is left alone.

    ``again`` is the command to advise if it cannot be written to its end; without one, that is to go on with it. ``tell`` is told if the file is taken away.
    """
    _check_readable(run)
    folder = os.path.dirname(os.path.abspath(path))
    make_folder(folder)
    # While the run measures, its options have to be what they are.
    settings = settings_from(redact_values(run.settings.to_mapping()))
    head = encode_run(structs.replace(run, settings=settings, outcomes=(), finished=False)).encode()
    try:
        handle = create_whole(path, head, lock)
    except FileExistsError:
        raise taken(path) from None
    except OSError as error:
        what = "written" if error.errno in _FULL else "created"
        raise InputError(f"cannot be {what}: {reason(error)}", path=path) from None
    _sync_folder(folder)
    return Journal(path, handle, head, 0, again or resume_command(path), tell)


def _check_readable(run: Run) -> None:
    """Refuse a plan that no run file can hold: a name may have come from anywhere."""
    try:
        decode_run("", encode_run(structs.replace(run, outcomes=(), finished=False)))
    except InputError as error:
        raise UsageError(f"such cases cannot be kept in a run file: {error.message}") from None


def reopen_journal(path: str, tell: Tell = lambda _: None) -> tuple[Journal, Reading]:
    """An unfinished run file, to go on with; half a last line is cut off. ``tell`` is told if the file is taken away."""
    if os.path.exists(path) and (fault := fault_of_file(path, LARGEST)):
        raise InputError(
            fault, path=path, advice="--resume takes a file that 'torchstone run' has begun to write"
        )
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError as error:
        raise InputError(f"cannot be opened: {reason(error)}", path=path) from None
    try:
        _lock(handle, path)
        text = read_text(path)
        if text.strip() and not _begins_a_run(text):
            advice = "--resume takes a file that 'torchstone run' has begun to write"
            raise InputError("this is not a run file", path=path, line=1, advice=advice)
        reading = decode_run(path, text)
        whole = text[: text.rfind("\n") + 1].encode()
        os.ftruncate(handle, len(whole))
    except BaseException:
        os.close(handle)
        raise
    return Journal(path, handle, whole, len(reading.run.outcomes), resume_command(path), tell), reading


def _lock(handle: int, path: str) -> None:
    try:
        lock(handle)
    except BlockingIOError:
        raise UsageError(
            f"another run is writing {path} at this moment", advice="wait for it, or choose another --output"
        ) from None


def _sync_folder(folder: str) -> None:
    """Make the new file's name itself durable."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
