from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from record_strategies import full_runs
from sample_files import RUN, assert_sound
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Failure, Measurement, Outcome, Provenance, Revision, Run, Variant
from torchstone.core.run_file import FORMAT, EndLine, OutcomeLine, decode_run, encode_line, encode_run
from torchstone.core.run_settings import Environment, Settings
from torchstone.core.text.redaction import is_hidden
from torchstone.core.text.safe_text import is_plain

HEAD, SAM, MOCO, END = RUN.splitlines(keepends=True)


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        decode_run("bad.jsonl", text)
    assert caught.value.path == "bad.jsonl"
    return caught.value


def changed(line: str, **changes: object) -> str:
    """The line of an outcome with some fields of the outcome changed."""
    value = json.loads(line)
    value["outcome"] |= changes
    return json.dumps(value) + "\n"


def planned(**changes: object) -> str:
    """The head of a run, its only case changed."""
    case: dict[str, Any] = {"benchmark": "a", "probe": "accuracy"}
    return json.dumps({"kind": "run", "format": 2, "id": "x", "plan": [case | changes]}) + "\n"


def test_a_run_file_says_all_that_a_run_does() -> None:
    sam = Case(
        "sam", "accuracy", "torchbench", Variant("cuda", dynamic=False, batch_size=4, further=(("tag", "a"),))
    )
    moco = Case("moco", "performance")
    reading = decode_run("file", RUN)
    assert reading.run == Run(
        "nightly",
        (sam, moco),
        (
            Outcome(
                sam,
                "fail_to_run",
                (Measurement("graph_breaks", (3,)),),
                Failure("compile", "no\nway"),
                "python sam.py",
            ),
            Outcome(moco, "pass", (Measurement("speedup", (1.25, 1.5), extra={"note": "cold"}),)),
        ),
        Revision("0123abc", dirty=True),
        Environment(versions={"torch": "2.9.0"}),
        Settings(rest={"repeat": 30}),
    )
    assert (reading.kind, reading.lines, reading.cautions) == ("run", (2, 3), ())


def test_a_run_file_comes_back_byte_for_byte() -> None:
    assert encode_run(decode_run("file", RUN).run) == RUN


@settings(deadline=None)
@given(full_runs())
def test_a_run_that_is_encoded_decodes_the_same(run: Run) -> None:
    reading = decode_run("file", encode_run(run))
    assert reading.run == run
    assert_sound(reading)


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    run = decode_run("file", RUN).run
    assert decode_run("file", "\ufeff" + RUN).run == run
    assert decode_run("file", RUN.replace("\n", "\r\n")).run == run


def test_a_run_cut_off_anywhere_keeps_its_whole_lines() -> None:
    plan = decode_run("file", RUN).run.plan
    for end in range(len(HEAD), len(RUN)):
        reading = decode_run("file", RUN[:end])
        assert len(reading.run.outcomes) == min(RUN[:end].count("\n") - 1, 2)
        assert not reading.run.finished
        assert reading.run.plan == plan
        assert any("did not finish" in caution.text for caution in reading.cautions)
        assert any("truncated" in caution.text for caution in reading.cautions) == (
            not RUN[:end].endswith("\n")
        )


@pytest.mark.parametrize("end", [0, 1, len(HEAD) // 2, len(HEAD) - 1])
def test_a_run_without_a_whole_head_is_refused(end: int) -> None:
    assert refused(HEAD[:end]).line == 1


def test_an_unfinished_run_says_how_many_cases_lack_an_outcome() -> None:
    reading = decode_run("file", HEAD + SAM)
    assert [caution.text for caution in reading.cautions] == [
        "file: the run did not finish: 1 of 2 planned cases have no outcome"
    ]


def test_blank_lines_are_passed_over() -> None:
    assert decode_run("file", HEAD + "\n  \n" + SAM + MOCO + END).lines == (4, 5)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("not json\n", 1, None),
        (SAM, 1, "kind"),
        ("5\n", 1, None),
        ("{}\n", 1, None),
        ('{"kind":"other"}\n', 1, "kind"),
        (HEAD.replace('"format":2', '"format":3'), 1, "format"),
        (HEAD.replace('"format":2', '"format":"1"'), 1, "format"),
        (HEAD.replace('"id"', '"name"'), 1, None),
        (HEAD.replace('"sam"', "5"), 1, "plan[0].benchmark"),
        (HEAD.replace('"moco","probe":"performance"', '"moco"'), 1, "plan[1]"),
        (HEAD + SAM + HEAD, 3, None),
        (HEAD + SAM + SAM, 3, None),
        (HEAD + SAM + MOCO + END + END, 5, None),
        (HEAD + SAM + END, 3, None),
        (HEAD + SAM.replace('"sam"', '"Sam"'), 2, None),
        (HEAD + SAM.replace("[3]", "[NaN]"), 2, None),
        (HEAD + SAM.replace("[3]", "[1e999]"), 2, "outcome.measurements[0].samples[0]"),
        (HEAD + SAM.replace("[3]", "[1" + "0" * 400 + "]"), 2, "outcome.measurements[0].samples"),
        (HEAD + SAM.replace("[3]", "[1e308,1e308]"), 2, "outcome.measurements[0].samples"),
        (HEAD + SAM.replace("[3]", "[]"), 2, "outcome.measurements[0].samples"),
        (HEAD + SAM.replace("[3]", '["3"]'), 2, "outcome.measurements[0].samples[0]"),
        (HEAD + SAM.replace('"graph_breaks"', '"a\\nb"'), 2, "outcome.measurements[0].metric"),
        (HEAD + SAM.replace('"graph_breaks"', '""'), 2, "outcome.measurements[0].metric"),
        (HEAD + SAM.replace('"fail_to_run"', '"a\\u0007"'), 2, "outcome.status"),
        (HEAD + SAM.replace('"compile"', "5"), 2, "outcome.failure.phase"),
        (HEAD + SAM.replace('"compile"', '"\\ud800"'), 2, None),
        (HEAD + changed(MOCO, surplus=1), 2, "outcome"),
        (
            HEAD + changed(MOCO, measurements=[{"metric": "m", "samples": [1]}] * 2),
            2,
            "outcome.measurements[1].metric",
        ),
        (
            HEAD + changed(MOCO, measurements=[{"metric": "m", "samples": [1], "extra": {"margin": "wide"}}]),
            2,
            "outcome.measurements[0].extra.margin",
        ),
        (
            HEAD + changed(MOCO, measurements=[{"metric": "m", "samples": [1], "extra": {"margin": -0.5}}]),
            2,
            "outcome.measurements[0].extra.margin",
        ),
        (
            HEAD + changed(MOCO, measurements=[{"metric": "m", "samples": [1], "details": {"margin": 1.5}}]),
            2,
            "outcome.measurements[0].details.margin",
        ),
        (
            HEAD + changed(MOCO, measurements=[{"metric": "m", "samples": [1], "details": {"trials": [0]}}]),
            2,
            "outcome.measurements[0].details.trials[0]",
        ),
        (HEAD + changed(MOCO, details={"duration": -1}), 2, "outcome.details.duration"),
        (HEAD + changed(MOCO, details={"phases": {"run": "long"}}), 2, "outcome.details.phases[...]"),
        (HEAD + changed(MOCO, details={"offers": {}}), 2, "outcome.details"),
        (
            HEAD + changed(MOCO, details={"compile_cache": {"not_warm": [{"graph": "0/0"}]}}),
            2,
            "outcome.details.compile_cache.not_warm[0]",
        ),
        (
            HEAD + changed(MOCO, details={"scaling": {"ranks": [{"rank": "first"}]}}),
            2,
            "outcome.details.scaling.ranks[0].rank",
        ),
        (planned(benchmark="a\nb"), 1, "plan"),
        (planned(suite="\u2028"), 1, "plan"),
        (planned(probe="\u0000"), 1, "plan"),
        (planned(variant={"device": "a\tb"}), 1, "plan"),
        (planned(variant={"further": [["tag", "\u001b[2J"]]}), 1, "plan"),
        (planned(variant={"batch_size": 0}), 1, "plan"),
        (HEAD + "[" * 100_000 + "\n", 2, None),
        ('{"kind":"run","format":' + "[" * 100_000 + "\n", 1, "format"),
        (HEAD + '{"kind":"end","outcomes":"0"}\n', 2, "outcomes"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, line: int, column: str | None) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)
    assert is_plain(error.message)


@pytest.mark.parametrize("field", ["a\nb", "x" * 10_000, "here - at `$.there`"])
def test_an_unknown_field_is_named_on_one_short_line(field: str) -> None:
    error = refused(HEAD + changed(MOCO, **{field: 1}))
    assert error.message.startswith("object contains unknown field `")
    assert is_plain(error.message)
    assert len(error.message) < 300
    assert error.column == "outcome"


def test_a_format_of_the_future_is_refused_with_advice() -> None:
    error = refused(planned().replace('"format": 2', f'"format": {FORMAT + 1}, "new": true'))
    assert f"reads formats 1 and {FORMAT}" in error.advice
    assert is_plain(refused(planned().replace('"format": 2', '"format": "a\\nb"')).message)


def test_a_case_twice_in_a_long_plan_is_found_at_once() -> None:
    cases = [{"benchmark": str(number), "probe": "accuracy"} for number in range(30_000)]
    head = {"kind": "run", "format": 2, "id": "x", "plan": [*cases, cases[-1]]}
    assert refused(json.dumps(head) + "\n").message == "the plan has 29999::accuracy twice"


@pytest.mark.parametrize("sample", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_never_written(sample: float) -> None:
    outcome = Outcome(Case("a", "performance"), "pass", (Measurement("speedup", (1.0, sample)),))
    with pytest.raises(ValueError, match="speedup of a::performance is not finite"):
        encode_line(OutcomeLine(outcome))


def test_a_line_is_whole_with_its_end() -> None:
    assert encode_line(EndLine(3)) == '{"kind":"end","outcomes":3}\n'


def test_secrets_that_an_earlier_version_recorded_are_hidden_when_a_file_is_read() -> None:
    url = "https://me:geheim@example.com/x?access_token=abcdef"
    head = json.loads(HEAD) | {"format": 1}
    variables = {"TORCH_HUB_PASS": "geheim", "OMP_NUM_THREADS": "2", "TORCH_LOGS_OUT": url}
    head |= {
        "environment": {"variables": variables},
        "settings": {"options": {"x": url}},
        "revision": {"label": f"from {url}"},
    }
    sam = changed(SAM, failure={"message": url, "log": f"GET {url}"}, extra={"cautions": [url]}, repro=url)
    run = decode_run("old.jsonl", json.dumps(head) + "\n" + sam + MOCO + END).run
    assert "geheim" not in encode_run(run)
    assert "abcdef" not in encode_run(run)
    assert is_hidden((run.environment.variables or {})["TORCH_HUB_PASS"])
    assert (run.environment.variables or {})["OMP_NUM_THREADS"] == "2"
    assert run.revision.label == "from https://***@example.com/x?access_token=***"


def test_an_outcome_says_where_it_was_measured() -> None:
    stated = {
        "host": "node17",
        "machine_class": "h200",
        "attempt": 2,
        "shard": "3/8",
        "scheduler_job": "4711",
    }
    sam = changed(SAM, provenance={**stated, "device_uuid": "8f1c"})
    run = decode_run("file", HEAD + sam + MOCO + END).run
    assert run.outcomes[0].provenance == Provenance("node17", "h200", "8f1c", 2, "3/8", "4711")
    assert run.outcomes[1].provenance is None
    assert decode_run("again", encode_run(run)).run == run
    for wrong in ({"host": "a\nb"}, {"attempt": -1}):
        (field,) = wrong
        error = refused(HEAD + changed(SAM, provenance=wrong) + MOCO + END)
        assert (error.line, error.column) == (2, f"outcome.provenance.{field}")


def test_control_cases_are_kept_beside_the_plan() -> None:
    case = {"benchmark": "steady", "probe": "performance"}
    measured = [{"metric": "abs_latency", "samples": [1.5]}]
    control = {"kind": "control", "outcome": {"case": case, "status": "pass", "measurements": measured}}
    line = json.dumps(control) + "\n"
    run = decode_run("file", HEAD + line + SAM + line + MOCO + END).run
    assert [outcome.case.benchmark for outcome in run.controls] == ["steady", "steady"]
    assert (len(run.plan), len(run.outcomes), run.finished) == (2, 2, True)
    assert decode_run("again", encode_run(run)).run == run
    damaged = {**control, "outcome": {**control["outcome"], "status": "a\nb"}}  # type: ignore[dict-item]
    assert refused(HEAD + json.dumps(damaged) + "\n" + SAM + MOCO + END).column == "outcome.status"
