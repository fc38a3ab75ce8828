"""Select the executor of new sessions; the default runs workers on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from torchstone.measure.executors.local import LocalExecutor
from torchstone.measure.executors.protocol import Executor

_chosen: ContextVar[Executor | None] = ContextVar("executor", default=None)


def current_executor() -> Executor:
    """Return the executor that new sessions use."""
    return _chosen.get() or LocalExecutor()


@contextlib.contextmanager
def using_executor(executor: Executor) -> Iterator[None]:
    """Use this executor for all sessions opened in the block."""
    token = _chosen.set(executor)
    try:
        yield
    finally:
        _chosen.reset(token)
