"""Choose the executor of the sessions to come; workers run on this machine unless something else is chosen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from torchstone.measure.executors.local import LocalExecutor
from torchstone.measure.executors.protocol import Executor

_chosen: ContextVar[Executor | None] = ContextVar("executor", default=None)


def current_executor() -> Executor:
    """The executor that new sessions use."""
    return _chosen.get() or LocalExecutor()


@contextlib.contextmanager
def using_executor(executor: Executor) -> Iterator[None]:
    """Have all sessions that are opened inside use this executor."""
    token = _chosen.set(executor)
    try:
        yield
    finally:
        _chosen.reset(token)
