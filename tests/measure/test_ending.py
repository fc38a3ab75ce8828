"""A worker's last message becomes an outcome that can be kept, whatever the message is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.records import Case, Outcome, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.vocabulary import STATUSES
from torchstone.measure.case_end import Ending, make_outcome
from torchstone.measure.supervisor import is_last
from torchstone.worker.protocol.replies import decode_reply

CASE = Case("m", "performance", "bench", Variant("cpu", "eager", "inference", "float32"))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(sorted(STATUSES)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEASUREMENT = st.fixed_dictionaries(
    {"metric": st.sampled_from(["speedup", "a\nb", ""]) | JSON, "samples": st.lists(JSON, max_size=3) | JSON},
    optional={"extra": st.dictionaries(st.sampled_from(["margin", "block"]), JSON) | JSON},
)
RESULT = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["pass", "fail_accuracy", "fail_to_run_at_batch_4"]) | JSON,
        "measurements": st.lists(MEASUREMENT, max_size=3) | JSON,
        "extra": st.dictionaries(st.text(max_size=5), JSON, max_size=2) | JSON,
    },
    optional={"failure": st.dictionaries(st.sampled_from(["phase", "message", "traceback"]), JSON) | JSON},
)
ANSWER = st.fixed_dictionaries({"result": RESULT | JSON}) | st.fixed_dictionaries({"error": JSON})


def end(answer: dict[str, Any] | None, killed: Ending | None = None, **how: object) -> Outcome:
    stated: dict[str, Any] = {
        "phase": "run",
        "exit_code": 0,
        "log": "",
        "seconds": 1.0,
        "out_of_memory": False,
    }
    reply = decode_reply(answer) if answer else None
    assert reply is None or is_last(reply)
    return make_outcome(CASE, reply, killed, **(stated | how))


def read_back(outcome: Outcome) -> Outcome:
    return decode_run("run.jsonl", encode_run(Run("id", (CASE,), (outcome,)))).run.outcomes[0]


@given(ANSWER)
@settings(max_examples=2 * settings().max_examples)
def test_any_answer_becomes_an_outcome_that_can_be_written_and_read_again(answer: dict[str, Any]) -> None:
    outcome = end(answer, log="printed\ud800".encode(errors="replace").decode())
    assert outcome.case == CASE
    assert outcome.status
    assert read_back(outcome).status == outcome.status


def test_a_good_answer_is_kept_as_it_is() -> None:
    result = {
        "status": "pass",
        "measurements": [{"metric": "speedup", "samples": [1.5], "extra": {"pairs": 3}}],
        "extra": {"duration": 2},
        "failure": None,
    }
    outcome = end({"result": result}, log="hello\n")
    assert (outcome.status, outcome.value("speedup"), outcome.failure) == ("pass", 1.5, None)
    assert outcome.details == OutcomeDetails(duration=2, log="hello\n")


def test_a_worker_that_is_gone_without_an_answer_is_told_apart_by_the_way_it_went() -> None:
    assert end(None, exit_code=-11).status == "worker_died"
    assert end(None, exit_code=-9).status == "worker_died"
    assert end(None, exit_code=-9, out_of_memory=True).status == "OOM"
    assert end(None, exit_code=-11, out_of_memory=True).status == "worker_died"
    assert end(None, Ending("timeout", "too long", 0.0), exit_code=-9, out_of_memory=True).status == "timeout"


@pytest.mark.parametrize(
    ("phase", "status"),
    [("load", "OOM"), ("eager", "eager_1st_run_OOM"), ("compile", "OOM"), ("run", "OOM"), ("compare", "OOM")],
)
def test_a_kernel_kill_for_want_of_memory_is_charged_to_the_side_that_ran(phase: str, status: str) -> None:
    outcome = end(None, exit_code=-9, out_of_memory=True, phase=phase)
    assert outcome.status == status
    assert outcome.failure is not None
    assert outcome.failure.phase == phase
