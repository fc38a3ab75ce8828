from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from conftest import Command, WriteFile
from record_strategies import (
    accuracy_runs,
    by_dtype_runs,
    ddp_runs,
    expected_runs,
    full_runs,
    performance_runs,
    pr_time_runs,
    run_with,
    v3_runs,
)
from sample_files import (
    ACCURACY,
    CANONICAL,
    DDP,
    EXPECTED,
    PERFORMANCE,
    PR_TIME,
    PR_TIME_EXPECTED,
    RUN,
    TOOLS,
    V3,
    read_as,
)
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Revision, Run, Variant
from torchstone.core.text.safe_text import is_plain
from torchstone.formats import FORMATS, WRITTEN
from torchstone.formats.convert import Conversion, convert, merge_runs

COUNTS_LOST = [
    f"the metric {metric}"
    for metric in (
        "unique_graphs",
        "unique_graph_breaks",
        "autograd_captures",
        "autograd_compiles",
        "cudagraph_skips",
        "compile_seconds",
    )
]
# What is lost from one kind to another; a pair that is not here cannot be converted.
LOSSES: dict[tuple[str, str], list[str]] = {
    **{(kind, kind): [] for kind in WRITTEN},
    **{(kind, "run"): [] for kind in FORMATS},
    ("run", "accuracy"): [
        "revision",
        "environment",
        "settings",
        "1 case (moco)",
        "suite",
        "dynamic",
    ],
    ("run", "expected"): [
        *(
            "revision",
            "environment",
            "settings",
            "1 case (moco)",
            "suite",
            "device",
            "dynamic",
            "batch_size",
            "tag",
        ),
    ],
    ("run", "v3"): ["settings", "note"],
    ("performance", "expected"): ["device", "batch_size", "the status pass", "the status failed"],
    ("performance", "v3"): [],
    ("accuracy", "expected"): ["device", "batch_size", *COUNTS_LOST],
    ("accuracy", "v3"): [],
    ("expected", "v3"): [],
    ("expected-by-dtype", "v3"): [],
    ("pr-time", "expected"): ["the status pass"],
    ("pr-time", "pr-time-expected"): [],
    ("pr-time", "v3"): [],
    ("pr-time-expected", "expected"): ["the status pass", "margin"],
    ("pr-time-expected", "pr-time"): ["margin"],
    ("pr-time-expected", "v3"): ["margin"],
    ("speedup-targets", "v3"): ["margin"],
    ("v3", "performance"): [
        *("1 case (sam)", "suite", "backend", "mode", "dtype", "dynamic", "samples of speedup", "v3 fields"),
    ],
    ("v3", "accuracy"): ["1 case (BertForMaskedLM)", "backend", "mode", "dtype", "dynamic", "v3 fields"],
    ("v3", "expected"): [
        "1 case (BertForMaskedLM)",
        "device",
        "backend",
        "mode",
        "dtype",
        "dynamic",
        "v3 fields",
    ],
    ("v3", "expected-by-dtype"): [
        "1 case (BertForMaskedLM)",
        "device",
        "backend",
        "mode",
        "dynamic",
        "v3 fields",
    ],
    ("cachebench", "expected"): [
        "suite",
        "device",
        "backend",
        "mode",
        "the status pass",
        "samples of cold_compile_seconds",
        "definition",
        "samples of warm_compile_seconds",
        "dynamic",
    ],
    ("cachebench", "v3"): [],
    ("ddp", "v3"): ["settings", "distributed_backend", "bucket_size"],
    ("pyperf", "expected"): ["environment", "suite", "the status pass", "samples of seconds", "trials"],
    ("pyperf", "v3"): [],
    ("hyperfine", "expected"): ["suite", "n", "the status pass", "samples of seconds", "trials"],
    ("hyperfine", "v3"): ["n"],
}
PAIRS = [(source, target) for source in FORMATS for target in FORMATS]


def same(kind: str, text: str) -> object:
    """What two texts that say the same have in common: the bytes, but for v3 only the records."""
    return [json.loads(line) for line in text.splitlines()] if kind == "v3" else text


@pytest.mark.parametrize(
    ("source", "target"), PAIRS, ids=[f"{source} to {target}" for source, target in PAIRS]
)
def test_every_pair_of_kinds_converts_names_its_losses_or_is_refused(source: str, target: str) -> None:
    run = read_as(source, CANONICAL[source]).run
    if (source, target) not in LOSSES:
        with pytest.raises(UsageError, match=f"(as|about|write) {target}") as caught:
            convert(run, target)
        assert caught.value.advice
        return
    converted = convert(run, target)
    text = converted.text
    assert list(converted.losses) == LOSSES[source, target]
    assert converted.cases == len(FORMATS[target].read("back", text).run.outcomes)
    assert FORMATS[target].read("back", text).kind == target
    if source == target:
        assert same(source, text) == same(source, CANONICAL[source])


@pytest.mark.parametrize(
    ("source", "through"), [(s, t) for (s, t), losses in LOSSES.items() if not losses and s != t]
)
def test_what_loses_nothing_can_be_turned_back(source: str, through: str) -> None:
    converted = convert(read_as(source, CANONICAL[source]).run, through)
    if converted.omitted:
        return  # what describes the measurement does not come back
    text = converted.text
    if source not in WRITTEN:
        assert read_as(through, text).run == read_as(source, CANONICAL[source]).run
        return
    turned_back = convert(read_as(through, text).run, source)
    back, losses = turned_back.text, turned_back.losses
    if (source, through) != ("pr-time", "pr-time-expected"):
        assert (same(source, back), losses) == (same(source, CANONICAL[source]), ())


def outcome(name: str, *, status: str = "pass", device: str = "", dtype: str = "") -> Outcome:
    return Outcome(Case(name, "accuracy", variant=Variant(device, dtype=dtype)), status)


def test_the_same_outcomes_in_another_order_are_no_loss() -> None:
    run = run_with(
        [
            outcome("a", dtype="amp"),
            outcome("b", dtype="float32"),
            outcome("a", status="OOM", dtype="float32"),
        ]
    )
    converted = convert(run, "expected-by-dtype")
    assert converted == Conversion("name,float32,amp\na,OOM,pass\nb,pass,\n", cases=3)


def test_a_case_without_a_dtype_is_not_mistaken_for_one_that_has_it() -> None:
    converted = convert(run_with([outcome("a"), outcome("a", dtype="amp")]), "expected-by-dtype")
    assert (converted.text, converted.losses) == ("name,amp\na,pass\n", ("1 case (a)",))


def test_a_name_that_does_not_come_back_the_same_is_a_loss() -> None:
    converted = convert(run_with([outcome(" a ", device="cpu")]), "accuracy")
    text = converted.text
    assert converted.losses == ("1 case ( a )",)
    assert read_as("accuracy", text).run.outcomes[0].case.benchmark == "a"


def test_cases_that_would_become_one_are_refused() -> None:
    run = run_with([outcome("a", device="cpu"), outcome("a", device="cuda")])
    with pytest.raises(UsageError, match="a would occur 2 times"):
        convert(run, "expected")


def test_two_probes_whose_metrics_have_one_name_are_told_apart_in_v3() -> None:
    both = [
        Outcome(Case("a", "performance"), "pass", (Measurement("compilation_latency", (1.0,)),)),
        Outcome(Case("a", "accuracy"), "pass", (Measurement("compile_seconds", (2.0,)),)),
    ]
    converted = convert(run_with(both), "v3")
    assert (converted.losses, converted.cases) == ((), 2)
    back = {outcome.case: outcome for outcome in read_as("v3", converted.text).run.outcomes}
    for outcome in both:
        assert [(m.metric, m.samples) for m in back[outcome.case].measurements] == [
            (m.metric, m.samples) for m in outcome.measurements
        ]


def test_two_probes_that_a_format_cannot_tell_apart_are_refused_with_the_way_out() -> None:
    both = [
        Outcome(Case("a", probe), "", (Measurement("graph_breaks", (1,)),))
        for probe in ("performance", "accuracy")
    ]
    with pytest.raises(UsageError) as caught:
        convert(run_with([structs.replace(each, status="") for each in both]), "expected")
    assert caught.value.advice.endswith("write one probe at a time, such as --only '*::performance'")


def test_planned_cases_without_an_outcome_are_a_loss_but_not_in_a_run_file() -> None:
    planned = Case("b", "accuracy")
    for finished in (True, False):
        run = Run("x", (outcome("a").case, planned), (outcome("a"),), finished=finished)
        assert convert(run, "run").losses == ()
        stop = [] if finished else ["that the run did not finish"]
        assert convert(run, "expected").losses == (*stop, "1 planned case without an outcome")


def test_a_run_without_any_outcome_is_still_a_run() -> None:
    run = Run("x", (Case("a", "accuracy"),), (), finished=False)
    assert convert(run, "run").losses == ()
    with pytest.raises(UsageError):
        convert(run, "accuracy")


def test_numbers_that_a_format_cannot_hold_are_refused() -> None:
    case = Case("a", "performance", variant=Variant("cpu", batch_size=1))
    for metric, sample in (("speedup", -1.5), ("graph_breaks", 1.5)):
        run = run_with(
            [Outcome(case, "pass", (Measurement("speedup", (1,)), Measurement(metric, (sample,)))[-1:])]
        )
        with pytest.raises(UsageError, match=f"cannot be written as performance: column {metric}"):
            convert(run, "performance")
        assert convert(run, "v3").losses == ()


def test_a_measurement_called_accuracy_is_never_taken_for_a_status() -> None:
    case = Case("a", "performance", variant=Variant("cpu", batch_size=1))
    measurements = (Measurement("speedup", (1.5,)), Measurement("accuracy", (0.5,)))
    run = run_with([Outcome(case, "pass", measurements)])
    converted = convert(run, "performance")
    assert converted.text.startswith("dev,name,batch_size,speedup,abs_latency\n")
    assert converted.losses == ("the metric accuracy",)
    assert "the metric accuracy" in convert(run, "expected").losses


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("revision", {"revision": Revision("abc")}),
        ("environment", {"environment": {"versions": {"torch": "2"}}}),
        ("settings", {"settings": {"repeat": 3}}),
    ],
)
def test_files_that_disagree_about_the_whole_run_are_not_merged(
    field: str, change: dict[str, object]
) -> None:
    runs = [Run("x", (), ()), Run("y", (), (), **change)]  # type: ignore[arg-type]
    readings = [Reading(f"{run.id}.jsonl", "run", run, ()) for run in runs]
    with pytest.raises(UsageError, match=f"x.jsonl and y.jsonl differ in their {field}"):
        merge_runs(readings, with_repro=False)


def test_two_halves_of_one_plan_are_merged() -> None:
    first, second = outcome("a"), outcome("b")
    plan = (first.case, second.case)
    halves = [Run("x", plan, (first,), finished=False), Run("y", plan, (second,))]
    merged = merge_runs([Reading(run.id, "run", run, (1,)) for run in halves], with_repro=False)
    assert (merged.id, merged.plan, merged.outcomes) == ("x", plan, (first, second))
    assert not merged.finished
    assert convert(merged, "run").losses == ()


ANY_RUN = st.one_of(
    accuracy_runs(),
    performance_runs(),
    expected_runs(),
    by_dtype_runs(),
    pr_time_runs(margins=False),
    pr_time_runs(margins=True),
    v3_runs(),
    ddp_runs(),
    full_runs(),
)


@settings(deadline=None, max_examples=2 * settings().max_examples)
@given(ANY_RUN, st.sampled_from(list(FORMATS)))
def test_whatever_is_not_said_to_be_lost_is_there_when_read_again(run: Run, kind: str) -> None:
    assume(len({outcome.case for outcome in run.outcomes}) == len(run.outcomes))
    text, problem = "", ""
    try:
        converted = convert(run, kind)
        text, losses = converted.text, converted.losses
    except UsageError as error:
        problem = error.message
    if not text:
        assert is_plain(problem)
        return
    assert all(is_plain(loss) for loss in losses)
    if losses:
        return
    copies = {copy.case.benchmark: copy for copy in read_as(kind, text).run.outcomes}
    assert set(copies) == {found.case.benchmark for found in run.outcomes}
    for found in run.outcomes if len(copies) == len(run.outcomes) else ():
        copy = copies[found.case.benchmark]
        assert copy.status in {found.status or "pass", found.status}
        assert {m.metric: m.samples for m in copy.measurements} == {
            m.metric: m.samples for m in found.measurements
        }


def test_export_refuses_to_lose_anything_and_writes_nothing(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("results.csv", ACCURACY)
    for target in ("expected", "pr-time"):
        ran = torchstone("export", "results.csv", "--to", target, "--output", "out.csv")
        assert (ran.code, ran.out) == (2, "")
        assert not (tmp_path / "out.csv").exists()
    ran = torchstone("export", "results.csv", "--to", "expected")
    assert ran.err.startswith(
        "error: the format expected cannot hold: device; batch_size; the metric unique_graphs and 5 other metrics"
    )
    assert "--lossy" in ran.err
    assert ran.out == ""


def test_export_says_what_is_lost_when_that_is_wanted(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("results.csv", ACCURACY)
    ran = torchstone("export", "results.csv", "--to", "expected", "--lossy", "--output", "out.csv")
    assert ran.code == 0
    assert ran.err == "lost: device; batch_size; the metric unique_graphs and 5 other metrics\n"
    assert ran.out == "wrote 4 cases to out.csv\n"
    assert (tmp_path / "out.csv").read_text() == (
        "name,accuracy,graph_breaks,calls_captured,fallbacks_to_eager\n"
        "AlbertForMaskedLM,pass,0,373,0\nsam,fail_accuracy,6,801,0\nyolov3,pass_due_to_skip,1,312,0\n"
        "google/gemma-2-2b,eager_1st_run_OOM,,,\n"
    )


def test_export_without_an_output_prints_the_file_and_nothing_else(
    torchstone: Command, write: WriteFile
) -> None:
    write("results.csv", PERFORMANCE)
    ran = torchstone("export", "results.csv", "--to", "performance")
    assert (ran.code, ran.out, ran.err) == (0, PERFORMANCE, "")


@pytest.mark.parametrize("text", [ACCURACY, PERFORMANCE, PR_TIME, V3, DDP])
def test_import_and_export_give_the_same_file_again(
    text: str, torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("file", text)
    assert torchstone("import", "file", "--output", "run.jsonl").code == 0
    kind = next(kind for kind, sample in CANONICAL.items() if sample == text)
    ran = torchstone("export", "run.jsonl", "--to", kind, "--output", "again")
    assert (ran.code, ran.err) == (0, "")
    assert same(kind, (tmp_path / "again").read_text()) == same(kind, text)


@pytest.mark.parametrize("tool", TOOLS)
def test_files_of_other_tools_are_read_but_never_written(
    tool: str, torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("file", CANONICAL[tool])
    assert torchstone("import", "file", "--output", "run.jsonl").code == 0
    for baseline in ("file", "run.jsonl"):
        assert torchstone("check", "file", "--baseline", baseline, "--policy", "lenient").code == 0
    ran = torchstone("export", "file", "--to", tool)
    assert (ran.code, ran.out) == (2, "")
    assert f"--to {tool}: expected run, " in ran.err
    slower = (tmp_path / "run.jsonl").read_text().replace('"samples":[', f'"samples":[{"9," * 20}')
    ran = torchstone("accept", write("slower.jsonl", slower), "--baseline", "file")
    assert (ran.code, ran.out) == (2, "")
    assert "torchstone import FILE --output run.jsonl" in ran.err
    assert (tmp_path / "file").read_text() == CANONICAL[tool]


def test_import_of_a_run_that_did_not_finish_says_so_and_keeps_it(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    unfinished = "".join(RUN.splitlines(keepends=True)[:2])
    write("run.jsonl", unfinished)
    ran = torchstone("import", "run.jsonl", "--output", "again.jsonl")
    assert (ran.code, ran.err.count("caution: ")) == (0, 1)
    assert "did not finish: 1 of 2 planned cases have no outcome" in ran.err
    assert (tmp_path / "again.jsonl").read_text() == unfinished


def test_shards_are_imported_as_one_run(torchstone: Command, write: WriteFile, tmp_path: Path) -> None:
    header, *rows = ACCURACY.splitlines(keepends=True)
    write("1.csv", header + rows[0] + rows[1])
    write("2.csv", header + rows[2] + rows[3])
    assert (
        torchstone("import", "1.csv", "2.csv", "--set", "backend=inductor", "--output", "run.jsonl").code == 0
    )
    head = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])
    assert [case["benchmark"] for case in head["plan"]] == [
        "AlbertForMaskedLM",
        "sam",
        "yolov3",
        "google/gemma-2-2b",
    ]
    assert {case["variant"]["backend"] for case in head["plan"]} == {"inductor"}
    ran = torchstone("import", "1.csv", "1.csv")
    assert ran.err.startswith("error: 1.csv:2: column name: AlbertForMaskedLM is already in 1.csv:2")


def test_the_command_to_run_again_travels_with_each_case(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    name = write("inductor_torchbench_amp_training_cuda_accuracy.csv", ACCURACY.replace("sam", "sam;reboot"))
    assert torchstone("import", name, "--output", "run.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert lines[2]["outcome"]["repro"].endswith("--only 'sam;reboot'")


@pytest.mark.parametrize("text", [EXPECTED, PR_TIME_EXPECTED])
def test_expected_values_can_be_exported_when_their_kind_is_named(
    text: str, torchstone: Command, write: WriteFile
) -> None:
    write("expected.csv", text)
    kind = "expected" if text == EXPECTED else "pr-time-expected"
    assert torchstone("export", "expected.csv", "--kind", kind, "--to", kind).out == text
