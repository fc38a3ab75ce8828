"""``torchstone site``: write the dashboard of a store as static files."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import FOLDER, Option
from torchstone.cli.options.quantities import parse_number_from_zero
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import CONFIG, show_progress
from torchstone.cli.options.store_options import STORE
from torchstone.core.errors import UsageError, printable
from torchstone.core.text.units import count_of
from torchstone.dashboard.static_site import RUN_PAGES, SiteRequest, write_site

OUTPUT = Option(
    "--output",
    "output",
    "DIR",
    "Folder to write; that of a former site is replaced.",
    short="-o",
    writes=FOLDER,
)
RUNS = Option(
    "--runs",
    "runs",
    "N",
    f"How many of the newest runs have a page of their own (default: {RUN_PAGES}).",
    parse=parse_number_from_zero,
)
OPTIONS = (STORE, OUTPUT, RUNS, CONFIG)


def write_pages(_arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Write the dashboard of a store as static files.

    They open without a server. The pages are those of 'torchstone serve', without filters and
    comparisons. All links are relative, so the folder can be opened from a
    disk, published on any web server, or kept as a CI artifact.

    \b
    Examples:
      torchstone site -o site
      torchstone site --store history.db -o public/benchmarks --runs 500
    """
    if not values["output"]:
        raise UsageError("no folder given", advice="name one: torchstone site -o DIR")
    with show_progress("writing"):
        result = write_site(make_request(SiteRequest, OPTIONS, values))
    size = f"{result.size / 1e6:,.1f} MB"
    sys.stdout.write(f"wrote {count_of(result.pages, 'page')}, {size}; open {printable(result.first)}\n")
    return 0


site_command = make_command("site", write_pages, OPTIONS, "", required=False, bare=True)
