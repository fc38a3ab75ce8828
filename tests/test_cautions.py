"""Cautions are values of a closed list: their text is made from a kind and its numbers, and they are merged by meaning."""

from __future__ import annotations

import msgspec
import pytest

from torchstone.core.caution_kinds import WORDING, CautionKind
from torchstone.core.cautions import Caution, make_caution, merge_cautions, merged, recorded
from torchstone.core.details.capture_details import CaptureDetails, GraphBreak
from torchstone.core.records import Case, Outcome
from torchstone.measure.case_end import make_outcome
from torchstone.measure.worker_messages import caution_of
from torchstone.worker.protocol.caution_message import caution_message
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.replies import CaseReply, Malformed, decode_reply

FEW = CautionKind.FEW_PAIRS


def test_every_kind_has_its_wording() -> None:
    assert set(WORDING) == set(CautionKind)
    for kind, wording in WORDING.items():
        assert wording.text
        assert all(f"{{{name}}}" in wording.text for name in wording.details), kind


def test_a_worker_and_the_parent_mean_the_same() -> None:
    message = caution_message(CautionKind.BUSY_MACHINE, rate=12.4, share=0.25)
    caution = msgspec.convert(to_json(message), Caution)
    assert caution == caution_of(message)
    assert caution == make_caution(CautionKind.BUSY_MACHINE, rate=12.4, share=0.25)
    assert "took the processor away 12 times a second, for 25% of the time" in caution.text
    assert caution.text.endswith("; stop that work, or use fewer threads")
    assert caution.advice == "stop that work, or use fewer threads"


@pytest.mark.parametrize(
    ("threads", "advises_fewer"), [([1], False), ([4], True), ([1, 4], True), ([1, 1], False)]
)
def test_nothing_is_advised_that_is_already_so(threads: list[int], advises_fewer: bool) -> None:
    busy = [make_caution(CautionKind.BUSY_MACHINE, rate=12, share=0.25, threads=count) for count in threads]
    (caution,) = merged(busy)
    assert ("fewer threads" in caution.text) is advises_fewer
    assert "stop that work" in caution.text


def test_a_range_says_its_unit_once_and_holds_what_only_some_of_the_cautions_have() -> None:
    old = make_caution(CautionKind.BUSY_MACHINE, rate=1.2, share=0.25)
    new = make_caution(CautionKind.BUSY_MACHINE, rate=1240.0, share=0.61, threads=1)
    (caution,) = merged([old, new])
    assert "away 1 to 1,240 times a second, for 25 to 61% of the time" in caution.text
    assert caution.text.endswith("; stop that work")
    assert caution.text == f"{caution.statement}; {caution.advice}"


def test_those_that_differ_only_in_numbers_are_one_with_a_range() -> None:
    three = [make_caution(FEW, pairs=pairs) for pairs in (5, 19, 7)]
    (caution,) = merged(three)
    assert caution.numbers == {"pairs": (5, 19)}
    assert merged([caution, make_caution(FEW, pairs=2)])[0].numbers == {"pairs": (2, 19)}
    assert merged(three[:1] * 3) == (three[0],)


def test_names_are_part_of_what_a_caution_means_and_details_are_not() -> None:
    memory = [make_caution(CautionKind.NO_PEAK_MEMORY, device=device) for device in ("cpu", "mps", "cpu")]
    assert [places for _, places in merge_cautions(memory)] == [[0, 2], [1]]
    left_out = [
        make_caution(CautionKind.LEFT_OUT, metric="m", why=why) for why in ("1 s of 2 s", "3 s of 4 s")
    ]
    assert [caution.names["why"] for caution in merged(left_out)] == ["1 s of 2 s"]


def test_texts_of_old_files_are_never_merged_by_the_digits_in_them() -> None:
    assert len(merged([recorded("only 5 pairs"), recorded("only 8 pairs")])) == 2
    assert recorded("only {pairs} pairs").text == "only {pairs} pairs"


@pytest.mark.parametrize(
    "told",
    [
        5,
        [5],
        ["text"],
        [{"kind": "no_such_kind"}],
        [{"kind": "few_pairs"}],
        [{"kind": "few_pairs", "numbers": {"pairs": "many"}}],
        [{"kind": "few_pairs", "numbers": {"pairs": 1, "more": 2}}],
        [{"kind": "few_pairs", "numbers": {"pairs": 1, "threads": 2}}],
        [{"kind": "busy_machine", "numbers": {"rate": 1, "threads": 2}}],
        [{"kind": "recorded", "names": {"text": 5}}],
        [{"kind": "inputs_changed", "other": 1}],
    ],
)
def test_a_workers_caution_that_is_none_makes_its_answer_worthless(told: object) -> None:
    assert _outcome({"cautions": told}).status == "worker_died"


def test_a_workers_cautions_become_those_of_the_outcome() -> None:
    outcome = _outcome({"cautions": [to_json(caution_message(FEW, pairs=3))]})
    assert outcome.status == "pass"
    assert outcome.cautions == (make_caution(FEW, pairs=3),)


def test_credentials_are_hidden() -> None:
    message = caution_message(CautionKind.OUTPUTS_NOT_SAVED, problem="https://me:geheim@example.com/x")
    assert "geheim" not in _outcome({"cautions": [to_json(message)]}).cautions[0].text


def test_graph_breaks_of_another_form_make_an_answer_worthless() -> None:
    entry = {"reason": "branch", "count": 2, "place": "a.py:3", "source": "if x:"}
    outcome = _outcome({"extra": {"graph_breaks": [entry], "recompile_reasons": ["size"]}})
    assert outcome.capture == CaptureDetails((GraphBreak("branch", "a.py:3", "if x:", 2),), ("size",))
    assert not outcome.extra
    fallback = _outcome({"extra": {"graph_breaks": [{**entry, "fallback": True}]}})
    assert fallback.capture == CaptureDetails((GraphBreak("branch", "a.py:3", "if x:", 2, fallback=True),))
    for garbage in ([1], 5, [{"reason": 5}], [{"reason": "a", "count": "b"}]):
        assert _outcome({"extra": {"graph_breaks": garbage}}).status == "worker_died"


def _outcome(told: dict[str, object]) -> Outcome:
    result = {"status": "pass", "measurements": [], "extra": {}, **told}
    reply = decode_reply({"result": result})
    assert isinstance(reply, CaseReply | Malformed)
    return make_outcome(
        Case("a", "performance"),
        reply,
        None,
        phase="run",
        exit_code=0,
        log="",
        seconds=1.0,
        out_of_memory=False,
    )
