"""DDP reports and runs with rounds of scaling, through the commands: check, accept, compare, export, and what ``run --ddp-json`` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command, Ran, WriteFile
from round_files import failed_round, round_case, round_of, scaling_run, sweep
from torchstone.api.measuring.exports import write_ddp
from torchstone.core.records import Outcome
from torchstone.core.run_file import encode_run
from torchstone.formats import FORMATS

WriteRounds = Callable[..., str]


@pytest.fixture
def write_rounds(write: WriteFile) -> WriteRounds:
    """Writes rounds as a run file or, under a name that ends so, as a DDP report."""

    def write_rounds(name: str, *outcomes: Outcome) -> str:
        run = scaling_run(*outcomes)
        return write(name, FORMATS["ddp"].write(run) if name.endswith(".json") else encode_run(run))

    return write_rounds


def verdicts(ran: Ran) -> dict[tuple[str, str], str]:
    """The verdict of each round, by benchmark and its ranks and strategy."""
    rows = json.loads(ran.out)["rows"]
    return {
        (row["name"], row["case"].split("ranks=")[1].split("]")[0]): row["verdict"]
        for row in rows
        if row["metric"] == "iteration_time"
    }


FOUR = ("1,strategy=none", "1,strategy=ddp", "2,strategy=ddp", "4,strategy=ddp")


class TestCheck:
    @pytest.mark.parametrize("kind", ["json", "jsonl"])
    def test_a_report_is_a_baseline_for_reports_and_for_runs(
        self, kind: str, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.json", *sweep())
        alone, one, two, four = sweep()
        slower = round_of(two.case, 0.2)
        write_rounds(f"new.{kind}", alone, one, slower, four)
        ran = torchstone("check", f"new.{kind}", "--baseline", "base.json", "--format", "json")
        assert ran.code == 1
        wanted = ("pass", "pass", "regression", "pass")
        assert verdicts(ran) == {("mlp", axes): verdict for axes, verdict in zip(FOUR, wanted, strict=True)}

    def test_a_round_that_failed_or_is_not_there_is_red(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.json", *sweep())
        alone, one, two, _ = sweep()
        write_rounds("new.jsonl", alone, one, failed_round(two.case))
        ran = torchstone("check", "new.jsonl", "--baseline", "base.json", "--format", "json")
        found = verdicts(ran)
        assert ran.code == 1
        assert found["mlp", FOUR[2]] == "regression"
        assert found["mlp", FOUR[3]] == "missing"

    def test_another_batch_size_is_not_compared(self, torchstone: Command, write_rounds: WriteRounds) -> None:
        write_rounds("base.json", *sweep()[:1])
        write_rounds("new.jsonl", *sweep(batch_size=16)[:1])
        ran = torchstone("check", "new.jsonl", "--baseline", "base.json", "--format", "json")
        assert (ran.code, verdicts(ran)) == (1, {("mlp", FOUR[0]): "inconclusive"})

    def test_two_bucket_sizes_cannot_both_be_judged_by_a_report_that_states_none(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.json", *sweep())
        write_rounds("new.jsonl", *sweep(), *sweep(bucket="5")[1:])
        ran = torchstone("check", "new.jsonl", "--baseline", "base.json")
        assert (ran.code, "--only" in ran.err) == (2, True)
        chosen = ("--only", "*bucket_mb=5,*", "--only", "*strategy=none*")
        assert torchstone("check", "new.jsonl", "--baseline", "base.json", *chosen).code == 0

    def test_a_run_is_judged_by_a_run_with_its_efficiency_and_memory(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.jsonl", *sweep())
        ran = torchstone(
            "check", "base.jsonl", "--baseline", write_rounds("same.jsonl", *sweep()), "--format", "json"
        )
        rows = json.loads(ran.out)["rows"]
        assert ran.code == 0
        assert {row["metric"] for row in rows} == {"iteration_time", "scaling_efficiency", "peak_memory"}


class TestAccept:
    def test_new_times_of_a_run_go_into_a_report_and_nothing_else_does(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        path = Path(write_rounds("base.json", *sweep(), *sweep("convnet")))
        before = json.loads(path.read_text())
        write_rounds("new.jsonl", *sweep(seconds=0.2))
        assert torchstone("accept", "new.jsonl", "--baseline", "base.json", "--yes").code == 0
        after = json.loads(path.read_text())
        assert after["benchmark_results"][1] == before["benchmark_results"][1]
        times = [each["measurements"] for each in after["benchmark_results"][0]["result"]]
        assert times == [[0.201], [0.201], [0.203], [0.207]]
        chosen = ("--only", "mlp", "--only", "convnet")
        assert torchstone("check", "new.jsonl", "--baseline", "base.json", *chosen).code == 1
        assert torchstone("check", "new.jsonl", "--baseline", "base.json", "--only", "mlp").code == 0

    def test_rounds_on_more_ranks_join_those_of_their_model(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        path = Path(write_rounds("base.json", *sweep(), *sweep("convnet")))
        write_rounds("new.jsonl", round_of(round_case("mlp", 8)))
        ran = torchstone("accept", "new.jsonl", "--baseline", "base.json", "--yes", "--add-new")
        assert ran.code == 0
        results = json.loads(path.read_text())["benchmark_results"]
        assert [len(entry["result"]) for entry in results] == [5, 4]
        assert results[0]["result"][-1]["ranks"] == list(range(8))

    def test_a_new_baseline_is_a_report_in_the_order_of_the_original(
        self, torchstone: Command, write_rounds: WriteRounds, tmp_path: Path
    ) -> None:
        write_rounds("new.jsonl", *reversed(sweep()))
        assert torchstone("accept", "new.jsonl", "--baseline", "new.json", "--yes", "--add-new").code == 0
        (entry,) = json.loads((tmp_path / "new.json").read_text())["benchmark_results"]
        assert [len(each["ranks"]) for each in entry["result"]] == [1, 1, 2, 4]
        assert torchstone("check", "new.jsonl", "--baseline", "new.json").code == 0

    def test_rounds_that_a_report_has_no_place_for_are_held_back(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        path = Path(write_rounds("base.json", *sweep()))
        before = path.read_text()
        write_rounds("new.jsonl", *sweep(), round_of(round_case("mlp", 2, "fsdp")))
        ran = torchstone("accept", "new.jsonl", "--baseline", "base.json", "--yes", "--add-new")
        assert "a DDP report cannot hold rounds with fsdp" in ran.out
        assert path.read_text() == before


class TestCompare:
    def test_models_that_only_one_report_has_are_listed(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.json", *sweep("mlp"), *sweep("convnet"))
        write_rounds("new.json", *sweep("transformer"), *sweep("mlp"))
        ran = torchstone("compare", "base.json", "new.json", "--format", "json")
        found: dict[str, set[str]] = {}
        for row in json.loads(ran.out)["rows"]:
            found.setdefault(row["name"], set()).add(row["verdict"])
        assert found == {"convnet": {"missing"}, "transformer": {"new"}, "mlp": {"same"}}
        assert ran.code == 1

    def test_two_reports_with_no_model_in_common_are_refused_by_name(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.json", *sweep("mlp"))
        write_rounds("new.json", *sweep("transformer"))
        ran = torchstone("compare", "base.json", "new.json")
        assert ran.code == 2
        assert "BASE has mlp[" in ran.err
        assert "NEW has transformer[" in ran.err

    def test_a_report_can_be_compared_with_a_run(
        self, torchstone: Command, write_rounds: WriteRounds
    ) -> None:
        write_rounds("base.json", *sweep())
        write_rounds("new.jsonl", *sweep(seconds=0.2))
        ran = torchstone("compare", "base.json", "new.jsonl", "--format", "json")
        assert set(verdicts(ran)) == {("mlp", axes) for axes in FOUR}


class TestExport:
    def test_a_run_becomes_a_report_and_what_that_loses_is_said(
        self, torchstone: Command, write_rounds: WriteRounds, tmp_path: Path
    ) -> None:
        fsdp = round_of(round_case("mlp", 2, "fsdp"))
        write_rounds("run.jsonl", *sweep(), fsdp)
        refused = torchstone("export", "run.jsonl", "--to", "ddp", "--output", "ddp.json")
        assert (refused.code, (tmp_path / "ddp.json").exists()) == (2, False)
        ran = torchstone("export", "run.jsonl", "--to", "ddp", "--lossy", "--output", "ddp.json")
        assert ran.code == 0
        assert "1 case (mlp)" in ran.err
        assert "values of iteration_time" not in ran.err
        assert (tmp_path / "ddp.json").read_text() == FORMATS["ddp"].write(scaling_run(*sweep()))


class TestWriteDdp:
    def test_a_report_is_written_and_what_it_has_no_place_for_is_said(self, tmp_path: Path) -> None:
        said: list[str] = []
        path = str(tmp_path / "ddp.json")
        write_ddp(scaling_run(*sweep(), round_of(round_case("mlp", 2, "fsdp"))), path, said.append)
        assert said == [
            f"wrote 4 rounds to {path}",
            f"not in {path}: 1 round with fsdp: a DDP report cannot hold them",
        ]
        assert Path(path).read_text() == FORMATS["ddp"].write(scaling_run(*sweep()))

    def test_each_bucket_size_has_a_report_of_its_own(self, tmp_path: Path) -> None:
        said: list[str] = []
        run = scaling_run(*sweep(), *sweep(bucket="5")[1:])
        write_ddp(run, str(tmp_path / "ddp.json"), said.append)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "ddp_bucket_mb_25.json",
            "ddp_bucket_mb_5.json",
        ]
        report = json.loads((tmp_path / "ddp_bucket_mb_5.json").read_text())
        assert (report["bucket_size"], len(report["benchmark_results"][0]["result"])) == (5, 4)
        assert len(said) == 2

    def test_nothing_is_written_where_there_is_nothing_to_write(self, tmp_path: Path) -> None:
        said: list[str] = []
        path = str(tmp_path / "ddp.json")
        write_ddp(scaling_run(failed_round(round_case("mlp", 1, "none"), "OOM")), path, said.append)
        assert not list(tmp_path.iterdir())
        assert said[0].startswith(f"{path} was not written")
        assert said[1] == f"not in {path}: mlp on 1 rank without DDP: OOM"
        write_ddp(scaling_run(*sweep()), None, said.append)
        assert not list(tmp_path.iterdir())

    @pytest.mark.slow
    def test_a_real_run_writes_a_report_that_can_be_its_baseline(
        self, torchstone: Command, tmp_path: Path
    ) -> None:
        options = ("--device", "cpu", "--size", "small", "--ranks", "2", "--repeat", "3", "--warm-up", "1")
        outputs = ("--output", "run.jsonl", "--ddp-json", "ddp.json")
        ran = torchstone("run", "scaling::mlp", *options, *outputs)
        assert ran.code == 0, ran.err
        report = json.loads((tmp_path / "ddp.json").read_text())
        assert (report["distributed_backend"], report["bucket_size"]) == ("gloo", 25)
        (entry,) = report["benchmark_results"]
        assert [(len(each["ranks"]), len(each["measurements"])) for each in entry["result"]] == [
            (1, 3),
            (2, 6),
        ]
        checked = torchstone("check", "run.jsonl", "--baseline", "ddp.json", "--format", "json")
        assert (checked.code, set(verdicts(checked).values())) == (0, {"pass"})

    def test_a_place_where_nothing_can_be_written_is_found_before_anything_is_measured(
        self, torchstone: Command
    ) -> None:
        ran = torchstone("run", "scaling::mlp", "--device", "cpu", "--ddp-json", "nowhere/ddp.json")
        assert ran.code == 2
        assert "nowhere/ddp.json: the parent folder does not exist" in ran.err
