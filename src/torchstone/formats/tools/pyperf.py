"""Read pyperf's JSON: each benchmark is a case, each process that measured values a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.core.errors import printable
from torchstone.core.records import Number, Outcome, Reading, Revision
from torchstone.core.run_settings import Environment
from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import BYTES, PASSED, SECONDS, TRACKED
from torchstone.formats.json_text import Fields
from torchstone.formats.tools.tool_results import Collection, Document, case_of, environment_of, measured

KIND = "pyperf"
VERSION = "1.0"
_METRICS = {"second": SECONDS, "byte": BYTES, "integer": TRACKED}
_FACTS = (
    "hostname",
    "platform",
    "cpu_model_name",
    "cpu_count",
    "python_version",
    "python_implementation",
    "commit_id",
    "commit_branch",
)


def read(path: str, text: str) -> Reading:
    """Read one benchmark or a suite of them; the format is the same."""
    document = Document(path, text)
    top = document.top
    if (version := top.value.get("version")) != VERSION:
        raise top.error(
            f"version {printable(str(version), 40)} of pyperf's files, expected {VERSION}",
            "version",
            "'python -m pyperf convert OLD.json -o NEW.json' brings an older one up to date",
        )
    common = top.fields("metadata").value
    collection, facts = Collection(document, KIND), _Facts(_FACTS)
    for line, entry in document.entries("benchmarks"):
        metadata = common | entry.fields("metadata").value
        collection.add(line, entry, _read_benchmark(entry, metadata, facts))
    revision = Revision(facts.text("commit_id"), facts.text("commit_branch"))
    return collection.reading("benchmarks", revision, facts.environment())


class _Facts:
    """Metadata of the processes; all must agree."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._known: dict[str, object] = {}

    def add(self, entry: Fields, metadata: Mapping[str, object]) -> None:
        """Add the metadata of one process."""
        for name in self._names:
            value = metadata.get(name)
            if value is not None and self._known.setdefault(name, value) != value:
                problem = f"{name} differs between processes: {_shortened(self._known[name])} and {_shortened(value)}"
                advice = "a file holds benchmarks of one environment, each in one unit: split it"
                raise entry.error(problem, f"metadata.{name}", advice)

    def text(self, name: str, default: str = "") -> str:
        """Return a fact that is a one-line text; empty otherwise."""
        value = self._known.get(name, default)
        return value if isinstance(value, str) and is_plain(value) else ""

    def environment(self) -> Environment:
        """Return the environment common to all processes."""
        return environment_of(
            host=self.text("hostname"),
            system=self.text("platform"),
            cpu=self.text("cpu_model_name"),
            cores=self._known.get("cpu_count"),
            python=self.text("python_version").partition(" ")[0],
            implementation=self.text("python_implementation"),
        )


def _shortened(value: object) -> str:
    return printable(str(value), 60)


def _read_benchmark(entry: Fields, metadata: Mapping[str, object], facts: _Facts) -> Outcome:
    samples: list[Number] = []
    trials: list[int] = []
    own = _Facts(("name", "unit"))
    own.add(entry, metadata)
    for run, values in _runs(entry):
        of_run = {**metadata, **run.fields("metadata").value}
        facts.add(run, of_run)
        own.add(run, of_run)
        samples += values
        trials += [len(values)] if values else []
    name, unit = own.text("name"), own.text("unit", "second")
    if not name:
        raise entry.error("unusable name", "metadata.name")
    if unit not in _METRICS:
        raise entry.error("unknown unit", "metadata.unit", f"expected one of {', '.join(_METRICS)}")
    measurement = measured(entry, "runs", _METRICS[unit], samples, trials)
    return Outcome(case_of(KIND, name, {}), PASSED, (measurement,))


def _runs(entry: Fields) -> Iterator[tuple[Fields, tuple[Number, ...]]]:
    """Yield the processes with their values; skip processes that only calibrated, and warm-up values."""
    for number, _ in enumerate(entry.items("runs")):
        run = entry.element("runs", number)
        yield run, run.numbers("values")
