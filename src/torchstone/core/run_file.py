"""The run file: a run as strict JSON Lines, with a format version.

The lines, each an object with a ``kind``: one ``run`` (format version, id, revision, environment, settings, the full plan), one
``outcome`` a case, one ``control`` for each measurement of a control case, one ``end``. A line is written whole before the next case starts, so a run that was killed lacks its end, and at
worst has half of a last line, which is passed over.

History of the format:

1   the first: records as in ``records``, unknown fields refused; cautions are texts in ``extra``.
2   cautions and capture are values; measurements and outcomes have ``details`` (in format 1 they are in ``extra``, which now holds only what has no field);
    an outcome may say where it was measured (``provenance``); lines of kind ``control``.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

import msgspec
from msgspec import structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution
from torchstone.core.details.former_formats import present_outcome, redact_recorded, redact_variables
from torchstone.core.disk import BOM
from torchstone.core.errors import InputError, printable
from torchstone.core.records import (
    Case,
    Measurement,
    Number,
    Outcome,
    Provenance,
    Reading,
    Revision,
    Run,
    Variant,
)
from torchstone.core.run_settings import (
    Environment,
    JsonObject,
    Settings,
    environment_from,
    fault_of,
    settings_from,
)
from torchstone.core.text.redaction import redact, redact_values
from torchstone.core.text.safe_text import escape_json, is_plain

FORMAT = 2
READABLE = (1, FORMAT)


class RunLine(msgspec.Struct, frozen=True, tag_field="kind", tag="run", forbid_unknown_fields=True):
    """The head of a run file."""

    format: int
    id: str
    plan: tuple[Case, ...]
    revision: Revision = Revision()
    environment: JsonObject = {}
    settings: JsonObject = {}


class OutcomeLine(msgspec.Struct, frozen=True, tag_field="kind", tag="outcome", forbid_unknown_fields=True):
    """One outcome."""

    outcome: Outcome


class ControlLine(msgspec.Struct, frozen=True, tag_field="kind", tag="control", forbid_unknown_fields=True):
    """One outcome of a control case, which is not in the plan; there may be several of one case."""

    outcome: Outcome


class EndLine(msgspec.Struct, frozen=True, tag_field="kind", tag="end", forbid_unknown_fields=True):
    """The end of a run that was finished, with the number of its outcomes as a check."""

    outcomes: int


class _Version(msgspec.Struct):
    """The format version that a head states, whatever else is in it."""

    format: Any = None


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_ENCODER = msgspec.json.Encoder()
Line = RunLine | OutcomeLine | ControlLine | EndLine
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def encode_run(run: Run) -> str:
    """A run as the text of a run file."""
    head = RunLine(
        FORMAT, run.id, run.plan, run.revision, run.environment.to_mapping(), run.settings.to_mapping()
    )
    lines = [encode_line(head), *(encode_line(OutcomeLine(outcome)) for outcome in run.outcomes)]
    lines += [encode_line(ControlLine(outcome)) for outcome in run.controls]
    if run.finished:
        lines.append(encode_line(EndLine(len(run.outcomes))))
    return "".join(lines)


def is_of_older_format(text: str) -> bool:
    """Return whether a run file, which can be read, has an older format than those written now."""
    return _format_of(text.partition("\n")[0]) != FORMAT


def encode_line(line: Line) -> str:
    """One line of a run file, in ASCII: half a line is then still text. A number that is not finite has no place in one."""
    if isinstance(line, OutcomeLine | ControlLine):
        for measurement in line.outcome.measurements:
            if not all(map(isfinite, measurement.samples)):
                raise ValueError(f"{measurement.metric} of {line.outcome.case.id} is not finite")
    text = _ENCODER.encode(line).decode() + "\n"
    text = text if text.isascii() else _BEYOND_ASCII.sub(_escape, text)
    return escape_json(text) if "\x7f" in text or "##" in text else text


def _escape(found: re.Match[str]) -> str:
    """Characters as JSON's escapes: one for each unit of UTF-16."""
    return "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack("<H", found[0].encode("utf-16-le")))


def decode_run(path: str, text: str) -> Reading:
    """A run file's text as a run. A last line that was torn off is passed over, with a caution."""
    text = text.removeprefix(BOM)
    end = text.find("\n")
    if end < 0:
        raise InputError(
            "the first line is cut off", path=path, line=1, advice="nothing of this run can be used"
        )
    state = _State(path, _decode_head(path, text[:end]))
    number = 1
    # Line by line: a list of all lines would be the whole file once more.
    while (after := text.find("\n", start := end + 1)) >= 0:
        number, end = number + 1, after
        line = text[start:end]
        if line and not line.isspace():
            state.add(number, line)
    return state.finish(bool(text[start:].strip()))


class _Pool:
    """Values that many lines of a run file repeat, each kept once: names, variants, and counts."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._variants: dict[Variant, Variant] = {}
        self._counts: dict[tuple[str, Number], Measurement] = {}
        self._provenances: dict[Provenance, Provenance] = {}

    def case(self, case: Case) -> Case:
        """The same case, of parts that other cases have too."""
        text = self._texts.setdefault
        variant = self._variants.setdefault(case.variant, case.variant)
        name, probe, suite = case.benchmark, case.probe, case.suite
        return Case(text(name, name), text(probe, probe), text(suite, suite), variant)

    def outcome(self, case: Case, outcome: Outcome) -> Outcome:
        """The same outcome, of ``case`` and of parts that other outcomes have too."""
        text, status, there = self._texts.setdefault, outcome.status, outcome.provenance
        measurements = tuple(map(self._measurement, outcome.measurements))
        return Outcome(
            case,
            text(status, status),
            measurements,
            outcome.failure,
            outcome.repro,
            outcome.extra,
            outcome.cautions,
            self._provenances.setdefault(there, there) if there else None,
            outcome.capture,
            outcome.details,
        )

    def _measurement(self, measured: Measurement) -> Measurement:
        metric, samples = measured.metric, measured.samples
        if len(samples) == 1 and type(samples[0]) is int and not measured.details and not measured.extra:
            return self._counts.setdefault((metric, samples[0]), measured)
        return Measurement(self._texts.setdefault(metric, metric), samples, measured.details, measured.extra)


class _State:
    """What has been read of a run file so far."""

    def __init__(self, path: str, head: RunLine) -> None:
        self._path = path
        self._head = structs.replace(head, plan=())
        self._environment, self._settings = _read_facts(path, head)
        self._pool = _Pool()
        self._plan = tuple(map(self._pool.case, head.plan))
        self._planned = {case: case for case in self._plan}
        if len(self._planned) < len(head.plan):
            (twice, _), *_ = Counter(head.plan).most_common(1)
            raise InputError(f"the plan has {printable(twice.id)} twice", path=path, line=1, column="plan")
        _check_plan(path, head.plan)
        self._at: dict[Case, int] = {}
        self._outcomes: list[Outcome] = []
        self._controls: list[Outcome] = []
        self._ended = 0

    def add(self, number: int, line: str) -> None:
        """Take one more line."""
        decoded = _decode_line(self._path, number, line)
        if self._ended:
            raise self._error(number, f"a line after the end, which is line {self._ended}")
        if isinstance(decoded, RunLine):
            raise self._error(number, "a second run starts here", "one run file holds one run")
        if isinstance(decoded, EndLine):
            self._ended = number
            if decoded.outcomes != len(self._outcomes):
                raise self._error(
                    number, f"{decoded.outcomes} outcomes were written, {len(self._outcomes)} are here"
                )
            return
        outcome = present_outcome(decoded.outcome, self._head.format)
        if "://" in line or "?" in line:
            outcome = redact_recorded(outcome)
        if isinstance(decoded, ControlLine):
            _check_outcome(self._path, number, outcome)
            self._controls.append(outcome)
            return
        case = self._planned.get(outcome.case)
        if case is None:
            raise self._error(number, f"{printable(outcome.case.id)} is not in the plan")
        first = self._at.setdefault(case, number)
        if first != number:
            problem = f"a second outcome of {printable(case.id)}; the first is in line {first}"
            raise self._error(number, problem)
        _check_outcome(self._path, number, outcome)
        self._outcomes.append(self._pool.outcome(case, outcome))

    def finish(self, torn: bool) -> Reading:
        """The whole run."""
        cautions = []
        if torn:
            cautions.append(make_caution(CautionKind.LAST_LINE_CUT_OFF, path=self._path))
        if not self._ended:
            planned = len(self._planned)
            left = planned - len(self._outcomes)
            cautions.append(
                make_caution(CautionKind.RUN_UNFINISHED, path=self._path, left=left, planned=planned)
            )
        head = self._head
        run = Run(
            head.id,
            self._plan,
            tuple(self._outcomes),
            structs.replace(head.revision, label=redact(head.revision.label)),
            self._environment,
            self._settings,
            bool(self._ended),
            tuple(self._controls),
        )
        return Reading(self._path, "run", run, tuple(self._at.values()), tuple(cautions))

    def _error(self, number: int, problem: str, advice: str = "") -> InputError:
        return InputError(problem, path=self._path, line=number, advice=advice)


def _decode_head(path: str, line: str) -> RunLine:
    version = _format_of(line)
    if version is not None and (type(version) is not int or version not in READABLE):
        advice = (
            f"this torchstone reads formats {' and '.join(map(str, READABLE))}: a newer one may be needed"
        )
        problem = f"a run file of format {printable(str(version), 40)}"
        raise InputError(problem, path=path, line=1, column="format", advice=advice)
    decoded = _decode_line(path, 1, line)
    if not isinstance(decoded, RunLine):
        raise InputError("the first line is not the head of a run", path=path, line=1, column="kind")
    return decoded


def _read_facts(path: str, head: RunLine) -> tuple[Environment, Settings]:
    """The environment and the settings that the head of a run file states, without secrets."""
    name = "settings"
    try:
        settings = settings_from(redact_values(head.settings))
        name = "environment"
        environment = environment_from(redact_values(head.environment))
    except msgspec.ValidationError as error:
        field, problem = fault_of(error)
        column = f"{name}.{field}".rstrip(".")
        raise InputError(printable(problem), path=path, line=1, column=column) from None
    return redact_variables(environment), settings


def _format_of(line: str) -> object:
    try:
        return msgspec.json.decode(line, type=_Version).format
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _decode_line(path: str, number: int, line: str) -> Line:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        problem, found, field = str(error).rpartition(" - at `$")
        if not found:
            problem, field = field, ""
        column = field.rstrip("`").lstrip(".") or None
        problem = printable(problem if problem.startswith("JSON") else problem[0].lower() + problem[1:])
        raise InputError(problem, path=path, line=number, column=column) from None
    except RecursionError:
        raise InputError("lists and objects nested too deeply", path=path, line=number) from None


def _check_plan(path: str, plan: Sequence[Case]) -> None:
    """Refuse cases whose names cannot be shown on one line, and batch sizes below 1."""
    for variant in {case.variant for case in plan}:
        axes, size = variant.axes(), variant.batch_size
        if not all(map(is_plain, (*axes, *axes.values()))) or (size is not None and size < 1):
            problem = (
                f"no usable axes: {printable(', '.join(f'{axis}={value}' for axis, value in axes.items()))}"
            )
            raise InputError(problem, path=path, line=1, column="plan", advice="expected texts on one line")
    for case in plan:
        if not (is_plain(case.benchmark) and is_plain(case.suite) and is_plain(case.probe)):
            problem = f"{printable(case.id)} contains a control character"
            raise InputError(problem, path=path, line=1, column="plan", advice="expected names on one line")


def _check_outcome(path: str, line: int, outcome: Outcome) -> None:
    """Refuse an outcome that could not be judged or shown."""
    if not _is_plain_word(outcome.status):
        raise InputError("invalid status", path=path, line=line, column="outcome.status")
    if outcome.provenance is not None:
        _check_provenance(path, line, outcome.provenance)
    seen: set[str] = set()
    for number, measurement in enumerate(outcome.measurements):
        field = _field_at_fault(measurement, seen)
        if field:
            problem = {
                "metric": "expected the name of a metric, and each only once",
                "samples": "expected finite numbers",
            }.get(field, "expected a share from 0 to 1")
            column = f"outcome.measurements[{number}].{field}"
            raise InputError(problem, path=path, line=line, column=column)
        seen.add(measurement.metric)


def _check_provenance(path: str, line: int, provenance: Provenance) -> None:
    """Refuse what could not be shown on one line, and an attempt before the first."""
    for name, value in structs.asdict(provenance).items():
        if not (_is_plain_word(value) if isinstance(value, str) else value >= 0):
            column = f"outcome.provenance.{name}"
            raise InputError("expected a text on one line, or a count", path=path, line=line, column=column)


_is_plain_word = lru_cache(maxsize=1024)(is_plain)
"""The same for words that nearly every line of a run file repeats."""


def _field_at_fault(measurement: Measurement, seen: Collection[str]) -> str:
    metric, samples = measurement.metric, measurement.samples
    if not metric or not _is_plain_word(metric) or metric in seen:
        return "metric"
    if not samples or not -1e300 <= min(samples) <= max(samples) <= 1e300:
        return "samples"
    if measurement.extra and "margin" in measurement.extra:  # a valid one is among the details
        return "extra.margin"
    return ""
