"""A provisional change comes with the command that would confirm it, and that command works."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import structs

from comparison_files import case_of, failed, passed, times
from stored_runs import opened, recorded, run_of
from torchstone.api.keeping.remeasurement import propose_remeasurements
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Outcome
from torchstone.core.run_settings import Settings
from torchstone.history.detect_changes import update_changes
from torchstone.history.stored_changes import read_changes
from torchstone.store.database.connection import Database


def record_fresh_failure(database: Database, settings: Settings) -> None:
    for number in range(1, 12):
        status = "timeout" if number == 11 else "pass"
        outcomes = [
            Outcome(case_of("mlp"), status),
            Outcome(case_of("-odd"), status),
            passed("net", times(1.0)),
        ]
        recorded(database, structs.replace(run_of(number, outcomes), settings=settings))
    update_changes(database)


def test_the_command_measures_the_cases_of_one_revision_and_records_them(tmp_path: Path) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        record_fresh_failure(database, Settings(sources={"smoke": BenchmarkSource("suite", "smoke")}))
        (proposed,) = propose_remeasurements(database, read_changes(database), "my store.db")
    assert proposed.revision == f"{11:040x}"
    assert len(proposed.changes) == 2
    words = shlex.split(proposed.command)
    assert words[:3] == ["torchstone", "run", "smoke"]
    assert "mlp" in words[words.index("--only") :]
    assert "--only=-odd" in words
    assert words[-6:] == ["--baseline", "history:main", "--decide", "--record", "--store", "my store.db"]


def test_nothing_is_proposed_for_files_that_do_not_say_how_they_were_measured(tmp_path: Path) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        record_fresh_failure(database, Settings())
        assert propose_remeasurements(database, read_changes(database)) == []


def test_a_change_that_is_certain_needs_no_measurement(tmp_path: Path) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        for number in range(1, 20):
            recorded(database, run_of(number, [failed("mlp") if number > 10 else passed("mlp", times(1.0))]))
        update_changes(database)
        assert propose_remeasurements(database, read_changes(database)) == []
