"""The store on which the hosts of a job meet, with calls that give up in time, and what this host's network says of itself.

On a link that was cut, a call of torch's ``TCPStore`` may last for ever, whatever timeout it was given. So a thread makes the calls, and is left behind when
one lasts too long.
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
    """What is used of a store of torch."""

    def set(self, key: str, value: str) -> None:
        """Write a value; does not wait until it has arrived."""

    def get(self, key: str) -> bytes:
        """Read a value, waiting until there is one."""

    def check(self, keys: list[str]) -> bool:
        """Whether all of these have values."""

    def add(self, key: str, value: int) -> int:
        """Add to a count, which begins at 0; gives the sum."""


class HostLostError(CannotMeasureError):
    """A host of the job cannot be reached any more, or its leader is gone."""


class Connection:
    """One connection to the store of a job, used by a thread of its own; whoever asks waits only as long as he wants to.

    ``opens`` makes this process the one that has the store. ``prefix`` goes before all names in it: others may use it too.
    """

    def __init__(self, address: str, port: int, prefix: str, timeout: float, opens: bool = False) -> None:
        self._at = f"{address}:{port}"
        _load_stores()  # however long that takes: no host is to blame for it
        self._problem = ""
        self._work: queue.SimpleQueue[Callable[[Store], None]] = queue.SimpleQueue()
        opened: queue.SimpleQueue[str] = queue.SimpleQueue()

        def serve() -> None:
            try:
                store = _open_store(address, port, prefix, timeout, opens)
            except BaseException as error:  # noqa: BLE001  (told to whoever waits for it)
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
                f"host 0 of the job cannot be reached at {self._at} within {timeout:g} s: {problem}",
                advice="MASTER_ADDR and MASTER_PORT have to name host 0 as this host can reach it",
            )

    def do(self, work: Callable[[Store], T], patience: float = _CALL_PATIENCE) -> T:
        """Have something done with the store; after the first failure the connection is lost for good."""
        if self._problem:
            raise self._lost()
        answer: queue.SimpleQueue[tuple[T] | Exception] = queue.SimpleQueue()

        def try_it(store: Store) -> None:
            try:
                answer.put((work(store),))
            except Exception as error:  # noqa: BLE001  (told to whoever waits for it)
                answer.put(error)

        self._work.put(try_it)
        try:
            told = answer.get(timeout=patience)
        except queue.Empty:
            self._problem = f"no answer within {patience:g} s"
            raise self._lost() from None
        if isinstance(told, Exception):
            self._problem = first_line(told)
            raise self._lost() from told
        return told[0]

    def _lost(self) -> HostLostError:
        return HostLostError(f"the store of host 0 at {self._at} cannot be reached any more: {self._problem}")


def _load_stores() -> tuple[Any, Any]:
    os.putenv("TORCH_CPP_LOG_LEVEL", "ERROR")  # what goes wrong with a connection is told by us, once
    try:
        from torch.distributed import (  # type: ignore[attr-defined]  # noqa: PLC0415  (only in a job)
            PrefixStore,
            TCPStore,
        )
    except ImportError as error:
        raise CannotMeasureError(
            f"hosts cannot work together without torch.distributed: {first_line(error)}",
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
    """Wait until something listens there; torch would wait as well, but not say why in vain."""
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
        return "no host of this name is known"
    return (error.strerror or "no answer").lower() if not isinstance(error, TimeoutError) else "no answer"


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that torch appends."""
    lines = str(error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__)


class Heartbeats:
    """Which leaders are there: each raises a count; this remembers when a count was last seen to grow."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}
        self._since = time.monotonic()

    def look(self, store: Store, index: int) -> None:
        """Read the count of a host."""
        count = store.add(f"pulse/{index}", 0)
        if count != self._seen.get(index, (0, 0.0))[0]:
            self._seen[index] = (count, time.monotonic())

    def silence(self, index: int) -> float:
        """For how many seconds nothing has been heard of a host."""
        return time.monotonic() - self._seen.get(index, (0, self._since))[1]


def local_address(towards: str) -> str:
    """The address of this host that others see when it talks to this one; empty if there is no way there."""
    with contextlib.suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(address)  # nothing is sent: only a route is chosen
                return str(probe.getsockname()[0])
    return ""


def interface_of(address: str) -> str:
    """The network interface with this address (IPv4, Linux); empty if there is none."""
    try:
        import fcntl  # noqa: PLC0415  (not everywhere)

        wanted = socket.inet_aton(address)
    except (ImportError, OSError):
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                told = fcntl.ioctl(probe, _ASK_INTERFACE_ADDRESS, struct.pack("256s", name.encode()[:15]))
                if told[20:24] == wanted:
                    return name
    return ""


def write_message(store: Store, key: str, message: Mapping[str, Any]) -> None:
    """Write a message in as many parts as it takes; it is there once the number of parts is."""
    text = base64.b64encode(zlib.compress(encode(dict(message)))).decode("ascii")
    parts = [text[first : first + _LONGEST_PART] for first in range(0, len(text), _LONGEST_PART)]
    for number, part in enumerate(parts):
        store.set(f"{key}/{number}", part)
    store.set(key, str(len(parts)))


def read_message(store: Store, key: str) -> Message | None:
    """A message, if it is there."""
    if not store.check([key]):
        return None
    parts = [store.get(f"{key}/{number}") for number in range(int(store.get(key)))]
    return decode(zlib.decompress(base64.b64decode(b"".join(parts))))
