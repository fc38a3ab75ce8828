"""``main``: run a benchmark file as a script."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from torchstone.core.errors import UsageError


def main() -> NoReturn:
    """Run ``torchstone run THIS_FILE`` with the options of the command line. Call it at the end of a benchmark file.

        if __name__ == "__main__":
            torchstone.main()

    The process is replaced by that command, so nothing that the file has imported, such as torch, remains.
    """
    if not getattr(sys.modules["__main__"], "__file__", None):
        raise UsageError(
            "torchstone.main() can be called only from a file", advice="call torchstone.run(...) instead"
        )
    own = len(sys.argv)
    flags = sys.orig_argv[1:-own] if own < len(sys.orig_argv) else []
    if flags[-1:] == ["-m"]:  # python -m bench_mine
        flags.pop()
    arguments = ["-m", "torchstone", "run", *sys.argv]
    os.execv(sys.executable, [sys.executable, *flags, *arguments])  # noqa: S606  (the same interpreter, no shell)
