"""Parse what the command line says about one side of an A/B measurement: ``--a KEY=VALUE`` and ``--b KEY=VALUE``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from torchstone.core.environment_variables import shown_value
from torchstone.core.errors import UsageError
from torchstone.core.run_settings import JsonObject
from torchstone.core.text.redaction import is_hidden, redact, was_redacted
from torchstone.worker import worker_environment

Value = TypeVar("Value")

KEYS = "rev=REVISION, python=INTERPRETER, env:NAME=VALUE, backend=NAME, mode=COMPILE_MODE, option:NAME=VALUE"


class SideSpec(Struct, frozen=True):
    """The settings of one side; unspecified ones keep their defaults."""

    revision: str = ""
    python: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    backend: str = ""
    compile_mode: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    texts: tuple[str, ...] = ()


def parse_side_spec(option: str, texts: Sequence[str]) -> SideSpec:
    """Parse the values of a repeated ``KEY=VALUE`` option."""
    single: dict[str, str] = {}
    variables: dict[str, str] = {}
    options: JsonObject = {}
    for text in texts:
        if not text.strip():
            continue
        key, found, value = text.partition("=")
        kind, _, name = key.partition(":")
        if kind == "env" and name and found:
            _set_once(variables, name, value, option)
        elif kind == "option" and name and found:
            _set_once(options, name, _read_value(value), option)
        elif key in {"rev", "python", "backend", "mode"} and value:
            _set_once(single, key, value, option)
        else:
            variable = found and key.isidentifier() and key.isupper()
            shown = _without_secret(text, name or key) if variable or kind == "env" else redact(text)
            hint = f"did you mean {option} env:{shown}? " if variable else ""
            raise UsageError(
                f"{option} {shown}: expected one of {KEYS}", advice=f"{hint}repeat {option} for more than one"
            )
    _check_variables(variables, option)
    if "mode" in single and options:
        raise UsageError(
            f"{option}: mode and option exclude each other in torch.compile", advice="leave one out"
        )
    return SideSpec(
        single.get("rev", ""),
        single.get("python", ""),
        tuple(variables.items()),
        single.get("backend", ""),
        single.get("mode", ""),
        tuple(options.items()),
        tuple(_without_secret(text) for text in texts if text.strip()),
    )


_NO_SECRET = re.compile(
    r"(?:on|off|yes|no|true|false|none|[0-9]{1,6}|[0-9]{1,3}\.[0-9]{1,3})?", re.IGNORECASE
)

_SECRET_NAME = re.compile(r"PASS|PWD|PIN\b|TOKEN|KEY|SECRET|AUTH|CREDENTIAL", re.IGNORECASE)


def _without_secret(text: str, name: str = "") -> str:
    """Return the text without secrets. The value of an unknown variable is shown only if it is a switch or a short number, and the name does not suggest a secret."""
    key, _, value = text.partition("=")
    kind, _, variable = key.partition(":")
    name = name or (variable if kind == "env" else "")
    if not name or (_NO_SECRET.fullmatch(value) and not _SECRET_NAME.search(name)):
        return redact(text)
    return f"{key}={shown_value(name, value)}"


def _set_once(values: dict[str, Value], name: str, value: Value, option: str) -> None:
    if name in values:
        raise UsageError(f"{option}: {name} is given twice")
    values[name] = value


def _read_value(text: str) -> Any:  # noqa: ANN401  (any JSON value)
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


_THREADS = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}  # overridden: torch is given the number of threads


def _check_variables(variables: dict[str, str], option: str) -> None:
    for name, value in variables.items():
        if is_hidden(value) or was_redacted(value):
            raise UsageError(
                f"{option} env:{name}={value}: its value was not saved", advice="give the value again"
            )
        if name in _THREADS:
            advice = "use --threads, which applies to both sides"
            raise UsageError(
                f"{option}: {name} has no effect; --threads sets the number of threads", advice=advice
            )
        if name in worker_environment.OWN and name != "PYTHONPATH":
            advice = (
                "use --compile-threads"
                if "THREADS" in name
                else "torchstone sets it separately for every side"
            )
            raise UsageError(
                f"{option}: {name} cannot be set, because torchstone sets it for its workers", advice=advice
            )
