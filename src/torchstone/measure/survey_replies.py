"""Wait for the reply of a worker that does a survey or fills a template, and turn its errors into exceptions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from torchstone.core.errors import InputError, UsageError
from torchstone.core.text.redaction import redact
from torchstone.measure.case_end import describe_malformed
from torchstone.measure.executors.protocol import Launcher, describe_exit
from torchstone.measure.executors.worker_handle import STACKS_WAIT, Worker
from torchstone.worker.protocol.replies import (
    ErrorReply,
    LookingAt,
    Malformed,
    Primed,
    Reply,
    SourceFound,
    SurveyReply,
)

Answer = SurveyReply | Primed | ErrorReply
_LOG_SHOWN = 4000
_LINES_SHOWN = 6
_STACK_LINES = (
    "Fatal Python error",
    "Current thread",
    "Thread 0x",
    'File "',
    "Extension modules:",
    "<no Python frame>",
)


class NoAnswerError(Exception):
    """A worker did not reply: the problem, the file it was importing, and the end of its log."""

    def __init__(self, problem: str, path: str, log: str) -> None:
        super().__init__(problem)
        self.problem, self.path, self.log = problem, path, log


def wait_for_answer(worker: Worker, launcher: Launcher, timeout: float) -> Answer:
    """Return the final reply of a worker that does not measure; raise NoAnswerError if there is none."""
    deadline = time.monotonic() + timeout
    closed, path = False, ""
    try:
        while time.monotonic() < deadline:
            launcher.poll()  # before reading, so that no reply before the exit is lost
            replies, closed = ([], True) if closed else worker.read_replies()
            worker.read_log()
            for reply in replies:
                path = reply.path if isinstance(reply, LookingAt) else path
                if (answer := _answer(reply, path)) is not None:
                    return answer
            if worker.exit_code is not None:
                problem = f"the worker {describe_exit(worker.exit_code)}"
                raise NoAnswerError(problem, path, worker.log_tail())
            time.sleep(0.005)
        worker.show_stacks()
        time.sleep(STACKS_WAIT)
        raise NoAnswerError(f"the worker did not answer within {timeout:g} s", path, worker.log_tail())
    finally:
        worker.kill()
        worker.close()


def _answer(reply: Reply, path: str) -> Answer | None:
    """Return a final reply, without credentials of URLs; a malformed one becomes an error of the file being imported."""
    if isinstance(reply, SurveyReply | Primed):
        return reply
    if isinstance(reply, ErrorReply):
        return replace(reply, message=redact(reply.message), traceback=redact(reply.traceback))
    if isinstance(reply, Malformed) and reply.kind in {"survey", "primed", "error"}:
        return ErrorReply(describe_malformed(reply), path)
    return None


def no_answer_error(silent: NoAnswerError) -> InputError | UsageError:
    """Return the error for a worker that did not reply, with the line it was importing, if its log shows that."""
    advice = last_lines(silent.log)
    if not silent.path:
        return UsageError(silent.problem, advice=advice)
    message = f"{silent.problem} while it was importing this file"
    at = re.search(rf'File "{re.escape(silent.path)}", line (\d+)', silent.log)
    return InputError(message, path=silent.path, line=int(at[1]) if at else None, advice=advice)


def last_lines(text: str) -> str:
    """Return the last lines of a log, without stacks, as one line."""
    lines = [line.strip() for line in text[-_LOG_SHOWN:].splitlines()]
    printed = [line for line in lines if line and not line.startswith(_STACK_LINES)]
    return f"it printed: {' | '.join(printed[-_LINES_SHOWN:])}" if printed else ""


def raise_errors(sources: Sequence[SourceFound]) -> None:
    """Raise the first error of any source."""
    for source in sources:
        if source.error is not None:
            raise source_error(source.error)


def split_broken(
    sources: Sequence[SourceFound], *, keeps_going: bool
) -> tuple[list[SourceFound], list[InputError]]:
    """Return the usable sources and the errors of the others; raise if none is usable, or ``keeps_going`` is not set."""
    errors = [source_error(source.error) for source in sources if source.error is not None]
    broken = [error for error in errors if isinstance(error, InputError)]
    if errors and (not keeps_going or len(errors) == len(sources) or len(broken) < len(errors)):
        raise errors[0]
    return [source for source in sources if source.error is None], broken


def source_error(reply: ErrorReply) -> InputError | UsageError:
    """Convert a worker's error about a source to an exception."""
    if not reply.path:
        return UsageError(reply.message, advice=last_lines(reply.traceback))
    return InputError(reply.message, path=reply.path, line=reply.line, column=reply.column)


def check_devices(devices: Iterable[str], found: SurveyReply, given_by: str = "device ") -> None:
    """Raise UsageError if one of the devices cannot be used here. ``given_by`` is what the message has before its name."""
    problems = found.devices or {}
    for device in devices:
        if problem := problems.get(device):
            available = ", ".join(found.available)
            raise UsageError(f"{given_by}{device}: {problem}", advice=f"available: {available}")
