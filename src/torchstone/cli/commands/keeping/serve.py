"""``torchstone serve``: serve the dashboard of a store."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import parse_port
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import CONFIG
from torchstone.cli.options.store_options import STORE
from torchstone.core.errors import printable
from torchstone.dashboard.serving import DEFAULT_PORT, ServeRequest, open_dashboard

_ADDRESS = "Address"
HOST = Option(
    "--host", "host", "ADDRESS", "Address of this machine to serve at (default: 127.0.0.1).", section=_ADDRESS
)
PORT = Option(
    "--port",
    "port",
    "PORT",
    f"Port; 0 takes a free one (default: {DEFAULT_PORT}).",
    parse=parse_port,
    section=_ADDRESS,
)
ROOT_PATH = Option(
    "--root-path",
    "root_path",
    "PATH",
    "Path below which a proxy in front serves the dashboard, such as /bench.",
    section=_ADDRESS,
)
OPTIONS = (STORE, HOST, PORT, ROOT_PATH, CONFIG)


def serve_store(_arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Serve the dashboard of a store, until Ctrl-C.

    It shows the newest status and numbers of all cases, their history, runs,
    machines, and comparisons of any two of them. Every page is also JSON: its
    address with .json at the end. By default, only this machine can open it.

    \b
    Examples:
      torchstone serve
      torchstone serve --store history.db --port 8000
    """
    serving = open_dashboard(make_request(ServeRequest, OPTIONS, values))
    sys.stdout.write(f"serving {printable(serving.store)} at {printable(serving.address)} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        serving.run()
    return 0


serve_command = make_command("serve", serve_store, OPTIONS, "", required=False, bare=True)
