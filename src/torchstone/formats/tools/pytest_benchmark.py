"""Read pytest-benchmark's JSON: each test with its parameters is a case, with one trial."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.records import Case, Measurement, Outcome, Reading, Revision
from torchstone.core.run_settings import Environment
from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import PASSED, SECONDS
from torchstone.formats.json_text import Fields
from torchstone.formats.tools.tool_results import (
    Collection,
    Document,
    case_of,
    environment_of,
    measured,
    name_of,
)

KIND = "pytest-benchmark"
_NO_COMMIT = ("unversioned", "unknown")
_HOW_TO_SAVE = "--benchmark-json saves all of them, --benchmark-autosave only with --benchmark-save-data"


def read(path: str, text: str) -> Reading:
    """Read the output of ``--benchmark-json``, ``--benchmark-save`` or ``--benchmark-autosave``."""
    document = Document(path, text)
    collection = Collection(document, KIND)
    for line, entry in document.entries("benchmarks"):
        measurement = _measurement(entry.fields("stats"))
        is_summed_up = not entry.fields("stats").items("data")
        collection.add(
            line, entry, Outcome(_case_of(entry), PASSED, (measurement,)), is_summed_up=is_summed_up
        )
    revision = _revision(document.top.fields("commit_info"))
    environment = _environment(document.top.fields("machine_info"))
    return collection.reading("benchmarks", revision, environment, _HOW_TO_SAVE)


def _measurement(stats: Fields) -> Measurement:
    """Return the times of all rounds, or their summary if they were not saved."""
    if data := stats.items("data"):
        return measured(stats, "data", SECONDS, data)
    field = "median" if "median" in stats.value else "mean"
    return measured(stats, field, SECONDS, [stats.value.get(field)])


def _case_of(entry: Fields) -> Case:
    """Return the case of a test. Its parameters become axes if pytest made its id from them; otherwise the id does."""
    name, test_id = name_of(entry, "fullname"), entry.name("param")
    suite = entry.name("group") or KIND
    if not test_id or not name.endswith(f"[{test_id}]"):
        return case_of(suite, name, {})
    parameters = {key: str(value) for key, value in entry.fields("params").value.items()}
    plainly = "-".join(parameters.values()) == test_id and all(map(is_plain, parameters))
    return case_of(suite, name.removesuffix(f"[{test_id}]"), parameters if plainly else {"param": test_id})


def _revision(commit: Fields) -> Revision:
    found, branch, dirty = commit.name("id"), commit.name("branch"), commit.value.get("dirty")
    if not found or found in _NO_COMMIT:
        return Revision()
    return Revision(
        found, "" if branch.startswith("(") else branch, dirty if isinstance(dirty, bool) else None
    )


def _environment(machine: Fields) -> Environment:
    facts, cpu = machine.value, machine.fields("cpu").value
    return environment_of(
        host=facts.get("node"),
        system=facts.get("system"),
        kernel=facts.get("release"),
        architecture=facts.get("machine"),
        cpu=cpu.get("brand_raw") or cpu.get("brand"),  # the name until version 6 of py-cpuinfo
        cpu_family=_family(cpu),
        cores=cpu.get("count"),
        python=facts.get("python_version"),
        implementation=facts.get("python_implementation"),
    )


def _family(cpu: Mapping[str, object]) -> str | None:
    """Return vendor, family and model number in the notation of torchstone's environments."""
    vendor, family, model = (
        cpu.get("vendor_id_raw") or cpu.get("vendor_id"),
        cpu.get("family"),
        cpu.get("model"),
    )
    if not isinstance(vendor, str) or type(family) is not int or type(model) is not int:
        return None
    return f"{vendor} {family}.{model}"
