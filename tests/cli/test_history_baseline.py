"""``check --baseline history``: results judged by the last level of their series."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from comparison_files import counts, passed, times
from conftest import Command
from stored_runs import EPYC, opened, recorded, run_of
from torchstone.core.records import Outcome, Run
from torchstone.core.run_file import encode_run
from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.update import bring_up_to_date
from torchstone.store.database.connection import Database

STORE = ".torchstone/history.db"


def run_at(number: int, level: float, breaks: int = 2, status: str = "pass", **facts: Any) -> Run:  # noqa: ANN401  (any part of a run)
    outcomes: list[Outcome] = [
        passed("net", times(level, seed=number, spread=0.004), counts("graph_breaks", breaks)),
        Outcome(passed("other").case, status, (times(7.0, seed=number + 500, spread=0.004),)),
    ]
    return run_of(number, outcomes, **facts)


@pytest.fixture
def history(torchstone: Command, tmp_path: Path) -> Command:
    """A store with 30 runs of main at 1.00, then 15 at 1.20: a step that was accepted."""
    os.makedirs(tmp_path / ".torchstone", exist_ok=True)
    with opened(str(tmp_path / STORE)) as database:
        recorded(
            database,
            *(run_at(n, 1.0, breaks=3) for n in range(1, 31)),
            *(run_at(n, 1.2) for n in range(31, 46)),
        )
        bring_up_to_date(database)
        decide(database, "expected")
    return torchstone


def decide(database: Database, state: str) -> None:
    """Decides the same about all groups."""
    for group in read_groups(database):
        names = (
            "group_id",
            "state",
            "reason",
            "link",
            "owner",
            "author",
            "at",
            "is_automatic",
            "duplicate_of",
        )
        ((newest,),) = database.query("SELECT max(id) FROM triage_events")
        row = ((newest or 0) + 1, group.id, state, "", "", "", "", "2026-11-19T00:00:00Z", 0, None)
        database.insert("triage_events", ("id", *names), [row])


def judge(
    command: Command, folder: Path, run: Run, *options: str
) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    (folder / "new.jsonl").write_text(encode_run(run))
    ran = command("check", "new.jsonl", "--format", "json", *options)
    assert ran.code in {0, 1}, ran.err
    rows = json.loads(ran.out)["rows"]
    return ran.code, {(row["name"], row["metric"]): row for row in rows}


def test_the_level_after_the_last_step_is_the_baseline(history: Command, tmp_path: Path) -> None:
    code, rows = judge(history, tmp_path, run_at(99, 1.2, branch="mine"), "--baseline", "history:main")
    assert code == 0
    assert rows["net", "abs_latency"]["verdict"] == "pass"
    assert 1.19 < rows["net", "abs_latency"]["expected"] < 1.21
    assert rows["net", "graph_breaks"]["verdict"] == "pass"


def test_a_change_against_the_level_is_a_regression(history: Command, tmp_path: Path) -> None:
    code, rows = judge(
        history, tmp_path, run_at(99, 1.6, breaks=3, branch="mine"), "--baseline", "history:main"
    )
    assert code == 1
    assert rows["net", "abs_latency"]["verdict"] == "regression"
    assert rows["net", "graph_breaks"]["verdict"] == "regression"
    assert rows["other", "abs_latency"]["verdict"] == "pass"


def test_a_newer_torch_is_compared_and_another_machine_is_not(history: Command, tmp_path: Path) -> None:
    newer = {**EPYC, "versions": {"torch": "2.15.0"}}
    _, rows = judge(history, tmp_path, run_at(99, 1.2, environment=newer), "--baseline", "history:main")
    assert rows["net", "abs_latency"]["verdict"] == "pass"
    elsewhere = {**EPYC, "machine": {"cpu": {"model": "another"}}}
    (tmp_path / "new.jsonl").write_text(encode_run(run_at(99, 1.2, environment=elsewhere)))
    ran = history("check", "new.jsonl", "--baseline", "history:main")
    assert (ran.code, "none of these cases was measured on this class of machines" in ran.err) == (2, True)


def test_a_case_of_the_newest_run_that_has_vanished_is_missing(history: Command, tmp_path: Path) -> None:
    whole = run_at(99, 1.2)
    part = run_of(99, whole.outcomes[:1])
    code, rows = judge(history, tmp_path, part, "--baseline", "history:main")
    assert code == 1
    assert {row["verdict"] for key, row in rows.items() if key[0] == "other"} == {"missing"}


def test_one_run_is_a_baseline_by_its_id(history: Command, tmp_path: Path) -> None:
    code, rows = judge(
        history, tmp_path, run_at(99, 1.0, breaks=3), "--baseline", f"history:{run_at(5, 1.0).id}"
    )
    assert (code, rows["net", "graph_breaks"]["expected"]) == (0, 3)


def test_a_run_is_not_its_own_baseline(history: Command, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text(encode_run(run_at(99, 1.6, breaks=9)))
    assert history("record", "new.jsonl").code == 0
    code, rows = judge(history, tmp_path, run_at(99, 1.6, breaks=9), "--baseline", "history:main")
    assert (code, rows["net", "graph_breaks"]["expected"]) == (1, 2)


def test_the_merge_base_and_its_ancestors_are_the_baseline(history: Command, tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    commits = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git("rev-parse", "HEAD"))
    git("checkout", "-q", "-b", "mine", commits[1])
    git("commit", "-q", "--allow-empty", "-m", "mine")
    mine = git("rev-parse", "HEAD")
    for number, breaks in enumerate((11, 12, 13)):
        (tmp_path / "base.jsonl").write_text(
            encode_run(run_at(60 + number, 1.0, breaks, commit=commits[number]))
        )
        assert history("record", "base.jsonl").code == 0
    for name in ("history", "history:merge-base"):
        _, rows = judge(
            history, tmp_path, run_at(99, 1.0, 12, commit=mine, branch="mine"), "--baseline", name
        )
        assert rows["net", "graph_breaks"]["expected"] == 12


def test_what_is_not_in_the_history_is_told(history: Command, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text(encode_run(run_at(99, 1.2)))
    for name, told in (
        ("history:nowhere", "its branches are main"),
        ("history", "--baseline history:BRANCH"),
        ("history", "the current folder is in no git repository"),
    ):
        ran = history("check", "new.jsonl", "--baseline", name)
        assert (ran.code, told in ran.err) == (2, True), ran.err
    ran = history("check", "new.jsonl", "--baseline", "history:main", "--store", "none.db")
    assert (ran.code, "none.db: there is no store" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("state", "low", "high"),
    [
        ("acknowledged", 0.99, 1.01),
        ("expected", 1.19, 1.21),
        ("wontfix", 1.19, 1.21),
        ("noise", 1.0, 1.21),
    ],
)
def test_what_was_decided_about_a_change_chooses_the_reference(
    history: Command, tmp_path: Path, state: str, low: float, high: float
) -> None:
    with opened(str(tmp_path / STORE)) as database:
        decide(database, state)
    _, rows = judge(history, tmp_path, run_at(99, 1.2, branch="mine"), "--baseline", "history:main")
    assert low <= rows["net", "abs_latency"]["expected"] <= high
    is_red = rows["net", "abs_latency"]["verdict"] == "regression"
    assert is_red == (state == "acknowledged")


def test_a_status_that_fails_since_an_open_regression_is_not_expected(
    history: Command, tmp_path: Path
) -> None:
    with opened(str(tmp_path / STORE)) as database:
        recorded(database, *(run_at(n, 1.2, status="timeout") for n in (46, 47)))
    run = run_at(99, 1.2, status="timeout", branch="mine")
    _, rows = judge(history, tmp_path, run, "--baseline", "history:main")
    assert {row["verdict"] for (name, _), row in rows.items() if name == "other"} == {"regression"}
    with opened(str(tmp_path / STORE)) as database:
        decide(database, "expected")
    _, rows = judge(history, tmp_path, run, "--baseline", "history:main")
    assert "regression" not in {row["verdict"] for (name, _), row in rows.items() if name == "other"}


def test_a_red_row_says_how_its_level_becomes_the_baseline(history: Command, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text(encode_run(run_at(99, 1.6)))
    ran = history("check", "new.jsonl", "--baseline", "history:main")
    assert "next step  once it is on that branch, record its runs" in ran.out


def test_a_run_is_judged_by_the_history_before_it_is_recorded(history: Command, tmp_path: Path) -> None:
    ran = history("run", "smoke", "--only", "mlp", "--baseline", "history:main", "--device", "cpu")
    assert (ran.code, "none of these cases was measured on this class of machines before" in ran.err) == (
        2,
        True,
    )
    ran = history("run", "smoke", "--only", "mlp", "--baseline", "history:none", "--device", "cpu")
    assert (ran.code, "has no such branch or run" in ran.err) == (2, True)


@pytest.mark.parametrize("name", ["history:main", "history:45"])
def test_results_with_the_old_name_of_a_benchmark_have_its_history(
    history: Command, tmp_path: Path, name: str
) -> None:
    assert history("store", "rename", "net", "network").code == 0
    _, rows = judge(history, tmp_path, run_at(99, 1.2, 4), "--baseline", name)
    assert rows["net", "graph_breaks"]["expected"] == 2
    assert {benchmark for benchmark, _ in rows} == {"net", "other"}


def test_check_records_on_a_branch(history: Command, tmp_path: Path) -> None:
    (tmp_path / "perf.csv").write_text("dev,name,batch_size,speedup,abs_latency\ncuda,net,4,2.0,10.0\n")
    options = ("--rule", "abs_latency=ceiling:100", "--record", "--store", "own.db")
    assert history("check", "perf.csv", *options, "--revision", "2026-11-19", "--branch", "release").code == 0
    again = history("check", "perf.csv", "--baseline", "history:release", "--store", "own.db")
    assert again.code == 0, again.err


def test_a_level_of_the_store_is_accepted_by_triage(history: Command, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text(encode_run(run_at(99, 1.2)))
    for name in ("history", "history:main"):
        ran = history("accept", "new.jsonl", "--baseline", name, "--add-new", "--yes")
        assert (ran.code, "torchstone triage set GROUP expected" in ran.err) == (2, True), ran.err
        assert not (tmp_path / name).exists()
