"""An HTTP server on this machine that takes what is posted, and answers as it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "T0000/B0000/secret-part"  # noqa: S105  (no password, but as secret as one)


class Service(ThreadingHTTPServer):
    """Keeps what was posted, and answers with the statuses it is told to, the last one for ever."""

    daemon_threads = True

    def __init__(self, *answers: int, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.delay = list(answers), delay
        self.posted: list[tuple[str, str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/services/{SECRET}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, self.headers["Content-Type"], json.loads(body)))
        time.sleep(self.server.delay)
        code = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(code)
        if code in {301, 302, 307}:
            self.send_header("Location", f"http://127.0.0.1:1/{SECRET}")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def service(*answers: int, delay: float = 0.0) -> Iterator[Service]:
    with Service(*answers, delay=delay) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
