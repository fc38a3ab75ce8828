"""Open connections to a store for the threads of a server; a store that vanished is opened again when it is back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from torchstone.core.errors import InputError, TorchstoneError
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect, is_url

_MOST_IDLE = 16


class StorePool:
    """Connections to one store, each used by one thread at a time."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._lock = Lock()
        self._idle: list[Database] = []
        self._identity: tuple[int, int] | None = None

    @contextmanager
    def borrow(self) -> Iterator[Database]:
        """Give a connection; one on which the database failed is not used again."""
        database = self._take()
        try:
            yield database
        except InputError:
            _close(database)
            raise
        except BaseException:
            self._give(database)
            raise
        self._give(database)

    def _take(self) -> Database:
        identity = self._identify()
        with self._lock:
            if identity != self._identity:
                stale, self._idle, self._identity = self._idle, [], identity
            else:
                stale = []
            found = self._idle.pop() if self._idle else None
        for each in stale:
            _close(each)
        return found or connect(self.location)

    def _give(self, database: Database) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(database)
                return
        _close(database)

    def _identify(self) -> tuple[int, int] | None:
        """Return which file the store is: an open file that was removed or replaced could be read on for ever."""
        if is_url(self.location):
            return None
        try:
            found = os.stat(self.location)
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            _close(each)


def _close(database: Database) -> None:
    with suppress(TorchstoneError):
        database.close()
