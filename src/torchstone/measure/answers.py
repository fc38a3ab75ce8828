"""Wait for the one reply of a worker that is asked something instead of measuring."""

from __future__ import annotations

import time
from dataclasses import replace

from torchstone.core.text.redaction import redact
from torchstone.measure.case_end import describe_malformed
from torchstone.measure.executors.protocol import Launcher, describe_exit
from torchstone.measure.executors.worker_handle import STACKS_WAIT, Worker
from torchstone.worker.protocol.replies import ErrorReply, LookingAt, Malformed, Primed, Reply, SurveyReply

Answer = SurveyReply | Primed | ErrorReply


class NoAnswerError(Exception):
    """A worker has not answered: the problem, the file that it was importing, and the end of its log."""

    def __init__(self, problem: str, path: str, log: str) -> None:
        super().__init__(problem)
        self.problem, self.path, self.log = problem, path, log


def wait_for_answer(worker: Worker, launcher: Launcher, timeout: float) -> Answer:
    """Wait for the last reply of a worker whose job is an answer, not a measurement. NoAnswerError says why there is none."""
    deadline = time.monotonic() + timeout
    closed, path = False, ""
    try:
        while time.monotonic() < deadline:
            launcher.poll()  # before the reading: what it said before it ended is heard
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
    """A reply that is an answer, without the credentials of URLs; one that does not fit the protocol is an error of the file being imported."""
    if isinstance(reply, SurveyReply | Primed):
        return reply
    if isinstance(reply, ErrorReply):
        return replace(reply, message=redact(reply.message), traceback=redact(reply.traceback))
    if isinstance(reply, Malformed) and reply.kind in {"survey", "primed", "error"}:
        return ErrorReply(describe_malformed(reply), path)
    return None
