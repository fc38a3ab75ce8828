"""The probe compile_cache with real workers: what is cold is cold, what is warm is served, and what goes wrong is told with its scenario."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from conftest import Command
from live_processes import (
    PATIENCE,
    Bench,
    Onlooker,
    count_outcomes,
    expect_no_process,
    read_run,
    run_torchstone,
    start_torchstone,
    wait_until,
)
from stated_facts import facts_of
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.measure.measuring import Settings, case_file
from torchstone.measure.supervisor import WorkerLimits
from torchstone.measure.targets import hash_file
from torchstone.worker.worker_environment import template_folder

# Its worker notes what is in the cache before it compiles, and (when torch says that it has compiled) after it.
NOTED = """
import json, os, shutil, time
import torch, torchstone
from torch import nn

def look(when):
    folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    files = {
        os.path.relpath(os.path.join(base, name), folder): os.stat(os.path.join(base, name)).st_mtime
        for base, _, names in os.walk(folder) for name in names
    }
    with open("notes", "a") as file:
        json.dump({"when": when, "at": time.time(), "cache": folder, "tmp": os.environ["TMPDIR"], "files": files}, file)
        file.write("\\n")
    if when == "after" and not os.path.exists("kept"):
        shutil.copytree(folder, "kept")

class Noted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)

@torchstone.benchmark
def noted():
    look("before")
    handler = torch._dynamo.callback.callback_handler
    handler.register_end_callback(lambda *_: look("after"))
    handler.clear = lambda: None  # which the worker's reset of dynamo calls
    return Noted(), (torch.ones(4, 8),)
"""
OPTIONS = ("--probe", "compile_cache", "--device", "cpu", "--threads", "1", "--jobs", "1")
PHASES = ("dynamo", "guards", "aot_autograd", "inductor", "codegen", "native", "loading")


class Finished(NamedTuple):
    folder: Path
    users: Path
    before: dict[str, tuple[int, float]]
    code: int
    out: str
    err: str

    @property
    def run_file(self) -> Path:
        return self.folder / "base.jsonl"

    @property
    def outcome(self) -> Outcome:
        (outcome,) = read_run(self.run_file).run.outcomes
        return outcome

    def notes(self) -> list[dict[str, Any]]:
        """The first look before and the first after each worker's compiling, in order."""
        found = [json.loads(line) for line in (self.folder / "notes").read_text().splitlines()]
        return [
            each
            for each, last in zip(found, [None, *found], strict=False)
            if not last or each["when"] != last["when"]
        ]


def list_tree(folder: Path) -> dict[str, tuple[int, float]]:
    """All that is below a folder: by path, a file's size and when it was changed."""
    return {
        str(path.relative_to(folder)): (0, 0.0)
        if path.is_dir()
        else (path.stat().st_size, path.stat().st_mtime)
        for path in sorted(folder.rglob("*"))
    }


def users_folders(base: Path) -> dict[str, str]:
    """Folders of a user, each with something in it, as the environment names them; torchstone's own template is where it always is."""
    template = os.path.dirname(template_folder())
    variables = {}
    for name in (
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "TMPDIR",
        "HOME",
        "XDG_CACHE_HOME",
        "CUDA_CACHE_PATH",
    ):
        (base / name / "inner").mkdir(parents=True, exist_ok=True)
        (base / name / "inner" / "sentinel").write_text("the user's own")
        variables[name] = str(base / name)
    return variables | {"TORCHSTONE_CACHE": template}


def samples(outcome: Outcome) -> dict[str, Any]:
    return {each.metric: each.samples for each in outcome.measurements}


def said(outcome: Outcome) -> str:
    return outcome.failure.message if outcome.failure else ""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two repeats of all default scenarios through the command line, by a user with caches of their own."""
    folder, users = tmp_path_factory.mktemp("finished"), tmp_path_factory.mktemp("users")
    (folder / "bench_noted.py").write_text(NOTED)
    variables = users_folders(users)
    before = list_tree(users)
    arguments = (
        "run",
        "bench_noted.py",
        *OPTIONS,
        "--repeat",
        "2",
        "--save-artifacts",
        "saved",
        "-o",
        "base.jsonl",
    )
    with start_torchstone(folder, *arguments, env=variables) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return Finished(folder, users, before, process.returncode, out, err)


def test_a_cold_start_finds_nothing_and_two_of_them_share_nothing(finished: Finished) -> None:
    found = samples(finished.outcome)
    assert found["cold_cache_hit"] == (0, 0)
    assert found["cold_hit_rate"] == (0, 0)
    assert all(count > 0 for count in found["cold_cache_miss"])
    notes = finished.notes()
    assert [each["when"] for each in notes] == ["before", "after"] * 6  # cold, warm and portable, twice
    (before, after), (again_before, again_after) = notes[0:2], notes[6:8]
    assert before["cache"] == after["cache"]
    assert again_before["cache"] == again_after["cache"]
    assert not {before["cache"], before["tmp"]} & {again_before["cache"], again_before["tmp"]}
    made, made_again = (set(late["files"]) - set(early["files"]) for early, late in (notes[0:2], notes[6:8]))
    assert len(made) == found["cold_cache_files"][0]
    assert len(made_again) == found["cold_cache_files"][1]
    assert not made & set(again_before["files"])
    assert set(before["files"]) == set(again_before["files"])  # the template, and nothing else
    clock = 0.02  # the file system's is a little behind
    assert all(again_after["files"][path] >= again_before["at"] - clock for path in made_again)
    assert all(after["files"][path] < again_before["at"] for path in made)


def test_a_portable_start_has_folders_of_its_own(finished: Finished) -> None:
    cold, warm, portable = (finished.notes()[place] for place in (0, 2, 4))
    assert warm["cache"] == cold["cache"]
    assert set(finished.notes()[1]["files"]) <= set(warm["files"])
    assert portable["cache"] != cold["cache"]
    assert set(portable["files"]) == set(cold["files"])


def test_nothing_of_the_users_is_touched_and_no_temporary_folder_is_left(finished: Finished) -> None:
    assert list_tree(finished.users) == finished.before
    for note in finished.notes():
        assert note["cache"].startswith(str(finished.users / "TMPDIR" / "torchstone-"))
        assert not os.path.exists(note["cache"])


def test_every_graph_of_a_warm_and_of_a_portable_start_is_a_hit(finished: Finished) -> None:
    outcome = finished.outcome
    assert (outcome.status, outcome.failure) == ("pass", None)
    found = samples(outcome)
    for scenario in ("warm", "portable"):
        assert found[f"{scenario}_hit_rate"] == (100, 100)
        assert found[f"{scenario}_cache_hit"] == found["cold_cache_miss"]
        assert found[f"{scenario}_cache_miss"] == found[f"{scenario}_cache_bypass"] == (0, 0)
    assert facts_of(outcome)["scenarios"] == {
        each: {"status": "pass"} for each in ("cold", "warm", "portable")
    }
    reasons = facts_of(outcome).get("not_warm", [])
    assert [each for each in reasons if each["cache"] != "native"] == []
    assert [each for each in reasons if each["scenario"] == "warm"] == []


def test_savings_are_those_of_the_compile_seconds(finished: Finished) -> None:
    found = samples(finished.outcome)
    for scenario in ("warm", "portable"):
        share = sum(found[f"{scenario}_compile_seconds"]) / sum(found["cold_compile_seconds"])
        assert found[f"{scenario}_saved"] == pytest.approx(((1 - share) * 100,))
    assert len(found["cold_compile_seconds"]) == 2


def test_phases_add_up_to_the_compile_time(finished: Finished) -> None:
    found = samples(finished.outcome)
    for scenario in ("cold", "warm", "portable"):
        for repeat in (0, 1):
            whole = found[f"{scenario}_compile_seconds"][repeat]
            parts = sum(found[f"{scenario}_{phase}_seconds"][repeat] for phase in PHASES)
            assert 0.3 * whole <= parts <= 1.05 * whole, scenario
            assert whole <= found[f"{scenario}_first_result_seconds"][repeat] + 0.5 * whole
    assert max(found["warm_codegen_seconds"]) == max(found["warm_inductor_seconds"]) == 0
    assert min(found["cold_codegen_seconds"]) > 0


def test_artifacts_are_kept_where_the_user_says(finished: Finished) -> None:
    path = Path(case_file(str(finished.folder / "saved"), finished.outcome.case, "artifacts"))
    assert [path] == list((finished.folder / "saved").iterdir())
    assert path.stat().st_size == facts_of(finished.outcome)["artifacts"]["portable"]["bytes"]


def test_a_users_cache_that_has_it_all_is_not_read(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "bench_noted.py").write_text(NOTED)
    variables = users_folders(tmp_path / "users")
    users = Path(variables["TORCHINDUCTOR_CACHE_DIR"])
    shutil.copytree(finished.folder / "kept", users, dirs_exist_ok=True)
    assert [*users.rglob("aotautograd/*")]
    before = list_tree(tmp_path / "users")
    arguments = ("run", "bench_noted.py", *OPTIONS, "--scenario", "cold", "-o", "run.jsonl")
    with start_torchstone(tmp_path, *arguments, env=variables) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    assert samples(outcome)["cold_cache_hit"] == (0,)
    assert samples(outcome)["cold_cache_miss"] == samples(finished.outcome)["cold_cache_miss"][:1]
    assert facts_of(outcome)["scenarios"] == {"cold": {"status": "pass"}}
    assert list_tree(tmp_path / "users") == before


# Gates


def worsen(path: Path, target: Path, factors: Mapping[str, float]) -> str:
    """The same run as of a quiet machine, with some of its numbers multiplied."""
    run = read_run(path).run

    def changed(each: Measurement) -> Measurement:
        factor = factors.get(each.metric)
        return (
            structs.replace(each, samples=tuple(value * factor for value in each.samples)) if factor else each
        )

    outcomes = tuple(
        structs.replace(outcome, measurements=tuple(map(changed, outcome.measurements)), cautions=())
        for outcome in run.outcomes
    )
    target.write_text(encode_run(structs.replace(run, outcomes=outcomes)))
    return str(target)


def verdicts(torchstone: Command, *arguments: str) -> tuple[int, dict[str, str]]:
    ran = torchstone("check", *arguments, "--format", "json")
    return ran.code, {row["metric"]: row["verdict"] for row in json.loads(ran.out)["rows"]}


@pytest.mark.parametrize(("metric", "factor"), [("warm_saved", 0.5), ("warm_hit_rate", 0.5)])
def test_check_gates_on_a_run_file(
    finished: Finished, torchstone: Command, tmp_path: Path, metric: str, factor: float
) -> None:
    base = str(finished.run_file)
    code, found = verdicts(torchstone, base, "--baseline", base, "--policy", "lenient")
    assert (code, "regression" in found.values()) == (0, False)
    worse = worsen(finished.run_file, tmp_path / "worse.jsonl", {metric: factor})
    code, found = verdicts(torchstone, worse, "--baseline", base)
    assert code == 1
    assert [name for name, verdict in found.items() if verdict == "regression"] == [metric]


@pytest.mark.parametrize(
    ("metric", "factor", "lenient", "strict"),
    [
        ("warm_saved", 0.9, "ratio_floor:0.5", "ratio_floor:0.99"),
        ("warm_compile_seconds", 40.0, "ratio_ceiling:1e6", "ratio_ceiling:1.01"),
        ("warm_hit_rate", 0.8, "floor:70", "floor:90"),
    ],
)
def test_check_gates_by_a_rule(
    finished: Finished,
    torchstone: Command,
    tmp_path: Path,
    metric: str,
    factor: float,
    lenient: str,
    strict: str,
) -> None:
    worse = worsen(finished.run_file, tmp_path / "worse.jsonl", {metric: factor})
    judged = (worse, "--baseline", str(finished.run_file), "--metric", metric, "--rule")
    assert torchstone("check", *judged, f"{metric}={lenient}", "--policy", "lenient").code == 0
    assert torchstone("check", *judged, f"{metric}={strict}").code == 1


# What goes wrong

TROUBLE = """
import os, resource, shutil, time
import torch, torchstone
from torch import nn

def cache():
    return os.environ["TORCHINDUCTOR_CACHE_DIR"]

def is_first(name):
    \"\"\"Whether no worker with this cache folder has come here before.\"\"\"
    path = os.path.join(cache(), name)
    if os.path.exists(path):
        return False
    open(path, "w").close()
    return True

class Scaled(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return torch.relu(x) * self.number

class Shifted(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.register_buffer("number", torch.tensor(float(number)))

    def forward(self, x):
        return torch.relu(x) + self.number

class Failing(Scaled):
    def forward(self, x):
        if self.number:
            raise ValueError("only when warm")
        return torch.relu(x)

@torch.compiler.allow_in_graph
def refused(x):
    return x + 1

@torchstone.benchmark
def another_key():
    return Scaled(1 + os.getpid() * 1e-12), (torch.ones(4),)

@torchstone.benchmark
def another_result():
    return Shifted(os.getpid() % 1000), (torch.ones(4),)  # apart by more than the tolerance

@torchstone.benchmark
def bypassed():
    return lambda x: refused(torch.relu(x)), (torch.ones(4),)

@torchstone.benchmark
def fails_when_warm():
    return Failing(int(not is_first("was_here"))), (torch.ones(4),)

@torchstone.benchmark
def full_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    return torch.relu, (torch.ones(4),)

@torchstone.benchmark
def no_cache_folder():
    shutil.rmtree(cache())
    open(cache(), "w").close()
    return torch.relu, (torch.ones(4),)

@torchstone.benchmark
def in_the_way():
    path = os.path.join(os.path.dirname(os.path.dirname(cache())), "portable")
    if not os.path.exists(path):
        open(path, "w").close()
    return torch.relu, (torch.ones(4),)

@torchstone.benchmark
def plain():
    return torch.relu, (torch.ones(4),)

@torchstone.benchmark
def another():
    return torch.tanh, (torch.ones(4),)

@torchstone.benchmark
def slow_when_warm():
    if not is_first("seen") and not os.path.exists("waited"):
        open("waited", "w").close()
        time.sleep(1000)
    return torch.relu, (torch.ones(4),)
"""
DEFAULT = ("cold", "warm", "portable")


@pytest.fixture
def trouble(tmp_path: Path) -> Path:
    path = tmp_path / "bench_trouble.py"
    path.write_text(TROUBLE)
    return path


def case_of(name: str, backend: str = "inductor") -> Case:
    return Case(name, "compile_cache", "bench_trouble", Variant("cpu", backend, "inference", "float32"))


def measure(
    bench: Bench,
    path: Path,
    name: str,
    scenarios: tuple[str, ...] = DEFAULT,
    *,
    backend: str = "inductor",
    **more: Any,  # noqa: ANN401  (settings differ in type)
) -> Outcome:
    """One benchmark, once."""
    source = BenchmarkSource("file", path.stem, str(path))
    settings = Settings({path.stem: source}, str(path.parent), threads=1, scenarios=scenarios, **more)
    supervisor = bench.session.supervisor(settings, WorkerLimits(PATIENCE), Onlooker())
    (outcome,) = supervisor.execute([case_of(name, backend)])
    assert not any(each.startswith("case-") for each in os.listdir(bench.session.scratch))
    return outcome


@pytest.fixture(scope="module")
def artifacts(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What torch saves of a model."""
    folder = tmp_path_factory.mktemp("artifacts")
    (folder / "bench_trouble.py").write_text(TROUBLE)
    outcome = measure(bench, folder / "bench_trouble.py", "plain", ("cold",), save_artifacts=str(folder))
    assert outcome.status == "pass"
    return Path(case_file(str(folder), case_of("plain"), "artifacts")).read_bytes()


def test_a_bypassed_graph_has_torchs_reason(bench: Bench, trouble: Path) -> None:
    outcome = measure(bench, trouble, "bypassed", ("cold", "warm"))
    assert outcome.status == "pass"
    assert samples(outcome)["warm_cache_bypass"] == (1,)
    assert samples(outcome)["warm_hit_rate"] == (50,)  # what inductor's own cache had
    (reason,) = facts_of(outcome)["not_warm"]
    assert {key: reason[key] for key in ("scenario", "graph", "cache", "state")} == {
        "scenario": "warm",
        "graph": "0/0",
        "cache": "aot_autograd",
        "state": "bypass",
    }
    assert "Unsupported call_function target" in reason["reason"]
    assert "refused" in reason["reason"]
    parts = sum(samples(outcome)[f"warm_{phase}_seconds"][0] for phase in PHASES)
    assert parts <= 1.05 * samples(outcome)["warm_compile_seconds"][0]


def test_a_key_that_changes_between_processes_is_told_with_the_part_that_changed(
    bench: Bench, trouble: Path
) -> None:
    outcome = measure(bench, trouble, "another_key", ("cold", "warm"))
    assert outcome.status == "pass"
    assert samples(outcome)["warm_hit_rate"] == (0,)
    reasons = {each["cache"]: each["reason"] for each in facts_of(outcome)["not_warm"]}
    assert set(reasons) == {"aot_autograd", "fx_graph"}
    was, _, now = reasons["fx_graph"].partition(", is ")
    assert was.startswith("its key is another one: gm was ")
    numbers = [re.findall(r"1\.0000\d+", each) for each in (was, now)]
    assert len(numbers[0]) == len(numbers[1]) == 1
    assert numbers[0] != numbers[1]


def test_a_first_result_that_differs_from_process_to_process_is_wrong(bench: Bench, trouble: Path) -> None:
    outcome = measure(bench, trouble, "another_result", ("cold", "warm"))
    assert outcome.status == "fail_accuracy"
    assert said(outcome).startswith("in the warm scenario: the first result is not that of the cold start")
    assert samples(outcome)["warm_hit_rate"] == (100,)  # wrong, though every graph was served
    assert {"cold_compile_seconds", "warm_compile_seconds"} <= set(samples(outcome))


def test_a_model_that_fails_only_when_warm_keeps_the_other_numbers(bench: Bench, trouble: Path) -> None:
    outcome = measure(bench, trouble, "fails_when_warm")
    assert outcome.status == "fail_to_run"
    assert said(outcome).startswith("in the warm scenario: ")
    assert "only when warm" in said(outcome)
    found = samples(outcome)
    assert {"cold_compile_seconds", "portable_compile_seconds", "portable_saved"} <= set(found)
    assert not {"warm_compile_seconds", "warm_saved"} & set(found)
    statuses = {name: each["status"] for name, each in facts_of(outcome)["scenarios"].items()}
    assert statuses == {"cold": "pass", "warm": "fail_to_run", "portable": "pass"}


def test_a_full_disk_is_told(bench: Bench, trouble: Path) -> None:
    outcome = measure(bench, trouble, "full_disk")
    assert outcome.status == "fail_to_run"
    assert said(outcome).startswith("in the cold scenario: ")
    assert "File too large" in said(outcome)


def test_a_cache_folder_that_cannot_be_used_is_told(bench: Bench, trouble: Path) -> None:
    outcome = measure(bench, trouble, "no_cache_folder")
    assert outcome.status == "fail_to_run"
    assert said(outcome).startswith("in the cold scenario: FileExistsError")


def test_a_cache_folder_that_cannot_be_made_for_a_later_scenario_keeps_the_earlier_numbers(
    bench: Bench, trouble: Path
) -> None:
    outcome = measure(bench, trouble, "in_the_way", backend="eager", load_artifacts=str(trouble.parent))
    assert outcome.status == "fail_to_run"
    assert said(outcome).startswith("in the portable scenario: ")
    assert "cannot create the folder" in said(outcome)
    assert {"cold_compile_seconds", "warm_compile_seconds"} <= set(samples(outcome))
    assert "portable_compile_seconds" not in samples(outcome)


def test_without_a_compiler_there_is_nothing_to_cache(bench: Bench, trouble: Path) -> None:
    outcome = measure(bench, trouble, "plain", backend="none")
    assert outcome.status == "model_fail_to_load"
    assert "the backend 'none' compiles nothing" in said(outcome)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "half", "nearly whole", "changed"])
def test_damaged_artifacts_are_told(
    bench: Bench,
    trouble: Path,
    artifacts: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    monkeypatch.setattr(bench.session, "trusts_artifacts", True)
    whole = artifacts
    contents = {
        "missing": None,
        "empty": b"",
        "garbage": b"\x80\x05garbage" * 999,
        "half": whole[: len(whole) // 2],
        "nearly whole": whole[:-3],
        "changed": whole[: len(whole) // 2] + b"changed" + whole[len(whole) // 2 + 7 :],
    }
    folder = tmp_path / "artifacts"
    folder.mkdir()
    if (content := contents[damage]) is not None:
        Path(case_file(str(folder), case_of("plain", "eager"), "artifacts")).write_bytes(content)
    scenarios = ("cold", "portable")
    outcome = measure(bench, trouble, "plain", scenarios, backend="eager", load_artifacts=str(folder))
    assert outcome.status == "fail_to_run"
    assert said(outcome).startswith(f"in the portable scenario: the artifacts in {folder}")
    assert "cannot be loaded" in said(outcome)
    assert "cold_compile_seconds" in samples(outcome)


def test_a_worker_loads_no_artifacts_that_this_machine_has_not_made(
    bench: Bench, trouble: Path, artifacts: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(case_file(str(tmp_path), case_of("plain"), "artifacts"))
    path.write_bytes(artifacts)
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "another machine"))
    scenarios = ("cold", "portable")
    outcome = measure(bench, trouble, "plain", scenarios, load_artifacts=str(tmp_path))
    assert outcome.status == "fail_to_run"
    assert "not created on this machine; pass --trust to load them" in said(outcome)
    assert "portable_load_seconds" not in samples(outcome)


def test_artifacts_of_another_model_are_told_to_lack_this_one(
    bench: Bench, trouble: Path, artifacts: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    Path(case_file(str(folder), case_of("another"), "artifacts")).write_bytes(artifacts)
    outcome = measure(bench, trouble, "another", ("cold", "portable"), load_artifacts=str(folder))
    assert outcome.status == "pass"
    assert samples(outcome)["portable_hit_rate"] == (0,)
    assert all("not among the artifacts" in each["reason"] for each in facts_of(outcome)["not_warm"])
    assert {each["scenario"] for each in facts_of(outcome)["not_warm"]} == {"portable"}


def test_artifacts_that_cannot_be_kept_are_told(bench: Bench, trouble: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    outcome = measure(bench, trouble, "plain", ("cold",), save_artifacts=str(tmp_path / "file"))
    assert outcome.status == "fail_to_run"
    assert said(outcome).startswith("in the cold scenario: the artifacts cannot be kept in ")
    assert "cold_compile_seconds" in samples(outcome)


# Interrupted, and refused


def test_ctrl_c_between_cold_and_warm_keeps_what_is_finished_and_can_be_gone_on_with(
    trouble: Path, tmp_path: Path
) -> None:
    mark, temporary = uuid.uuid4().hex, tmp_path / "tmp"
    temporary.mkdir()
    arguments = ("run", "bench_trouble.py", *OPTIONS, "--backend", "eager", "--scenario", "cold,warm")
    chosen = ("--only", "plain", "--only", "slow_when_warm", "--repeat", "2", "-o", "run.jsonl")
    env = {"TMPDIR": str(temporary)}
    with start_torchstone(tmp_path, *arguments, *chosen, mark=mark, env=env) as process:
        wait_until((tmp_path / "waited").exists, "no warm start")
        assert count_outcomes(tmp_path / "run.jsonl") == 1
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "stopped: 1 of 2 cases are in run.jsonl" in err
    expect_no_process(mark)
    assert not list(temporary.iterdir())
    resumed = run_torchstone(tmp_path, "run", "--resume", "run.jsonl")
    assert resumed.returncode == 0, resumed.stderr
    run = read_run(tmp_path / "run.jsonl").run
    assert run.finished
    assert [outcome.status for outcome in run.outcomes] == ["pass", "pass"]
    for outcome in run.outcomes:
        assert (
            len(samples(outcome)["cold_compile_seconds"])
            == len(samples(outcome)["warm_compile_seconds"])
            == 2
        )
        assert "portable_compile_seconds" not in samples(outcome)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--scenario", ("warm",)),
        ("--explain", ()),
        ("--save-artifacts", ("there",)),
        ("--load-artifacts", (".",)),
    ],
)
@pytest.mark.parametrize("probe", [(), ("--probe", "performance,accuracy")])
def test_options_of_the_probe_are_refused_without_it(
    trouble: Path, torchstone: Command, option: str, value: tuple[str, ...], probe: tuple[str, ...]
) -> None:
    ran = torchstone("run", str(trouble), *probe, option, *value)
    assert ran.code == 2
    assert f"{option} requires the probe compile_cache" in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scenario", "lukewarm"), "lukewarm"),
        (("--load-artifacts", "not_there"), "--load-artifacts not_there: no such folder"),
        (("--load-artifacts", ".", "--scenario", "warm"), "--load-artifacts requires the scenario portable"),
        (("--batch-invariant",), "--batch-invariant requires the probe accuracy"),
    ],
)
def test_values_that_cannot_be_right_are_refused(
    trouble: Path, torchstone: Command, options: tuple[str, ...], message: str
) -> None:
    ran = torchstone("run", str(trouble), *OPTIONS, *options)
    assert ran.code == 2
    assert message in ran.err


def test_artifacts_that_are_not_there_are_refused_before_anything_is_measured(
    trouble: Path, torchstone: Command, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    present, missing = (
        case_file(str(kept), case_of(name, "eager"), "artifacts") for name in ("plain", "another")
    )
    Path(present).write_bytes(b"artifacts")
    options = (*OPTIONS, "--backend", "eager", "--only", "plain", "--only", "another", "--start", "spawn")
    loading = ("--load-artifacts", "kept", "-o", "run.jsonl")
    ran = torchstone("run", str(trouble), *options, *loading)
    assert (ran.code, ran.out) == (2, "")
    assert f"no compile artifacts to load for 1 of 2 cases: {missing}: no such file" in ran.err
    assert "another[device=cpu" in ran.err
    assert "--save-artifacts" in ran.err
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.parametrize("command", [("run", "--resume", "run.jsonl"), ("repro", "run.jsonl", "plain")])
def test_artifacts_that_are_gone_are_told_before_a_run_file_is_measured_again(
    trouble: Path, torchstone: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    source = BenchmarkSource("file", "bench_trouble", str(trouble), hash_file(str(trouble)))
    settings = Settings(sources={"bench_trouble": source}, load_artifacts=str(tmp_path), repeat=1)
    run = Run("r", (case_of("plain", "eager"),), (), settings=settings, finished=False)
    (tmp_path / "run.jsonl").write_text(encode_run(run))
    ran = torchstone(*command)
    assert (ran.code, ran.out) == (2, "")
    path = case_file(str(tmp_path), case_of("plain", "eager"), "artifacts")
    assert f"no compile artifacts to load for 1 of 1 case: {path}: no such file or directory" in ran.err
    assert "loading torch" not in ran.err


# What takes longer


@pytest.mark.slow
def test_a_case_can_be_measured_again(finished: Finished) -> None:
    again = run_torchstone(finished.folder, "repro", "base.jsonl", "noted")
    assert again.returncode == 0, again.stderr
    then, now = again.stdout.splitlines()[:2]
    assert then.startswith("then: pass")
    assert now.startswith("now:  pass")
    assert "cold" in now


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_one_off_probing_is_paid_before_the_first_cold_start_and_reported_apart(
    start: str, tmp_path: Path
) -> None:
    (tmp_path / "bench_noted.py").write_text(NOTED)
    arguments = (
        "run",
        "bench_noted.py",
        *OPTIONS,
        "--start",
        start,
        "--scenario",
        "cold,warm",
        "-o",
        "run.jsonl",
    )
    env = {"TORCHSTONE_CACHE": str(tmp_path / "template")}
    with start_torchstone(tmp_path, *arguments, env=env) as process:
        _, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, err
    assert "caution" not in err
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    first = json.loads((tmp_path / "notes").read_text().splitlines()[0])
    (template,) = (tmp_path / "template").iterdir()
    headers = list((template / "tmp").rglob("*.gch"))
    assert headers
    assert all(path.stat().st_mtime <= first["at"] for path in headers)
    assert any(name.endswith(".so") for name in first["files"])
    found = samples(outcome)
    assert found["warm_hit_rate"] == (100,)
    assert facts_of(outcome)["probing_seconds"] > 0
    started = {each.metric: each.facts() for each in outcome.measurements}["cold_compile_seconds"]
    assert started == {"start": start, "definition": "torch_timers"}


@pytest.mark.slow
def test_training_and_precompiling(tmp_path: Path) -> None:
    (tmp_path / "bench_noted.py").write_text(NOTED)
    scenarios = ("--scenario", "cold,warm,portable,precompile")
    ran = run_torchstone(
        tmp_path, "run", "bench_noted.py", *OPTIONS, "--mode", "training", *scenarios, "-o", "run.jsonl"
    )
    assert ran.returncode == 0, ran.stderr
    (outcome,) = read_run(tmp_path / "run.jsonl").run.outcomes
    found = samples(outcome)
    for scenario in DEFAULT:
        whole = found[f"{scenario}_compile_seconds"][0]
        parts = sum(found[f"{scenario}_{phase}_seconds"][0] for phase in PHASES)
        assert 0.6 * whole <= parts <= 1.05 * whole, scenario
    assert found["cold_cache_hit"] == (0,)
    assert found["warm_hit_rate"] == found["portable_hit_rate"] == (100,)
    assert facts_of(outcome)["scenarios"]["precompile"]["status"] in {"pass", "not available"}
