from __future__ import annotations

import json
from pathlib import Path

import pytest

from sample_files import (
    ACCURACY,
    CANONICAL,
    DDP_REPORT,
    EXPECTED,
    MEMORY,
    PERFORMANCE,
    PR_TIME,
    PR_TIME_EXPECTED,
    RUN,
    TOOLS,
    V3,
    V3_RECORDS,
    rewrite,
)
from torchstone.core.errors import InputError
from torchstone.formats import FORMATS, WRITTEN, read_file, recognise


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        recognise("odd", text)
    assert caught.value.path == "odd"
    assert caught.value.advice
    return caught.value


@pytest.mark.parametrize("kind", list(FORMATS))
def test_every_kind_is_recognised_from_what_is_in_it(kind: str, tmp_path: Path) -> None:
    text = CANONICAL[kind]
    rewritten = rewrite(kind, text) if kind in WRITTEN else text
    if kind in TOOLS:
        rewritten = json.dumps(json.loads(text), sort_keys=True)
    for variation in (text, "\ufeff" + text, "\n\n" + text, text.replace("\n", "\r\n"), rewritten):
        assert recognise("any name at all", variation) == kind
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-8")
    assert read_file(str(path)).kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (MEMORY, "expected"),
        ("graph_breaks,name\n1,a\n", "expected"),
        ("name,float32\na,pass\n", "expected-by-dtype"),
        ("amp,name\npass,a\n", "expected-by-dtype"),
        ("# a comment\n\n" + PERFORMANCE, "performance"),
        ("name,dev,batch_size,speedup\na,cpu,1,1\n", "performance"),
        ("dev,name,batch_size,compression_ratio\ncuda,a,1,1\n", "performance"),
        ("name,batch_size,speedup\na,1,1\n", "performance"),
        ('"dev","name","batch_size","accuracy"\ncpu,a,1,pass\n', "accuracy"),
        (
            "# see the wiki\n\n# name, data_type, shape, wrapper, target\na,amp,static,cpp,1.5\n",
            "speedup-targets",
        ),
        ("#name it as you like\nname,accuracy\na,pass\n", "expected"),
        ("name,metric,value\n" + PR_TIME, "pr-time"),
        ("name,metric,expected,margin\n" + PR_TIME_EXPECTED, "pr-time-expected"),
        ("# counts\na,instruction_count,1.5e9\n", "pr-time"),
        ("a,instruction_count,nan\n", "pr-time"),
        (json.dumps(V3_RECORDS, indent=2), "v3"),
        ("[]", "v3"),
        (" [ ] ", "v3"),
        (json.dumps(DDP_REPORT, indent=2), "ddp"),
        (RUN.replace('"kind":"run"', '"kind" : "run"'), "run"),
        (json.dumps(dict(sorted(json.loads(RUN.splitlines()[0]).items()))) + "\n", "run"),
    ],
)
def test_variations_of_a_kind_are_recognised_too(text: str, kind: str) -> None:
    assert recognise("x", text) == kind


@pytest.mark.parametrize(("text", "kind"), [(RUN, "run"), (V3, "v3")])
def test_a_model_that_is_called_like_another_kinds_field_does_not_mislead(text: str, kind: str) -> None:
    assert recognise("x", text.replace('"sam"', '"benchmark_results"')) == kind


@pytest.mark.parametrize("tool", TOOLS)
def test_what_somebody_notes_in_a_tools_file_does_not_mislead(tool: str) -> None:
    noted = json.loads(CANONICAL[tool]) | {"extra_info": {"metric": {"name": "x"}, "runs": 3, "times": {}}}
    assert recognise("x", json.dumps(noted)) == tool
    last = dict(sorted(noted.items(), key=lambda item: len(json.dumps(item[1])), reverse=True))
    assert recognise("x", json.dumps(last | {"aside": "x" * 200_000})) == tool
    assert recognise("x", json.dumps({"aside": "x" * 200_000} | last)) == tool


@pytest.mark.parametrize("tool", TOOLS)
def test_a_v3_record_that_names_a_tools_fields_is_still_v3(tool: str) -> None:
    names = {"benchmarks": 1, "runs": 2, "results": 3, "command": 4, "times": 5, tool: 6}
    record = V3_RECORDS[0] | {"dependencies": names}
    assert recognise("x", json.dumps(record)) == "v3"


def test_a_file_of_a_known_kind_with_a_fault_is_recognised_all_the_same() -> None:
    assert recognise("x", ACCURACY[:40]) == "accuracy"
    assert recognise("x", EXPECTED[:20]) == "expected"
    assert recognise("x", V3[:1000]) == "v3"


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff", "\ufeff\r\n"])
def test_an_empty_file_is_said_to_be_empty(text: str) -> None:
    assert refused(text).message == "the file is empty"


@pytest.mark.parametrize("text", ["# nothing\n", "# a\n\n# b\n"])
def test_comments_alone_are_no_file(text: str) -> None:
    assert refused(text).message == "nothing but blank lines and comments"


@pytest.mark.parametrize(
    "text",
    [
        "hello world\n",
        "a,b\n",
        "a,b,c\n",
        "a,b,c,d\n",
        "1,2,3,4,5\n",
        "name,metric\na,b\n",
        "name,metric,value,margin,more\na,b,1,2,3\n",
        "dev,batch_size,speedup\ncpu,1,1\n",
        "{}",
        '{"a": 1}',
        "[[1]]",
        '{"kind": "outcome"}\n',
        "<html>\n",
        "---\nyaml: true\n",
    ],
)
def test_an_unknown_file_gets_the_advice_to_name_its_kind(text: str) -> None:
    error = refused(text)
    assert error.message == "unrecognised file format"
    assert "--kind" in error.advice
    assert all(kind in error.advice for kind in FORMATS)
    assert error.line == 1


def test_the_line_is_the_first_that_is_not_blank() -> None:
    assert refused("\n\n\nhello world\n").line == 4


@pytest.mark.parametrize(
    ("text", "separator", "line", "column"),
    [
        (EXPECTED.replace(",", ";"), "semicolons", 1, 5),
        ("# exported\n\n" + PERFORMANCE.replace(",", "\t"), "tabs", 3, 4),
        (ACCURACY.replace(",", "|"), "bars", 1, 4),
    ],
)
def test_another_separator_is_named(text: str, separator: str, line: int, column: int) -> None:
    error = refused(text)
    assert error.message == f"the columns are separated by {separator}"
    assert (error.line, error.column) == (line, column)


def test_a_kind_can_be_named_where_the_content_does_not_tell(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("name,metric,value\n")
    with pytest.raises(InputError, match="no rows"):
        read_file(str(path), "pr-time")
    with pytest.raises(InputError, match="not a known metric"):
        read_file(str(path), "expected")
