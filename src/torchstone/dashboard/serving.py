"""Serve the dashboard: check what was asked for, bind the address, and run until it is stopped."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from msgspec import Struct

from torchstone.api.requests import Path, make_request
from torchstone.core.config import find_store
from torchstone.core.disk import reason
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.text.redaction import redact

DEFAULT_PORT = 8321
_NEEDED = ("starlette", "uvicorn")
_SERVER = "torchstone.dashboard.web_server"
"""Imported only when something is served: its libraries are optional."""
_ROOT_PATH = re.compile(r"(/[\w.~-]+)+\Z", re.ASCII)


class ServeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which store to serve, and where. Port 0 takes a free one; ``root_path`` is the path that a proxy in front serves it below."""

    store: str = ""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    root_path: str = ""
    config: str | None = None


class Serving(Struct, frozen=True):
    """A dashboard that is ready to run: its store, its address, and how to run and stop it."""

    store: str
    address: str
    run: Callable[[], None]
    stop: Callable[[], None]


def serve(
    store: Path = "",
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    root_path: str = "",
    config: str | None = None,
) -> None:
    """Serve the dashboard of a store, as ``torchstone serve`` does, until the process is interrupted.

    torchstone.serve("history.db", port=8000)
    """
    given = {"store": store, "host": host, "port": port, "root_path": root_path, "config": config}
    open_dashboard(make_request(ServeRequest, given)).run()


def open_dashboard(request: ServeRequest) -> Serving:
    """Bind the address of a dashboard, and return it ready to run; raise an error if it cannot be served."""
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise TorchstoneError(
            f"serve requires {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            advice="pip install 'torchstone[web]'; 'torchstone site' writes the same pages as files without it",
        )
    _check(request)
    location = find_store(request.store, request.config)
    server = import_module(_SERVER)
    bound = _bind(request)
    port = bound.getsockname()[1]
    host = f"[{request.host}]" if ":" in request.host else request.host
    run, stop = server.prepare_server(location, bound, request.root_path)
    return Serving(redact(location), f"http://{host}:{port}{request.root_path}/", run, stop)


def _check(request: ServeRequest) -> None:
    if not _is_loopback(request.host):
        raise UsageError(
            f"--host {request.host}: only addresses of this machine, such as 127.0.0.1, can be served",
            advice="there is no login yet; for others, put a proxy with a login in front, or write files with 'torchstone site'",
        )
    if not 0 <= request.port < 65536:
        raise UsageError(f"--port {request.port}: expected a number from 0 to 65535")
    if request.root_path and not _ROOT_PATH.match(request.root_path):
        raise UsageError(f"--root-path {request.root_path}: expected a path such as /bench")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(request: ServeRequest) -> socket.socket:
    family = socket.AF_INET6 if ":" in request.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((request.host, request.port))
        bound.listen()
    except OSError as error:
        bound.close()
        raise UsageError(
            f"--port {request.port}: {reason(error)}", advice="name another port; --port 0 takes a free one"
        ) from None
    return bound
