"""How fast the pages of a dashboard are: first view, and again from memory, on a store of any size.

    python benchmarks/history.py --series 2000 --revisions 5000 --store big.db    makes a store of 10 million points
    python benchmarks/dashboard.py big.db

Asks the application in this process, without a network. "first" is after the store changed, "new filter" another filter
of the same page, "again" the same address: a page that did not change is sent from memory.
"""

from __future__ import annotations

import argparse
import statistics
import time

from starlette.testclient import TestClient

from torchstone.dashboard.application import make_application
from torchstone.dashboard.store_pool import StorePool

PAGES = {
    "Health": ("health.json", "health.json?status=-pass", "?device=cpu"),
    "Changes": ("changes", "changes?direction=regression", "changes?all=1"),
    "Cases": ("cases", "cases?case=net1", "cases?page=2"),
    "Runs": ("runs", "runs?text=00ff", "runs?page=3"),
    "Machines": ("machines", "machines?x=1", "machines?y=1"),
    "Case": ("case/7", "case/8?metric=compile_seconds", "case/9"),
    "Run": ("run/10", "run/11", "run/12"),
    "Compare": ("compare?a=10&b=20", "compare?a=10&b=20&case=net1", "compare?a=11&b=21"),
}
AGAIN = 20


def seconds_of(client: TestClient, address: str) -> float:
    """Return how long a page takes."""
    start = time.perf_counter()
    answer = client.get(f"/{address}")
    took = time.perf_counter() - start
    if answer.status_code != 200:
        raise SystemExit(f"{address}: {answer.status_code}")
    return took


def main() -> None:
    """Measure all pages of a store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store")
    given = parser.parse_args()
    pool = StorePool(given.store)
    client = TestClient(make_application(pool), base_url="http://localhost")
    seconds_of(client, "openapi.json")
    print(f"{'page':<10}{'first':>10}{'new filter':>12}{'again, p95':>12}   ms")
    for name, (first, *others) in PAGES.items():
        took = seconds_of(client, first)
        filtered = statistics.median(seconds_of(client, other) for other in others)
        again = sorted(seconds_of(client, first) for _ in range(AGAIN))[int(0.95 * AGAIN)]
        print(f"{name:<10}{1000 * took:>10.0f}{1000 * filtered:>12.0f}{1000 * again:>12.1f}")
    pool.close()


if __name__ == "__main__":
    main()
