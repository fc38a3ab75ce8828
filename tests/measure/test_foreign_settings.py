"""A run file may come from anywhere: what it says about how to measure is checked before anything acts on it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from conftest import Command
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Outcome, Revision, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import environment_from, settings_from
from torchstone.core.vocabulary import COUNTERS, SCENARIOS
from torchstone.define.benchmarks import SIZES
from torchstone.measure.measuring import Settings, settings_of_run
from torchstone.measure.runner import find_edited_files
from torchstone.measure.targets import hash_file

WRONG: list[Any] = [
    None, True, -1, 0, 1, 5, 65_537, 2**62, -(2**63), 10**30, -0.5, 0.5, 1e300, "", "x", "\0", "/dev/zero", "é" * 5000,
    [], [-1], [0, 0], [10**9, 1], ["x"], [[]], {}, {"": {}}, {"bench_a": 5}, {"bench_a": {"kind": "file"}}, {"a": {"b": ["c"]}},
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of two cases, of which one has ended."""
    source = tmp_path / "bench_a.py"
    source.write_text("")
    plan = tuple(
        Case(name, "performance", "bench_a", Variant("cpu", "none", "inference", "float32"))
        for name in ("one", "two")
    )
    settings = Settings(
        {"bench_a": BenchmarkSource("file", "bench_a", str(source), hash_file(str(source)))},
        str(tmp_path),
        jobs=1,
    )
    environment = {"versions": {"torch": "2.13.0"}, "device": "cpu", "threads": 1, "variables": {}}
    return Run(
        "id",
        plan,
        (Outcome(plan[0], "pass"),),
        Revision(),
        environment_from(environment),
        settings,
        finished=False,
    )


def text_with(run: Run, part: str, field: str, value: object) -> str:
    """The run's file with one field changed."""
    head, *rest = encode_run(run).splitlines(keepends=True)
    changed = json.loads(head)
    changed[part][field] = value
    return json.dumps(changed) + "\n" + "".join(rest)


def is_sane(settings: Settings) -> bool:
    """Whether nothing in them makes a run start thousands of processes, or none, or wait for a negative time."""
    few = (settings.jobs, settings.threads, settings.compile_threads, settings.rank_threads, *settings.ranks)
    counts = (settings.trials, settings.repeat, settings.warm_up, settings.memory_limit)
    amounts = (settings.timeout, settings.budget, settings.collective_timeout, *settings.buckets)
    return (
        all(each is None or 1 <= each <= 65_536 for each in (*few, *(settings.layout or ())))
        and all(each is None or each >= 1 for each in counts)
        and all(each is None or each > 0 for each in amounts)
        and (settings.precision is None or 0 < settings.precision < 1)
        and settings.start in {"auto", "fork", "spawn"}
        and settings.cache in {"cold", "warm"}
        and settings.size in SIZES
        and settings.counter in {"", *COUNTERS}
        and set(settings.scenarios) <= set(SCENARIOS)
    )


@pytest.mark.parametrize("field", Settings.__struct_fields__)
def test_a_setting_of_any_other_kind_is_refused_or_harmless(run: Run, field: str) -> None:
    errors = []
    for value in WRONG:
        try:
            decoded = decode_run("bad.jsonl", text_with(run, "settings", field, value)).run
            settings = settings_of_run(decoded, "bad.jsonl")
        except InputError as error:
            errors.append(error)
        else:
            assert is_sane(settings), value
    assert len(errors) > len(WRONG) / 2
    for each in errors:
        assert (each.path, each.line) == ("bad.jsonl", 1)
        assert str(each.column).startswith("settings")


@pytest.mark.parametrize(
    "field", ["versions", "variables", "machine", "software", "accelerators", "device", "threads"]
)
def test_a_fact_of_the_environment_of_another_kind_is_refused_or_harmless(
    torchstone: Command, tmp_path: Path, run: Run, field: str
) -> None:
    (tmp_path / "good.jsonl").write_text(encode_run(run))
    refused = 0
    for value in WRONG:
        (tmp_path / "bad.jsonl").write_text(text_with(run, "environment", field, value))
        code, _, err = torchstone("compare", "good.jsonl", "bad.jsonl")
        refused += code == 2
        assert code != 2 or f"bad.jsonl:1: column environment.{field}" in err
    assert refused > len(WRONG) / 3


REFUSED = [
    ("settings", "trials", -1, "column settings.trials: expected `int` >= 1"),
    ("settings", "jobs", -1, "column settings.jobs: expected `int` >= 1"),
    ("settings", "jobs", 10**6, "column settings.jobs: expected `int` <= 65536"),
    ("settings", "start", "thread", "column settings.start: expected auto, fork or spawn\n"),
    ("settings", "cache", "hot", "column settings.cache: expected cold or warm\n"),
    (
        "settings",
        "counter",
        "abacus",
        "column settings.counter: expected hardware, simulated, python or cpu_time\n",
    ),
    (
        "settings",
        "scenarios",
        ["hot"],
        "column settings.scenarios[0]: expected cold, warm, portable or precompile\n",
    ),
    ("environment", "versions", 5, "column environment.versions: expected `object`, got `int`"),
]


@pytest.mark.parametrize(("part", "field", "value", "told"), REFUSED)
def test_every_command_that_reads_it_says_where_and_what_was_expected(
    torchstone: Command, tmp_path: Path, run: Run, part: str, field: str, value: object, told: str
) -> None:
    (tmp_path / "bad.jsonl").write_text(text_with(run, part, field, value))
    for command in (
        ("run", "--resume", "bad.jsonl"),
        ("repro", "bad.jsonl", "one"),
        ("check", "bad.jsonl", "--baseline", "bad.jsonl"),
        ("report", "bad.jsonl", "-o", "page.html"),
        ("compare", "bad.jsonl", "bad.jsonl"),
    ):
        code, _, err = torchstone(*command)
        assert code == 2
        assert f"bad.jsonl:1: {told}" in err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("axis", "command"),
    [("batch_size", ("run", "--resume", "bad.jsonl")), ("backend", ("repro", "bad.jsonl", "mlp"))],
)
def test_a_plan_that_lacks_an_axis_which_its_benchmark_needs_is_refused(
    torchstone: Command, tmp_path: Path, axis: str, command: tuple[str, ...]
) -> None:
    pytest.importorskip("torch")
    settings = Settings({"smoke": BenchmarkSource("suite", "smoke")}, start="spawn")
    whole = Variant("cpu", "eager", "inference", "float32", batch_size=64)
    lacking = structs.replace(whole, **{axis: None if axis == "batch_size" else ""})
    run = Run(
        "id",
        (Case("mlp", "performance", "smoke", lacking),),
        (),
        settings=settings,
        finished=False,
    )
    text = encode_run(run)
    (tmp_path / "bad.jsonl").write_text(text)
    code, out, err = torchstone(*command)
    assert (code, out) == (2, "")
    assert "bad.jsonl:1: column plan: smoke::mlp[" in err
    assert f"the plan lacks {axis}, which mlp needs" in err
    assert (tmp_path / "bad.jsonl").read_text() == text


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({}, "strategy=None, expected one of none, ddp, fsdp"),
        ({"strategy": "x"}, "strategy=x, expected one of none, ddp, fsdp"),
        ({"strategy": "ddp", "ranks": "1000000000"}, "expected a number from 1 to 65536"),
        ({"strategy": "ddp", "ranks": "0"}, "expected a number from 1 to 65536"),
        ({"strategy": "ddp", "bucket_mb": "x"}, "expected a number above 0"),
        ({"strategy": "ddp", "ranks": "2", "bucket_mb": "25"}, ""),
        ({"strategy": "none", "bucket_mb": "0.5"}, ""),
    ],
)
def test_a_round_that_cannot_be_meant_is_refused(run: Run, axes: dict[str, str], told: str) -> None:
    variant = Variant("cpu", "none", "training", "float32", further=tuple(sorted(axes.items())))
    scaled = structs.replace(run, plan=(*run.plan, Case("one", "scaling", "bench_a", variant)))
    if not told:
        assert settings_of_run(scaled, "bad.jsonl").sources
        return
    with pytest.raises(InputError, match=told) as caught:
        settings_of_run(scaled, "bad.jsonl")
    assert caught.value.place == "bad.jsonl:1: column plan"


@pytest.mark.parametrize("kind", ["/dev/zero", "fifo.py", "folder.py", "huge.py", "gone.py", "\0"])
def test_a_source_that_is_no_regular_file_is_never_read(
    torchstone: Command, tmp_path: Path, run: Run, kind: str
) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "folder.py").mkdir()
    with (tmp_path / "huge.py").open("wb") as huge:
        huge.truncate(10**12)
    place = kind if kind.startswith(("/", "\0")) else str(tmp_path / kind)
    source = {"bench_a": {"kind": "file", "name": "bench_a", "path": place, "hash": "0123"}}
    (tmp_path / "bad.jsonl").write_text(text_with(run, "settings", "sources", source))
    for command in (("run", "--resume", "bad.jsonl"), ("repro", "bad.jsonl", "one")):
        code, _, err = torchstone(*command)
        assert code == 2
        assert "bad.jsonl:1: column settings.sources.bench_a: the suite bench_a: " in err
    assert hash_file(place) == ""


@pytest.mark.parametrize(("field", "value"), [("imports", ["a\0b"]), ("imported", {"/a\0b": "x"})])
def test_a_module_whose_name_holds_nul_is_refused(
    torchstone: Command, tmp_path: Path, run: Run, field: str, value: object
) -> None:
    (tmp_path / "bad.jsonl").write_text(text_with(run, "settings", field, value))
    for command in (("run", "--resume", "bad.jsonl"), ("repro", "bad.jsonl", "one")):
        code, _, err = torchstone(*command)
        assert code == 2
        assert f"bad.jsonl:1: column settings.{field}: NUL in the name of a module" in err


def test_a_suite_of_ours_with_a_hash_but_no_path_is_no_edited_file(
    torchstone: Command, tmp_path: Path, run: Run
) -> None:
    suite = {"kind": "suite", "name": "smoke", "hash": "x"}
    settings = {"sources": {"bench_a": suite}, "imports": ["this"]}  # which is asked about next
    foreign = structs.replace(run, settings=settings_from(settings))
    assert find_edited_files(foreign) == []
    (tmp_path / "bad.jsonl").write_text(encode_run(foreign))
    code, _, err = torchstone("run", "--resume", "bad.jsonl")
    assert code == 2
    assert "the module this (" in err


def test_a_run_is_not_finished_with_a_module_that_was_edited_since(
    torchstone: Command, tmp_path: Path, run: Run
) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("WIDTH = 2\n")
    recorded = structs.replace(run.settings, imported={str(helper): hash_file(str(helper))})
    (tmp_path / "run.jsonl").write_text(encode_run(structs.replace(run, settings=recorded)))
    helper.write_text("WIDTH = 3\n")
    for trust in ((), ("--trust",)):
        code, _, err = torchstone("run", "--resume", "run.jsonl", *trust)
        assert code == 2
        assert (
            f"the run was started with other code or in another environment: {helper} has changed since the run"
            in err
        )


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/full"])
def test_a_device_is_no_file_of_any_kind(torchstone: Command, tmp_path: Path, place: str, run: Run) -> None:
    (tmp_path / "r.jsonl").write_text(encode_run(run))
    for command in (
        ("check", place, "--baseline", "r.jsonl"),
        ("check", "r.jsonl", "--baseline", place),
        ("check", "r.jsonl", "--baseline", "r.jsonl", "--config", place),
        ("compare", "r.jsonl", place),
        ("report", place, "-o", "page.html"),
        ("repro", place, "one"),
        ("quarantine", "list", "--file", place),
    ):
        code, _, err = torchstone(*command)
        assert code == 2
        assert f"{place}: this is a device, expected a file" in err, command
    code, _, err = torchstone("run", "--resume", place)
    assert code == 2
    assert f"{place}: a device, expected a regular file" in err


def test_a_pipe_that_a_person_names_is_read_and_one_in_place_of_a_run_to_resume_is_not(
    torchstone: Command, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "r.jsonl").write_text(encode_run(run))
    read, write = os.pipe()
    os.write(write, encode_run(run).encode())
    os.close(write)
    assert torchstone("check", f"/dev/fd/{read}", "--baseline", "r.jsonl").code in {0, 1}
    os.close(read)
    os.mkfifo(tmp_path / "pipe.jsonl")
    code, _, err = torchstone("run", "--resume", "pipe.jsonl")
    assert code == 2
    assert "pipe.jsonl: a pipe, expected a regular file" in err


def test_a_number_that_no_run_file_may_hold_is_refused_on_the_command_line(
    torchstone: Command, tmp_path: Path
) -> None:
    (tmp_path / "bench_a.py").write_text("")
    for option in ("--jobs", "--threads"):
        code, _, err = torchstone("run", "bench_a.py", option, "65537")
        assert code == 2
        assert f"{option}: expected `int` <= 65536" in err
