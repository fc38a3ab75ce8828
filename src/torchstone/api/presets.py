"""Presets: named sets of options for ``run``, ``ab`` and ``selftest``; built in, or from ``torchstone.toml``."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct, convert, structs

from torchstone.api.measuring.run_request import RunRequest
from torchstone.core.config import config_path
from torchstone.core.errors import UsageError
from torchstone.core.run_settings import BATCH_SETS
from torchstone.core.text.suggestions import did_you_mean
from torchstone.core.toml_file import TomlTable, named_tables, read_toml
from torchstone.define.benchmarks import DTYPES, MODES

DASHBOARD = "dashboard"


class Preset(Struct, frozen=True):
    """Values for the fields of a request that have the same names; None or empty means that the preset does not set it."""

    tf32: bool | None = None
    half_reductions: bool | None = None
    cuda_graphs: bool | None = None
    labels: bool | None = None
    batch_set: str = ""
    backends: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    compile_mode: str | None = None
    compile_options: tuple[tuple[str, str], ...] = ()
    repeat: int | None = None
    precision: float | None = None
    budget: float | None = None
    threads: int | None = None
    compile_threads: int | None = None


BUILT_IN = {
    DASHBOARD: Preset(
        tf32=True, half_reductions=True, cuda_graphs=True, labels=True, batch_set="dashboard", repeat=30
    )
}
"""``dashboard`` measures as PyTorch's runner does for its dashboard. Its five warm-up calls on either side are those of every run."""


class AppliedPreset(Struct, frozen=True):
    """A request with the values of its preset, the number of pairs to time, and the options given beside it that replaced some of them."""

    request: RunRequest
    pairs: int | None = None
    overrides: tuple[str, ...] = ()


def apply_preset(request: RunRequest) -> AppliedPreset:
    """Fill in the values of the request's preset, except for fields that the request sets itself."""
    if not request.preset:
        return AppliedPreset(request)
    preset, usual = find_preset(request.preset), RunRequest()
    values: dict[str, object] = {}
    overrides: list[str] = []
    pairs = None  # of calls that are timed: no other probe repeats as often
    for field in Preset.__struct_fields__:
        value, own = getattr(preset, field), getattr(request, field)
        if value in (None, "", ()):
            continue
        if own != getattr(usual, field):
            overrides += [OPTIONS[field]] if own != value else []
        elif field == "repeat":
            pairs = preset.repeat
        else:
            values[field] = value
    if request.batch_sizes and preset.batch_set:
        overrides.append("--batch-size")
    return AppliedPreset(structs.replace(request, **values), pairs, tuple(overrides))


def find_preset(name: str) -> Preset:
    """Return a preset by its name; raise UsageError if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = config_path()
    own = read_presets(path) if path else {}
    if name in own:
        return own[name]
    known = (*BUILT_IN, *own)
    where = path or "torchstone.toml in the current folder"
    raise UsageError(
        f"--preset {name}: there is no such preset",
        advice=f"{did_you_mean(name, known)}there are: {', '.join(known)}; [preset.{name}] in {where} would define it",
    )


def list_presets() -> list[str]:
    """Return the names of all presets."""
    path = config_path()
    return [*BUILT_IN, *(read_presets(path) if path and os.path.exists(path) else ())]


def read_presets(path: str) -> dict[str, Preset]:
    """Read the tables ``[preset.NAME]`` of a configuration file."""
    document, text = read_toml(path)
    found = {}
    for name, table in named_tables(path, document, text, "preset", tuple(KEYS)).items():
        if name in BUILT_IN:
            raise table.error(
                f"the preset {name} is built in, and cannot be changed", "", "choose another name"
            )
        values = {field: read(table, key) for key, (field, read) in KEYS.items() if key in table.values}
        if "compile-mode" in table.values and "option" in table.values:
            problem = "compile-mode cannot be used with option: torch.compile takes only one of them"
            raise table.error(problem, "option", "leave one out")
        found[name] = convert(values, Preset)
    return found


Reader = Callable[[TomlTable, str], object]


def _switch(table: TomlTable, key: str) -> bool:
    value: bool = table.get(key, bool, "true or false")
    return value


def _count(table: TomlTable, key: str) -> int:
    value: int = table.get(key, int, "a whole number from 1")
    if not 1 <= value <= 65_536:
        raise table.error("expected a whole number from 1", key)
    return value


def _share(table: TomlTable, key: str) -> float:
    value: float = table.get(key, float, "a share such as 0.01")
    if not 0 < value < 1:
        raise table.error("expected a share such as 0.01", key)
    return value


def _seconds(table: TomlTable, key: str) -> float:
    value: float = table.get(key, (int, float), "seconds, such as 5")
    if not 0 < value < 1e9:
        raise table.error("expected seconds, such as 5", key)
    return float(value)


def _text(table: TomlTable, key: str) -> str:
    value = table.text(key)
    if not value:
        raise table.error("expected a text in quotes", key)
    return value


def _words_of(known: tuple[str, ...]) -> Reader:
    """Return a reader of one word or a list of words; any word will do if none are known."""

    def read(table: TomlTable, key: str) -> tuple[str, ...]:
        words = table.texts(key)
        for word in words:
            if known and word not in known:
                raise table.error(f"no such {key}: {word}", key, f"expected some of {', '.join(known)}")
        if not words:
            raise table.error("expected a text or a list of texts", key)
        return words

    return read


def _batch_set(table: TomlTable, key: str) -> str:
    value = _text(table, key)
    if value not in BATCH_SETS:
        raise table.error(f"no such {key}: {value}", key, f"expected {' or '.join(BATCH_SETS)}")
    return value


def _pairs(table: TomlTable, key: str) -> tuple[tuple[str, str], ...]:
    """Return the options of torch.compile, as the command line states them."""
    values: dict[str, object] = table.get(key, dict, "a table such as { max_autotune = true }")
    for name, value in values.items():
        if not isinstance(value, str | int | float):
            raise table.error(f"{name}: expected a text, a number, true or false", key, "")
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in values.items()
    )


KEYS: dict[str, tuple[str, Reader]] = {
    "tf32": ("tf32", _switch),
    "half-reductions": ("half_reductions", _switch),
    "cuda-graphs": ("cuda_graphs", _switch),
    "labels": ("labels", _switch),
    "batch-set": ("batch_set", _batch_set),
    "backend": ("backends", _words_of(())),
    "mode": ("modes", _words_of(MODES)),
    "dtype": ("dtypes", _words_of(DTYPES)),
    "compile-mode": ("compile_mode", _text),
    "option": ("compile_options", _pairs),
    "repeat": ("repeat", _count),
    "precision": ("precision", _share),
    "budget": ("budget", _seconds),
    "threads": ("threads", _count),
    "compile-threads": ("compile_threads", _count),
}
"""The keys of ``[preset.NAME]``: the options of ``run`` without their dashes, with the request's field and how it is read."""

OPTIONS = {field: f"--{key}" for key, (field, _) in KEYS.items()}
"""The option of each field that a preset may set."""
