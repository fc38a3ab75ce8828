"""What callgrind writes is read: totals from the end of the file, and every function's own part."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchstone.worker.probes.counting.callgrind import (
    CallgrindError,
    read_elsewhere,
    read_functions,
    read_total,
)

WRITTEN = """\
# callgrind format
version: 1
positions: line
events: Ir
summary: 1000

ob=(1) /usr/lib/libpython3.11.so.1.0
fl=(1) ceval.c
fn=(1) eval
0 100
cob=(2) /usr/lib/libc.so.6
cfi=(2) malloc.c
cfn=(2) malloc
calls=3 0
0 600
0 50

ob=(2)
fl=(2)
fn=(2)
0 600

ob=(1)
fl=(1)
fn=(3) eval'2
0 200
fn=(4)
0 50

totals: 1000
"""


def test_own_costs_leave_out_what_was_called_and_add_up_to_the_total() -> None:
    found = read_functions(WRITTEN.splitlines())
    assert found == {
        ("libpython3.11.so.1.0", "eval"): 350,
        ("libc.so.6", "malloc"): 600,
        ("libpython3.11.so.1.0", "???"): 50,
    }
    assert sum(found.values()) == 1000


def test_the_total_is_read_from_the_end_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.1"
    path.write_text("# padding\n" * 10_000 + WRITTEN)
    assert read_total(str(path)) == 1000


def test_a_file_without_a_total_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.1"
    path.write_text(WRITTEN.partition("totals")[0])
    with pytest.raises(CallgrindError, match="no totals"):
        read_total(str(path))


def test_another_process_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.1"
    path.write_text(WRITTEN)
    assert read_elsewhere([str(path), str(path)]) == [read_functions(WRITTEN.splitlines())] * 2
    assert read_elsewhere([]) == []


def test_a_file_that_another_process_cannot_read_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(CallgrindError, match="No such file"):
        read_elsewhere([str(tmp_path / "gone")])
