"""A wrong argument of the Python API is a ``UsageError`` that names it, whatever it is, and before anything is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import msgspec
import pytest

import torchstone
from conftest import WriteFile
from sample_files import CANONICAL
from torchstone.api.explaining.explain import ExplainRequest
from torchstone.api.files.convert import ConvertRequest
from torchstone.api.files.read import ReadRequest
from torchstone.api.files.report import ReportRequest
from torchstone.api.files.show_run import ShowRequest
from torchstone.api.inspecting.listing import ListRequest
from torchstone.api.judging.accept_request import AcceptRequest
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.compare import CompareRequest
from torchstone.api.keeping.changes import ChangesRequest
from torchstone.api.keeping.flaky import FlakyRequest, SuggestRequest
from torchstone.api.keeping.record import RecordRequest
from torchstone.api.keeping.series import SeriesRequest
from torchstone.api.measuring.ab_request import AbRequest, SelftestRequest
from torchstone.api.measuring.cachebench import CachebenchRequest
from torchstone.api.measuring.pr_time import PrTimeRequest
from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.repeating.repro import ReproRequest
from torchstone.dashboard.serving import ServeRequest
from torchstone.dashboard.static_site import SiteRequest
from torchstone.integrations.notify import NotifyRequest

Function = Callable[..., object]


def drained(**arguments: Any) -> object:  # noqa: ANN401  (what stream takes)
    return list(torchstone.stream(**arguments))


FUNCTIONS: dict[str, tuple[Function, type[msgspec.Struct], dict[str, object]]] = {
    "ab": (torchstone.ab, AbRequest, {"targets": "smoke", "b": "backend=eager"}),
    "accept": (torchstone.accept, AcceptRequest, {"results": "results.csv", "baseline": "expected.csv"}),
    "cachebench": (torchstone.cachebench, CachebenchRequest, {"suite": "huggingface"}),
    "changes": (torchstone.changes, ChangesRequest, {"store": "history.db"}),
    "notify": (torchstone.notify, NotifyRequest, {"store": "history.db", "dry_run": True}),
    "check": (torchstone.check, CheckRequest, {"results": "results.csv", "baselines": "expected.csv"}),
    "compare": (torchstone.compare, CompareRequest, {"base": "results.csv", "new": "results.csv"}),
    "convert": (torchstone.convert, ConvertRequest, {"results": "results.csv"}),
    "flaky": (torchstone.flaky, FlakyRequest, {"store": "history.db"}),
    "suggest_quarantine": (torchstone.suggest_quarantine, SuggestRequest, {"store": "history.db"}),
    "make_site": (torchstone.make_site, SiteRequest, {"output": "site", "store": "history.db"}),
    "serve": (torchstone.serve, ServeRequest, {"store": "history.db"}),
    "explain": (torchstone.explain, ExplainRequest, {"base": "run.jsonl"}),
    "plan": (torchstone.plan, RunRequest, {"targets": "smoke"}),
    "pr_time": (torchstone.pr_time, PrTimeRequest, {"targets": "smoke"}),
    "read": (torchstone.read, ReadRequest, {"file": "results.csv"}),
    "record": (torchstone.record, RecordRequest, {"results": "results.csv", "store": "new.db"}),
    "repro": (torchstone.repro, ReproRequest, {"file": "run.jsonl", "case": "AlbertForMaskedLM"}),
    "list": (torchstone.list_benchmarks, ListRequest, {"targets": "smoke"}),
    "report": (torchstone.report, ReportRequest, {"results": "results.csv"}),
    "run": (torchstone.run, RunRequest, {"targets": "smoke"}),
    "selftest": (torchstone.selftest, SelftestRequest, {"targets": "smoke"}),
    "series": (torchstone.series, SeriesRequest, {"store": "history.db"}),
    "show": (torchstone.show, ShowRequest, {"file": "results.csv"}),
    "stream": (drained, RunRequest, {"targets": "smoke"}),
}
NEVER_MEANT: tuple[object, ...] = (
    object(),
    b"bytes",
    int,
    {1: object()},
    lambda: None,
    "\x00",
    "\ud800",
    [[]],
)
NO_TEXTS: tuple[object, ...] = (["a"], [], {}, 5, True, date(2026, 1, 1))
NO_NUMBERS = (math.nan, math.inf, -math.inf, -1, 10**400)
NEEDS_RESULTS = ("accept", "check", "compare", "convert", "record", "report")
MEASURING = (
    "ab",
    "accept",
    "cachebench",
    "explain",
    "list",
    "plan",
    "pr_time",
    "repro",
    "run",
    "selftest",
    "stream",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile) -> Path:
    monkeypatch.chdir(tmp_path)
    write("results.csv", CANONICAL["accuracy"])
    write("expected.csv", CANONICAL["expected"])
    torchstone.convert("results.csv").write("run.jsonl")
    torchstone.record("results.csv", revision="v1", store="history.db")
    return tmp_path


def fields_of(kind: type[msgspec.Struct], *types: type) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        if not types or _one_type(field.type) in types:
            yield field.name


def _one_type(kind: Any) -> object:  # noqa: ANN401  (any annotation)
    alternatives = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    (one, *_) = (each for each in alternatives if each is not NoneType)
    return one


def refuse(function: Function, arguments: dict[str, object], named: str) -> None:
    with pytest.raises(torchstone.UsageError) as raised:
        function(**arguments)
    assert named in raised.value.message.replace("-", "_")
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.usefixtures("folder")
def test_a_value_that_no_argument_can_have_is_refused(name: str) -> None:
    function, kind, given = FUNCTIONS[name]
    for field in fields_of(kind):
        for value in NEVER_MEANT:
            refuse(function, {**given, field: value}, field)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "read"])
@pytest.mark.usefixtures("folder")
def test_no_number_is_negative_endless_or_none_at_all(name: str) -> None:
    function, kind, given = FUNCTIONS[name]
    for field in fields_of(kind, int, float):
        for value in NO_NUMBERS:
            with pytest.raises(torchstone.UsageError):
                function(**{**given, field: value})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.usefixtures("folder")
def test_a_name_or_path_is_one_text(name: str) -> None:
    function, kind, given = FUNCTIONS[name]
    for field in fields_of(kind, str):
        for value in NO_TEXTS:
            refuse(function, {**given, field: value}, field)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.usefixtures("folder")
def test_an_argument_that_is_needed_is_not_none(name: str) -> None:
    function, kind, given = FUNCTIONS[name]
    for field in msgspec.structs.fields(kind):
        if field.required:
            refuse(function, {**given, field.name: None}, f"{field.name}=None: expected")


@pytest.mark.parametrize("name", NEEDS_RESULTS)
@pytest.mark.parametrize("nothing", [[], (), {}])
@pytest.mark.usefixtures("folder")
def test_no_results_at_all_are_an_error(name: str, nothing: object) -> None:
    function, _, given = FUNCTIONS[name]
    field = "new" if name == "compare" else "results"
    with pytest.raises(torchstone.UsageError, match=r"no (results|files) given"):
        function(**{**given, field: nothing})


@pytest.mark.parametrize("name", ["ab", "pr_time", "run", "selftest", "stream", "plan"])
def test_no_targets_at_all_are_an_error(name: str) -> None:
    function, _, given = FUNCTIONS[name]
    with pytest.raises(torchstone.UsageError, match="no targets given"):
        function(**{**given, "targets": []})


@pytest.mark.parametrize("name", MEASURING)
@pytest.mark.usefixtures("folder")
def test_events_go_to_a_function(name: str) -> None:
    function, _, given = FUNCTIONS[name]
    repeats = {"repeat": 3} if name == "accept" else {}
    refuse(function, {**given, **repeats, "on_event": 5}, "on_event=5: expected a function")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("run", {"probes": "speed"}, "--probe speed: expected"),
        ("run", {"modes": "learning"}, "--mode learning: expected"),
        ("run", {"dtypes": "float33"}, "--dtype float33: expected"),
        ("run", {"preset": "unheard_of"}, "unheard_of"),
        ("run", {"targets": "unheard_of"}, "unheard_of"),
        ("run", {"baselines": "expected.csv", "policy": "lax"}, "--policy lax: expected"),
        ("run", {"shard": (0, 2)}, "--shard 0/2: expected I/N"),
        ("run", {"shard": (3, 2)}, "--shard 3/2: expected I/N"),
        ("run", {"shard": 2}, "shard=2: expected two whole numbers"),
        (
            "run",
            {"baselines": "expected.csv", "decide": True, "decide_within": math.nan},
            "--decide-within nan",
        ),
        ("ab", {"policy": "lax"}, "--policy lax: expected"),
        ("ab", {"metric": "speed"}, "--metric speed: expected"),
        ("ab", {"budget": math.inf}, "--budget inf: expected a duration in seconds"),
        ("ab", {"budget": math.nan}, "--budget nan: expected a duration in seconds"),
        ("ab", {"budget": 0}, "--budget 0: expected a duration in seconds"),
        ("ab", {"bench_from": "c"}, "--bench-from c"),
        ("ab", {"a": {"speed": 5}}, "expected one of rev=REVISION"),
        ("ab", {"a": 5}, "a=5: expected"),
        ("selftest", {"slow_downs": math.nan}, "--slow-down nan: expected a share"),
        ("selftest", {"slow_downs": [0.05, 2]}, "--slow-down 2: expected a share"),
        ("cachebench", {"suite": "smoke"}, "--benchmark smoke: expected"),
        ("cachebench", {"mode": "learning"}, "--mode learning: expected"),
        ("check", {"policy": "lax"}, "--policy lax: expected"),
        ("check", {"kind": "pdf"}, "pdf: no such format"),
        ("check", {"block": "red"}, "red: no such verdict"),
        ("check", {"baselines": []}, "no baseline and no rule given"),
        ("compare", {"margins": {"latency": math.nan}}, "--margin nan: expected a share"),
        ("compare", {"policy": "lax"}, "--policy lax: expected"),
        ("accept", {"baseline_kind": "pdf"}, "pdf: no such format"),
        ("report", {"baselines": "expected.csv", "baseline_kind": "pdf"}, "pdf: no such format"),
        ("convert", {"to": "pdf"}, "--to pdf: expected"),
        ("read", {"kind": "pdf"}, "pdf: no such format"),
        ("read", {"axes": {"colour": "red"}}, "colour"),
        ("read", {"file": ["results.csv"]}, "file="),
        ("show", {"kind": "pdf"}, "pdf: no such format"),
        ("series", {"since": "yesterday"}, "since=yesterday: expected a date"),
        ("check", {"polcy": "strict"}, "did you mean 'policy'?"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_is_said(name: str, arguments: dict[str, object], problem: str) -> None:
    function, _, given = FUNCTIONS[name]
    with pytest.raises(torchstone.UsageError) as raised:
        function(**{**given, **arguments})
    assert problem in str(raised.value)


WRONG: tuple[object, ...] = (5.5, None, [], {}, b"x", object(), "\x00")


@pytest.mark.usefixtures("folder")
def test_a_store_refuses_what_it_cannot_mean() -> None:
    store = torchstone.HistoryStore("history.db")
    calls: list[tuple[Function, str]] = [
        (torchstone.HistoryStore, "location"),
        (store.read, "run"),
        (store.pin, "run"),
        (lambda reason: store.pin(1, reason), "reason"),
        (store.release, "run"),
        (store.remove, "run"),
        (lambda old: store.rename(old, "new"), "old"),
        (lambda new: store.rename("old", new), "new"),
        (store.copy_to, "target"),
        (store.prune, "days"),
        (lambda apply: store.prune(apply=apply), "apply"),
        (lambda config: torchstone.HistoryStore("history.db", config), "config"),
    ]
    for call, named in calls:
        for value in WRONG:
            if value is None and named == "config":
                continue
            with pytest.raises(torchstone.UsageError) as raised:
                call(value)
            assert raised.value.message.startswith(f"{named}="), (named, value)
    for days in (-1, 10**9, 10**400):
        with pytest.raises(torchstone.UsageError, match="days"):
            store.prune(days)


@pytest.mark.usefixtures("folder")
def test_results_are_written_to_a_path_and_rendered_in_a_style() -> None:
    compared = torchstone.compare("results.csv", "results.csv")
    writers: list[Function] = [
        compared.write,
        torchstone.report("results.csv").write,
        torchstone.convert("results.csv").write,
    ]
    for write in writers:
        for value in (*WRONG, ""):
            with pytest.raises(torchstone.UsageError, match="path="):
                write(value)
    renderers: list[Function] = [
        compared.render,
        torchstone.check("results.csv", baselines="expected.csv").render,
        torchstone.show("results.csv").render,
    ]
    for render in renderers:
        for value in (*WRONG, "pdf"):
            with pytest.raises(torchstone.UsageError, match="style"):
                render(value)


@pytest.mark.parametrize("device", [*WRONG, 5])
def test_doctor_takes_one_device(device: object) -> None:
    with pytest.raises(torchstone.UsageError, match="device="):
        torchstone.doctor(device)  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
def test_triage_refuses_what_it_cannot_mean() -> None:
    triage = torchstone.Triage("history.db")
    calls: list[tuple[Function, str]] = [
        (torchstone.Triage, "store"),
        (triage.show, "group"),
        (lambda group: triage.set(group, "expected"), "group"),
        (lambda state: triage.set(1, state), "state"),
        (lambda reason: triage.set(1, "expected", reason=[] if reason is None else reason), "reason"),
        (lambda states: triage.list([states]), "states"),
    ]
    for call, named in calls:
        for value in WRONG:
            with pytest.raises(torchstone.UsageError) as raised:
                call(value)
            assert raised.value.message.startswith(f"{named}="), (named, value)
