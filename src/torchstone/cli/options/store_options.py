"""Options of the commands that record runs in a store."""

from __future__ import annotations

from torchstone.cli.options.plain import Option
from torchstone.core.config import DEFAULT_STORE

HISTORY = "History"
STORE = Option(
    "--store",
    "store",
    "PATH|URL",
    f"Store: an SQLite file, or postgresql://USER@HOST/DATABASE (default: TORCHSTONE_STORE, [store] in torchstone.toml, or {DEFAULT_STORE}).",
    section=HISTORY,
)
RECORD = Option("--record", "record", "", "Record the results in the store.", section=HISTORY)
REVISION = Option(
    "--revision",
    "revision",
    "REV",
    "Revision of all results: a commit, tag or branch of this repository, or any label (default: as the files state).",
    section=HISTORY,
)
REVISION_FROM = Option(
    "--revision-from",
    "revision_from",
    "REGEX",
    "Find the revision in the path of each file: the first group of this expression, such as 'perf_(.*).csv' (default: the first commit or date).",
    section=HISTORY,
)
BRANCH = Option(
    "--branch", "branch", "NAME", "Branch of all results (default: as the files state).", section=HISTORY
)
SUMMARIES_ONLY = Option(
    "--summaries-only",
    "summaries_only",
    "",
    "Keep the value of each measurement, but neither raw samples nor details such as logs.",
    section=HISTORY,
)
