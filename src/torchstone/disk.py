"""Reading a whole text file, and replacing one atomically; both with errors a person can act on."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from torchstone.errors import InputError

BOM = "\ufeff"
LARGEST = 16 << 30
_LARGEST_STREAM = 1 << 30


def read_text(path: str) -> str:
    """The text of a UTF-8 file. A byte-order mark is left at its start; line ends are as in the file."""
    data = _read_bytes(path)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("this is UTF-16 text", path=path, line=1, column=1, advice="save it as UTF-8")
    if data[:2] == b"\x1f\x8b" or data[:4] == b"PK\x03\x04":
        raise InputError("this is a compressed file", path=path, line=1, column=1, advice="unpack it first")
    if (nul := data.find(b"\0")) >= 0:
        line, column = _position(data, nul)
        raise InputError(
            "binary data, not text", path=path, line=line, column=column, advice="expected a UTF-8 text file"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(data, error.start)
        problem = f"not UTF-8: byte 0x{data[error.start]:02x}"
        raise InputError(problem, path=path, line=line, column=column, advice="save it as UTF-8") from None


def _read_bytes(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode  # before it is opened: a device may do something then
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError("this is a device, expected a file", path=path)
        with open(path, "rb") as file:
            return _read_all(file, path, is_regular=stat.S_ISREG(mode))
    except FileNotFoundError:
        raise InputError(
            "no such file", path=path, advice="check the name, and the folder it is looked for in"
        ) from None
    except IsADirectoryError:
        raise InputError(
            "this is a folder, expected a file", path=path, advice="name the files in it"
        ) from None
    except PermissionError:
        raise InputError("no permission to read it", path=path) from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {reason(error)}", path=path) from None
    except MemoryError:
        raise InputError("too large to read into memory", path=path) from None


def _read_all(file: BinaryIO, path: str, *, is_regular: bool) -> bytes:
    """Everything in a file or pipe, unless that is more than anybody could mean."""
    if is_regular:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise MemoryError
        return file.read()
    parts, size = [], 0
    while part := file.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > _LARGEST_STREAM:
            raise InputError(
                f"more than {_LARGEST_STREAM >> 20} MiB came through this pipe",
                path=path,
                advice="name a file",
            )
    return b"".join(parts)


def fault_of_file(path: str, largest: int) -> str:
    """Why a file that another file names cannot be read: it must be a regular one of at most so many bytes; empty if it is.

    Whoever types a name may mean a pipe; a name in a file that came from elsewhere might be a device, or a pipe that never ends.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        return reason(error)
    if not stat.S_ISREG(found.st_mode):
        return f"{_kind_of(found.st_mode)}, expected a regular file"
    if found.st_size > largest:
        return f"a file of {found.st_size} bytes, expected at most {largest}"
    return ""


def _kind_of(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")


def _position(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of a byte."""
    return data.count(b"\n", 0, offset) + 1, offset - data.rfind(b"\n", 0, offset)


def write_text(path: str, text: str) -> None:
    """Replace a file in one step: a reader sees the old or the new text, never a part, whatever happens meanwhile.

    The permissions of an existing file are kept, and a symbolic link stays one. What is not a regular file (a pipe, a device) is
    written to directly, for there is nothing to replace.
    """
    try:
        target = os.path.realpath(path)
        mode = _mode(target)
        data = text.encode("utf-8")
        if mode is not None and not stat.S_ISREG(mode):
            _write_directly(target, data)
        else:
            _replace(target, data, 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
    except UnicodeEncodeError as error:
        raise InputError(f"cannot be written as UTF-8: {error.reason}", path=path) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be written: {reason(error)}", path=path, advice="nothing was changed"
        ) from None


def replace_text(path: str, old: str, new: str) -> None:
    """Replace a file that was read as ``old``; if it says something else by now, nothing is written and that is an error.

    Two torchstones that change one file take turns, so neither loses what the other wrote. ``old`` is empty for a new file.
    """
    folder = os.path.dirname(os.path.realpath(path))
    with _locked(folder):
        now = read_text(path) if os.path.exists(path) else ""
        if now != old:
            raise InputError(
                "changed while it was being looked at",
                path=path,
                advice="nothing was written: run the command again",
            )
        write_text(path, new)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a folder's lock, where the system has such a thing."""
    try:
        import fcntl  # noqa: PLC0415  (not on every system)

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _mode(target: str) -> int | None:
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_directly(target: str, data: bytes) -> None:
    with open(target, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _replace(target: str, data: bytes, mode: int) -> None:
    import tempfile  # noqa: PLC0415  (slow to import, and a gate writes nothing)

    handle, temporary = tempfile.mkstemp(
        dir=os.path.dirname(target), prefix=f".{os.path.basename(target)[:80]}.", suffix=".tmp"
    )
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def reason(error: Exception) -> str:
    """The operating system's own words, without numbers and paths."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
