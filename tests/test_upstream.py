"""The flaky lists of upstream versions: which there are, which one a report names, and how a user takes an entry out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import Command, Ran, WriteFile
from torchstone.core.upstream import find_version, upstream_versions
from torchstone.gate.quarantine_file import add_entry, read_removals, remove_entries

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,fallbacks_to_eager,graph_breaks\n"
NOT_FLAKY = '[[not_flaky]]\ncase = "vgg16"\nreason = "stable here"\n'


def flaky(version: str, metric: str, platform: str = "") -> set[str]:
    entries = find_version(version).flaky
    return {entry.case for entry in entries if metric in entry.metrics and entry.platform == platform}


def write_pair(write: WriteFile, path: str, *models: str, status: str = "fail_accuracy") -> tuple[str, ...]:
    rows = "".join(f"cuda,{model},8,{status},90,3,0,5\n" for model in models)
    expected = "".join(f"\n\n\n{model},pass,5\n" for model in models)
    actual, baseline = (
        write("r.csv", HEADER + rows),
        write(path, "name,accuracy,graph_breaks\n" + expected),
    )
    return ("--actual", actual, "--expected", baseline, "--policy", "upstream")


def labels(ran: Ran) -> dict[str, str]:
    report: dict[str, Any] = json.loads(ran.out)
    return {row["name"]: row["label"] for row in report["rows"]}


def test_each_version_has_its_lists() -> None:
    assert [version.name for version in upstream_versions()] == ["recorded", "2.13", "2026-06"]
    for version in upstream_versions():
        assert version.source
        keys = [(entry.case, entry.metrics, entry.platform) for entry in version.flaky]
        assert len(set(keys)) == len(keys)
    assert (len(flaky("recorded", "accuracy")), len(flaky("recorded", "accuracy", "rocm"))) == (6, 40)


def test_release_2_13_excuses_24_models_fewer_on_rocm_and_two_more() -> None:
    old = flaky("recorded", "accuracy") | flaky("recorded", "accuracy", "rocm")
    new = flaky("2.13", "accuracy") | flaky("2.13", "accuracy", "rocm")
    assert len(old - new) == 24
    assert new - old == {"tts_angular"}
    assert flaky("2.13", "accuracy") - flaky("recorded", "accuracy") == {"sam"}
    assert flaky("2.13", "graph_breaks", "rocm") == flaky("recorded", "graph_breaks", "rocm")


def test_a_model_is_excused_by_the_version_that_lists_it(torchstone: Command, write: WriteFile) -> None:
    given = write_pair(write, "rocm/e.csv", "sam", "tts_angular", "densenet121", "vgg16")
    recorded = torchstone("check", *given, "--format", "json")
    assert labels(recorded) == {
        "sam": "FAIL_BUT_FLAKY",
        "tts_angular": "FAIL",
        "densenet121": "FAIL_BUT_FLAKY",
        "vgg16": "FAIL_BUT_FLAKY",
    }
    newer = torchstone("check", *given, "--format", "json", "--upstream-version", "2.13")
    assert labels(newer) == labels(recorded) | {"tts_angular": "FAIL_BUT_FLAKY", "densenet121": "FAIL"}
    elsewhere = write_pair(write, "cuda/e.csv", "sam", "vgg16")
    newer = torchstone("check", *elsewhere, "--format", "json", "--upstream-version", "2.13")
    assert labels(newer) == {"sam": "FAIL_BUT_FLAKY", "vgg16": "FAIL"}


@pytest.mark.parametrize(
    ("path", "version", "label"),
    [
        ("inductor_timm_training.csv", "2026-06", "FAIL_BUT_FLAKY"),
        ("inductor_timm_training.csv", "2.13", "FAIL"),
        ("rocm/inductor_timm_training.csv", "2026-06", "FAIL"),
        ("dynamic_inductor_timm_training.csv", "2026-06", "FAIL"),
    ],
)
def test_a_list_may_be_about_one_expected_file(
    torchstone: Command, write: WriteFile, path: str, version: str, label: str
) -> None:
    given = write_pair(write, path, "tf_efficientnet_b0", status="eager_two_runs_differ")
    ran = torchstone("check", *given, "--format", "json", "--upstream-version", version)
    assert labels(ran) == {"tf_efficientnet_b0": label}


@pytest.mark.parametrize("style", ["text", "markdown", "junit", "json", "github"])
def test_every_report_names_the_version(torchstone: Command, write: WriteFile, style: str) -> None:
    given = write_pair(write, "e.csv", "sam")
    assert "flaky list recorded" in torchstone("check", *given, "--format", style).out
    ran = torchstone("check", *given, "--format", style, "--upstream-version", "2.13")
    assert "flaky list 2.13" in ran.out
    if style == "json":
        assert json.loads(ran.out)["upstream_version"] == "2.13"
    strict = torchstone("check", "r.csv", "--baseline", "e.csv", "--format", style)
    assert "flaky list" not in strict.out
    assert "upstream_version" not in strict.out


def test_a_suggested_command_repeats_the_version(torchstone: Command, write: WriteFile) -> None:
    given = write_pair(write, "e.csv", "alexnet")
    ran = torchstone("check", *given, "--format", "json", "--upstream-version", "2.13")
    [row] = json.loads(ran.out)["rows"]
    assert "--policy upstream --upstream-version 2.13" in row["reproduce"]
    assert torchstone(*row["reproduce"].split()[1:]).code == 1


def test_an_unknown_version_is_an_error_that_names_those_there_are(
    torchstone: Command, write: WriteFile
) -> None:
    given = write_pair(write, "e.csv", "sam")
    ran = torchstone("check", *given, "--upstream-version", "2.1")
    assert ran.code == 2
    assert "2.1: no such version" in ran.err
    assert "known versions: recorded, 2.13, 2026-06" in ran.err
    assert torchstone("quarantine", "list", "--upstream-version", "2.1").code == 2
    write("torchstone.toml", '[check]\npolicy = "upstream"\nupstream_version = "2.1"\n')
    ran = torchstone("check", *given)
    assert ran.code == 2
    assert "torchstone.toml:3: column upstream_version: no such version: 2.1" in ran.err
    assert "known versions: recorded, 2.13, 2026-06" in ran.err


def test_a_version_without_the_policy_is_refused(torchstone: Command, write: WriteFile) -> None:
    write_pair(write, "e.csv", "sam")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--upstream-version", "2.13")
    assert ran.code == 2
    assert "--upstream-version requires --policy upstream" in ran.err


def test_the_settings_may_choose_the_version_and_the_command_line_another(
    torchstone: Command, write: WriteFile
) -> None:
    given = write_pair(write, "e.csv", "sam")
    write("torchstone.toml", '[check]\nupstream_version = "2.13"\n')
    assert "flaky list 2.13" in torchstone("check", *given).out
    assert "flaky list recorded" in torchstone("check", *given, "--upstream-version", "recorded").out
    assert "policy strict blocks" in torchstone("check", "r.csv", "--baseline", "e.csv").out


class TestNotFlaky:
    """A table [[not_flaky]] of a quarantine file takes entries out of the shipped list."""

    def test_takes_a_model_out(self, torchstone: Command, write: WriteFile) -> None:
        given = write_pair(write, "rocm/e.csv", "vgg16", "resnet50")
        assert torchstone("check", *given).code == 0
        ran = torchstone("check", *given, "--quarantine", write("q.toml", NOT_FLAKY), "--format", "json")
        assert labels(ran) == {"vgg16": "FAIL", "resnet50": "FAIL_BUT_FLAKY"}
        assert ran.code == 1

    def test_takes_out_only_the_metric_and_platform_it_names(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        given = write_pair(write, "rocm/e.csv", "vgg16")
        path = write("q.toml", NOT_FLAKY + 'metric = "graph_breaks"\nplatform = "rocm"\n')
        assert torchstone("check", *given, "--quarantine", path).code == 0
        path = write("q.toml", NOT_FLAKY + 'metric = "accuracy"\nplatform = "rocm"\n')
        assert torchstone("check", *given, "--quarantine", path).code == 1

    def test_that_removes_nothing_is_reported(self, torchstone: Command, write: WriteFile) -> None:
        given = write_pair(write, "rocm/e.csv", "vgg16")
        told = "q.toml:1: not_flaky densenet121 removes nothing: the flaky list 2.13 has no such model"
        check = ("check", *given, "--quarantine", "q.toml", "--format", "json")
        write("q.toml", NOT_FLAKY.replace("vgg16", "densenet121"))
        assert json.loads(torchstone(*check, "--upstream-version", "2.13").out)["cautions"] == []
        # Of graph breaks, 2.13 still lists it: what is taken out there is something.
        path = write("q.toml", NOT_FLAKY.replace("vgg16", "densenet121") + 'metric = "accuracy"\n')
        cautions = json.loads(torchstone(*check, "--upstream-version", "2.13").out)["cautions"]
        assert told + " for accuracy" in cautions
        assert not any("removes nothing" in each for each in json.loads(torchstone(*check).out)["cautions"])
        assert told in torchstone("quarantine", "list", "--file", path, "--upstream-version", "2.13").out

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ('[[not_flaky]]\ncase = "a"\n', "q.toml:1: column reason: an entry needs a reason"),
            ('[[not_flaky]]\nreason = "a"\n', "q.toml:1: column case: an entry needs a case"),
            (NOT_FLAKY + "expires = 2027-01-01\n", "q.toml:4: column expires: unknown key"),
            ('not_flaky = "a"\n', "expected tables [[not_flaky]]"),
        ],
    )
    def test_is_validated_under_every_policy(
        self, torchstone: Command, write: WriteFile, text: str, told: str
    ) -> None:
        given = write_pair(write, "e.csv", "a")
        write("q.toml", text)
        for policy in ("upstream", "strict"):
            ran = torchstone("check", *given[:4], "--policy", policy, "--quarantine", "q.toml")
            assert ran.code == 2
            assert told in ran.err

    def test_survives_edits_of_the_other_entries(self, torchstone: Command, write: WriteFile) -> None:
        text = '[[quarantine]]\ncase = "a"\nreason = "b"\n\n' + NOT_FLAKY
        left, gone = remove_entries("q.toml", text, "a")
        assert (left, [entry.case for entry in gone]) == (NOT_FLAKY, ["a"])
        added = add_entry("q.toml", text, {"case": "c", "reason": "d"})
        assert [each.case for each in read_removals(write("q.toml", added))] == ["vgg16"]
        assert torchstone("quarantine", "remove", "c", "--file", "q.toml").code == 0
        assert [each.case for each in read_removals("q.toml")] == ["vgg16"]


def test_the_shipped_list_can_be_looked_at(torchstone: Command, write: WriteFile) -> None:
    ran = torchstone("quarantine", "list", "--upstream-version", "2.13")
    assert ran.code == 0
    assert ran.out.startswith("the flaky list 2.13: 53 entries")
    write("quarantine.toml", NOT_FLAKY)
    ran = torchstone("quarantine", "list", "--upstream-version", "2.13")
    assert ran.out.startswith("quarantine.toml and the flaky list 2.13: 51 entries")
    assert "vgg16" not in ran.out


def test_which_models_of_the_shipped_list_pass_here_can_be_found_out(
    torchstone: Command, write: WriteFile
) -> None:
    write_pair(write, "e.csv", "sam", status="pass")
    ran = torchstone("quarantine", "check", "r.csv", "--baseline", "e.csv", "--upstream-version", "2.13")
    assert ran.code == 0
    [line] = [line for line in ran.out.splitlines() if line.split()[1:2] == ["sam"] and "1 of 1" in line]
    assert "[[not_flaky]]" in line


def test_a_model_that_another_version_does_not_compare_is_pointed_out(
    torchstone: Command, write: WriteFile
) -> None:
    """What happened upstream: the runner had learned to skip the model, and a baseline still expected a pass."""
    given = write_pair(
        write, "dynamic_inductor_timm_training.csv", "mobilenetv2_100", "alexnet", status="pass_due_to_skip"
    )
    ran = torchstone("check", *given, "--format", "json", "--upstream-version", "2.13")
    [caution] = json.loads(ran.out)["cautions"]
    assert caution.startswith("mobilenetv2_100: upstream 2026-06 compiles it in training without comparing")
    assert "but 2.13 does not" in caution
