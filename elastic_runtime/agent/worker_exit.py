"""PURE. What the end of a pod's worker processes means for the pod."""

from collections.abc import Iterable
from typing import Protocol

from elastic_runtime import contract
from elastic_runtime.messages import Failed

LEFT_EARLY = (
    "its script ended before its last step: see the pod's log; to end a job early, call "
    "session.stop()"
)


class Worker(Protocol):
    """The fields of a worker process that this module reads."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def left_early(self) -> bool: ...
    @property
    def joins(self) -> bool: ...


def must_end_for_leaver(workers: Iterable[Worker]) -> bool:
    """Whether a worker waits for a generation, which cannot form: another one has left early.

    A worker that still runs and waits for no generation may have left the loop too, for example to
    save its model. It is not a reason to end the pod. Once a worker has failed, this
    is False: the failure ends the others.
    """
    workers = list(workers)
    has_left = any(worker.left_early for worker in workers)
    has_failed = any(worker.exit_code for worker in workers)
    waits = any(worker.joins and worker.exit_code is None for worker in workers)
    return has_left and waits and not has_failed


def would_fail_again(failure: Failed | None, before: Failed | None, *, has_trained: bool) -> bool:
    """Whether the script, started again, would fail in the same way.

    It does after a mistake, and when it has failed so twice before the pod's first step by a cause
    of its own. `before`: how it failed the last time.
    """
    if failure is None:
        return False
    repeated = failure == before and not failure.may_heal and not has_trained
    return repeated or failure.is_mistake


def exit_code_after(
    failed: int | None,
    *,
    left_early: bool,
    leaving: bool,
    is_final: bool,
    deaths: int,
    max_restarts: int,
) -> int | None:
    """The exit code of a pod whose processes have ended; None to start them again.

    `failed`: the exit code of the process that failed, negative for a signal; None if none did.
    `left_early`: a script ended before its last step. `is_final`: started again, it would fail in
    the same way. `deaths`: in a row, this one included.
    """
    if failed is None and not left_early:
        return 0
    if leaving:
        return contract.EXIT_LEFT_ON_REQUEST
    if failed is None:
        return 1
    if is_final or deaths > max_restarts:
        is_failure = failed > 0 and failed not in contract.IGNORED_EXIT_CODES
        return failed if is_failure else 1
    return None


def how_it_ended(code: int | None, failure: Failed | None) -> str:
    """`code`: negative for a signal, None if the script left early. `failure`: as it reported."""
    if failure:
        return failure.reason
    if code is None:
        return LEFT_EARLY
    if code < 0:
        return f"its process was killed by signal {-code}: see the pod's log"
    return f"its script ended with exit code {code}: see the pod's log"
