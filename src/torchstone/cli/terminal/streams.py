"""Handle standard streams that are closed, full or without a reader.

The command continues, and its exit code reports lost output.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from torchstone.core.disk import reason
from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_LOST_OUTPUT = 2
_UNWRITABLE = "the output cannot be written"


class Outlet(io.FileIO):
    """An output that never fails: text that cannot be written is dropped, and the first error is kept in ``lost``.

    A measurement must not end because nobody reads its output.
    """

    lost: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write everything if possible. After an error, write nothing more to standard output: a report with a gap would look complete."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest and (self.lost is None or self.fileno() == 2):
            try:
                count: int | None = super().write(rest)
            except OSError as error:
                self.lost = self.lost or error
                break
            if count is None:  # a full, non-blocking pipe
                _wait_for_room(self.fileno())
            rest = rest[count or 0 :]
        return size


class NullOutlet(Outlet):
    """Replaces an output that the process was started without; discards everything."""


def _wait_for_room(descriptor: int) -> None:
    import select  # noqa: PLC0415  (start-up: rarely needed)

    select.select([], [descriptor], [])


def prepare_streams() -> None:
    """Make sure that all three standard streams exist. Call before any file is opened.

    The next opened file would get the descriptor of a missing stream, and printed text would go into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            _open_null(number)
            setattr(sys, name, _null_stream(number))
        elif number and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _outlet_like(stream, number))


def _open_null(number: int) -> None:
    """Connect a descriptor to the null device, here and in all processes that inherit it."""
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)


def _null_stream(number: int) -> io.TextIOWrapper:
    """Return a stream for a descriptor of the null device."""
    if number == 0:
        return open(number, encoding="utf-8", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(NullOutlet(number, "w", closefd=False)), encoding="utf-8")


def _outlet_like(stream: io.TextIOWrapper, number: int) -> io.TextIOWrapper:
    """Return the same stream on top of an outlet."""
    outlet = Outlet(number, "w", closefd=False)
    return io.TextIOWrapper(
        outlet if stream.write_through else io.BufferedWriter(outlet),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def flush_streams(code: int) -> int:
    """Flush the streams, and return the exit code. A lost report is an error, whatever its verdict.

    A reader that stops early (``| head``) is not an error.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    outlet = _outlet_of(sys.stdout)
    lost = outlet.lost if outlet else None
    if lost is None or isinstance(lost, ConnectionError):
        return code
    sys.stderr.write(f"error: {_UNWRITABLE}: {reason(lost)}\n")
    sys.stderr.flush()
    return _LOST_OUTPUT if code in {0, 1} else code


def require_output(stream: object) -> None:
    """Raise an error if standard output is closed or read-only. Call before writing data for other programs."""
    outlet = _outlet_of(stream)
    if stream is None or isinstance(outlet, NullOutlet):
        raise _refusal("standard output is closed")
    if outlet is not None:
        try:
            os.write(outlet.fileno(), b"")
        except OSError as error:
            raise _refusal(reason(error)) from None


def _refusal(why: str) -> UsageError:
    return UsageError(f"{_UNWRITABLE}: {why}", advice="redirect standard output to a file or a pipe")


def _outlet_of(stream: object) -> Outlet | None:
    buffer = getattr(stream, "buffer", None)
    outlet = getattr(buffer, "raw", buffer)
    return outlet if isinstance(outlet, Outlet) else None
