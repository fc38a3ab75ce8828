"""Compare two environments: which facts decide whether times may be compared, and in which of them two runs differ.

Nothing slow to import: the gate uses it, where every millisecond counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import printable
from torchstone.core.run_settings import Environment
from torchstone.core.text.redaction import is_hidden

# Where something lies or which of several equal devices is used decides no time.
_PLACES = ("_DIR", "_HOME", "_PATH", "_ROOT", "VISIBLE_DEVICES")
_NOT_SET = "not set"
PRESET = "preset"
"""The name of the preset among the choices of a run."""


def fingerprint(environment: Environment) -> str:
    """Twelve hexadecimal digits that are the same for environments whose times may be compared.

    They cover processor, cores, accelerators, Python's minor version, torch and the libraries, threads, preset and variables; not
    the host's name, its kernel, memory or clocks. A run of other suites has other libraries, and so another fingerprint,
    though ``differences`` may find nothing that stands in the way. Of a variable whose value is hidden they only cover that it is set.
    """
    import hashlib  # noqa: PLC0415  (the gate does without)
    import json  # noqa: PLC0415  (start-up time: a gate on CSV files never needs it)

    text = json.dumps(_deciding(environment), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(one: Environment, other: Environment) -> list[str]:
    """The deciding facts that differ, in words: ``torch is 2.13.0, was 2.11.0``; ``other`` is how it was.

    What only one of the two states is no difference, except for variables and settings of torch: one that is not listed was not set. Variables of which a
    value is hidden are left to ``unknowns``.

    >>> differences(Environment(versions={"torch": "2.13.0"}), Environment(versions={"torch": "2.11.0", "timm": "1.0"}))
    ['torch is 2.13.0, was 2.11.0']
    """
    facts, before = stated_preset(one) | _deciding(one), stated_preset(other) | _deciding(other)
    if one.variables is not None and other.variables is not None:
        ours = {**one.chosen, **_variables(one)}
        theirs = {**other.chosen, **_variables(other)}
        unset: dict[str, object] = dict.fromkeys((*ours, *theirs), _NOT_SET)
        facts, before = unset | facts | ours, unset | before | theirs
    unknown = _unknown(one, other)
    return [
        f"{name} is {_told(value)}, was {_told(before[name])}"
        for name, value in facts.items()
        if name in before and before[name] != value and name not in unknown
    ]


def stated_preset(environment: Environment) -> dict[str, object]:
    """The preset as a fact; ``none`` for a run of torchstone without one, nothing where it is not known.

    Every run of torchstone records its variables.
    """
    preset = environment.chosen.get(PRESET, "" if environment.variables is None else "none")
    return {PRESET: preset} if preset else {}


def unknowns(*environments: Environment) -> list[Caution]:
    """Cautions about variables that are set in both environments, or in several of more, but whose values were not recorded in all of these.

    >>> [caution.text for caution in unknowns(*2 * [Environment(variables={"TORCH_X": "(hidden)"})])]
    ['TORCH_X is set in both environments, but its value is hidden: it may differ']
    """
    names = _unknown(*environments)
    where = "both" if len(environments) == 2 else "several"
    if not names:
        return []
    if len(names) == 1:
        return [make_caution(CautionKind.HIDDEN_VARIABLE, variables=_told(names[0]), where=where)]
    listed = f"{', '.join(map(_told, names[:-1]))} and {_told(names[-1])}"
    return [make_caution(CautionKind.HIDDEN_VARIABLES, variables=listed, where=where)]


def _unknown(*environments: Environment) -> list[str]:
    """The variables that are set in more than one environment, and hidden in one of them."""
    times, hidden = Counter[str](), set[str]()
    for environment in environments:
        variables = _variables(environment)
        times.update(variables.keys())
        hidden |= {name for name, value in variables.items() if is_hidden(value)}
    return [name for name, count in times.items() if count > 1 and name in hidden]


def _deciding(environment: Environment) -> dict[str, object]:
    """The facts that count, by the name a person knows them by; what is not known is left out."""
    facts = {
        "cpu": _at(environment.machine, "cpu", "model"),
        "cpu family": _at(environment.machine, "cpu", "family"),
        "architecture": _at(environment.machine, "architecture"),
        "number of cores allowed": _cores(environment),
        "accelerator": _accelerators(environment),
        "accelerator driver": _of_accelerators(environment, "driver"),
        "power limit of the accelerator": _of_accelerators(environment, "power_limit_w", " W"),
        "instruction set": _at(environment.software, "torch", "cpu_capability"),
        "python": _python(environment),
        "number of threads": environment.threads,
    }
    libraries = dict(environment.versions)
    first = {"torch": libraries.pop("torch", None)}
    known = {name: value for name, value in (first | facts | libraries).items() if value not in (None, "")}
    return known | environment.chosen | _variables(environment)


def _at(facts: object, *names: str) -> Any:  # noqa: ANN401  (JSON is anything)
    """A fact some levels down, or None where there is no such thing."""
    value: Any = facts
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _cores(environment: Environment) -> int | float | None:
    """The cores that may be used: by affinity, or fewer by the quota of a container."""
    cores = _at(environment.machine, "cores")
    known = [value for name in ("allowed", "quota") if isinstance(value := _at(cores, name), int | float)]
    if not known and isinstance(there := _at(cores, "logical"), int):
        known = [there]  # all that the files of other tools say
    least = min(known, default=None)
    return int(least) if isinstance(least, float) and least.is_integer() else least


def _python(environment: Environment) -> str | None:
    """Python's minor version, and whose Python it is if it is not the usual one."""
    python = _at(environment.software, "python")
    version, whose = _at(python, "version"), _at(python, "implementation")
    if not version:
        return None
    short = ".".join(str(version).split(".")[:2])
    return short if str(whose or "cpython").lower() == "cpython" else f"{whose} {short}"


def _accelerators(environment: Environment) -> str | None:
    """The distinct names, as one text; how many there are decides nothing."""
    if environment.accelerators is None:
        return None
    names = {str(_at(each, "name")) for each in environment.accelerators}
    return ", ".join(sorted(names)) or "none"


def _of_accelerators(environment: Environment, fact: str, unit: str = "") -> str | None:
    """The distinct values of a fact about the accelerators, as one text; None if no tool stated it."""
    found = {_at(each, fact) for each in environment.accelerators or ()} - {None, ""}
    return (
        ", ".join(
            sorted(f"{value:g}{unit}" if isinstance(value, int | float) else str(value) for value in found)
        )
        or None
    )


def _variables(environment: Environment) -> dict[str, object]:
    listed = environment.variables or {}
    return {name: value for name, value in listed.items() if not name.endswith(_PLACES)}


def _told(value: object) -> str:
    return printable(str(value), 80) or "empty"
