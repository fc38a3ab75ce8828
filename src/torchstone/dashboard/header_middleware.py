"""Add the headers that every answer has, and refuse requests for other hosts."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
"""The content policy of every answer that does not state another one."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class HeaderMiddleware:
    """Wraps an application. A page of another site could have given its name to this address, so only these hosts are served."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] = LOOPBACK_NAMES) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if _host_of(scope) in self._hosts:
            await self._app(scope, receive, send_with_headers)
        else:
            told = f"This server answers for {', '.join(sorted(self._hosts))} only.\n"
            await PlainTextResponse(told, 421)(scope, receive, send_with_headers)


def _host_of(scope: Scope) -> str:
    """Return the host that a request is for, without its port."""
    given: dict[bytes, bytes] = dict(scope["headers"])
    host = given.get(b"host", b"").decode("latin-1").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
