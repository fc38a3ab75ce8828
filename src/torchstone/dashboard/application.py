"""The web application: routes, answers, their headers, and pages for what went wrong."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from threading import Lock
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from torchstone import __version__
from torchstone.api.browsing.browse_changes import decide_change
from torchstone.api.browsing.browsing import Browsing, Memo, NothingThereError
from torchstone.api.browsing.once_at_a_time import OnceAtATime
from torchstone.core.errors import InputError, TorchstoneError, UsageError
from torchstone.dashboard.asset_files import kind_of_asset, read_dashboard_asset
from torchstone.dashboard.header_middleware import HeaderMiddleware
from torchstone.dashboard.openapi import make_openapi
from torchstone.dashboard.page_table import PAGE_KINDS, Asked, PageKind, encode_view
from torchstone.dashboard.store_pool import StorePool
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.html.history.trouble_page import TroublePage, render_trouble
from torchstone.reporting.views.history.page_filters import parse_filters
from torchstone.store.browsing.data_stamp import read_stamp

HTML, JSON = "text/html; charset=utf-8", "application/json"
OWN_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Of pages that state in their head which style and script they allow, by hash, and nothing else."""
_RETRY_SECONDS = "5"
_MOST_KEPT = 256
_MOST_BYTES = 64 * 1024 * 1024
_LONGEST_QUERY = 8_000
_LARGEST_FORM = 64 * 1024


class PageAnswer(Struct, frozen=True):
    """The body of a page with its content type, and whether it states its own content policy."""

    body: bytes
    kind: str
    is_own_document: bool = False


class AnswerCache:
    """Pages made from one state of the store; the ones used last are kept."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, str], PageAnswer] = OrderedDict()
        self._size = 0

    def find(self, stamp: str, address: str) -> PageAnswer | None:
        """Return the page of an address, if it was made from this state of the store."""
        with self._lock:
            found = self._kept.get((stamp, address))
            if found is not None:
                self._kept.move_to_end((stamp, address))
            return found

    def keep(self, stamp: str, address: str, answer: PageAnswer) -> None:
        """Keep a page; drop those of other states, and the oldest ones of too many."""
        with self._lock:
            if self._kept and next(iter(self._kept))[0] != stamp:
                self._kept.clear()
                self._size = 0
            self._kept[stamp, address] = answer
            self._size += len(answer.body)
            while len(self._kept) > _MOST_KEPT or self._size > _MOST_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._size -= len(dropped.body)


class DashboardPages:
    """Answers requests from a store."""

    def __init__(self, pool: StorePool) -> None:
        self.pool = pool
        self._memo = Memo()
        self._cache = AnswerCache()
        self._working = OnceAtATime()

    def answer(self, request: Request, kind: PageKind, *, is_json: bool) -> Response:
        """Answer a request for a page, as HTML or JSON."""
        if len(request.url.query) > _LONGEST_QUERY:
            raise HTTPException(414, "The address is too long.")
        name = str(request.path_params.get("name", ""))
        address = f"{kind.path}/{name}?{request.url.query}#{is_json:d}{_depth(request)}"
        with self.pool.borrow() as database:
            stamp = read_stamp(database)
            tag = f'"{sha256(f"{__version__} {stamp} {address}".encode()).hexdigest()[:32]}"'
            if tag in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers={"ETag": tag})
            with self._working.working_on((stamp, address)):
                found = self._cache.find(stamp, address)
                if found is None:
                    browsing = Browsing(database, stamp, self._memo)
                    with database.reading():
                        found = self._make(request, kind, browsing, is_json=is_json)
                    self._cache.keep(stamp, address, found)
        own = {"Content-Security-Policy": OWN_POLICY} if found.is_own_document else {}
        return Response(found.body, media_type=found.kind, headers={"ETag": tag, **own})

    def _make(self, request: Request, kind: PageKind, browsing: Browsing, *, is_json: bool) -> PageAnswer:
        filters, problems = parse_filters(request.query_params.multi_items(), kind.filters)
        view = kind.make(Asked(browsing, filters, problems, str(request.path_params.get("name", ""))))
        if is_json:
            return PageAnswer(encode_view(view), JSON)
        text = kind.render(view, PageLinks(_depth(request)))
        return PageAnswer(text.encode("utf-8", "backslashreplace"), HTML, kind.is_own_document)

    def decide(self, request: Request, kind: PageKind, given: dict[str, str]) -> Response:
        """Decide about what a page shows, and lead back to it; show the page with what is wrong if that is refused."""
        name = str(request.path_params["name"])
        try:
            decide_change(self.pool.location, name, given)
        except UsageError as error:
            with self.pool.borrow() as database, database.reading():
                view = kind.make(Asked(Browsing(database, ""), name=name))
            told = "; ".join(filter(None, (error.message, error.advice)))
            text = kind.render(
                msgspec.structs.replace(view, problem=told, given=given), PageLinks(_depth(request))
            )
            status = 409 if "meanwhile" in error.message else 400
            return Response(text.encode("utf-8", "backslashreplace"), status, media_type=HTML)
        return Response(status_code=303, headers={"Location": name})


def make_application(pool: StorePool, root_path: str = "") -> HeaderMiddleware:
    """Return the application, at the root and below ``root_path``."""
    pages = DashboardPages(pool)
    routes = _routes(pages)
    prefix = root_path.rstrip("/")
    if prefix:
        routes = [Mount(prefix, routes=_routes(pages)), *routes]
    handlers = {HTTPException: _tell_http, TorchstoneError: _tell_error, Exception: _tell_fault}
    application = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]  # each takes its own exception
    application.router.redirect_slashes = False
    return HeaderMiddleware(application)


def _routes(pages: DashboardPages) -> list[BaseRoute]:
    routes: list[BaseRoute] = [
        Route("/assets/{name}", _send_asset, methods=["GET"]),
        Route("/openapi.json", _send_openapi, methods=["GET"]),
    ]
    for kind in PAGE_KINDS:
        routes += _routes_of(pages, kind)
    return routes


def _routes_of(pages: DashboardPages, kind: PageKind) -> list[BaseRoute]:
    def as_html(request: Request) -> Response:
        return pages.answer(request, kind, is_json=False)

    def as_json(request: Request) -> Response:
        return pages.answer(request, kind, is_json=True)

    async def decide(request: Request) -> Response:
        given = await _read_form(request)
        return await run_in_threadpool(pages.decide, request, kind, given)

    end = "/{name:path}" if kind.has_name else ""
    path = f"/{kind.path}{end}"
    json_path = f"/{kind.path or 'health'}{end}.json"
    routes: list[BaseRoute] = [
        Route(json_path, as_json, methods=["GET"]),
        Route(path, as_html, methods=["GET"]),
    ]
    if kind.can_decide:
        routes.append(Route(path, decide, methods=["POST"]))
    return routes


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of ours sent; raise an error for one of another site, or one that is too long."""
    origin = request.headers.get("origin", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if (origin and origin.partition("://")[2] != request.headers.get("host")) or site != "same-origin":
        raise HTTPException(403, "Decisions are taken from pages of this dashboard only.")
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise HTTPException(415, "Expected a form.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise HTTPException(413, "The form is too large.")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _send_asset(request: Request) -> Response:
    name = str(request.path_params["name"])
    try:
        body = read_dashboard_asset(name)
    except KeyError:
        raise HTTPException(404) from None
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type=kind_of_asset(name), headers={"ETag": tag})


def _send_openapi(_request: Request) -> Response:
    return Response(make_openapi(), media_type=JSON)


def _depth(request: Request) -> int:
    """Return how many folders the page is in, as a browser sees it: relative links start from there."""
    root = str(request.scope.get("root_path", ""))
    path = str(request.scope["path"])
    return max(0, path.removeprefix(root).count("/") - 1)


def _is_json(request: Request) -> bool:
    return str(request.scope["path"]).endswith(".json")


def _tell(request: Request, page: TroublePage, status: int) -> Response:
    if _is_json(request):
        return Response(encode_view(page), status, media_type=JSON)
    body = render_trouble(page, PageLinks(_depth(request))).encode("utf-8", "backslashreplace")
    return Response(body, status, media_type=HTML)


def _tell_http(request: Request, error: HTTPException) -> Response:
    text = {404: "There is no such page.", 405: "This page can only be read."}.get(
        error.status_code, error.detail
    )
    found = _tell(request, TroublePage(text), error.status_code)
    found.headers.update(error.headers or {})
    return found


def _tell_error(request: Request, error: TorchstoneError) -> Response:
    if isinstance(error, NothingThereError):
        return _tell(request, TroublePage(error.message, others=error.others), 404)
    if isinstance(error, InputError):
        page = TroublePage("The store cannot be read at the moment.", (str(error),))
        found = _tell(request, page, 503)
        found.headers["Retry-After"] = _RETRY_SECONDS
        return found
    return _tell(request, TroublePage(error.message, (error.advice,) if error.advice else ()), 400)


def _tell_fault(request: Request, _error: Exception) -> Response:
    page = TroublePage("Something went wrong in torchstone.", ("The terminal of the server says what.",))
    return _tell(request, page, 500)
