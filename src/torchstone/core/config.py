"""Read ``torchstone.toml``, rules from the command line, and torchstone's own environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from torchstone.core.errors import InputError, TorchstoneError, UsageError
from torchstone.core.records import STATUS_RULES, Rule, ScopedRule, is_pattern
from torchstone.core.toml_file import TomlTable, read_toml, tables
from torchstone.core.upstream import find_version, known_versions
from torchstone.core.vocabulary import ACCURACY, Verdict

CONFIG_NAME = "torchstone.toml"
QUARANTINE_NAME = "quarantine.toml"
POLICIES = ("strict", "lenient", "upstream")

RULE_KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "status_equal": ((), "the status equals the expected one; any other except pass is a regression"),
    "must_pass": ((), "the status is pass or pass_due_to_skip; needs no baseline"),
    "ratio_floor": (("ratio",), "actual >= ratio x expected"),
    "ratio_ceiling": (("ratio",), "actual <= ratio x expected"),
    "margin": (("margin",), "actual within expected x (1 - margin) and expected x (1 + margin)"),
    "count": (("better", "tolerance"), "actual no worse than expected, within the tolerance"),
    "floor": (("low",), "actual >= low; needs no baseline"),
    "ceiling": (("high",), "actual <= high; needs no baseline"),
    "between": (("low", "high"), "low <= actual <= high; needs no baseline"),
    "ignore": ((), "not judged"),
}
_OPTIONAL = {"margin", "tolerance"}
_RULE_KEYS = ("metric", "case", "kind", "ratio", "margin", "better", "tolerance", "low", "high")
_STORE_KEYS = ("location",)
_NOTIFY_KEYS = ("webhook", "slack")
DEFAULT_STORE = ".torchstone/history.db"
_CHECK_KEYS = ("policy", "upstream_version", "baseline", "quarantine", "block", "allow")


class MakeError(Protocol):
    """Makes an exception about a key, with its place."""

    def __call__(self, problem: str, key: str, advice: str, /) -> TorchstoneError:
        """Return the exception; the caller raises it."""


class ConfigFile(Struct, frozen=True):
    """The content of a configuration file; paths are relative to the current folder."""

    policy: str = "strict"
    baselines: tuple[str, ...] = ()
    quarantines: tuple[str, ...] = ()
    block: tuple[Verdict, ...] = ()
    allow: tuple[Verdict, ...] = ()
    rules: tuple[ScopedRule, ...] = ()
    upstream_version: str | None = None
    store: str = ""
    webhook: str = ""
    slack: str = ""


def wants_color(is_terminal: bool) -> bool:
    """Return whether to color: on a terminal, unless NO_COLOR is set or the terminal is dumb."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


COMPLETION_VARIABLE = "_TORCHSTONE_COMPLETE"
"""Set by the scripts that complete command lines in a shell: ``bash_source``, ``bash_complete``, and so on."""


def completion_request() -> str:
    """Return what a shell asks for; empty if this is an ordinary command."""
    return os.environ.get(COMPLETION_VARIABLE, "")


def in_ci_job() -> bool:
    """Return whether a CI service that executes commands found in the log runs this process.

    These are GitHub Actions (Gitea, Forgejo) and Azure Pipelines.
    """
    return any(os.environ.get(name) for name in ("GITHUB_ACTIONS", "TF_BUILD"))


def load_config(path: str | None) -> ConfigFile:
    """Read the named file, or ``torchstone.toml`` in the current folder if it exists."""
    chosen = path or config_path()
    return read_config(chosen) if chosen else ConfigFile()


def config_path() -> str:
    """Return the configuration file that the environment names, else that of the current folder; empty if there is none."""
    named = os.environ.get("TORCHSTONE_CONFIG")
    if named is None:
        return CONFIG_NAME if os.path.exists(CONFIG_NAME) else ""
    return named


def find_store(given: str = "", config: str | None = None) -> str:
    """Return where the store is: as given, else as ``TORCHSTONE_STORE`` or the configuration file says, else in ``.torchstone``."""
    return given or os.environ.get("TORCHSTONE_STORE") or load_config(config).store or DEFAULT_STORE


def find_webhooks(config: str | None = None) -> tuple[str, str]:
    """Return the URLs that changes are told to, of a webhook and of Slack: secrets, never to be printed or stored.

    They are those of ``TORCHSTONE_WEBHOOK`` and ``TORCHSTONE_SLACK_WEBHOOK``, else of the configuration file.
    """
    settings = load_config(config)
    webhook = os.environ.get("TORCHSTONE_WEBHOOK") or settings.webhook
    return webhook, os.environ.get("TORCHSTONE_SLACK_WEBHOOK") or settings.slack


def read_config(path: str) -> ConfigFile:
    """Read a configuration file; its presets are left to ``api.measuring.presets``."""
    document, text = read_toml(path)
    if unknown := set(document) - {"check", "rule", "preset", "store", "notify"}:
        name = sorted(unknown)[0]
        raise InputError(
            "unknown table; expected [check], [store], [notify], [[rule]] or [preset.NAME]",
            path=path,
            line=_line_of(text, name),
            column=name,
        )
    entry = _table_of(path, document, text, "check", _CHECK_KEYS)
    store = _table_of(path, document, text, "store", _STORE_KEYS).text("location")
    told = _table_of(path, document, text, "notify", _NOTIFY_KEYS)
    rules = tuple(
        _rule_of(each.values, each.error) for each in tables(path, document, text, "rule", _RULE_KEYS)
    )
    policy = entry.text("policy", "strict")
    if policy not in POLICIES:
        raise entry.error(f"no such policy: {policy}", "policy", f"expected one of {', '.join(POLICIES)}")
    folder = os.path.dirname(path)
    return ConfigFile(
        policy,
        tuple(os.path.join(folder, name) for name in entry.texts("baseline")),
        tuple(os.path.join(folder, name) for name in entry.texts("quarantine")),
        _verdicts(entry.texts("block"), entry.error, "block"),
        _verdicts(entry.texts("allow"), entry.error, "allow"),
        rules,
        _upstream_version(entry.text("upstream_version"), entry.error),
        store if "://" in store or not store else os.path.join(folder, store),
        told.text("webhook"),
        told.text("slack"),
    )


def _table_of(
    path: str, document: Mapping[str, object], text: str, name: str, keys: tuple[str, ...]
) -> TomlTable:
    """Return a table of the file, which may be absent."""
    values = document.get(name, {})
    if not isinstance(values, dict):
        raise InputError(f"expected a table [{name}]", path=path, line=_line_of(text, name), column=name)
    return TomlTable(path, _line_of(text, name), values, keys, text)


def _upstream_version(name: str, error: MakeError) -> str | None:
    if not name:
        return None
    return find_version(name, error(f"no such version: {name}", "upstream_version", known_versions())).name


def _line_of(text: str, name: str) -> int:
    lines = text.split("\n")
    starts = (
        number for number, line in enumerate(lines, 1) if line.strip().lstrip("[").strip().startswith(name)
    )
    return next(starts, 1)


def _verdicts(names: tuple[str, ...], error: MakeError, key: str) -> tuple[Verdict, ...]:
    for name in names:
        if name not in list(Verdict) or name == Verdict.SAME:
            raise error(f"no such verdict: {name}", key, f"expected one of {', '.join(Verdict)}")
    return tuple(Verdict(name) for name in names)


def _rule_of(values: Mapping[str, Any], error: MakeError) -> ScopedRule:
    """Build a rule from its keys; ``error(problem, key, advice)`` makes the exception for an invalid key."""
    for key in ("metric", "case", "kind", "better"):
        if not isinstance(values.get(key, ""), str):
            raise error("expected a text in quotes", key, "")
    if not values.get("metric"):
        raise error("a rule needs a metric", "metric", "")
    kind = values.get("kind", "")
    if kind not in RULE_KINDS:
        raise error(
            f"no such kind of rule: {kind or '(none)'}", "kind", f"expected one of {', '.join(RULE_KINDS)}"
        )
    _check_fit(values["metric"], kind, error)
    fields, _ = RULE_KINDS[kind]
    given = {key: values[key] for key in values if key not in {"metric", "case", "kind"}}
    if extra := [key for key in given if key not in fields]:
        raise error(
            f"a rule of kind {kind} has no {extra[0]}",
            extra[0],
            f"it takes: {', '.join(fields) or 'nothing'}",
        )
    if missing := [field for field in fields if field not in given and field not in _OPTIONAL]:
        raise error(f"a rule of kind {kind} needs {' and '.join(missing)}", missing[0], "")
    for field in fields:
        _check_field(field, given.get(field), error)
    if kind == "between" and given["low"] > given["high"]:
        raise error("low is above high", "low", "")
    return ScopedRule(Rule(kind, **given), values["metric"], values.get("case", "*"))


def _check_fit(metric: str, kind: str, error: MakeError) -> None:
    """Raise an error if a rule for numbers is used for a status, or vice versa. A pattern may match both."""
    is_status = metric == ACCURACY
    if is_pattern(metric) or kind == "ignore" or (kind in STATUS_RULES) == is_status:
        return
    fitting = [name for name in RULE_KINDS if (name in STATUS_RULES) == is_status or name == "ignore"]
    noun = "a status" if is_status else "a number"
    raise error(f"{metric} is {noun}, which {kind} cannot judge", "kind", f"use one of {', '.join(fitting)}")


def _check_field(field: str, value: object, error: MakeError) -> None:
    if field == "better":
        if value not in {"lower", "higher", "equal"}:
            raise error("expected lower, higher or equal", field, "")
    elif value is not None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
            raise error("expected a number", field, "")
        if field in {"margin", "tolerance"} and value < 0:
            raise error("expected 0 or more", field, "")
        if field == "ratio" and value <= 0:
            raise error("expected more than 0", field, "")


def parse_rule(text: str) -> ScopedRule:
    """Parse a rule from the command line: ``METRIC[@CASE]=KIND[:VALUE[:VALUE]]``.

    >>> parse_rule("graph_breaks@resnet*=count:lower:2").rule
    Rule(kind='count', ratio=None, margin=None, better='lower', tolerance=2.0, low=None, high=None, usual=None)
    """
    scope, found, how = text.partition("=")

    def error(problem: str, _key: str, advice: str) -> UsageError:
        hint = advice or "write METRIC[@CASE]=KIND[:VALUE], for example speedup=floor:1.2"
        return UsageError(f"--rule {text}: {problem}", advice=hint)

    if not found:
        raise error("missing '='", "", "")
    metric, _, case = scope.partition("@")
    kind, *given = how.split(":")
    if kind not in RULE_KINDS:
        raise error(
            f"no such kind of rule: {kind or '(none)'}", "kind", f"the kinds are {', '.join(RULE_KINDS)}"
        )
    fields = RULE_KINDS[kind][0]
    if len(given) > len(fields):
        raise error(f"too many values for {kind}", "", f"it takes: {', '.join(fields) or 'nothing'}")
    values: dict[str, str | float] = {"metric": metric, "case": case or "*", "kind": kind}
    for field, value in zip(fields, given, strict=False):
        values[field] = value if field == "better" else _number(value, error)
    scoped = _rule_of(values, error)
    return ScopedRule(scoped.rule, scoped.metric, scoped.case, asked=True)


def _number(text: str, error: MakeError) -> float:
    try:
        return float(text)
    except ValueError:
        raise error(f"'{text}' is not a number", "", "") from None
