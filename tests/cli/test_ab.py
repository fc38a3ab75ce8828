"""``torchstone ab`` through the command line: real workers, real commits, a second interpreter; verdicts, files and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import site
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pexpect
import pytest
from junitparser import JUnitXml

from conftest import Command, WriteFile, start_on_terminal
from live_processes import count_outcomes, expect_no_process, read_run, start_torchstone, wait_until
from torchstone.analyze.sequential import Effect
from torchstone.api.measuring.ab_result import effect_text, headline_of
from torchstone.cli.terminal.ab_interval import draw_interval
from torchstone.core.records import Case
from torchstone.core.vocabulary import Verdict
from torchstone.gate.criteria import Criteria, criteria_of_run
from torchstone.gate.judgement import Ruling
from torchstone.measure.ab import experiment as ab
from torchstone.measure.ab import pair as turns
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.sides import Side
from torchstone.measure.session import Session
from torchstone.worker.protocol.jobs import MeasureJob

# The work of a call, and whether it can be done at all, depend on the environment. What waits is never faster than it should be.
BENCHMARKS = """
import os, time, torch, torchstone

STEPS = int(os.environ.get("STEPS", "100"))

def call(x):
    for _ in range(STEPS):
        x = torch.sin(x)
    return x

def wait(x):
    time.sleep(STEPS / 20_000)
    return x

@torchstone.benchmark
def steps():
    return call, (torch.ones(64),)

@torchstone.benchmark
def waits():
    return wait, (torch.ones(64),)

@torchstone.benchmark
def fails():
    if "FAIL" in os.environ:
        raise ValueError("it fails on this side")
    return torch.sin, (torch.ones(64),)
"""
QUICK = ("--device", "cpu", "--backend", "none", "--margin", "50%", "--budget", "10m")
ARE_FORKED_APART = ab.need_separate_zygotes
FILES = ("--output-a", "a.jsonl", "--output-b", "b.jsonl")


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences here are large: a tenth of a second tells them, and so do workers of the same two zygotes."""
    monkeypatch.setattr(turns, "LONGEST_PAIR", 0.1)
    monkeypatch.setattr(ab, "need_separate_zygotes", lambda _: False)


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder, as somebody."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    ran = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.mark.slow
def test_a_side_that_does_four_times_the_work_is_a_regression_and_both_run_files_say_what_was_measured(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_ab.py", BENCHMARKS)
    ran = torchstone(
        "ab", "bench_ab.py::waits", "--b", "env:STEPS=400", *QUICK, *FILES, "--seed", "7", "-o", "page.html"
    )
    assert ran.code == 1
    assert "1 regression (margin 50%, alpha 0.25%)" in ran.out
    assert "seed 7" in ran.err
    a, b = (read_run(tmp_path / f"{side}.jsonl").run for side in "ab")
    assert a.finished
    assert a.plan == b.plan
    measured = [run.outcomes[0].measurements[0] for run in (a, b)]
    assert [each.metric for each in measured] == ["abs_latency", "abs_latency"]
    assert len(measured[0].trials) == len(measured[1].trials) >= 8
    noted = b.settings.pairing
    assert noted is not None
    assert measured[0].facts()["pairs"] == measured[1].facts()["pairs"] == noted.session
    ratios = [b / a for a, b in zip(*(each.trial_values for each in measured), strict=True)]
    assert median(ratios) > 1.5
    assert (noted.spec, noted.seed) == (("env:STEPS=400",), 7)
    assert criteria_of_run(b.settings, "abs_latency") == Criteria(0.5, 0.0025, "lower", is_alone=True)
    words = shlex.split(b.outcomes[0].repro)
    assert words[:3] == ["torchstone", "ab", "bench_ab.py::waits"]
    assert {"env:STEPS=400", b.plan[0].id} <= set(words)
    page = (tmp_path / "page.html").read_text()
    assert "FAIL: 1 regression of 1 row" in page
    assert "env:STEPS=400" in page
    for command in (("repro", "b.jsonl", "waits"), ("run", "--resume", "b.jsonl")):
        refused = torchstone(*command)
        assert refused.code == 2
        assert "measured by 'torchstone ab'" in refused.err


@pytest.mark.slow
def test_the_same_thing_on_both_sides_is_allowed_with_a_caution_and_a_case_that_fails_on_b_is_a_regression(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_ab.py", BENCHMARKS)
    same = torchstone("ab", "bench_ab.py", "-k", "steps", "-k", "fails", *QUICK, "--min-trials", "9")
    assert same.code == 0
    assert "caution: A and B are identical" in same.err
    assert "2 same" in same.out
    assert len(list((tmp_path / ".torchstone" / "runs").glob("*-[ab].jsonl"))) == 2
    failing = torchstone("ab", "bench_ab.py", "-k", "fails", "--b", "env:FAIL=1", *QUICK, *FILES)
    assert failing.code == 1
    assert "B failed: eager_fail_to_run: ValueError: it fails on this side" in failing.out
    a, b = (read_run(tmp_path / f"{side}.jsonl").run.outcomes[0] for side in "ab")
    assert (a.status, b.status) == ("pass", "eager_fail_to_run")


@pytest.mark.slow
def test_sides_that_cannot_share_their_zygotes_get_new_ones_for_every_pair(
    torchstone: Command, write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ab, "need_separate_zygotes", ARE_FORKED_APART)
    renewed: list[Session] = []
    renew = Session.renew

    def noted(session: Session) -> Callable[[], None]:
        renewed.append(session)
        return renew(session)

    monkeypatch.setattr(Session, "renew", noted)
    write("bench_ab.py", BENCHMARKS)
    options = ("--device", "cpu", "--backend", "none", "--margin", "50%", "--alpha", "20%", "--budget", "5m")
    ran = torchstone("ab", "bench_ab.py::waits", "--b", "env:STEPS=400", *options, *FILES)
    assert ran.code == 1, ran.err
    (trials,) = (each.trials for each in read_run(tmp_path / "a.jsonl").run.outcomes[0].measurements)
    assert len(trials) >= 4
    assert len(renewed) == 2 * (len(trials) - 1)
    assert len(set(map(id, renewed))) == 2


PACKAGE = """
import time

def call(x):
    time.sleep({steps} / 20_000)
    return x
"""
OF_THE_PACKAGE = """
import torch, torchstone, mypackage

@torchstone.benchmark
def packaged():
    return mypackage.call, (torch.ones(64),)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository whose second commit does four times the work; the working folder is below it."""
    folder = tmp_path / "repository"
    for name, text in {"src/mypackage/__init__.py": "", "benches/bench_it.py": OF_THE_PACKAGE}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    for steps in (100, 400):
        (folder / "src/mypackage/__init__.py").write_text(PACKAGE.format(steps=steps))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"{steps} steps")
    monkeypatch.chdir(folder / "benches")
    monkeypatch.setenv("PYTHONPATH", str(folder / "src"))
    yield folder
    assert len(git(folder, "worktree", "list").splitlines()) == 1, "a worktree is left"


def test_a_commit_that_made_it_slower_is_found_between_two_revisions(
    torchstone: Command, repository: Path
) -> None:
    ran = torchstone("ab", "bench_it.py", "--a", "rev=HEAD~1", "--b", "rev=HEAD", *QUICK, *FILES)
    assert ran.code == 1
    assert "1 regression" in ran.out
    revisions = [read_run(repository / "benches" / f"{side}.jsonl").run.revision for side in "ab"]
    assert [each.commit for each in revisions] == [
        git(repository, "rev-parse", each) for each in ("HEAD~1", "HEAD")
    ]
    assert "imported" not in ran.out


@pytest.mark.slow
def test_code_as_it_lies_there_is_compared_with_a_revision_of_it(
    torchstone: Command, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")  # it is found in src/ on both sides
    (repository / "src/mypackage/__init__.py").write_text(PACKAGE.format(steps=1600))
    ran = torchstone("ab", "bench_it.py", "--a", "rev=HEAD", *QUICK, *FILES)
    assert ran.code == 1, ran.err
    assert "1 regression" in ran.out
    assert "imported" not in ran.out


@pytest.mark.slow
def test_code_that_differs_but_is_installed_elsewhere_is_told(
    torchstone: Command, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "site-packages" / "mypackage" / "__init__.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(PACKAGE.format(steps=100))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    git(repository, "mv", "src", "code")  # where nobody looks for it
    git(repository, "commit", "--quiet", "-m", "moved")
    (repository / "code/mypackage/__init__.py").write_text(PACKAGE.format(steps=1600))
    git(repository, "commit", "--quiet", "-am", "1600 steps")
    ran = torchstone(
        *("ab", "bench_it.py", "--a", "rev=HEAD~1", "--b", "rev=HEAD", "-o", "page.html", *QUICK)
    )
    told = "the one file in which A and B differ was not imported (code/mypackage/__init__.py)"
    assert ran.code == 0, ran.err
    assert told in " ".join(ran.out.split())
    assert told in (repository / "benches" / "page.html").read_text()


@pytest.mark.slow
def test_workers_of_a_side_are_spawned_where_those_of_the_other_cannot_be_forked(
    torchstone: Command, write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("bench_ab.py", BENCHMARKS)
    write(
        "threads/sitecustomize.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()\n",
    )
    started: list[str] = []
    make_job = Side.job

    def job(side: Side, *given: Any, **named: Any) -> MeasureJob:  # noqa: ANN401  (whatever it is given)
        started.append(side.session.launcher.start)
        return make_job(side, *given, **named)

    monkeypatch.setattr(Side, "job", job)
    ran = torchstone("ab", "bench_ab.py::waits", "--b", f"env:PYTHONPATH={tmp_path / 'threads'}", *QUICK)
    assert ran.code == 0, ran.err
    assert "workers are spawned instead of forked, which takes longer" in ran.err
    assert "loading torch for A again, because workers of the other side cannot be forked" in ran.err
    assert set(started) == {"spawn"}


@pytest.mark.slow
def test_the_worktree_of_a_comparison_that_is_killed_goes_with_the_next_start(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, scratch = uuid.uuid4().hex, tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    arguments = ("ab", "bench_it.py", "--b", "rev=HEAD~1", "--min-trials", "1000", *QUICK)
    with start_torchstone(repository / "benches", *arguments, mark=mark) as process:
        wait_until(lambda: len(git(repository, "worktree", "list").splitlines()) == 2, "the worktree")
        # git locks a worktree while it fills it.
        wait_until(lambda: not list(repository.glob(".git/worktrees/*/locked")), "the files of the worktree")
        process.kill()
        process.communicate()
    expect_no_process(mark)
    assert len(list((repository / ".git" / "worktrees").iterdir())) == 1
    with start_torchstone(repository / "benches", "ab", "bench_it.py", "--b", "python=/nowhere") as process:
        process.communicate()
    assert process.returncode == 2
    assert not list(scratch.iterdir())
    assert not (repository / ".git" / "worktrees").exists()


@pytest.mark.slow
def test_ctrl_c_again_and_again_leaves_no_worktree(repository: Path) -> None:
    mark = uuid.uuid4().hex
    arguments = ("ab", "bench_it.py", "--b", "rev=HEAD~1", "--min-trials", "1000", *QUICK)
    with start_torchstone(repository / "benches", *arguments, mark=mark) as process:
        wait_until(lambda: len(git(repository, "worktree", "list").splitlines()) == 2, "the worktree")
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
    assert process.returncode == 130
    expect_no_process(mark)


@pytest.mark.slow
def test_a_benchmark_that_is_gone_is_no_success(torchstone: Command, repository: Path) -> None:
    (repository / "benches" / "bench_it.py").write_text(
        OF_THE_PACKAGE.replace("packaged", "another") + OF_THE_PACKAGE
    )
    git(repository, "commit", "--quiet", "-am", "one more")
    sides = ("--a", "rev=HEAD", "--b", "rev=HEAD~1")
    ran = torchstone("ab", "bench_it.py", *sides, *QUICK)
    assert ran.code == 1, ran.out
    assert "policy strict blocks 1 case that only one side has" in ran.out + ran.err


@pytest.mark.slow
def test_code_that_is_not_imported_from_the_revision_is_an_error_and_no_comparison_with_itself(
    torchstone: Command, repository: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "bench_outside.py"
    outside.write_text(f"import sys\nsys.path.insert(0, {str(repository / 'src')!r})\n{OF_THE_PACKAGE}")
    ran = torchstone("ab", str(outside), "--b", "rev=HEAD~1", *QUICK)
    assert ran.code == 2
    assert f"B should use the revision HEAD~1, but imports mypackage ({repository}/src/mypackage" in ran.err


@pytest.mark.slow
def test_a_benchmark_file_that_no_revision_has_measures_both_and_the_files_say_where_it_came_from(
    torchstone: Command, repository: Path
) -> None:
    (repository / "benches" / "bench_new.py").write_text(OF_THE_PACKAGE)
    sides = ("--a", "rev=HEAD~1", "--b", "rev=HEAD")
    ran = torchstone("ab", "bench_new.py", *sides, *QUICK, *FILES, "-o", "page.html")
    assert ran.code == 1, ran.err
    assert "1 regression" in ran.out
    assert "A (rev=HEAD~1) uses benches/bench_new.py from the working tree" in ran.err
    assert (
        "B (rev=HEAD) uses benches/bench_new.py from the working tree"
        in (repository / "benches" / "page.html").read_text()
    )
    for side in "ab":
        run = read_run(repository / "benches" / f"{side}.jsonl").run
        assert run.settings.pairing is not None
        assert run.settings.pairing.benchmarks == {"benches/bench_new.py": "the working tree"}
        assert run.revision.dirty is False
    assert git(repository, "status", "--porcelain", "--", "bench_new.py", "src") == ""


@pytest.mark.slow
def test_a_benchmark_file_that_only_a_revision_has_measures_the_working_tree_too(
    torchstone: Command, repository: Path
) -> None:
    git(repository, "mv", "benches/bench_it.py", "benches/bench_other.py")
    ran = torchstone("ab", "bench_it.py", "--a", "rev=HEAD~1", *QUICK, *FILES)
    assert ran.code == 1, ran.err
    assert "1 regression" in ran.out
    assert "B (working tree) uses benches/bench_it.py from A (rev=HEAD~1)" in ran.err
    assert not (repository / "benches" / "bench_it.py").exists()


def test_a_benchmark_file_that_nobody_has_is_refused(torchstone: Command, repository: Path) -> None:
    assert repository.is_dir()
    ran = torchstone("ab", "bench_none.py", "--a", "rev=HEAD~1", "--b", "rev=HEAD", *QUICK)
    assert ran.code == 2
    assert "bench_none.py: no such file, neither in the working tree nor in HEAD~1 or HEAD" in ran.err


@pytest.mark.slow
def test_another_interpreter_measures_its_own_side(
    torchstone: Command, write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "TORCHSTONE_CACHE", str(tmp_path / "cache")
    )  # what the other one compiles is of no use later
    write("bench_ab.py", BENCHMARKS)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    (packages,) = (tmp_path / "other").glob("lib/python*/site-packages")
    bare = torchstone("ab", "bench_ab.py::steps", "--b", f"python={tmp_path / 'other'}", *QUICK)
    assert bare.code == 2
    assert "torch is not installed" in bare.err
    for name in os.listdir(site.getsitepackages()[0]):
        if not name.startswith(("msgspec", "click", "rich", "_editable", "__")):
            (packages / name).symlink_to(Path(site.getsitepackages()[0]) / name)
    ran = torchstone(
        "ab", "bench_ab.py::waits", "--b", "python=other", "--b", "env:STEPS=400", *QUICK, *FILES
    )
    assert ran.code == 1
    assert "1 regression" in ran.out
    assert read_run(tmp_path / "b.jsonl").run.outcomes[0].status == "pass"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["bench_ab.py", "--b", "speed=9"], "--b speed=9: expected one of rev="),
        (["bench_ab.py", "--b", "EXTRA=9"], "did you mean --b env:EXTRA=9?"),
        (["bench_ab.py", "--b", "env:OMP_NUM_THREADS=1"], "--threads sets the number of threads"),
        (["bench_ab.py", "--b", "python=/nowhere"], "no such interpreter"),
        (["bench_ab.py", "--b", "rev=HEAD"], "not in a git repository"),
        (["bench_ab.py", "--backend", "eager", "--b", "backend=inductor"], "--backend applies to both sides"),
        (["bench_ab.py", "--option", "x=1", "--b", "mode=default"], "--option applies to both sides"),
        (["bench_ab.py", "--metric", "compile", "--backend", "none"], "compiles nothing"),
        (["bench_ab.py", "--b", "backend=eager", "--b", "mode=max-autotune"], "the backend eager ignores it"),
        (
            ["bench_ab.py", "--backend", "none", "--a", "option:x=1"],
            "--a option:x: the backend none ignores it",
        ),
        (
            ["bench_ab.py", "--backend", "inductor", "--backend", "aot_eager", "--b", "mode=default"],
            "the backend aot_eager ignores it",
        ),
        (["bench_ab.py", "--margin", "0"], "expected a share"),
        (["bench_ab.py", "--seed", "x"], "--seed x: expected a whole number"),
        (["bench_ab.py", "--output-a", "bench_ab.py"], "already exists"),
        (["bench_ab.py", "--output-a", "x.jsonl", "--output-b", "x.jsonl"], "both name x.jsonl"),
        (["bench_ab.py", "--output-b", "x.jsonl", "-o", "./x.jsonl"], "--output-b and --output both name"),
        (["nothing.py"], "no such file"),
        ([], "no targets given"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_started(
    torchstone: Command,
    write: WriteFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    write("bench_ab.py", BENCHMARKS)
    ran = torchstone("ab", *(arguments or ["--alpha", "1%"]))
    assert ran.code == 2
    assert problem in ran.err
    assert "loading torch" not in ran.err


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_says_what_is_undecided(write: WriteFile, tmp_path: Path) -> None:
    write("bench_ab.py", BENCHMARKS)
    mark = uuid.uuid4().hex
    arguments = (
        "ab",
        "bench_ab.py",
        "-k",
        "steps",
        "--device",
        "cpu",
        "--backend",
        "none",
        "--min-trials",
        "1000",
    )
    with start_torchstone(tmp_path, *arguments, *FILES, mark=mark) as process:
        wait_until((tmp_path / "b.jsonl").exists, "the first pair")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(8)  # some pairs
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped: 1 case of 1 undecided (steps inference)" in err
    expect_no_process(mark)
    run = read_run(tmp_path / "a.jsonl").run
    assert not run.finished
    assert count_outcomes(tmp_path / "a.jsonl") == count_outcomes(tmp_path / "b.jsonl") == 1
    assert run.outcomes[0].measurements[0].trials


@pytest.mark.slow
def test_compile_times_are_compared_by_workers_that_compile_from_nothing(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_ab.py", BENCHMARKS)
    ran = torchstone(
        *("ab", "bench_ab.py::steps", "--metric", "compile", "--backend", "aot_eager", "--device", "cpu"),
        *("--b", "env:STEPS=400", "--margin", "30%", "--budget", "10m", *FILES),
    )
    assert ran.code == 1
    measured = read_run(tmp_path / "b.jsonl").run.outcomes[0].measurements[0]
    assert measured.metric == "compile_seconds"
    assert len(measured.trials) == len(measured.samples) >= 8


@pytest.mark.slow
def test_backends_are_compared_as_one_case_that_leaves_the_backend_open(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_ab.py", BENCHMARKS)
    ran = torchstone(
        *("ab", "bench_ab.py::steps", "--a", "backend=inductor", "--b", "backend=eager", "--device", "cpu"),
        *("--margin", "50%", "--budget", "10m", *FILES),
    )
    assert ran.code == 1
    run = read_run(tmp_path / "a.jsonl").run
    assert run.plan[0].variant.backend == ""
    again = torchstone(*shlex.split(run.outcomes[0].repro)[1:])
    assert (again.code, "1 regression" in again.out) == (1, True)


@pytest.mark.slow
def test_a_file_that_hangs_when_it_is_imported_ends_with_the_budget(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_ab.py", "import time\ntime.sleep(6000)\n")
    ran = torchstone("ab", "bench_ab.py", "--device", "cpu", "--budget", "15s", *FILES)
    assert ran.code == 3
    assert "inconclusive: the --budget of 15 s was spent while " in ran.err
    assert "nothing was measured" in ran.err
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.slow
def test_a_terminal_shows_intervals_while_they_close_in(write: WriteFile, tmp_path: Path) -> None:
    write("bench_ab.py", BENCHMARKS)
    arguments = (
        "ab",
        "bench_ab.py",
        "-k",
        "steps",
        "--device",
        "cpu",
        "--backend",
        "none",
        "--margin",
        "50%",
        "--budget",
        "10m",
    )
    terminal = start_on_terminal(tmp_path, *arguments)
    terminal.expect(r"0/1 decided", timeout=120)
    terminal.expect(r"a pair takes .*at\s+least\s+10\s+pairs", timeout=60)
    terminal.expect(r"steps inference not yet known \(\d of at least 10 pairs\)", timeout=60)
    terminal.expect(pexpect.EOF, timeout=120)


def test_an_interval_is_drawn_with_the_margin_around_no_change() -> None:
    assert draw_interval(Effect(1.0, 0.98, 1.02), 0.02, 17) == "[      |-o-|      ]"
    assert draw_interval(None, 0.02, 17) == "[      |   |      ]"
    assert draw_interval(Effect(1.0, 0.0, float("inf")), 0.02, 17) == "[------|-o-|------]"
    assert effect_text(Effect(1.05, 0.0, float("inf")), 12, 10) == "not yet known (12 pairs)"
    assert effect_text(Effect(1.05, 1.01, float("inf"))) == "+5.0% (above +1.0%)"
    assert effect_text(Effect(0.95, 0.0, 0.99)) == "-5.0% (below -1.0%)"
    assert effect_text(None) == "-"


def test_the_headline_counts_what_changed_in_the_plural() -> None:
    case = Case("steps", "performance")
    contests = []
    for number, verdict in enumerate(["same", "regression", "improvement", "regression", "same"]):
        contests.append(Contest(case, (case, case), number, AbSettings()))
        contests[-1].ruling = Ruling(Verdict(verdict))
    assert headline_of(contests) == "2 regressions, 1 improvement, 2 same"


REPORTS = ("--report", "json=ab.json", "--report", "junit=ab.xml", "--report", "markdown=ab.md")


@pytest.mark.slow
def test_a_regression_is_in_every_report_and_a_quarantine_entry_takes_it_out_of_the_exit_code(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("bench_ab.py", BENCHMARKS)
    slower = ("ab", "bench_ab.py::waits", "--b", "env:STEPS=400", *QUICK)
    ran = torchstone(*slower, *FILES, *REPORTS, "--report", "github=ab.txt", "--report", "html=ab.html")
    assert ran.code == 1
    told = json.loads((tmp_path / "ab.json").read_text())
    (row,) = told["rows"]
    assert told["exit_code"] == 1
    assert (row["verdict"], row["blocks"], row["method"]) == ("regression", True, "paired")
    assert 1 < row["low"] < row["ratio"] < row["high"]
    assert row["new_place"] == "b.jsonl"
    assert row["reproduce"].startswith("torchstone ab bench_ab.py::waits")
    suite = JUnitXml.fromfile(str(tmp_path / "ab.xml"))
    assert (suite.tests, suite.failures) == (1, 1)
    assert "**regression**" in (tmp_path / "ab.md").read_text()
    assert (tmp_path / "ab.txt").read_text().startswith("::error title=torchstone::FAIL: 1 regression")
    assert "FAIL: 1 regression of 1 row" in (tmp_path / "ab.html").read_text()
    # The same two files say the same to compare, at the same level of significance.
    again = torchstone("compare", "a.jsonl", "b.jsonl", "--alpha", "0.25%", "--format", "json")
    (same,) = json.loads(again.out)["rows"]
    assert [same[key] for key in ("verdict", "ratio", "low", "high", "p_value")] == [
        row[key] for key in ("verdict", "ratio", "low", "high", "p_value")
    ]
    write("quarantine.toml", '[[quarantine]]\ncase = "waits"\nreason = "waits too long"\n')
    covered = torchstone(*slower, "--format", "json")
    assert covered.code == 0
    (row,) = json.loads(covered.out)["rows"]
    assert (row["verdict"], row["quarantine"]["reason"]) == ("quarantined", "waits too long")
    assert "regression" in covered.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--report", "pdf=x.pdf"], "--report pdf=x.pdf"),
        (["--block", "inconclusive", "--allow", "inconclusive"], "block and allow both name inconclusive"),
        (["--quarantine", "absent.toml"], "absent.toml"),
        (["--report", "json=x", "-o", "x"], "both name x"),
        (["--as-of", "tomorrow"], "--as-of tomorrow"),
    ],
)
def test_what_to_block_and_to_report_is_refused_before_anything_is_started(
    torchstone: Command, write: WriteFile, arguments: list[str], said: str
) -> None:
    write("bench_ab.py", BENCHMARKS)
    refused = torchstone("ab", "bench_ab.py::waits", *arguments)
    assert refused.code == 2
    assert said in refused.err
