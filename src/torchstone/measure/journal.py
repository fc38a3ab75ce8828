"""Write the run file while measuring: one line per case, on disk before the next case starts."""

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
    replace_text,
    write_whole,
)
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Outcome, Reading, Run
from torchstone.core.run_file import (
    AgainLine,
    EndLine,
    OutcomeLine,
    decode_run,
    encode_line,
    encode_run,
    is_of_older_format,
)
from torchstone.core.run_settings import settings_from
from torchstone.core.text.redaction import redact_values
from torchstone.core.text.safe_text import quote_word
from torchstone.formats import begins_run_file, require_run_file
from torchstone.measure.previous_file import PreviousFile, is_finished, lock_run_file, refuse_if_written
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
    """Appends outcomes to a locked run file; ``again`` is the command that measures what could not be written.

    Everything written is also kept in memory. If another program removes, replaces or changes the file, everything is written to
    a new file: ``path`` is then the new file, ``loss`` describes what happened, and ``tell`` is called.

    ``previous`` is a run file that this one replaces. It is removed when this one is complete, and put back if this one is closed without an outcome.
    """

    def __init__(self, path: str, handle: int, text: bytes, written: int, again: str, tell: Tell) -> None:
        self.path = path
        self.loss: Loss | None = None
        self.previous: PreviousFile | None = None
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

    def replace(self, outcome: Outcome) -> None:
        """Write the outcome of a case that was measured again, with all its trials; it is on disk when this returns."""
        self._write(encode_line(AgainLine(outcome)).encode())

    def finish(self) -> None:
        """Write the end line, and verify the whole file."""
        self._write(encode_line(EndLine(self._written)).encode())
        self.secure(thoroughly=True)
        if self.previous:
            self.previous.remove()
            self.previous = None

    def secure(self, *, thoroughly: bool = False) -> None:
        """Continue in a new file if this one was changed; ``thoroughly`` compares every byte."""
        damage = find_damage(self._handle, self._place, self._text, None if thoroughly else self._left)
        if damage:
            with ignoring_interrupts():
                self._recover(damage)
        else:
            self._left = state_of(self._handle)

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        if self._is_open:
            try:
                self.secure()
            finally:
                self._is_open = False
                os.close(self._handle)
                if self.previous and self.has_put_back:
                    self.previous.put_back()

    @property
    def has_put_back(self) -> bool:
        """Whether it replaces a file that stays, because this one has no outcome."""
        return self.previous is not None and not self._written and self.loss is None

    def discard(self) -> None:
        """Remove the file, unless it was replaced."""
        self._is_open = False
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._handle), os.stat(self._place)):
                os.unlink(self._place)
        os.close(self._handle)

    def _recover(self, damage: Damage) -> None:
        """Continue with the present file if it has the same content, else in a new file."""
        there = reopen_equal(self._handle, self._place, self._text)
        if there is None:
            self._move(damage)
            return
        os.close(self._handle)
        self._handle, self._left = there, state_of(there)

    def _move(self, damage: Damage) -> None:
        """Write everything to a new file, and continue there."""
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
        """Write a whole line or nothing: if the disk is full, or on Ctrl-C, a partial line is removed."""
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
                advice=f"earlier outcomes are saved; free disk space, then: {self._again}",
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
    """Return a path for display: relative, if ``like`` is relative and the file is below the working folder or ``like`` is not."""
    if os.path.isabs(like):
        return place
    try:
        near = os.path.relpath(place)
    except OSError:  # the working folder is gone
        return place
    return place if near.startswith(os.pardir) and not like.startswith(os.pardir) else near


def resume_command(path: str) -> str:
    """Return the command that resumes a run."""
    return f"torchstone run --resume {quote_word(path)}"


def output_error(path: str, *, offers_force: bool = False) -> UsageError:
    """Return the error for an --output that cannot be created, with advice; ``offers_force`` is whether there is a --force."""
    if os.path.isdir(path) or path.endswith(os.sep):
        advice = f"name a file in it, such as {quote_word(os.path.join(path, 'run.jsonl'))}"
        return UsageError(f"{path} is a folder; --output must be a file", advice=advice)
    if os.path.exists(path) and (fault := fault_of_file(path, sys.maxsize)):
        return UsageError(f"{path}: {fault}", advice="choose another --output")
    if not _is_run_file(path):
        return UsageError(f"{path} already exists, and is not a run file", advice="choose another --output")
    force = ", replace it with --force" if offers_force else ""
    if is_finished(path):
        look = f"torchstone show {quote_word(path)}"
        return UsageError(
            f"{path} already exists: a finished run",
            advice=f"choose another --output{force}, or look at it: {look}",
        )
    return UsageError(
        f"{path} already exists: an unfinished run",
        advice=f"choose another --output{force}, or finish it: {resume_command(path)}",
    )


def is_replaceable(path: str) -> bool:
    """Return whether --force may replace a file: only a run file, and nothing that another run is writing."""
    if os.path.isdir(path) or path.endswith(os.sep) or not _is_run_file(path):
        return False
    refuse_if_written(path)
    return True


def _is_run_file(path: str) -> bool:
    """Return whether a file starts like a run file; only its beginning is read."""
    if fault_of_file(path, LARGEST):
        return False
    try:
        with open(path, "rb") as file:
            return begins_run_file(file.read(65_536).decode(errors="replace"))
    except OSError:
        return False


def create_journal(path: str, run: Run, again: str = "", tell: Tell = lambda _: None) -> Journal:
    """Create a run file with its first line, atomically; an existing file is never changed.

    ``again`` is the command to advise if writing fails later, by default the one that resumes the run. ``tell`` is called if
    the file is removed or changed.
    """
    _check_readable(run)
    folder = os.path.dirname(os.path.abspath(path))
    make_folder(folder)
    # Redacted only in the file: measuring needs the real options.
    settings = settings_from(redact_values(run.settings.to_mapping()))
    head = encode_run(structs.replace(run, settings=settings, outcomes=(), finished=False)).encode()
    try:
        handle = create_whole(path, head, lock)
    except FileExistsError:
        raise output_error(path) from None
    except OSError as error:
        what = "written" if error.errno in _FULL else "created"
        raise InputError(f"cannot be {what}: {reason(error)}", path=path) from None
    _sync_folder(folder)
    return Journal(path, handle, head, 0, again or resume_command(path), tell)


def _check_readable(run: Run) -> None:
    """Raise UsageError for a plan that could not be read back, such as one with invalid names."""
    try:
        decode_run("", encode_run(structs.replace(run, outcomes=(), finished=False)))
    except InputError as error:
        raise UsageError(f"these cases cannot be written to a run file: {error.message}") from None


def reopen_journal(path: str, tell: Tell = lambda _: None) -> tuple[Journal, Reading]:
    """Open an unfinished run file to resume it; a partial last line is removed. ``tell`` is called if the file is removed or changed."""
    if os.path.exists(path) and (fault := fault_of_file(path, LARGEST)):
        raise InputError(
            fault, path=path, advice="--resume needs a file that 'torchstone run' has started to write"
        )
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError as error:
        raise InputError(f"cannot be opened: {reason(error)}", path=path) from None
    try:
        lock_run_file(handle, path)
        text = read_text(path)
        require_run_file(path, text, "--resume needs a file that 'torchstone run' has started to write")
        reading = decode_run(path, text)
        if is_of_older_format(text) and not reading.run.finished:
            handle = _rewrite(path, text, new := encode_run(reading.run), handle)
            text = new
        whole = text[: text.rfind("\n") + 1].encode()
        os.ftruncate(handle, len(whole))
    except BaseException:
        os.close(handle)
        raise
    return Journal(path, handle, whole, len(reading.run.outcomes), resume_command(path), tell), reading


def _rewrite(path: str, old: str, new: str, handle: int) -> int:
    """Replace a locked file of an older format by one of the present format, all or nothing; return its handle, locked."""
    replace_text(path, old, new)
    fresh = os.open(path, os.O_RDWR)
    try:
        lock_run_file(fresh, path)
    except BaseException:
        os.close(fresh)
        raise
    os.close(handle)
    return fresh


def _sync_folder(folder: str) -> None:
    """Sync the folder, so that the new file's name is on disk."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
