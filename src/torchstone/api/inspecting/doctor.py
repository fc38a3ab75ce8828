"""``doctor``: find causes of noise and missing metrics on this machine, with advice."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from torchstone.api.requests import take
from torchstone.api.showing import show_html
from torchstone.measure.doctor.device_check import DeviceCheck, check_device, diagnose_device, refuse_several
from torchstone.measure.doctor.diagnosis import Finding, Level, can_measure, diagnose
from torchstone.measure.doctor.facts import MachineFacts
from torchstone.measure.doctor.inspection import inspect_machine
from torchstone.reporting.dialects.doctor_text import render_findings
from torchstone.reporting.dialects.styles import WIDTH
from torchstone.reporting.dialects.text_page import TextPage
from torchstone.reporting.views.result_table import ResultTable


class DoctorResult(Struct, frozen=True):
    """The facts about this machine, and the findings that follow from them; ``device`` is the device that was asked for."""

    facts: MachineFacts
    findings: tuple[Finding, ...]
    device: DeviceCheck | None = None

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings to fix before measuring."""
        return tuple(finding for finding in self.findings if finding.level is Level.PROBLEM)

    @property
    def can_measure(self) -> bool:
        """Whether anything can be measured here."""
        return can_measure(self.facts) and (self.device is None or self.device.can_measure)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, or 3 if nothing can be measured here."""
        return 0 if self.can_measure else 3

    def render(self, width: int = WIDTH, *, color: bool = False) -> str:
        """Render the findings as text, worst first."""
        return render_findings(self.findings, TextPage(width, color=color))

    def to_dicts(self) -> list[dict[str, object]]:
        """Return one dictionary for each finding: topic, level, what, why, advice."""
        found: list[dict[str, object]] = msgspec.to_builtins(list(self.findings))
        return found

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        order = list(Level)
        ordered = sorted(self.findings, key=lambda finding: order.index(finding.level))
        rows = [(each.level.value, each.what, each.why, each.advice) for each in ordered]
        return show_html(ResultTable("This machine", ("level", "finding", "why", "what to do"), rows))


def doctor(device: str = "") -> DoctorResult:
    """Find what disturbs measurements on this machine, as ``torchstone doctor`` does. Takes a few seconds, and changes nothing.

    ``device`` is a device to check too, such as ``cuda`` or ``cuda:1``.

    torchstone.doctor().problems
    """
    device = take("device", device, str)
    refuse_several(device)
    facts = inspect_machine()
    if not device:
        return DoctorResult(facts, diagnose(facts))
    check = check_device(device, facts.python)
    return DoctorResult(facts, (*diagnose_device(check), *diagnose(facts)), check)
