"""Stores of nights, and ways to ask their dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

from nights import make_nights
from starlette.testclient import TestClient

from live_processes import wait_until
from stored_runs import opened, recorded
from torchstone.dashboard.application import make_application
from torchstone.dashboard.serving import ServeRequest, Serving, open_dashboard
from torchstone.dashboard.store_pool import StorePool
from torchstone.history.update import bring_up_to_date

NIGHTS = 40


def record_nights(folder: Path) -> str:
    """Makes a store of forty nights, three runs each, with known steps."""
    path = str(folder / "history.db")
    with opened(path) as database:
        recorded(database, *make_nights(NIGHTS))
        bring_up_to_date(database)
    return path


@contextmanager
def client_of(store: str, root_path: str = "") -> Iterator[TestClient]:
    pool = StorePool(store)
    yield TestClient(
        make_application(pool, root_path), base_url="http://localhost:8321", raise_server_exceptions=False
    )
    pool.close()


def is_open(address: str) -> bool:
    with suppress(OSError), urlopen(address + "assets/icon.svg"):  # noqa: S310  (an address of this test)
        return True
    return False


@contextmanager
def running(store: str | Path) -> Iterator[Serving]:
    """A real server on a free port of this machine."""
    serving = open_dashboard(ServeRequest(store=str(store), port=0))
    thread = Thread(target=serving.run)
    thread.start()
    wait_until(lambda: is_open(serving.address), "the server does not answer", 30)
    try:
        yield serving
    finally:
        serving.stop()
        thread.join(30)
    assert not thread.is_alive()
