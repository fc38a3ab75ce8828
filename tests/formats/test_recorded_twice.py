"""A metric that a run file has twice for one case, also under its former name."""

from __future__ import annotations

import pytest

from conftest import Command, WriteFile


@pytest.mark.parametrize(
    "metrics", [("speedup", "speedup"), ("compile_seconds", "dynamo_compilation_latency")]
)
def test_a_metric_recorded_twice_is_refused_with_its_place(
    metrics: tuple[str, str], torchstone: Command, write: WriteFile
) -> None:
    case = '{"benchmark":"a","probe":"performance"}'
    measured = ",".join(f'{{"metric":"{metric}","samples":[1.5]}}' for metric in metrics)
    write(
        "run.jsonl",
        f'{{"kind":"run","format":2,"id":"x","plan":[{case}]}}\n'
        f'{{"kind":"outcome","outcome":{{"case":{case},"status":"pass","measurements":[{measured}]}}}}\n',
    )
    write("e.csv", "name,speedup\na,1.5\n")
    for command in (("check", "run.jsonl", "--baseline", "e.csv"), ("export", "run.jsonl", "--to", "csv")):
        ran = torchstone(*command)
        assert (ran.code, ran.out) == (2, "")
        place = "run.jsonl:2: column outcome.measurements[1].metric: "
        assert ran.err.startswith(f"error: {place}{metrics[0]} is recorded twice for this case")
