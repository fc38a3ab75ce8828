"""Read text files and replace them atomically, with errors that users can act on."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from torchstone.core.errors import InputError
from torchstone.core.text.safe_text import quote_word

_BLOCK = 4096  # bytes, the usual allocation unit of a file system
_BLOCK_READ = 1 << 26
BOM = "\ufeff"
LARGEST = 16 << 30
_LARGEST_STREAM = 1 << 30


def read_text(path: str) -> str:
    """Read a UTF-8 file. A byte-order mark at its start and line ends are kept."""
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
        mode = os.stat(path).st_mode  # before opening it, because that may affect a device
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError("this is a device, expected a file", path=path)
        with open(path, "rb") as file:
            return _read_all(file, path, is_regular=stat.S_ISREG(mode))
    except FileNotFoundError:
        raise InputError("no such file", path=path, advice="check the name and the current folder") from None
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
    """Read all of a file or pipe, up to a limit."""
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
                f"more than {_LARGEST_STREAM >> 20} MiB read from a pipe",
                path=path,
                advice="name a file",
            )
    return b"".join(parts)


def fault_of_file(path: str, largest: int) -> str:
    """Return why a file that another file names must not be read; empty if it is regular and not too large.

    A user may name a pipe on purpose, but a name in a foreign file might be a device or an endless pipe.
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
    """Return line and column of a byte, both from 1."""
    return data.count(b"\n", 0, offset) + 1, offset - data.rfind(b"\n", 0, offset)


def write_text(path: str, text: str) -> None:
    """Replace a file atomically by a text; see ``write_bytes``."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"cannot be written as UTF-8: {error.reason}", path=path) from None
    write_bytes(path, data)


def write_bytes(path: str, data: bytes) -> None:
    """Replace a file atomically: a reader sees the old or the new content, never a part.

    The permissions of an existing file are kept, and a symbolic link stays one. A pipe or device is written to
    directly.
    """
    try:
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            _write_directly(path, data)
        else:
            _replace(os.path.realpath(path), data, 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be written: {reason(error)}", path=path, advice="nothing was changed"
        ) from None


def replace_text(path: str, old: str, new: str) -> None:
    """Replace a file that was read as ``old``; raise InputError, and write nothing, if it has changed since.

    A lock makes concurrent commands take turns, so that no change is lost. ``old`` is empty for a new file.
    """
    folder = os.path.dirname(os.path.realpath(path))
    with _locked(folder):
        now = read_text(path) if os.path.exists(path) else ""
        if now != old:
            raise InputError(
                "changed since it was read",
                path=path,
                advice="nothing was written: run the command again",
            )
        write_text(path, new)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a lock on a folder, if the system supports it."""
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


def try_file(path: str, *, makes_folder: bool = False) -> None:
    """Raise InputError if ``write_text`` could not write a file; called before long work, and changes nothing.

    It writes and removes a temporary file beside the target; to a device it writes zero bytes. With
    ``makes_folder``, the folder need not exist.
    """
    try:
        mode = _mode(path)
        if path.endswith(os.sep) or (mode is not None and stat.S_ISDIR(mode)):
            raise InputError("this is a folder, expected a file", path=path, advice="name a file in it")
        if mode is None or stat.S_ISREG(mode):
            folder = os.path.dirname(os.path.realpath(path))
            if not makes_folder and not os.path.isdir(folder):
                raise _no_folder(path, folder)
            _try_inside(_nearest(folder))
        elif stat.S_ISCHR(mode):
            _write_nothing(path)
        elif not os.access(path, os.W_OK):  # opening a pipe would wait for its reader
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {reason(error)}", path=path) from None


def try_folder(path: str) -> None:
    """Raise InputError if files could not be written into a folder, which need not exist yet."""
    try:
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError("this is a file, expected a folder", path=path, advice="name a folder")
        _try_inside(_nearest(os.path.abspath(path)))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write into this folder: {reason(error)}", path=path) from None


def _no_folder(path: str, folder: str) -> InputError:
    advice = f"create it: mkdir -p {quote_word(folder)}"
    return InputError("the parent folder does not exist", path=path, advice=advice)


def _nearest(folder: str) -> str:
    """Return the folder, or its nearest existing parent."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def make_folder(path: str) -> None:
    """Create a folder and its parents, unless it exists."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder: {reason(error)}", path=path) from None


def _try_inside(folder: str) -> None:
    """Write a block to a new file in a folder, and remove the file."""
    trial = os.path.join(folder, f".torchstone-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    handle = os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(handle, bytes(_BLOCK))
    finally:
        os.close(handle)
        os.unlink(trial)


def _write_nothing(device: str) -> None:
    handle = os.open(device, os.O_WRONLY | os.O_NOCTTY)
    try:
        os.write(handle, b"")
    finally:
        os.close(handle)


def _mode(target: str) -> int | None:
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_directly(target: str, data: bytes) -> None:
    with open(target, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _replace(target: str, data: bytes, mode: int) -> None:
    """Write a file without a name, then give it the target's name, so that a killed process leaves nothing."""
    handle = _open_unnamed(os.path.dirname(target))
    if handle is None:
        _replace_by_named(target, data, mode)
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:80]}.{os.urandom(4).hex()}.tmp")
    try:
        os.fchmod(handle, mode)
        write_whole(handle, data)
        is_named = _give_name(handle, temporary)
    finally:
        os.close(handle)
    if is_named:
        _rename(temporary, target)
    else:
        _replace_by_named(target, data, mode)


def _rename(temporary: str, target: str) -> None:
    try:
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _replace_by_named(target: str, data: bytes, mode: int) -> None:
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


def create_whole(path: str, data: bytes, prepare: Callable[[int], None] = lambda _: None) -> int:
    """Create a file that has its content before its name, so that a killed process leaves nothing; return its handle.

    ``prepare`` is called with the handle first. Raises FileExistsError if the file exists, and OSError if it
    cannot be written.
    """
    handle = _open_unnamed(os.path.dirname(path) or os.curdir)
    if handle is not None:
        try:
            prepare(handle)
            write_whole(handle, data)
            if _give_name(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    try:
        prepare(handle)
        write_whole(handle, data)
    except BaseException:
        os.close(handle)
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    return handle


def _give_name(handle: int, path: str) -> bool:
    """Name an unnamed file; return False if the file system cannot. Raise FileExistsError if the name is taken."""
    try:
        os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)  # makes the system follow the link
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _open_unnamed(folder: str) -> int | None:
    """Open a new file without a name; None if the system does not support it."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:
        return None


def write_whole(handle: int, data: bytes) -> None:
    """Write all data to a file and to disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.fsync(handle)


def read_whole(handle: int) -> bytes:
    """Read all of an open file, in blocks because one system call returns at most 2 GiB."""
    return b"".join(_blocks(handle))


def holds(handle: int, text: bytes | bytearray) -> bool:
    """Return whether an open file has exactly this content."""
    place, view = 0, memoryview(text)
    for block in _blocks(handle):
        if view[place : place + len(block)] != block:
            return False
        place += len(block)
    return place == len(text)


def _blocks(handle: int) -> Iterator[bytes]:
    place = 0
    while block := os.pread(handle, _BLOCK_READ, place):
        yield block
        place += len(block)


def reason(error: Exception) -> str:
    """Return the operating system's message, without numbers and paths."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
