"""Text that attacks whoever shows it, run files full of it, and what must never come out."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from stated_facts import measurement_of
from torchstone.core.cautions import recorded
from torchstone.core.details.capture_details import CaptureDetails, GraphBreak
from torchstone.core.records import Case, Failure, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_settings import Settings, environment_from

COLOR = "\x1b[35;7m"  # none of ours: where it comes out, foreign text has colored the terminal
HOSTILE = {
    "clear screen": "\x1b[2J\x1b[H",
    "title": "\x1b]0;pwned\x07",
    "link": "\x1b]8;;http://evil\x07click\x1b]8;;\x07",
    "color": f"{COLOR}fine\x1b[0m",
    "C1": "\x9b2J\x85\x90",
    "NUL": "a\x00b",
    "DEL and backspace": "secret\x7f\x08\x08",
    "right to left": "\u202egnp.exe\u202c \u2066x\u2069 \u061c\u200e\u200f",
    "separators": "a\u2028::error::b\u2029c\x0b\x0c\x1c\x1d\x1e",
    "carriage return": "bad\r::error::fine",
    "commands on lines": "x\n::error::pwned\n \t ::set-output name=a::b\n\xa0::warning::c",
    "commands at the start": "::error file=a::pwned",
    "groups": "##[command]rm ##vso[task.setvariable variable=a]b ##teamcity[x]",
    "hidden": "a\u200bb\ufeffc\u2060d\xad\U000e0041\U000e0042\u3164",
}
NAMES = (
    "::error::pwned",
    "##[group]x",
    "ends with ##",
    "$(touch pwned)`id`",
    'it\'s "quoted" \\ !x',
    "=cmd|'/C calc'!A0",
    "-2+3",
    "@SUM(1)",
)
EMOJI = (
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # a family
    "\u2764\ufe0f\u200d\U0001f525",  # a heart on fire
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # the flag of England
    "\U0001f44b\U0001f3fd",  # a hand with a skin tone
    "1\ufe0f\u20e3",  # a keycap
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
)

_SGR = re.compile(r"\x1b\[[0-9;]*m")
_COMMAND = re.compile(r"(?m)^\s*::|##\w*\[")


def forbidden(text: str, *, colors: bool = False, commands: bool = True) -> list[str]:
    """What no output may have: control and format characters besides line ends and tabs, and commands to a CI service."""
    found = [COLOR] if COLOR in text else []
    text = _SGR.sub("", text) if colors else text
    found += sorted(
        {
            ascii(character)
            for character in text
            if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in "\n\t"
        }
    )
    return found + ([] if not commands else [ascii(each) for each in _COMMAND.findall(text)])


def hostile_outcome(name: str, text: str, *, passes: bool) -> Outcome:
    """An outcome in which whatever can be said is hostile."""
    case = Case(name, "performance", "smoke", Variant("cpu", "inductor", "inference"))
    extra: dict[str, Any] = {
        "counters": {text: {text: 1}},
        "log": text,
        text: text,
    }
    measured = (
        measurement_of(
            "speedup", (2.0 if passes else 1.0,) * 3, {"counter": text, "cache": text, text: text}
        ),
        Measurement("graph_breaks", (0 if passes else 5,)),
    )
    capture = CaptureDetails((GraphBreak(text, text, text),), (text,))
    failure = None if passes else Failure(text, text, text, text)
    return Outcome(
        case,
        "pass" if passes else "fail_to_run",
        measured,
        failure,
        text,
        extra,
        (recorded(text),),
        capture=capture,
    )


def hostile_run(*, passes: bool) -> Run:
    """Every hostile text in every field that may hold it, and every name that means something to somebody."""
    texts = [*HOSTILE.items(), *((name, "\n".join(HOSTILE.values())) for name in (*NAMES, *EMOJI))]
    outcomes = tuple(hostile_outcome(name, text, passes=passes) for name, text in texts)
    everything = "".join(HOSTILE.values())
    facts = {
        "versions": {"torch": f"{'1' if passes else '2'}{everything}"},
        "software": {everything: everything},
        "variables": {"TORCH_LOGS": everything},
    }
    revision = Revision(everything, everything, True, everything)
    plan = tuple(outcome.case for outcome in outcomes)
    return Run(
        everything, plan, outcomes, revision, environment_from(facts), Settings(rest={"label": everything})
    )
