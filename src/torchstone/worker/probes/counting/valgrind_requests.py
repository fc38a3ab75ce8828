"""Send requests to the valgrind that executes this process: start or stop counting, dump counts.

A request is a sequence of instructions that has no effect on a processor, and that valgrind recognises. The
first argument points to six numbers: the request and its arguments. The sequence is given as bytes, so that
no compiler is needed.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Callable

_ON_VALGRIND = 0x1001
_CALLGRIND = ord("C") << 24 | ord("T") << 16
_ZERO, _TOGGLE, _DUMP, _START, _STOP = (_CALLGRIND + number for number in range(1, 6))
_X86_64 = bytes.fromhex(
    "4889f8"  # mov rax, rdi: the arguments
    "4889f2"  # mov rdx, rsi: the default answer
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61, 51: a full turn in all
    "4887db"  # xchg rbx, rbx: a request
    "4889d0 c3"  # mov rax, rdx; ret
)


class NoValgrindError(Exception):
    """Raised in a process that does not run under valgrind, or cannot talk to it."""


class Valgrind:
    """Connection to the valgrind that executes this process."""

    def __init__(self) -> None:
        if platform.machine() not in {"x86_64", "AMD64"} or not sys.platform.startswith("linux"):
            raise NoValgrindError(f"no requests to valgrind are known for {platform.machine()}")
        try:
            # Keep a reference: the function below is in this memory.
            self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        except OSError as error:
            raise NoValgrindError(f"no memory for instructions: {error.strerror}") from None
        self._code.write(_X86_64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
        self._function: Callable[[int, int], int] = kind(address)
        # Created once: objects created between two requests would be counted.
        self._plain = {number: _arguments(number) for number in (_ZERO, _TOGGLE, _START, _STOP)}
        self._places = {number: ctypes.addressof(each) for number, each in self._plain.items()}
        if not self._ask(_ON_VALGRIND):
            raise NoValgrindError("this process is not executed by valgrind")

    def zero(self) -> None:
        """Reset the counts."""
        self._function(self._places[_ZERO], 0)

    def toggle(self) -> None:
        """Start or stop counting in this thread."""
        self._function(self._places[_TOGGLE], 0)

    def begin(self) -> None:
        """Turn instrumentation on, which makes everything slow."""
        self._function(self._places[_START], 0)

    def end(self) -> None:
        """Turn instrumentation off."""
        self._function(self._places[_STOP], 0)

    def dump(self, name: str) -> None:
        """Write the counts since the last dump under a name, and reset them."""
        text = ctypes.create_string_buffer(name.encode())
        self._ask(_DUMP, ctypes.addressof(text))

    def _ask(self, number: int, about: int = 0) -> int:
        arguments = _arguments(number, about)
        return self._function(ctypes.addressof(arguments), 0)


def _arguments(number: int, about: int = 0) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * 6)(number, about)
