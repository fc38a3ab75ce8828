from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from record_strategies import NAMES
from sample_files import CANONICAL, EXPECTED, PR_TIME_EXPECTED
from torchstone.core.errors import InputError
from torchstone.formats.edit import TableText, TextRow
from torchstone.formats.table import Rows, render_row, split_lines

SPREAD = "# by hand\nname,accuracy\n\n\n\na,pass\n\n\n\n# slow\nc,fail\n\n\n\ne,pass\n"


def name_of(row: TextRow) -> str:
    return row.cells[0].strip()


def insert(table: TableText, *names: str) -> None:
    for name in names:
        table.insert([name, "new"], name_of, name, first_row=1)


def row(table: TableText, name: str) -> TextRow:
    return next(row for row in table.rows if name_of(row) == name)


def cells_of(text: str) -> list[list[str]]:
    return [cells for _, cells in Rows("file", text)]


@pytest.mark.parametrize("text", [*CANONICAL.values(), SPREAD, "", "\n", "\ufeff", "a\r\rb\r\n\nc"])
def test_editing_nothing_changes_nothing(text: str) -> None:
    with suppress(InputError):
        assert TableText("file", text).apply() == text


# fmt: off
PIECES = [
    "a", "b,c", "d,e,f", '"g"', '"h,i"', '"j\nk"', '"l ""m"""', " ", "# n", '"# o"', ",", '"', "\t", "é", "\x0b", "\u2028", "\x85",
    "\n", "\r\n", "\r", "\n\n\n\n",
]
# fmt: on
TABLE_TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12).map("".join)


@settings(deadline=None)
@given(TABLE_TEXT, st.sampled_from(["", "\ufeff"]))
@example("a,b\rc,d\r", "")
@example('"a\n\n# no comment",b\n# comment\nc,d', "\ufeff")
def test_editing_nothing_changes_nothing_in_any_table(text: str, mark: str) -> None:
    try:
        table = TableText("file", mark + text)
    except InputError:
        assume(False)
    assert table.apply() == mark + text
    assert "".join(split_lines(text)) == text
    for number, (start, cells) in enumerate(Rows("file", mark + text)):
        assert (table.rows[number].start + 1, table.rows[number].cells) == (start, cells)
        assert table.row_at(start) is table.rows[number]


@settings(deadline=None)
@given(TABLE_TEXT, st.data())
def test_setting_a_cell_changes_that_cell_and_no_other(text: str, data: st.DataObject) -> None:
    try:
        table = TableText("file", text)
    except InputError:
        assume(False)
    assume(table.rows)
    before = cells_of(text)
    number = data.draw(st.integers(0, len(table.rows) - 1))
    column = data.draw(st.integers(0, len(table.rows[number].cells) - 1))
    value = data.draw(NAMES | st.sampled_from(["a\nb", "a\rb", '"', "#", "1.5"]))
    table.set_cells(table.rows[number], {column: value})
    after = cells_of(table.apply())
    assert len(after) == len(before)
    assert after[number][column].strip() == value.strip()
    before[number][column] = after[number][column] = ""
    assert after == before


@settings(deadline=None)
@given(TABLE_TEXT, st.data())
def test_removing_rows_leaves_the_other_rows_and_all_comments(text: str, data: st.DataObject) -> None:
    try:
        table = TableText("file", text)
    except InputError:
        assume(False)
    gone = data.draw(st.permutations(range(len(table.rows))))[: data.draw(st.integers(0, len(table.rows)))]
    for number in gone:
        table.remove(table.rows[number])
    left = [found.cells for number, found in enumerate(table.rows) if number not in gone]
    assert cells_of(table.apply()) == left
    inside = {line for found in table.rows for line in range(found.start, found.end)}
    comments = [
        line.strip()
        for number, line in enumerate(table.lines)
        if line.startswith("#") and number not in inside
    ]
    after = TableText("file", table.apply())
    inside = {line for found in after.rows for line in range(found.start, found.end)}
    assert comments == [
        line.strip()
        for number, line in enumerate(after.lines)
        if line.startswith("#") and number not in inside
    ]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("bdfhj"), min_size=1, unique=True),
    st.lists(st.sampled_from("acegik"), max_size=4, unique=True),
    st.sampled_from(["\n", "\r\n", "\n\n\n\n", "\n# why\n"]),
    st.sampled_from(["", "\n", "\n\n", "\n# the end", "\r\n"]),
    st.data(),
)
def test_changes_removals_and_insertions_do_not_disturb_each_other(
    there: list[str], new: list[str], between: str, end: str, data: st.DataObject
) -> None:
    text = between.join(["name,accuracy", *(f"{name},old" for name in there)]) + end
    table = TableText("file", text)
    fate = {name: data.draw(st.sampled_from(["keep", "change", "remove"]), name) for name in there}
    steps = [("insert", name) for name in new] + [(what, name) for name, what in fate.items()]
    for what, name in data.draw(st.permutations(steps)):
        if what == "change":
            table.set_cells(row(table, name), {1: "changed"})
        elif what == "remove":
            table.remove(row(table, name))
        elif what == "insert":
            insert(table, name)
    header, *after = cells_of(table.apply())
    assert header == ["name", "accuracy"]
    expected = {
        name: {"keep": "old", "change": "changed"}[what] for name, what in fate.items() if what != "remove"
    }
    assert dict(after) == expected | dict.fromkeys(new, "new")
    assert len(after) == len(expected) + len(new)
    assert [name for name, _ in after if name in there] == [name for name in there if name in expected]
    assert table.apply().count("# why") == text.count("# why")


def test_a_changed_cell_keeps_its_spaces_and_everything_around_it() -> None:
    table = TableText("file", "\ufeff# top\r\nname , accuracy,n\r\n\r\n a ,  pass ,1\r\n# end")
    table.set_cells(row(table, "a"), {1: "fail", 2: "22"})
    assert table.apply() == "\ufeff# top\r\nname , accuracy,n\r\n\r\n a ,  fail ,22\r\n# end"


def test_a_cell_that_was_empty_is_filled() -> None:
    table = TableText("file", "name,n,m\na,, \n")
    table.set_cells(row(table, "a"), {1: "1", 2: "2"})
    assert table.apply() == "name,n,m\na,1,2\n"


def test_a_quoted_row_stays_quoted_where_it_must_be() -> None:
    table = TableText("file", 'name,n\n"a,1",5\n"b ""2""",6\r\n"c\n3",7\n')
    for name in ("a,1", 'b "2"', "c\n3"):
        table.set_cells(row(table, name), {1: "0"})
    assert table.apply() == 'name,n\n"a,1",0\n"b ""2""",0\r\n"c\n3",0\n'


def test_quotes_and_spaces_that_need_not_be_stay_all_the_same() -> None:
    table = TableText("file", '"A", pass ,"3"\n')
    table.set_cells(table.rows[0], {1: "OOM", 2: "5"})
    assert table.apply() == '"A", OOM ,"5"\n'


@pytest.mark.parametrize(
    ("value", "written"), [("x,y", '"x,y"'), ('"', '""""'), ("x\ny", '"x\ny"'), ("#x", "#x")]
)
def test_a_new_value_is_quoted_where_it_must_be(value: str, written: str) -> None:
    table = TableText("file", "a,1,2\n")
    table.set_cells(table.rows[0], {1: value})
    assert table.apply() == f"a,{written},2\n"


def test_a_row_never_turns_into_a_comment() -> None:
    table = TableText("file", "a,1\n")
    table.set_cells(table.rows[0], {0: "#a"})
    assert table.apply() == '"#a",1\n'


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("a", "# by hand\nname,accuracy\n\n\n\n# slow\nc,fail\n\n\n\ne,pass\n"),
        ("c", "# by hand\nname,accuracy\n\n\n\na,pass\n\n\n\n# slow\ne,pass\n"),
        ("e", "# by hand\nname,accuracy\n\n\n\na,pass\n\n\n\n# slow\nc,fail\n"),
        ("ce", "# by hand\nname,accuracy\n\n\n\na,pass\n\n\n\n# slow\n"),
        ("ec", "# by hand\nname,accuracy\n\n\n\na,pass\n\n\n\n# slow\n"),
    ],
)
def test_a_row_goes_with_the_blank_lines_that_set_it_apart(gone: str, left: str) -> None:
    table = TableText("file", SPREAD)
    for name in gone:
        table.remove(row(table, name))
    assert table.apply() == left


@pytest.mark.parametrize("order", ["bc", "cb"])
def test_the_last_rows_go_without_leaving_blank_lines_behind(order: str) -> None:
    table = TableText("file", "name,accuracy\n\n\n\na,pass\n\n\n\nb,pass\n\n\n\nc,pass\n")
    for name in order:
        table.remove(row(table, name))
    assert table.apply() == "name,accuracy\n\n\n\na,pass\n"


@pytest.mark.parametrize(
    ("new", "after"),
    [
        ("b", "# by hand\nname,accuracy\n\n\n\na,pass\n\n\n\nb,new\n\n\n\n# slow\nc,fail\n\n\n\ne,pass\n"),
        ("d", SPREAD.replace("e,pass", "d,new\n\n\n\ne,pass")),
        ("f", SPREAD + "\n\n\nf,new\n"),
        ("fg", SPREAD + "\n\n\nf,new\n\n\n\ng,new\n"),
        ("A", SPREAD.replace("a,pass", "A,new\n\n\n\na,pass")),
    ],
)
def test_a_row_is_put_in_its_place_and_set_apart_as_the_others_are(new: str, after: str) -> None:
    table = TableText("file", SPREAD)
    insert(table, *new)
    assert table.apply() == after


def test_rows_that_are_not_sorted_are_added_to_at_the_end() -> None:
    table = TableText("file", "name,accuracy\nz,pass\na,pass\n# end\n")
    insert(table, "m", "b")
    assert table.apply() == "name,accuracy\nz,pass\na,pass\nm,new\nb,new\n# end\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_without_a_last_line_end_gets_one_and_no_blank_line(end: str) -> None:
    table = TableText("file", f"name,accuracy{end}a,pass")
    insert(table, "b", "c")
    assert table.apply() == f"name,accuracy{end}a,pass{end}b,new{end}c,new{end}"


def test_a_change_beside_an_insertion_stays_where_it_belongs() -> None:
    table = TableText("file", PR_TIME_EXPECTED)
    table.set_cells(row(table, "mm_loop_inductor_gpu"), {2: "7"})
    table.insert(["list", "m", "1", "0.1"], name_of, "list", first_row=0)
    assert cells_of(table.apply()) == [
        ["add_loop_eager", "compile_time_instruction_count", "3070000000", "0.1"],
        ["list", "m", "1", "0.1"],
        ["mm_loop_inductor_gpu", "compile_time_instruction_count", "7", "0.015"],
        ["symint_sum_loop", "compile_time_instruction_count", "4299000000", "0.2"],
    ]


def test_a_row_added_where_the_last_one_goes_is_not_lost() -> None:
    table = TableText("file", EXPECTED + "\n\n")
    table.remove(row(table, "sam"))
    table.insert(["yolov3", "pass", "", "", ""], name_of, "yolov3", first_row=1)
    assert [cells[0] for cells in cells_of(table.apply())] == [
        "name",
        "AlbertForMaskedLM",
        "GPTJForCausalLM",
        "yolov3",
    ]


@settings(deadline=None)
@given(st.lists(st.text(max_size=6) | NAMES, min_size=2, max_size=4))
def test_a_row_that_is_rendered_reads_the_same(cells: list[str]) -> None:
    assume(not any("\x00" in cell for cell in cells))
    assert cells_of(render_row(cells)) == [cells]
