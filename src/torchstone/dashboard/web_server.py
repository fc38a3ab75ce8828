"""Run the application in uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from torchstone.dashboard.application import make_application
from torchstone.dashboard.store_pool import StorePool

_PATIENCE = 5  # seconds that answers may take after the server is told to stop


def prepare_server(
    location: str, bound: socket.socket, root_path: str
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return functions that run a server on a socket until it is stopped, and that stop it, or close it if it never ran. The store must be there."""
    pool = StorePool(location)
    try:
        with pool.borrow():
            pass
    except BaseException:
        bound.close()
        raise
    config = uvicorn.Config(
        make_application(pool, root_path),
        log_level="warning",
        server_header=False,
        lifespan="off",
        ws="none",
        http="h11",
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE,
    )
    server = uvicorn.Server(config)

    def run() -> None:
        try:
            server.run(sockets=[bound])
        finally:
            bound.close()
            pool.close()

    def stop() -> None:
        server.should_exit = True
        if not server.started:
            bound.close()
            pool.close()

    return run, stop
