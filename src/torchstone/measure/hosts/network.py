"""The store that connects the hosts of a job, with reliable timeouts, and facts about this host's network.

If a network link is cut, a call of torch's ``TCPStore`` may block forever, whatever its timeout. So a thread makes the calls, and
is abandoned when one takes too long.
"""

from __future__ import annotations

import base64
import contextlib
import os
import queue
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeVar, cast

from torchstone.core.errors import printable
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.worker.channel import Message, decode, encode

_CALL_PATIENCE = 10.0
_TICK = 0.1
_ONE_ATTEMPT = 5.0
_LONGEST_PART = 4 << 20  # a store takes no value of more than 8 MiB
_ASK_INTERFACE_ADDRESS = 0x8915

T = TypeVar("T")


class Store(Protocol):
    """The methods used of a torch store."""

    def set(self, key: str, value: str) -> None:
        """Write a value, without waiting until it has arrived."""

    def get(self, key: str) -> bytes:
        """Read a value; wait until it exists."""

    def check(self, keys: list[str]) -> bool:
        """Return whether all of these keys have values."""

    def add(self, key: str, value: int) -> int:
        """Add to a counter, which starts at 0; return the sum."""


class HostLostError(CannotMeasureError):
    """A host of the job can no longer be reached, or its leader is gone."""


class Connection:
    """A connection to the store of a job, used by its own thread, so that callers can time out.

    ``opens``: this process hosts the store. ``prefix`` is put before all keys, because others may use the store too.
    """

    def __init__(self, address: str, port: int, prefix: str, timeout: float, opens: bool = False) -> None:
        self._at = f"{address}:{port}"
        _load_stores()  # before the timeout starts: loading torch may take long
        self._problem = ""
        self._work: queue.SimpleQueue[Callable[[Store], None]] = queue.SimpleQueue()
        opened: queue.SimpleQueue[str] = queue.SimpleQueue()

        def serve() -> None:
            try:
                store = _open_store(address, port, prefix, timeout, opens)
            except BaseException as error:  # noqa: BLE001  (reported to the caller)
                opened.put(first_line(error))
                return
            opened.put("")
            while True:
                self._work.get()(store)

        threading.Thread(target=serve, daemon=True).start()
        try:
            problem = opened.get(timeout=timeout + _ONE_ATTEMPT)
        except queue.Empty:
            problem = "no answer"
        if problem and opens:
            raise CannotMeasureError(
                f"host 0 cannot open a store on port {port}: {problem}",
                advice="set MASTER_PORT to a port that is free on it",
            )
        if problem:
            raise CannotMeasureError(
                f"host 0 of the job could not be reached at {self._at} within {timeout:g} s: {problem}",
                advice="set MASTER_ADDR and MASTER_PORT to an address of host 0 that this host can reach",
            )

    def do(self, work: Callable[[Store], T], patience: float = _CALL_PATIENCE) -> T:
        """Call a function with the store; after the first failure the connection stays lost."""
        if self._problem:
            raise self._lost()
        answer: queue.SimpleQueue[tuple[T] | Exception] = queue.SimpleQueue()

        def try_it(store: Store) -> None:
            try:
                answer.put((work(store),))
            except Exception as error:  # noqa: BLE001  (reported to the caller)
                answer.put(error)

        self._work.put(try_it)
        try:
            result = answer.get(timeout=patience)
        except queue.Empty:
            self._problem = f"no answer within {patience:g} s"
            raise self._lost() from None
        if isinstance(result, Exception):
            self._problem = first_line(result)
            raise self._lost() from result
        return result[0]

    def _lost(self) -> HostLostError:
        return HostLostError(f"the store of host 0 at {self._at} can no longer be reached: {self._problem}")


def _load_stores() -> tuple[Any, Any]:
    os.putenv("TORCH_CPP_LOG_LEVEL", "ERROR")  # connection problems are reported by torchstone, once
    try:
        from torch.distributed import (  # type: ignore[attr-defined]  # noqa: PLC0415  (only runs on several hosts load torch here)
            PrefixStore,
            TCPStore,
        )
    except ImportError as error:
        raise CannotMeasureError(
            f"runs on several hosts need torch.distributed: {first_line(error)}",
            advice="install torch on every host: pip install torch",
        ) from None
    return TCPStore, PrefixStore


def _open_store(address: str, port: int, prefix: str, timeout: float, opens: bool) -> Store:
    if not opens:
        wait_until_listening(address, port, timeout)
    tcp_store, prefix_store = _load_stores()
    store = tcp_store(
        address,
        port,
        is_master=opens,
        timeout=timedelta(seconds=timeout),
        wait_for_workers=False,
    )
    return cast(Store, prefix_store(prefix, store))


def wait_until_listening(address: str, port: int, timeout: float) -> None:
    """Wait until a port accepts connections; torch would wait too, but not say why it failed."""
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        try:
            socket.create_connection((address, port), timeout=max(0.1, min(left, _ONE_ATTEMPT))).close()
        except OSError as error:
            if left <= _TICK:
                raise ConnectionError(_reason(error)) from None
            time.sleep(_TICK)
        else:
            return


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "unknown host name"
    return (error.strerror or "no answer").lower() if not isinstance(error, TimeoutError) else "no answer"


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the stack that torch appends."""
    lines = str(error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__)


class Heartbeats:
    """Heartbeats of leaders: each increments a counter; this records when each counter last increased."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}
        self._since = time.monotonic()

    def look(self, store: Store, index: int) -> None:
        """Read the counter of a host."""
        count = store.add(f"heartbeat/{index}", 0)
        if count != self._seen.get(index, (0, 0.0))[0]:
            self._seen[index] = (count, time.monotonic())

    def silence(self, index: int) -> float:
        """Return the seconds since the last heartbeat of a host."""
        return time.monotonic() - self._seen.get(index, (0, self._since))[1]


def local_address(towards: str) -> str:
    """Return this host's address as seen by another host; empty if there is no route."""
    with contextlib.suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(address)  # sends nothing, only chooses a route
                return str(probe.getsockname()[0])
    return ""


def interface_of(address: str) -> str:
    """Return the network interface with this address (IPv4, Linux); empty if there is none."""
    try:
        import fcntl  # noqa: PLC0415  (missing on some systems)

        wanted = socket.inet_aton(address)
    except (ImportError, OSError):
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                reply = fcntl.ioctl(probe, _ASK_INTERFACE_ADDRESS, struct.pack("256s", name.encode()[:15]))
                if reply[20:24] == wanted:
                    return name
    return ""


def write_message(store: Store, key: str, message: Mapping[str, Any]) -> None:
    """Write a message in parts; it is complete once the number of parts is written."""
    text = base64.b64encode(zlib.compress(encode(dict(message)))).decode("ascii")
    parts = [text[first : first + _LONGEST_PART] for first in range(0, len(text), _LONGEST_PART)]
    for number, part in enumerate(parts):
        store.set(f"{key}/{number}", part)
    store.set(key, str(len(parts)))


def read_message(store: Store, key: str) -> Message | None:
    """Return a message, or None if it is not there yet."""
    if not store.check([key]):
        return None
    parts = [store.get(f"{key}/{number}") for number in range(int(store.get(key)))]
    return decode(zlib.decompress(base64.b64decode(b"".join(parts))))
