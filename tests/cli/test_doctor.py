from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import Command, start_on_terminal
from torchstone.api.inspecting import doctor
from torchstone.measure.doctor import diagnosis
from torchstone.measure.doctor.diagnosis import Finding, Level, diagnose
from torchstone.measure.doctor.facts import MachineFacts, Noise, TorchFacts
from torchstone.reporting.dialects.doctor_text import render_findings
from torchstone.reporting.dialects.text_page import TextPage
from torchstone.worker.probes.counting.perf_events import CounterProblem

FACTS = MachineFacts(
    torch=TorchFacts("2.13.0", 1.25),
    governor="powersave",
    noise=Noise(200, 0.004, 0.03),
    counters={"hardware": CounterProblem("no permission", "ask"), "python": None},
)


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "inspect_machine", lambda: FACTS)


@pytest.mark.usefixtures("facts")
def test_findings_are_shown_the_worst_first(torchstone: Command) -> None:
    ran = torchstone("doctor")
    assert ran.code == 0
    levels = [line.split()[0] for line in ran.out.splitlines() if line and not line.startswith(" ")][1:]
    assert levels == sorted(levels, key=["problem", "note", "ok"].index)
    assert "problem  the frequency governor is powersave\n           why  The clock" in ran.out
    assert "do   sudo cpupower frequency-set --governor performance" in ran.out
    assert "ok       torch 2.13.0, imported in 1.2 s" in ran.out


@pytest.mark.usefixtures("facts")
def test_json_has_findings_and_facts(torchstone: Command) -> None:
    report = json.loads(torchstone("doctor", "--json").out)
    assert report["exit_code"] == 0
    assert report["facts"]["governor"] == "powersave"
    assert report["facts"]["counters"] == {"hardware": "no permission; ask", "python": ""}
    (found,) = [finding for finding in report["findings"] if finding["topic"] == "governor"]
    assert found["level"] == "problem"
    assert {"what", "why", "advice"} < set(found)


def test_without_torch_the_exit_code_is_3(torchstone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "inspect_machine", lambda: MachineFacts(torch=TorchFacts(missing=True)))
    ran = torchstone("doctor")
    assert ran.code == 3
    assert "torch is not installed" in ran.out
    assert json.loads(torchstone("doctor", "--json").out)["exit_code"] == 3


@pytest.mark.parametrize("width", [60, 80])
def test_lines_are_no_wider_than_the_terminal(width: int) -> None:
    text = render_findings(diagnose(FACTS), TextPage(width))
    assert [line for line in text.splitlines() if len(line) > width] == []


def test_the_headline_counts() -> None:
    findings = [
        Finding("a", Level.OK, "fine"),
        Finding("b", Level.NOTE, "so so"),
        Finding("c", Level.NOTE, "x"),
    ]
    assert render_findings(findings, TextPage(80)).startswith("2 notes, 1 ok\n")
    assert render_findings(findings[:1], TextPage(80)) == "1 ok\n\nok       fine\n"


def test_doctor_works_on_a_real_machine_and_a_real_terminal(tmp_path: Path) -> None:
    child = start_on_terminal(tmp_path, "doctor")
    child.timeout = 120
    shown = str(child.read())
    child.close()
    assert child.exitstatus in {0, 3}
    assert "vary by about" in shown
    assert "\x1b[32mok" in shown


def test_doctor_takes_no_files(torchstone: Command) -> None:
    assert torchstone("doctor", "results.csv").code == 2


def test_every_topic_is_explained_in_the_docs() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "doctor.md").read_text()
    source = Path(diagnosis.__file__).read_text()
    topics = set(re.findall(r'(?:_problem|_note|_ok|Finding)\(\s*f?"([a-z ]+?)(?: \{.*?)?"', source))
    assert len(topics) > 15
    assert [topic for topic in sorted(topics) if f"| `{topic}` |" not in page] == []
