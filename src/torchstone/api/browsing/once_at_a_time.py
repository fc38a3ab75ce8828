"""Let only one of several threads do the same work; the others wait for what it finds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock


class OnceAtATime:
    """A lock for each key that some thread works on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._busy: dict[Hashable, tuple[Lock, int]] = {}

    @contextmanager
    def working_on(self, key: Hashable) -> Iterator[None]:
        """Wait until no other thread works on this key, then hold it."""
        with self._lock:
            own, waiting = self._busy.get(key, (Lock(), 0))
            self._busy[key] = own, waiting + 1
        try:
            with own:
                yield
        finally:
            with self._lock:
                _, waiting = self._busy[key]
                if waiting == 1:
                    del self._busy[key]
                else:
                    self._busy[key] = own, waiting - 1
