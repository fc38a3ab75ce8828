"""Save time while the command starts: import msgspec without what the command does not need, and collect no garbage meanwhile.

msgspec imports typing_extensions where it is installed, and does with typing where it is not. typing_extensions in turn
imports inspect, ast, dis and tokenize: together about 5 ms, a seventh of a check of 100 rows. So it is hidden while msgspec
is imported, and there again afterwards. msgspec also imports uuid, which imports platform (1.5 ms) only to ask for the name of
the system: meanwhile a small module answers that. Only the command does this: a Python program that uses the API may have
msgspec records of its own, with types of typing_extensions.

``cli/main.py`` imports this module before any other of torchstone, and calls ``collect_again`` after its imports.
"""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

_HIDDEN, _ANSWERED = "typing_extensions", "platform"
_was_collecting = gc.isenabled()
gc.disable()  # importing makes many objects and no garbage


def _import_msgspec() -> None:
    hides, answers = _HIDDEN not in sys.modules, _ANSWERED not in sys.modules and hasattr(os, "uname")
    if hides:
        sys.modules[_HIDDEN] = None  # type: ignore[assignment]  # None makes an import fail
    if answers:
        sys.modules[_ANSWERED] = _name_of_system()
    try:
        import msgspec  # noqa: F401, PLC0415  (imported while typing_extensions is hidden)
    finally:
        for name in [_HIDDEN] * hides + [_ANSWERED] * answers:
            del sys.modules[name]


def _name_of_system() -> ModuleType:
    """Return a module that answers like platform what the system is called."""
    module = ModuleType(_ANSWERED)
    module.system = lambda: os.uname().sysname  # type: ignore[attr-defined]
    return module


def collect_again() -> None:
    """Collect garbage again, if it was collected before this module was imported."""
    if _was_collecting:
        gc.enable()


_import_msgspec()
