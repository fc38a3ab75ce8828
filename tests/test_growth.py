"""Every command takes time in proportion to the number of cases: counted in calls and in elements of sets, at some and at four times as many cases."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profile_samples
from stated_facts import with_facts
from torchstone.cli.main import run as run_command
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.gate import baseline
from torchstone.gate.baseline import Baseline
from torchstone.gate.comparing import compare_files

FEW, MANY = 200, 800
MOST_GROWTH = 5.0
"""Four times the cases may cost at most this many times as much: exactly 4 is linear, 16 is quadratic."""

COMMANDS = {
    **{f"check {style}": f"check NEW --baseline BASE --format {style}" for style in ("text", "json", "junit", "markdown", "github")},
    **{f"compare {style}": f"compare BASE NEW --format {style}" for style in ("text", "json", "junit", "markdown", "github")},
    "compare several files": "compare BASE NEW --base NEW --new BASE",
    "compare less stated": "compare LESS NEW",
    "check less stated": "check NEW --baseline LESS",
    "check quarantined": "check NEW --baseline BASE --quarantine QUARANTINE",
    "check csv": "check CSV --baseline EXPECTED",
    "report": "report NEW --most-rows 50 -o OUT",
    "report gated": "report NEW --baseline BASE --most-rows 50 -o OUT",
    "accept": "accept CSV --baseline EXPECTED --dry-run",
    "accept run": "accept NEW --baseline BASE --dry-run",
    "import": "import CSV -o OUT",
    "export": "export NEW --to v3 --only *::performance --lossy -o OUT",
    "quarantine check": "quarantine check NEW --file QUARANTINE",
    "explain": "explain PROFILED PROFILED",
}  # fmt: skip
SHAPES = {"many benchmarks": 8, "one benchmark": 10**9}
"""How many cases have the same name: a suite in a few variants, and a sweep of one benchmark over batch sizes."""


def cases_of(number: int, alike: int, *, states_backend: bool = True) -> Iterator[Case]:
    for at in range(number):
        name, which = divmod(at, alike)
        variant = Variant(
            device="cpu",
            backend="inductor" if states_backend else "",
            mode=("inference", "training")[which // 2 % 2],
            dtype=("float32", "bfloat16")[which // 4 % 2],
            batch_size=1 + which // 2,
        )
        yield Case(f"model_{name}", ("performance", "accuracy")[which % 2], "timm", variant)


def outcome_of(case: Case, at: int, slower: float) -> Outcome:
    """One case in ten fails in the slower run, one in six is slower."""
    if slower > 1 and at % 10 == 7:
        return Outcome(
            case, "fail_to_run", failure=Failure("compile", f"RuntimeError: shape {at}", "Traceback\n")
        )
    counts = (Measurement("graph_breaks", (at % 3,)),)
    if case.probe == "accuracy":
        return Outcome(case, "pass", counts)
    level = (5 + at % 7) * (slower if at % 6 == 0 else 1)
    latency = Measurement(
        "abs_latency", tuple(level * (1 + n * 0.001) for n in range(3)), MeasurementDetails(trials=(1,) * 3)
    )
    return Outcome(case, "pass", (Measurement("speedup", (1 + at % 9 / 10,)), latency, *counts))


def write_files(folder: Path, number: int, alike: int) -> dict[str, str]:
    """The files that the commands name, of so many cases."""
    profile = {"profile": profile_samples.sample_profile(changed=False)}
    plans = {
        name: tuple(cases_of(number, alike, states_backend=name != "LESS"))
        for name in ("BASE", "NEW", "LESS")
    }
    runs = {
        name: Run(
            name,
            plan,
            tuple(outcome_of(case, at, 1.3 if name == "NEW" else 1.0) for at, case in enumerate(plan)),
        )
        for name, plan in plans.items()
    }
    counted = tuple(Case(f"loop_{at}", "instructions", "compile_time") for at in range(number // 8))
    runs["PROFILED"] = Run(
        "p", counted, tuple(with_facts(Outcome(case, "pass"), profile) for case in counted)
    )
    texts = {name: encode_run(run) for name, run in runs.items()}
    rows = [
        f"cuda,m{at},{1 + at % 8},{'fail_to_run' if at % 10 == 9 else 'pass'},{at % 3}\n"
        for at in range(number)
    ]
    texts["CSV"] = "".join(["dev,name,batch_size,accuracy,graph_breaks\n", *rows])
    texts["EXPECTED"] = "".join(
        ["name,accuracy,graph_breaks\n", *(f"m{at},pass,{at % 3}\n" for at in range(number))]
    )
    entries = [f'[[quarantine]]\ncase = "model_{at}"\nreason = "flaky"\n' for at in range(0, number, 4)]
    texts["QUARANTINE"] = "\n".join(entries)
    paths = {name: folder / f"{name}_{number}" for name in (*texts, "OUT")}
    for name, text in texts.items():
        paths[name].write_text(text)
    return {name: str(path) for name, path in paths.items()}


def count_calls(work: Callable[[], Any]) -> int:
    """How many functions are called, of Python and of C."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def run_quietly(command: str, files: dict[str, str]) -> None:
    with redirect_stdout(io.StringIO()):
        code = run_command([files.get(word, word) for word in command.split()])
    assert code in {0, 1}, command


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", COMMANDS)
def test_four_times_the_cases_take_four_times_the_calls(name: str, shape: str, tmp_path: Path) -> None:
    files = {number: write_files(tmp_path, number, SHAPES[shape]) for number in (FEW, MANY)}
    run_quietly(COMMANDS[name], files[FEW])  # what is imported or compiled once is not counted
    few, many = (count_calls(partial(run_quietly, COMMANDS[name], files[n])) for n in (FEW, MANY))
    assert few > FEW, "the command did something"
    assert many / few < MOST_GROWTH, f"{few:,} calls for {FEW} cases, {many:,} for {MANY}"


def test_comparing_copies_no_set_of_all_cases_for_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = 0

    class Counting(frozenset[Case]):
        """A set that counts the elements that are looked at to make another one."""

        def __new__(cls, items: Iterable[Case] = ()) -> Counting:
            nonlocal touched
            made = super().__new__(cls, items)
            touched += len(made)
            return made

        def __and__(self, other: Any) -> Counting:  # noqa: ANN401
            return Counting(super().__and__(other))

        def __sub__(self, other: Any) -> Counting:  # noqa: ANN401
            return Counting(super().__sub__(other))

        def __or__(self, other: Any) -> Any:  # noqa: ANN401
            return Counting(super().__or__(other))

    monkeypatch.setattr(compare_files, "frozenset", Counting, raising=False)
    found = []
    for number in (FEW, MANY):
        touched = 0
        run_quietly(COMMANDS["compare text"], write_files(tmp_path, number, 8))
        found.append(touched)
    assert found[0] >= FEW
    assert found[1] / found[0] < MOST_GROWTH


CASES = st.builds(
    Case,
    st.just("model"),
    st.sampled_from(["", "accuracy", "performance"]),
    st.sampled_from(["", "timm", "torchbench"]),
    st.builds(
        Variant,
        device=st.sampled_from(["", "cpu", "cuda"]),
        dtype=st.sampled_from(["", "float32", "bfloat16"]),
        batch_size=st.sampled_from([None, 1, 2]),
    ),
)


@given(st.lists(CASES, min_size=2, max_size=12, unique=True), CASES, st.booleans())
def test_an_index_of_many_rows_of_one_name_finds_what_a_look_at_each_finds(
    rows: list[Case], wanted: Case, by_name_only: bool
) -> None:
    run = Run("old", tuple(rows), tuple(Outcome(case, "pass") for case in rows))
    told: list[object] = []
    for many in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(baseline, "MANY_ALIKE", many)
            expected = Baseline([Reading("old.jsonl", "run", run, range(2, 2 + len(rows)))])
            try:
                match = expected.find(wanted, by_name_only=by_name_only)
                told.append((match.row.number, match.differences) if match else None)
            except InputError as error:
                told.append(str(error))
    assert told[0] == told[1]
