"""What the terminal says about compile_cache cases: a line each, the table, and why caches did not serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Command, WriteFile, start_on_terminal
from stated_facts import with_facts
from torchstone.cli.terminal.run_summary import print_cache_reasons, print_summary
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import settings_from
from torchstone.reporting.run_text.case_lines import result_line

NATIVE = "what inductor wrote was compiled again, in {} s (cold: 2.1 s): it is not among what was saved"
SETTINGS = {"sources": {"smoke": {"kind": "suite", "name": "smoke"}}, "threads": 1}


def reason(scenario: str, graph: str, cache: str, state: str, text: str, repeat: int = 1) -> dict[str, Any]:
    return {"scenario": scenario, "repeat": repeat, "graph": graph, "cache": cache, "state": state, "reason": text}  # fmt: skip


def outcome(
    name: str,
    seconds: dict[str, float],
    *,
    hits: int = 2,
    asked: int = 2,
    reasons: list[dict[str, Any]] | None = None,
    scenarios: dict[str, Any] | None = None,
    status: str = "pass",
    failure: Failure | None = None,
) -> Outcome:
    """A compile_cache case; every scenario but the cold one has the same look-ups."""
    measured = []
    for scenario, amount in seconds.items():
        measured.append(Measurement(f"{scenario}_compile_seconds", (amount,)))
        found = 0 if scenario == "cold" else hits
        measured.append(Measurement(f"{scenario}_cache_hit", (found,)))
        measured.append(Measurement(f"{scenario}_cache_miss", (asked - found,)))
        if scenario != "cold":
            measured.append(Measurement(f"{scenario}_saved", (100 * (1 - amount / seconds["cold"]),)))
    extra: dict[str, Any] = {"scenarios": {each: {"status": "pass"} for each in seconds} | (scenarios or {})}
    if reasons:
        extra["not_warm"] = reasons
    case = Case(name, "compile_cache", "smoke", Variant("cpu", "inductor", "inference"))
    return with_facts(Outcome(case, status, tuple(measured), failure), extra)


MLP = outcome("mlp", {"cold": 3.32, "warm": 0.174, "portable": 2.03, "precompile": 0.1})


class TestLine:
    def test_it_has_every_start_with_what_it_saves_and_what_matters_most_first(self) -> None:
        line = result_line(MLP)
        core = "pass mlp cache inf    cold 3.32 s, warm 0.174 s (saves 94.8%), hits 2/2"
        assert line == f"{core}, portable 2.03 s (saves 38.9%), precompile 0.1 s (saves 97.0%)"
        assert len(f"[1/1] {core}") <= 80

    def test_only_what_was_measured_is_there(self) -> None:
        assert result_line(outcome("mlp", {"cold": 3.3})) == "pass mlp cache inf    cold 3.3 s"

    def test_a_failure_says_in_which_scenario(self) -> None:
        failed = outcome(
            "mlp",
            {"cold": 3.0},
            status="fail_accuracy",
            failure=Failure("compare", "in the warm scenario: no"),
        )
        assert result_line(failed) == "fail_accuracy: mlp cache inf: in compare: in the warm scenario: no"


def table_of(capsys: pytest.CaptureFixture[str], *outcomes: Outcome) -> list[list[str]]:
    """The lines of the final table, as cells."""
    run = Run("r", tuple(each.case for each in outcomes), outcomes)
    print_summary(run, "run.jsonl", 16.0)
    lines = capsys.readouterr().out.split("\n\n")[0].strip().splitlines()
    return [[cell for cell in line.split("  ") if cell] for line in lines[1:]]


class TestTable:
    def test_sums_of_cold_and_warm_with_what_is_saved_of_them(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        names, cells = table_of(
            capsys,
            outcome("a", {"cold": 10.0, "warm": 1.0}),
            outcome("b", {"cold": 2.0, "warm": 2.0}, hits=1),
        )
        found = dict(zip(map(str.strip, names), map(str.strip, cells), strict=True))
        assert found == {
            "passed": "2/2 (100%)",
            "cold": "12 s",
            "warm": "3 s",
            "saved": "75.0%",
            "hit rate": "75%",
            "cases": "2",
        }

    def test_cases_without_a_warm_start_are_not_among_the_sums(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        names, cells = table_of(
            capsys, outcome("a", {"cold": 10.0, "warm": 1.0}), outcome("b", {"cold": 100.0})
        )
        found = dict(zip(map(str.strip, names), map(str.strip, cells), strict=True))
        assert (found["cold"], found["warm"], found["saved"]) == ("10 s", "1 s", "90.0% (1)")

    def test_other_probes_keep_their_columns(self, capsys: pytest.CaptureFixture[str]) -> None:
        fast = Outcome(Case("a", "performance", "smoke"), "pass", (Measurement("speedup", (2.0,)),))
        names, *rows = table_of(capsys, MLP, fast)
        assert "speedup" in [name.strip() for name in names]
        assert "cold" not in [name.strip() for name in names]
        assert len(rows) == 1

    def test_beside_other_probes_caches_have_a_table_of_their_own(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fast = Outcome(Case("a", "performance", "smoke"), "pass", (Measurement("speedup", (2.0,)),))
        print_summary(Run("r", (MLP.case, fast.case), (MLP, fast)), "run.jsonl", 16.0)
        first, second, *_ = capsys.readouterr().out.strip().split("\n\n")
        assert first.startswith("2 cases in 16 s\n")
        assert second.startswith("compile caches\n")
        assert "94.8%" in second

    def test_a_run_without_caches_has_no_columns_for_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        fast = Outcome(Case("a", "performance", "smoke"), "pass", (Measurement("speedup", (2.0,)),))
        names, _ = table_of(capsys, fast)
        assert [name.strip() for name in names] == ["passed", "speedup", "cases"]

    def test_it_fits_on_a_usual_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_summary(Run("r", (MLP.case,), (MLP,)), "run.jsonl", 16.0)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def explained(capsys: pytest.CaptureFixture[str], *outcomes: Outcome) -> str:
    print_cache_reasons(outcomes)
    return capsys.readouterr().out


class TestReasons:
    def test_where_everything_was_served_that_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert explained(capsys, MLP) == "\nall cache lookups were hits, in 1 case\n"

    def test_a_reason_stands_once_with_its_graphs_and_repeats(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bypassed = [reason("warm", graph, "fx_graph", "bypass", "unsafe op", n) for n in (1, 2) for graph in ("0/0", "1/0")]  # fmt: skip
        native = [reason("portable", "all", "native", "miss", NATIVE.format(2.9 + n), n) for n in (1, 2)]
        text = explained(
            capsys, outcome("a", {"cold": 3.0, "warm": 2.0, "portable": 2.5}, reasons=bypassed + native), MLP
        )
        lines = text.splitlines()
        assert lines[1:4] == [
            "why caches were not used:",
            "smoke::a[device=cpu,backend=inductor,mode=inference]::compile_cache",
            "  warm       fx_graph bypass, graphs 0/0, 1/0 (repeats 1, 2): unsafe op",
        ]
        assert lines[4].startswith("  portable   native miss, all graphs (repeats 1, 2): what inductor wrote")
        assert text.count("compiled again") == 1
        assert lines[-1] == "all cache lookups were hits in 1 other case"
        assert max(map(len, lines)) <= 100

    def test_scenarios_without_a_result_say_why(self, capsys: pytest.CaptureFixture[str]) -> None:
        stated = {
            "precompile": {"status": "not available", "reason": "torch 2.6 has no caching_precompile"},
            "portable": {"status": "fail_to_run", "reason": "damaged"},
        }
        text = explained(capsys, outcome("a", {"cold": 3.0, "warm": 2.0}, scenarios=stated))
        assert "  portable   fail_to_run: damaged\n" in text
        assert "  precompile not available: torch 2.6 has no caching_precompile\n" in text

    def test_what_nobody_explains_is_not_called_served(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = explained(capsys, outcome("a", {"cold": 3.0, "warm": 2.0}, hits=1))
        assert "  warm       hits 1/2, and torch gives no reason for the misses\n" in text

    def test_a_backend_without_caches_is_not_called_served(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = explained(capsys, outcome("a", {"cold": 3.0, "warm": 2.0}, hits=0, asked=0))
        assert "  warm       no cache was looked up\n" in text

    def test_a_case_that_never_began_says_how_it_ended(self, capsys: pytest.CaptureFixture[str]) -> None:
        ended = Outcome(Case("a", "compile_cache"), "worker_died", (), Failure("load", "killed"))
        assert "worker_died: in load: killed\n" in explained(capsys, ended)

    def test_no_reason_can_disturb_the_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        bad = [reason("warm", "\x1b[2J", "fx\n", "miss\r", "\x1b]0;title\x07")]
        text = explained(capsys, outcome("a\x1b[31m", {"cold": 3.0, "warm": 2.0}, reasons=bad))
        assert not {"\x1b", "\r", "\x07"} & set(text)

    def test_a_run_without_caches_has_nothing_to_explain(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "no compile_cache cases" in explained(capsys, Outcome(Case("a", "accuracy"), "pass"))


class TestCommand:
    def test_a_finished_run_is_explained_by_resuming_it(self, torchstone: Command, write: WriteFile) -> None:
        native = [reason("portable", "all", "native", "miss", NATIVE.format(2.9))]
        one = outcome("mlp", {"cold": 3.0, "warm": 0.2, "portable": 2.5}, reasons=native)
        path = write("run.jsonl", encode_run(Run("r", (one.case,), (one,), settings=settings_from(SETTINGS))))
        ran = torchstone("run", "--resume", path, "--explain")
        assert ran.code == 0
        assert "portable   native miss, all graphs: what inductor wrote was compiled again" in ran.out
        assert "why caches" not in torchstone("run", "--resume", path).out

    def test_it_is_for_the_probe_that_has_something_to_explain(self, torchstone: Command) -> None:
        ran = torchstone("run", "smoke", "--explain")
        assert ran.code == 2
        assert "--explain requires the probe compile_cache" in ran.err

    @pytest.mark.slow
    def test_a_run_ends_with_the_explanation(self, tmp_path: Path) -> None:
        options = "--probe compile_cache --scenario cold,warm --threads 1 --device cpu --explain -o run.jsonl"
        child = start_on_terminal(tmp_path, "run", "smoke", "-k", "^mlp$", *options.split())
        child.expect(
            r" mlp +cache +(?:inf +)?cold [\d.]+ s, warm [\d.]+ s \(saves [\d.]+%\), hits 2/2", timeout=120
        )
        child.expect("all cache lookups were hits, in 1 case", timeout=30)
        child.expect_exact("\r\n")
        child.wait()
        assert child.exitstatus == 0
