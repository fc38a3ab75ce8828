"""Run other programs, which may be absent, broken or slow.

Standard library only: it also runs inside workers.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

_OF_A_HOOK = {
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
}
_ONLY_LOCAL = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""A partial clone would fetch missing objects with a program that the repository's configuration names."""


class Answer(NamedTuple):
    """Output and exit code of a command; ``code`` is None if it could not be started or timed out."""

    code: int | None
    out: str
    err: str


def ask(
    command: Sequence[str],
    timeout: float = 5.0,
    given: str = "",
    git_config: Sequence[tuple[str, str]] = (),
    keep: Sequence[int] = (),
) -> Answer:
    """Run a command to its end, or for ``timeout`` seconds. Never raises.

    ``git_config`` are settings for git; ``keep`` are the file descriptors that the command inherits.
    """
    try:
        ran = subprocess.run(  # noqa: S603  (the commands are ours, without a shell)
            list(command),
            input=given,
            capture_output=True,
            timeout=timeout,
            check=False,
            encoding="utf-8",
            errors="replace",
            env=_environment_for(command[0], git_config),
            pass_fds=tuple(keep),
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"no answer within {timeout:g} s")
    except (OSError, ValueError) as error:
        return Answer(None, "", str(error))
    return Answer(ran.returncode, ran.stdout, ran.stderr)


def _environment_for(program: str, git_config: Sequence[tuple[str, str]]) -> dict[str, str] | None:
    """Return the variables of a program; None to inherit all of this process. Git must not fetch anything.

    In a git hook, variables name the index of the commit that is being made. Git would use it for any other
    tree too, so they are removed.
    """
    if program != "git":
        return None
    left_out = _OF_A_HOOK if "GIT_INDEX_FILE" in os.environ else set()
    variables = {name: value for name, value in os.environ.items() if name not in left_out} | _ONLY_LOCAL
    if not git_config:
        return variables
    given = variables.get("GIT_CONFIG_COUNT", "0")
    start = int(given) if given.isdecimal() else 0
    for number, (key, value) in enumerate(git_config, start):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables | {"GIT_CONFIG_COUNT": str(start + len(git_config))}


def first_line(command: Sequence[str], timeout: float = 5.0) -> str:
    """Return the first line that a command prints; empty if it is absent, fails, or times out."""
    answer = ask(command, timeout)
    return answer.out.strip().partition("\n")[0].strip() if answer.code == 0 else ""
