"""Do something in the background, while the command is busy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event


@contextmanager
def in_background(work: Callable[[Event], None]) -> Iterator[None]:
    """Run a function in a thread; it is given an event that tells it to end."""
    import threading  # noqa: PLC0415  (start-up: used on a terminal, or when a step takes long)

    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
