"""PURE. What the end of a pod's worker processes means for the pod."""

from elastic_runtime import contract


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
    if failed is None:
        return 1 if left_early else 0
    if leaving:
        return contract.EXIT_LEFT_ON_REQUEST
    if is_final or deaths > max_restarts:
        is_failure = failed > 0 and failed not in contract.IGNORED_EXIT_CODES
        return failed if is_failure else 1
    return None


def how_it_ended(code: int) -> str:
    """For a process that reported no cause. `code`: negative for a signal."""
    if code < 0:
        return f"its process was killed by signal {-code}: see the pod's log"
    return f"its script ended with exit code {code}: see the pod's log"
