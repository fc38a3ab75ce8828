"""The Python API: what the commands do, as functions, with results that show themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import Struct, structs

import torchstone
from conftest import Command, WriteFile
from profile_samples import sample_run
from sample_files import CANONICAL
from torchstone import api
from torchstone.cli.group import COMMANDS
from torchstone.core.records import Case, Failure, Outcome, Reading, Run
from torchstone.core.run_file import encode_run
from torchstone.core.vocabulary import Verdict

SHOWS_ITSELF = re.compile(r"(Result|Review|Suggestions)$")
COMMAND_IN_PYTHON = {
    "export": "convert",
    "import": "convert",
    "list": "list_benchmarks",
    "pr-time": "pr_time",
    "quarantine": "Quarantine",
    "site": "make_site",
    "store": "HistoryStore",
    "triage": "Triage",
}
"""The commands whose function or class has another name."""
CAPABILITIES = {
    *(
        "run",
        "stream",
        "plan",
        "check",
        "compare",
        "accept",
        "report",
        "show",
        "explain",
        "list_benchmarks",
        "repro",
        "doctor",
        "read",
        "convert",
    ),
    *("ab", "selftest", "cachebench", "pr_time", "main", "record", "series"),
    *("flaky", "suggest_quarantine", "changes"),
}
HOSTILE = "<script>alert(1)</script>"


class TestNames:
    def test_every_capability_is_a_function_of_torchstone(self) -> None:
        functions = {name for name in api.__all__ if name.islower()}
        assert functions == CAPABILITIES
        assert set(api.__all__) <= set(torchstone.__all__)

    def test_every_result_shows_itself_in_a_terminal_and_in_a_notebook(self) -> None:
        results = [getattr(torchstone, name) for name in torchstone.__all__ if SHOWS_ITSELF.search(name)]
        assert len(results) > 20
        assert not [each for each in results if not callable(getattr(each, "_repr_html_", None))]
        assert not [each for each in results if each.__str__ in {object.__str__, Struct.__str__}]

    def test_every_command_can_be_called_from_python(self) -> None:
        names = {COMMAND_IN_PYTHON.get(command, command) for command in COMMANDS}
        assert names <= set(torchstone.__all__)

    @pytest.mark.parametrize("name", torchstone.__all__)
    def test_every_public_name_resolves_and_says_what_it_is(self, name: str) -> None:
        found = getattr(torchstone, name)
        if name != "__version__":
            assert found.__doc__
            assert found.__name__ == name

    @pytest.mark.parametrize("name", sorted(CAPABILITIES))
    def test_every_function_is_annotated(self, name: str) -> None:
        function = getattr(torchstone, name)
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x08)
        assert set(function.__annotations__) == {*code.co_varnames[:count], "return"}

    def test_a_name_that_is_not_public_is_an_error(self) -> None:
        with pytest.raises(AttributeError, match="nothing_of_ours"):
            torchstone.nothing_of_ours  # noqa: B018  (asking for it is the test)
        with pytest.raises(AttributeError, match="nothing_of_ours"):
            api.nothing_of_ours  # noqa: B018  (asking for it is the test)

    @pytest.mark.parametrize("package", [torchstone, api])
    def test_no_module_has_the_name_of_a_public_function(self, package: object) -> None:
        folder = Path(str(package.__file__)).parent  # type: ignore[attr-defined]
        modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
        assert not modules & set(torchstone.__all__)

    def test_functions_stay_functions_whatever_is_imported(self) -> None:
        code = (
            "import importlib, pkgutil, torchstone, torchstone.api\n"
            "for each in pkgutil.walk_packages(torchstone.api.__path__, 'torchstone.api.'):\n"
            "    importlib.import_module(each.name)\n"
            f"for name in {sorted(CAPABILITIES)}:\n"
            "    for home in (torchstone, torchstone.api):\n"
            "        assert callable(getattr(home, name)), name\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_importing_torchstone_imports_no_library(self) -> None:
        libraries = ("torch", "click", "rich", "numpy", "msgspec", "pandas")
        code = f"import sys, torchstone, torchstone.api; sys.exit(any(n in sys.modules for n in {libraries}))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_the_pure_functions_import_neither_torch_nor_the_command_line(self) -> None:
        code = (
            "import sys, torchstone\n"
            f"for name in {sorted(CAPABILITIES)}: getattr(torchstone, name)\n"
            "sys.exit(any(name in sys.modules for name in ('torch', 'click', 'rich', 'torchstone.cli')))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def files(write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.chdir(tmp_path)
    return write("results.csv", CANONICAL["accuracy"]), write("expected.csv", CANONICAL["expected"])


class TestRead:
    def test_a_file_becomes_records_and_dictionaries(self, files: tuple[str, str]) -> None:
        found = torchstone.read(Path(files[0]))
        assert len(found) == len(found.outcomes) == len(list(found))
        records = found.to_dicts()
        assert {record["benchmark"] for record in records} == {case.benchmark for case in found.plan}
        assert all(record["status"] for record in records)

    def test_axes_are_filled_in_from_a_mapping(self, files: tuple[str, str]) -> None:
        found = torchstone.read(files[0], axes={"backend": "inductor", "dynamic": True})
        assert {case.variant.backend for case in found.plan} == {"inductor"}
        assert {case.variant.dynamic for case in found.plan} == {True}

    def test_an_outcome_is_found_by_name_or_id(self, files: tuple[str, str]) -> None:
        found = torchstone.read(files[0])
        first = found.outcomes[0]
        assert found[first.case.id] == first
        with pytest.raises(KeyError):
            found["nothing of this name"]

    def test_a_data_frame_has_the_same_rows(self, files: tuple[str, str]) -> None:
        pandas = pytest.importorskip("pandas")
        found = torchstone.read(files[0])
        assert isinstance(found.to_frame(), pandas.DataFrame)
        assert len(found.to_frame()) == len(found.to_dicts())

    def test_without_pandas_the_error_says_so(
        self, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(torchstone.TorchstoneError, match="requires pandas, which is not installed"):
            torchstone.read(files[0]).to_frame()

    def test_text_has_80_columns_and_hostile_names_stay_text(self) -> None:
        cases = [Case(f"{HOSTILE}\x1b[31m{'x' * 300}{n}", "accuracy") for n in range(150)]
        outcomes = [Outcome(case, "fail_to_run", failure=Failure(message=HOSTILE)) for case in cases]
        found = torchstone.RunResult(Reading("a.jsonl", "run", Run("a", tuple(cases), tuple(outcomes)), ()))
        text, html = str(found), found._repr_html_()
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text + html
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        assert "50 rows more" in text
        assert tags_of(html) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}

    def test_an_empty_run_shows_itself(self) -> None:
        found = torchstone.RunResult(Reading("a.jsonl", "run", Run("a", (Case("x", "accuracy"),), ()), ()))
        assert "1 planned case without a result" in str(found)
        assert found.to_dicts() == []


def tags_of(html: str) -> set[str]:
    found = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  (its base class says so)
            found.add(tag)

    Tags().feed(html)
    return found


class TestCheck:
    def test_it_says_what_the_command_says(self, files: tuple[str, str], torchstone: Command) -> None:
        import torchstone as package  # noqa: PLC0415  (the fixture has its name)

        result = package.check(files[0], baselines=files[1])
        ran = torchstone("check", files[0], "--baseline", files[1])
        assert result.exit_code == ran.code
        assert str(result) == ran.out.rstrip("\n")
        printed = json.loads(torchstone("check", files[0], "--baseline", files[1], "--format", "json").out)
        assert json.loads(result.render("json")) == printed
        assert len(result.to_dicts()) == len(printed["rows"])

    def test_results_of_earlier_calls_are_taken_as_they_are(self, files: tuple[str, str]) -> None:
        results, expected = map(torchstone.read, files)
        Path(files[0]).unlink()
        Path(files[1]).unlink()
        again = torchstone.check(results, baselines=[expected])
        assert again.rows
        assert again.headline in str(again)
        assert again.headline in again._repr_html_()

    def test_rules_without_a_baseline(self, files: tuple[str, str]) -> None:
        result = torchstone.check(files[0], rules="accuracy=must_pass")
        assert result.passed == (not result.red)
        assert {row.verdict for row in result.red} <= set(Verdict)

    def test_suggested_commands_repeat_the_request(self, files: tuple[str, str]) -> None:
        result = torchstone.check(
            files[0], baselines=files[1], axes={"tag": "nightly"}, allow=["new"], compare_anyway=True
        )
        options = result.report.context.check_options
        assert options == ("--allow", "new", "--set", "tag=nightly", "--compare-anyway")

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"baseline": "e.csv"}, "unknown argument 'baseline'\n  did you mean 'baselines'? "),
            ({"rules": 5}, "rules=5: expected a string, or several strings"),
            ({"baselines": "expected.csv", "block": "unheard_of"}, "unheard_of: no such verdict"),
            (
                {"baselines": "expected.csv", "policy": "lax"},
                "--policy lax: expected strict, lenient, upstream",
            ),
            ({"baselines": "expected.csv", "policy": "upstream", "upstream_version": "0.1"}, "0.1"),
            ({"as_of": "yesterday"}, "as_of"),
            ({"baselines": "expected.csv", "kind": "unheard_of"}, "unheard_of: no such format"),
            (
                {"baselines": "expected.csv", "baseline_kind": "unheard_of"},
                "unheard_of: no such format",
            ),
            ({}, "no baseline and no rule given"),
        ],
    )
    def test_what_cannot_be_meant_is_a_usage_error(
        self, files: tuple[str, str], options: dict[str, object], problem: str
    ) -> None:
        with pytest.raises(torchstone.UsageError) as raised:
            torchstone.check(files[0], **options)  # type: ignore[arg-type]
        assert problem in str(raised.value)

    def test_a_file_that_is_not_there_is_an_input_error(self, files: tuple[str, str]) -> None:
        with pytest.raises(torchstone.InputError, match=r"none\.csv"):
            torchstone.check("none.csv", baselines=files[1])

    def test_an_unknown_style_is_an_error(self, files: tuple[str, str]) -> None:
        with pytest.raises(torchstone.UsageError, match="no such style"):
            torchstone.check(*files[:1], baselines=files[1]).render("os")


class TestCompare:
    def test_it_says_what_the_command_says(self, files: tuple[str, str], torchstone: Command) -> None:
        import torchstone as package  # noqa: PLC0415  (the fixture has its name)

        result = package.compare(files[0], package.read(files[0]), margin=0.02, margins={"compile_*": 0.05})
        margins = ("--margin", "2%", "--margin", "compile_*=5%")
        ran = torchstone("compare", files[0], files[0], *margins)
        assert str(result) == ran.out.rstrip("\n")
        assert result.exit_code == ran.code == 0
        assert result.report.options == margins
        assert [record["metric"] for record in result.to_dicts()] == [row.metric for row in result.rows]
        assert result.headline in result._repr_html_()

    def test_cautions_are_records_also_those_of_a_page(self, files: tuple[str, str]) -> None:
        results = torchstone.read(files[0])
        (caution,) = torchstone.compare(results, results).cautions
        assert isinstance(caution, torchstone.Caution)
        assert caution.kind == "compared_with_itself"
        assert caution.names == {"base": files[0], "new": files[0]}
        told = structs.replace(results.reading, cautions=(caution,))
        assert torchstone.report(told).cautions == (caution,)

    def test_a_case_that_got_worse_blocks(self, files: tuple[str, str]) -> None:
        base = torchstone.read(files[0])
        passed = next(o for o in base.outcomes if o.status == "pass")
        worse = tuple(
            structs.replace(o, status="fail_to_run", measurements=()) if o is passed else o
            for o in base.outcomes
        )
        new = structs.replace(base.reading, path="new.csv", run=structs.replace(base.run, outcomes=worse))
        result = torchstone.compare(base, new)
        assert not result.passed
        assert [row.case for row in result.red] == [passed.case]

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"margin": 2}, "expected a share"),
            ({"alpha": 0}, "expected a share"),
            ({"policy": "lax"}, "--policy lax"),
            ({"sort": "size"}, "expected verdict"),
            ({"better": {"x": "sideways"}}, "METRIC=lower"),
            ({"block": "unheard_of"}, "no such verdict"),
        ],
    )
    def test_what_cannot_be_meant_is_a_usage_error(
        self, files: tuple[str, str], options: dict[str, object], problem: str
    ) -> None:
        with pytest.raises(torchstone.UsageError, match=problem):
            torchstone.compare(files[0], files[0], **options)  # type: ignore[arg-type]


class TestAccept:
    def test_nothing_is_written_until_asked(self, files: tuple[str, str]) -> None:
        before = Path(files[1]).read_text()
        proposal = torchstone.accept(files[0], files[1], add_new=True, prune=True)
        assert proposal.adopted
        assert Path(files[1]).read_text() == before
        assert proposal.diff().startswith(f"--- {files[1]}\n+++ {files[1]}\n")
        assert max(map(len, str(proposal).splitlines())) <= 80
        assert "<table>" in proposal._repr_html_()
        assert proposal.write()
        assert Path(files[1]).read_text() == proposal.text != before
        again = torchstone.accept(files[0], Path(files[1]))
        assert not again.adopted
        assert not again.write()
        assert "nothing to change" in str(again)

    def test_a_baseline_that_has_changed_meanwhile_is_not_overwritten(self, files: tuple[str, str]) -> None:
        proposal = torchstone.accept(files[0], files[1], add_new=True, prune=True)
        Path(files[1]).write_text("name,accuracy\nother,pass\n")
        with pytest.raises(torchstone.TorchstoneError):
            proposal.write()
        assert Path(files[1]).read_text() == "name,accuracy\nother,pass\n"

    def test_repeats_need_a_run_file(self, files: tuple[str, str]) -> None:
        with pytest.raises(torchstone.UsageError, match="--repeat requires exactly one run file"):
            torchstone.accept(files[0], files[1], repeat=3)


class TestReport:
    def test_a_page_is_text_until_written(self, files: tuple[str, str], tmp_path: Path) -> None:
        result = torchstone.report(files[0], baselines=files[1])
        assert result.html.startswith("<!doctype html>")
        assert result.headline in str(result)
        result.write(tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text() == result.html
        assert tags_of(result._repr_html_()) == {"iframe"}

    def test_a_table_has_at_least_one_row(self, files: tuple[str, str]) -> None:
        with pytest.raises(torchstone.UsageError, match="--most-rows 0: expected a whole number from 1"):
            torchstone.report(files[0], most_rows=0)


class TestConvert:
    def test_any_format_to_any_other(self, files: tuple[str, str], tmp_path: Path) -> None:
        result = torchstone.convert(files[0])
        result.write(tmp_path / "run.jsonl")
        assert torchstone.read(tmp_path / "run.jsonl").outcomes
        back = torchstone.convert(tmp_path / "run.jsonl", to="accuracy", lossy=True)
        assert str(back).startswith("dev,name,batch_size,accuracy")
        assert "first lines" in back._repr_html_()

    def test_what_would_be_lost_is_an_error(self, files: tuple[str, str]) -> None:
        with pytest.raises(torchstone.UsageError, match="cannot hold") as raised:
            torchstone.convert(files[0], to="expected")
        assert raised.value.losses  # type: ignore[attr-defined]
        assert torchstone.convert(files[0], to="expected", lossy=True).losses

    def test_an_unknown_format_is_an_error(self, files: tuple[str, str]) -> None:
        with pytest.raises(torchstone.UsageError, match="--to pdf"):
            torchstone.convert(files[0], to="pdf")


def test_explain_says_what_the_command_says(torchstone: Command, write: WriteFile) -> None:
    import torchstone as package  # noqa: PLC0415  (the fixture has its name)

    base = write("base.jsonl", encode_run(sample_run(changed=False)))
    new = write("new.jsonl", encode_run(sample_run(changed=True)))
    shown = torchstone("explain", base, new).out.rstrip("\n")
    result = package.explain(base, new)
    assert str(result) == shown
    assert "<pre>" in result._repr_html_()
    assert json.loads(result.render("json"))["cases"]
    with pytest.raises(package.UsageError, match="has no case"):
        package.explain(base, new, "nothing_of_this_name")


def test_doctor_finds_something_about_this_machine() -> None:
    result = torchstone.doctor()
    assert result.can_measure == (result.exit_code == 0)
    assert len(result.to_dicts()) == len(result.findings)
    assert max(map(len, str(result).splitlines())) <= 80
    assert "<table>" in result._repr_html_()
