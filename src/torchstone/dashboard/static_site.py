"""Write the pages of the dashboard as files that open without a server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import msgspec
from msgspec import Struct, structs

from torchstone import __version__
from torchstone.api.browsing.browse_changes import groups_of
from torchstone.api.browsing.browsing import Browsing
from torchstone.api.requests import Path, make_request
from torchstone.api.showing import show_html
from torchstone.api.value_checks import check_count
from torchstone.core.config import find_store
from torchstone.core.disk import make_folder, reason
from torchstone.core.errors import InputError
from torchstone.core.text.units import count_of
from torchstone.dashboard.asset_files import ASSETS, read_dashboard_asset
from torchstone.dashboard.page_table import PAGE_KINDS, Asked, PageKind, encode_view
from torchstone.dashboard.store_pool import StorePool
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.views.history.page_filters import PageFilters
from torchstone.reporting.views.result_table import ResultTable
from torchstone.store.browsing.data_stamp import read_stamp
from torchstone.store.browsing.newest_outcomes import read_known_cases
from torchstone.store.browsing.run_pages import RunFilter, read_run_page

RUN_PAGES = 100
MARK = "torchstone-site.json"
"""The file by which a folder is known as a site that may be replaced."""
_MOST_PARTS = 1000
_ALL_SERIES = PageFilters(all="1")


class SiteRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which store, the folder to write, and how many of the newest runs have a page of their own."""

    output: str
    store: str = ""
    runs: int = RUN_PAGES
    config: str | None = None


class SiteResult(Struct, frozen=True):
    """The site that was written: its first page, and how many pages and bytes it has."""

    first: str
    pages: int
    size: int

    def __str__(self) -> str:
        return f"{self.first}: {count_of(self.pages, 'page')}, {self.size / 1e6:.1f} MB"

    def _repr_html_(self) -> str:
        return show_html(ResultTable(str(self), (), ()))


class SiteFile(Struct, frozen=True):
    """A file of the site."""

    path: str
    data: bytes
    is_page: bool = False


def make_site(
    output: Path, store: Path = "", *, runs: int = RUN_PAGES, config: str | None = None
) -> SiteResult:
    """Write the dashboard of a store as static files, as ``torchstone site`` does.

    torchstone.make_site("site", "history.db")
    """
    given = {"output": output, "store": store, "runs": runs, "config": config}
    return write_site(make_request(SiteRequest, given))


def write_site(request: SiteRequest) -> SiteResult:
    """Write a site as requested: whole, in place of a former one, or not at all."""
    check_count("--runs", request.runs, least=0)
    target = os.path.abspath(request.output)
    _refuse_what_is_no_site(target, request.output)
    pool = StorePool(find_store(request.store, request.config))
    make_folder(os.path.dirname(target))
    try:
        with pool.borrow() as database, database.reading():
            browsing = Browsing(database, read_stamp(database))
            return _write_all(target, _files(browsing, request.runs))
    except OSError as error:
        raise InputError(f"cannot be written: {reason(error)}", path=request.output) from None
    finally:
        pool.close()


def _refuse_what_is_no_site(target: str, named: str) -> None:
    if not os.path.lexists(target):
        return
    if not os.path.isdir(target):
        raise InputError("this is a file, expected a folder", path=named)
    if os.listdir(target) and not os.path.exists(os.path.join(target, MARK)):
        raise InputError(
            "this folder has other files", path=named, advice="name a new folder, or that of a former site"
        )


def _files(browsing: Browsing, most_runs: int) -> Iterator[SiteFile]:
    """Yield the files of the site."""
    database = browsing.database
    runs = read_run_page(database, RunFilter(), most_runs) if most_runs else []
    links = PageLinks(is_static=True, runs=frozenset(run.id for run in runs))
    for name in ASSETS:
        yield SiteFile(f"assets/{name}", read_dashboard_asset(name))
    names = {
        "run": [str(run.id) for run in runs],
        "change": [str(each.id) for each in groups_of(browsing, None)],
        "case": [str(each.id) for each in read_known_cases(database)],
    }
    for kind in PAGE_KINDS:
        if kind.has_name:
            for name in names.get(kind.path, []):
                yield _named_page(browsing, kind, name, structs.replace(links, depth=1))
        else:
            yield from _parts(browsing, kind, links)
    mark = {"torchstone": __version__}
    yield SiteFile(MARK, msgspec.json.encode(mark))


def _named_page(browsing: Browsing, kind: PageKind, name: str, links: PageLinks) -> SiteFile:
    filters = _ALL_SERIES if "all" in kind.filters else PageFilters()
    view = kind.make(Asked(browsing, filters, (), name))
    return SiteFile(f"{kind.path}/{name}.html", _encode(kind.render(view, links)), is_page=True)


def _parts(browsing: Browsing, kind: PageKind, links: PageLinks) -> Iterator[SiteFile]:
    """Yield all parts of a page, which may be one, with their data."""
    for number in range(1, _MOST_PARTS):
        view = kind.make(Asked(browsing, PageFilters(page=number)))
        path = (kind.path or "index") + (f"-{number}" if number > 1 else "")
        yield SiteFile(f"{path}.html", _encode(kind.render(view, links)), is_page=True)
        if number == 1:
            yield SiteFile(f"{kind.path or 'health'}.json", encode_view(view))
        if number >= getattr(view, "pages", 1):
            return


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _write_all(target: str, files: Iterator[SiteFile]) -> SiteResult:
    """Write files into a new folder, which takes the place of a former one when it is whole."""
    pages = size = 0
    parent = os.path.dirname(target)
    with tempfile.TemporaryDirectory(prefix=f".{os.path.basename(target)}-", dir=parent) as scratch:
        new, old = os.path.join(scratch, "new"), os.path.join(scratch, "old")
        os.mkdir(new)
        for file in files:
            path = os.path.join(new, *file.path.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as opened:
                opened.write(file.data)
            pages += file.is_page
            size += len(file.data)
        if os.path.isdir(target):
            shutil.move(target, old)
        os.rename(new, target)
    return SiteResult(os.path.join(target, "index.html"), pages, size)
