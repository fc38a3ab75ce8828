"""Encode a run as a run file, and decode one: strict JSON Lines with a format version.

Each line is an object with a ``kind``: one ``run`` (format version, id, revision, environment, settings, the full
plan), one ``outcome`` per case, one ``again`` for each time more trials of a case were measured, one ``control`` per measurement of a control case, one ``end``. Each line is complete
before the next case starts. So the file of a killed run lacks its ``end``, and its last line may be incomplete: that
line is ignored.

History of the format:

1   the first: the fields of ``records``, and no others; cautions are texts in ``extra``.
2   cautions and capture are values; measurements and outcomes have ``details`` (in format 1 these are in ``extra``,
    which now holds only what has no field); an outcome may say where it was measured (``provenance``); lines of
    kind ``control``, and of kind ``again``: the outcome of a case that was measured again, with all its trials.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec
from msgspec import structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution
from torchstone.core.details.former_formats import present_outcome, redact_recorded, redact_variables
from torchstone.core.details.outcome_checks import OutcomeChecks
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
    """The first line of a run file."""

    format: int
    id: str
    plan: tuple[Case, ...]
    revision: Revision = Revision()
    environment: JsonObject = {}
    settings: JsonObject = {}


class OutcomeLine(msgspec.Struct, frozen=True, tag_field="kind", tag="outcome", forbid_unknown_fields=True):
    """One outcome."""

    outcome: Outcome


class AgainLine(msgspec.Struct, frozen=True, tag_field="kind", tag="again", forbid_unknown_fields=True):
    """The outcome of a case that was measured again, with all its trials: it replaces the earlier one."""

    outcome: Outcome


class ControlLine(msgspec.Struct, frozen=True, tag_field="kind", tag="control", forbid_unknown_fields=True):
    """One outcome of a control case. Control cases are not in the plan, and may have several outcomes."""

    outcome: Outcome


class EndLine(msgspec.Struct, frozen=True, tag_field="kind", tag="end", forbid_unknown_fields=True):
    """The last line of a finished run, with the number of its outcomes as a check."""

    outcomes: int


class _Version(msgspec.Struct):
    """The format version of a first line, whatever else the line contains."""

    format: Any = None


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_ENCODER = msgspec.json.Encoder()
Line = RunLine | OutcomeLine | AgainLine | ControlLine | EndLine
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def encode_run(run: Run) -> str:
    """Encode a run as the text of a run file."""
    head = RunLine(
        FORMAT, run.id, run.plan, run.revision, run.environment.to_mapping(), run.settings.to_mapping()
    )
    lines = [encode_line(head), *(encode_line(OutcomeLine(outcome)) for outcome in run.outcomes)]
    lines += [encode_line(ControlLine(outcome)) for outcome in run.controls]
    if run.finished:
        lines.append(encode_line(EndLine(len(run.outcomes))))
    return "".join(lines)


def is_of_older_format(text: str) -> bool:
    """Return whether a readable run file has an older format than the one written now."""
    return _format_of(text.partition("\n")[0]) != FORMAT


def encode_line(line: Line) -> str:
    """Encode one line of a run file, in ASCII, so that half a line is still text. Raise ValueError for a number that is not finite."""
    if isinstance(line, OutcomeLine | AgainLine | ControlLine):
        for measurement in line.outcome.measurements:
            if not all(map(isfinite, measurement.samples)):
                raise ValueError(f"{measurement.metric} of {line.outcome.case.id} is not finite")
    text = _ENCODER.encode(line).decode() + "\n"
    text = text if text.isascii() else _BEYOND_ASCII.sub(_escape, text)
    return escape_json(text) if "\x7f" in text or "##" in text else text


def _escape(found: re.Match[str]) -> str:
    """Escape characters as JSON does: one escape for each unit of UTF-16."""
    return "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack("<H", found[0].encode("utf-16-le")))


def decode_run(path: str, text: str) -> Reading:
    """Decode the text of a run file. An incomplete last line is ignored, with a caution."""
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
    """Share values that many lines repeat (names, variants, counts), so that each is in memory once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._variants: dict[Variant, Variant] = {}
        self._counts: dict[tuple[str, Number], Measurement] = {}
        self._provenances: dict[Provenance, Provenance] = {}

    def case(self, case: Case) -> Case:
        """Return an equal case made of shared values."""
        text = self._texts.setdefault
        variant = self._variants.setdefault(case.variant, case.variant)
        name, probe, suite = case.benchmark, case.probe, case.suite
        return Case(text(name, name), text(probe, probe), text(suite, suite), variant)

    def outcome(self, case: Case, outcome: Outcome) -> Outcome:
        """Return an equal outcome made of ``case`` and shared values."""
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
    """The part of a run file that has been read."""

    def __init__(self, path: str, head: RunLine) -> None:
        self._path = path
        self._head = structs.replace(head, plan=())
        self._environment, self._settings = _read_facts(path, head)
        self._pool = _Pool()
        self._checks = OutcomeChecks(path)
        self._plan = tuple(map(self._pool.case, head.plan))
        self._planned = {case: case for case in self._plan}
        if len(self._planned) < len(head.plan):
            (twice, _), *_ = Counter(head.plan).most_common(1)
            raise InputError(f"the plan has {printable(twice.id)} twice", path=path, line=1, column="plan")
        _check_plan(path, head.plan)
        self._at: dict[Case, int] = {}
        self._index: dict[Case, int] = {}
        self._outcomes: list[Outcome] = []
        self._controls: list[Outcome] = []
        self._ended = 0

    def add(self, number: int, line: str) -> None:
        """Add one line."""
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
            self._checks.check(number, outcome)
            self._controls.append(outcome)
            return
        case = self._planned.get(outcome.case)
        if case is None:
            raise self._error(number, f"{printable(outcome.case.id)} is not in the plan")
        if isinstance(decoded, AgainLine):
            self._replace(number, case, outcome)
            return
        first = self._at.setdefault(case, number)
        if first != number:
            problem = f"a second outcome of {printable(case.id)}; the first is in line {first}"
            raise self._error(number, problem)
        self._checks.check(number, outcome)
        self._outcomes.append(self._pool.outcome(case, outcome))

    def _replace(self, number: int, case: Case, outcome: Outcome) -> None:
        """Replace the outcome of a case that was measured again."""
        if case not in self._at:
            raise self._error(number, f"{printable(case.id)} was measured again, but has no outcome before")
        self._checks.check(number, outcome)
        if len(self._index) < len(self._at):
            self._index = {each: index for index, each in enumerate(self._at)}
        self._at[case] = number
        self._outcomes[self._index[case]] = self._pool.outcome(case, outcome)

    def finish(self, torn: bool) -> Reading:
        """Return the run, with cautions if the file is incomplete."""
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
    """Return the environment and the settings of a first line, without secrets."""
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
    """Raise InputError for cases whose names cannot be shown on one line, and for batch sizes below 1."""
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
