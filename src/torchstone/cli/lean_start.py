"""Save time while the command starts: import only what msgspec needs, and collect no garbage meanwhile.

A check of 100 rows takes 45 ms, nearly all of it imports. msgspec needs 15 ms for what torchstone does not use, so

- typing_extensions is hidden while msgspec is imported (5 ms with inspect, ast, dis and tokenize): it then takes typing;
- small modules stand for platform, which uuid asks for the name of the system (1.5 ms), and for decimal (1 ms): no record of
  torchstone has such numbers;
- msgspec's modules for inspection, JSON schemas, TOML and YAML are imported on first use (3 ms);
- typing.ForwardRef is called only to see that it accepts an argument: that compiles a text, for which Python first makes the
  200 classes of its syntax tree (1 ms);
- before Python 3.12, datetime has a copy of everything in Python beside the same in C (1 ms): take the module in C, as later
  versions do.

If msgspec cannot be imported in this way (another version may need more), it is imported as usual. Only the command does this: a Python program that uses the API may have msgspec records of its own.

``cli/main.py`` imports this module before any other of torchstone, and calls ``collect_again`` after its imports.
"""

from __future__ import annotations

import gc
import os
import sys
import typing
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

_HIDDEN = "typing_extensions"
_DEFERRED = ("msgspec.inspect", "msgspec.toml", "msgspec.yaml")
_SCHEMA = "msgspec._json_schema"
_was_collecting = gc.isenabled()
gc.disable()  # importing makes many objects and no garbage


class _Deferred(ModuleType):
    """Stand for a module until something of it is used; then import it."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


def _import_msgspec() -> None:
    """Import msgspec while stand-ins are in the place of other modules."""
    stand_ins = _make_stand_ins()
    missing = stand_ins.keys() - sys.modules.keys()
    sys.modules.update({name: stand_ins[name] for name in missing})  # type: ignore[misc]
    forward_reference = typing.ForwardRef
    typing.ForwardRef = lambda *_, **__: None  # type: ignore[assignment, misc]
    try:
        import_module("msgspec")
    except (AttributeError, ImportError, TypeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "msgspec"]:
            del sys.modules[name]
    finally:
        typing.ForwardRef = forward_reference  # type: ignore[misc]
        for name in missing:
            sys.modules.pop(name, None)


def _make_stand_ins() -> dict[str, ModuleType | None]:
    """Return what is in the place of other modules meanwhile; None makes an import fail."""
    schema = {name: _call_later(name) for name in ("schema", "schema_components")}
    return {
        _HIDDEN: None,
        "platform": _module("platform", system=lambda: os.uname().sysname),
        "decimal": _module("decimal", Decimal=type("Decimal", (), {})),
        _SCHEMA: _module(_SCHEMA, **schema),
        **{name: _Deferred(name) for name in _DEFERRED},
    }


def _module(name: str, **content: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def _call_later(name: str) -> Callable[..., object]:
    def call(*given: object, **named: object) -> object:
        return getattr(import_module(_SCHEMA), name)(*given, **named)

    return call


def collect_again() -> None:
    """Collect garbage again, if it was collected before this module was imported."""
    if _was_collecting:
        gc.freeze()  # what was imported stays, so that no collection has to walk over it
        gc.enable()


if sys.version_info < (3, 12):
    sys.modules.setdefault("datetime", import_module("_datetime"))
if "msgspec" not in sys.modules and hasattr(os, "uname"):
    _import_msgspec()
