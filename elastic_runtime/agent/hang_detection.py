"""PURE. Whether a worker process hangs, from its last answer and its last committed step.

A process can hang in two ways:

- It is frozen, or waits without end while it holds Python's lock. It does not answer pings, and
  uses no CPU time. This is detected within a second once other ranks wait for it. While no rank
  waits, it harms nobody, and the timeout is longer.
- It is stuck in a loop or waits without end. It still answers pings; only its step does not
  finish. This is detected when other ranks wait for it, after a long timeout, because a script
  may do other things between two steps. In an evaluation every micro-batch counts as a step.

A process that does not answer and uses CPU time is healthy as far as anybody can tell: it makes a
long call that holds Python's lock, such as to sort or to pickle. It gets the time of a step.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elastic_runtime import contract

# Between two checks of the processes, at most.
CHECK_INTERVAL_S = 0.05
# A process that uses this part of a core is not frozen. A thread that waits for Python's lock wakes
# 200 times a second, which takes about a hundredth.
MIN_CPU_SHARE = 0.05
# A process is watched closely after so many steps of its generation, because the first ones
# compile, and after so many answers, because before them nobody knows how late it answers.
MIN_STEPS = 3
MIN_ANSWERS = 20


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts in seconds, and as a multiple of the process's own pace; the larger one holds."""

    # For an answer while others wait (contract.LIVENESS_TIMEOUT_ENV).
    liveness_timeout_s: float = 1.0
    # Times its slowest recent answer: on a busy machine a process answers late.
    slowest_answer_times: float = 8.0
    # For an answer while the process forms a generation, loads or compiles, or nobody waits.
    early_timeout_s: float = 30.0
    # For a step that others wait for (contract.STEP_TIMEOUT_ENV).
    step_timeout_s: float = 60.0
    # Times the median step.
    median_step_times: float = 10.0
    # Times its slowest recent step: what took long once may take as long again.
    slowest_step_times: float = 3.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """A process as its agent sees it. Seconds count only while the agent itself was running."""

    # Committed since its generation formed.
    steps: int = 0
    # Micro-batches that it has begun of an evaluation; 0 if it does not evaluate.
    evaluated: int = 0
    # Pings answered since then.
    answers: int = 0
    # Its part of the step is done: it waits for the others.
    arrived: bool = False
    # Since its last answer, if another ping was sent; 0 otherwise.
    unanswered_s: float = 0.0
    # CPU seconds a second that it has used lately.
    cpu_share: float = 0.0
    # Since its last committed step, or its last micro-batch of an evaluation.
    since_step_s: float = 0.0
    # Of the recent answers and steps.
    slowest_answer_s: float = 0.0
    median_step_s: float = 0.0
    slowest_step_s: float = 0.0


def _is_early(pulse: Pulse) -> bool:
    return max(pulse.steps, pulse.evaluated) < MIN_STEPS or pulse.answers < MIN_ANSWERS


def liveness_timeout_s(pulse: Pulse, patience: Patience, others_wait: bool) -> float:
    """How long the process may leave a ping unanswered."""
    timeout_s = max(
        patience.liveness_timeout_s, patience.slowest_answer_times * pulse.slowest_answer_s
    )
    if _is_computing(pulse):
        return max(timeout_s, patience.early_timeout_s, step_timeout_s(pulse, patience))
    if _is_early(pulse) or not others_wait:
        return max(timeout_s, patience.early_timeout_s)
    return timeout_s


def _is_computing(pulse: Pulse) -> bool:
    return pulse.cpu_share >= MIN_CPU_SHARE


def step_timeout_s(pulse: Pulse, patience: Patience) -> float:
    """How long a step may take that others wait for."""
    return max(
        patience.step_timeout_s,
        patience.median_step_times * pulse.median_step_s,
        patience.slowest_step_times * pulse.slowest_step_s,
    )


def hang_reason(pulse: Pulse, patience: Patience, others_wait: bool) -> str:
    """Why the process hangs; empty if it does not.

    `others_wait`: a rank of the job has finished its part of this step.
    """
    if pulse.unanswered_s > liveness_timeout_s(pulse, patience, others_wait):
        if _is_computing(pulse):
            return (
                f"it has not answered for {pulse.unanswered_s:.1f} s, though it computes: a call "
                f"holds Python's lock for so long; make it in another process, or raise "
                f"{contract.STEP_TIMEOUT_ENV}"
            )
        return (
            f"it has not answered for {pulse.unanswered_s:.1f} s; "
            f"its slowest recent answer took {pulse.slowest_answer_s:.2f} s"
        )
    is_stuck = (
        others_wait
        and not _is_early(pulse)
        and not pulse.arrived
        and pulse.since_step_s > step_timeout_s(pulse, patience)
    )
    if is_stuck and pulse.evaluated:
        return (
            f"others wait for its part of an evaluation, whose micro-batch {pulse.evaluated} has "
            f"taken {pulse.since_step_s:.1f} s; use smaller ones, or raise "
            f"{contract.STEP_TIMEOUT_ENV}"
        )
    if is_stuck:
        return (
            f"others wait for its step, which has taken {pulse.since_step_s:.1f} s; "
            f"the median step takes {pulse.median_step_s:.2f} s"
        )
    return ""


def script_hang_reason(pulse: Pulse, patience: Patience) -> str:
    """Why a script for torchrun hangs; empty if it does not.

    Its steps are calls of `elastic_runtime.restart`, and `unanswered_s` counts while it is stopped
    by a signal. What it does between two calls nobody knows, such as an evaluation, so only the
    user can give a timeout for it.
    """
    if pulse.unanswered_s > patience.early_timeout_s:
        return f"it has been stopped by a signal, such as SIGSTOP, for {pulse.unanswered_s:.0f} s"
    if pulse.steps >= MIN_STEPS and pulse.since_step_s > step_timeout_s(pulse, patience):
        return (
            f"it has not called stop_requested for {pulse.since_step_s:.1f} s; the median time "
            f"between two calls is {pulse.median_step_s:.2f} s"
        )
    return ""


class PausableClock:
    """A clock that stands still while its owner is frozen.

    A process that was frozen itself must not take all others for silent when it continues.
    """

    def __init__(self, clock: Callable[[], float], max_gap_s: float) -> None:
        """At most `max_gap_s` pass between two calls of `tick`."""
        self._clock = clock
        self._max_gap_s = max_gap_s
        self._base = 0.0
        self._last_tick = clock()

    def __call__(self) -> float:
        """Seconds since the clock was made."""
        return self._base + min(self._clock() - self._last_tick, self._max_gap_s)

    def tick(self) -> None:
        """Must be called more often than every `max_gap_s`."""
        now = self()
        self._base = now
        self._last_tick = self._clock()
