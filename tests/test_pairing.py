"""What the run files of ``torchstone ab`` state about the comparison: it is read back, kept, and refused if it cannot be meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torchstone.core.errors import InputError
from torchstone.core.records import Run
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import Pairing
from torchstone.gate.criteria import Criteria, criteria_of_run

STATED = {
    "side": "B",
    "spec": ["rev=HEAD"],
    "session": "s",
    "seed": 7,
    "metric": "abs_latency",
    "margin": 0.01,
    "alpha": 0.05,
    "better": "lower",
    "command": "torchstone ab bench_it.py --b rev=HEAD",
}


def read_with(pairing: object) -> Run:
    """A run file whose settings state this."""
    sources = {"bench_it": {"kind": "file", "name": "bench_it", "path": "/bench_it.py"}}
    head = {
        "kind": "run",
        "format": 2,
        "id": "r",
        "plan": [],
        "settings": {"sources": sources, "pairing": pairing},
    }
    return decode_run("b.jsonl", f"{json.dumps(head)}\n").run


def test_the_file_of_a_side_states_the_criteria_it_was_decided_by() -> None:
    run = read_with(STATED)
    assert run.settings.pairing == Pairing(
        "B",
        ("rev=HEAD",),
        "s",
        7,
        "abs_latency",
        0.01,
        0.05,
        "lower",
        "torchstone ab bench_it.py --b rev=HEAD",
    )
    assert criteria_of_run(run.settings, "abs_latency") == Criteria(0.01, 0.05, "lower", is_alone=True)
    assert criteria_of_run(run.settings, "compile_seconds") is None


def test_a_run_that_is_no_side_states_none() -> None:
    run = read_with({})
    assert run.settings.pairing is None
    assert criteria_of_run(run.settings, "abs_latency") is None


def test_keys_of_a_later_version_are_written_back() -> None:
    run = read_with({**STATED, "weather": "fine"})
    head = json.loads(encode_run(run).splitlines()[0])
    assert head["settings"]["pairing"] == {**STATED, "weather": "fine"}
    assert decode_run("b.jsonl", encode_run(run)).run == run


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"margin": "wide"}, "pairing.margin"),
        ({"margin": 0.0}, "pairing.margin"),
        ({"alpha": 1.5}, "pairing.alpha"),
        ({"better": "sideways"}, "lower, higher or equal"),
        ({"spec": "rev=HEAD"}, "pairing.spec"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_names_the_field(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as raised:
        read_with({**STATED, **change})
    assert told in str(raised.value)
    assert raised.value.line == 1
