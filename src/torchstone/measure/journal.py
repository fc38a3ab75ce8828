"""The journal: the run file while it is being written, one line a case, each on disk before the next case starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex

from msgspec import structs

from torchstone.codec import FORMAT, EndLine, OutcomeLine, RunLine, decode_run, encode_line, encode_run
from torchstone.disk import LARGEST, fault_of_file, read_text, reason
from torchstone.errors import InputError, UsageError
from torchstone.model import Outcome, Reading, Run


class Journal:
    """Appends outcomes to a run file that nobody else is writing; ``again`` is the command that measures what could not be written."""

    def __init__(self, path: str, handle: int, written: int, again: str) -> None:
        self.path = path
        self._again = again
        self._handle = handle
        self._written = written
        self._is_open = True

    def write_head(self, run: Run) -> None:
        """Write what is known before anything is measured."""
        self._write(
            encode_line(RunLine(FORMAT, run.id, run.plan, run.revision, run.environment, run.settings))
        )

    def append(self, outcome: Outcome) -> None:
        """Write one outcome; it is on disk when this returns."""
        self._write(encode_line(OutcomeLine(outcome)))
        self._written += 1

    def finish(self) -> None:
        """Say that the run is complete."""
        self._write(encode_line(EndLine(self._written)))

    def close(self) -> None:
        """Let go of the file; doing so again changes nothing."""
        if self._is_open:
            self._is_open = False
            os.close(self._handle)

    def _write(self, line: str) -> None:
        """A whole line or nothing: if the disk is full, or Ctrl-C comes, what was written of it is taken back."""
        start = os.lseek(self._handle, 0, os.SEEK_END)
        view = memoryview(line.encode())
        try:
            while view:
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
        except OSError as error:
            self._cut_off(start)
            raise InputError(
                f"cannot be written: {reason(error)}",
                path=self.path,
                advice=f"all that was measured before is in it; make room, then: {self._again}",
            ) from None
        except BaseException:
            self._cut_off(start)
            raise

    def _cut_off(self, start: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, start)


def resume_command(path: str) -> str:
    """The command that goes on with a run."""
    return f"torchstone run --resume {shlex.quote(path)}"


def taken(path: str) -> UsageError:
    """Why no new run file can have this name, and what to do instead."""
    if os.path.isdir(path) or path.endswith(os.sep):
        advice = f"name a file in it, such as {shlex.quote(os.path.join(path, 'run.jsonl'))}"
        return UsageError(f"{path} is a folder, and --output is the name of a file", advice=advice)
    if not _is_run_file(path):
        return UsageError(f"{path} is there already, and is no run file", advice="choose another --output")
    return UsageError(
        f"{path} is there already", advice=f"choose another --output, or finish it: {resume_command(path)}"
    )


def _is_run_file(path: str) -> bool:
    """Whether a file begins as a run file does; nothing but its beginning is read."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return _begins_a_run(file.read(65_536).decode(errors="replace"))
    except OSError:
        return False


def _begins_a_run(text: str) -> bool:
    return '"kind":"run"' in text.partition("\n")[0].replace(" ", "")


def create_journal(path: str, run: Run, again: str = "") -> Journal:
    """A new run file with its head. A file that is there already is left alone.

    ``again`` is the command to advise if it cannot be written to its end; without one, that is to go on with it.
    """
    _check_readable(run)
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"no folder can be made there: {reason(error)}", path=folder) from None
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    except FileExistsError:
        raise taken(path) from None
    except OSError as error:
        raise InputError(f"cannot be created: {reason(error)}", path=path) from None
    journal = Journal(path, handle, 0, again or resume_command(path))
    try:
        _lock(handle, path)
        journal.write_head(run)
    except BaseException:
        journal.close()
        with contextlib.suppress(OSError):
            os.unlink(path)  # not even its head could be written
        raise
    _sync_folder(folder)
    return journal


def _check_readable(run: Run) -> None:
    """Refuse a plan that no run file can hold: a name may have come from anywhere."""
    try:
        decode_run("", encode_run(structs.replace(run, outcomes=(), finished=False)))
    except InputError as error:
        raise UsageError(f"such cases cannot be kept in a run file: {error.message}") from None


def reopen_journal(path: str) -> tuple[Journal, Reading]:
    """An unfinished run file, to go on with; half a last line is cut off."""
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
        os.ftruncate(handle, len(text[: text.rfind("\n") + 1].encode()))
    except BaseException:
        os.close(handle)
        raise
    return Journal(path, handle, len(reading.run.outcomes), resume_command(path)), reading


def _lock(handle: int, path: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
