"""Whether a process of a pod hangs, from when it last answered and last got on. Pure.

Two ways to hang. A process that is frozen, or holds Python's lock in a call that never returns,
does not answer its parent: that shows
within a second, once others wait for it; while nobody does, a long call harms nobody and is left
alone longer. One that lives but loops
or waits for ever answers, and only its step does not end: that shows by the others of the job who
wait for it, and much later, for a
script may do other things between two steps, as to evaluate, and must not die for them.
"""

from collections.abc import Callable
from dataclasses import dataclass

# of a generation before a process is watched closely: the first ones compile
STEPS = 3
ANSWERS = 20


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds, and in how much slower than it was a process may become; the larger of the two
    holds."""

    # while others wait (contract.ANSWER_ENV)
    answer_s: float = 1.0
    # the slowest of its last answers: a busy machine answers late
    answer_times: float = 8.0
    # for an answer while it forms, loads or compiles, or nobody waits
    early_s: float = 30.0
    # for a step that others wait for (contract.PROGRESS_ENV)
    step_s: float = 60.0
    # the median step
    step_times: float = 10.0
    # the slowest of the last steps: what it did once it may do again
    slowest_times: float = 3.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """A process as its parent sees it. Seconds are those in which the parent itself was awake."""

    # committed since its generation formed
    steps: int = 0
    # since then
    answers: int = 0
    # its part of the step is done, it waits for the others
    arrived: bool = False
    # since its last answer, if it was asked again; 0 if not
    unanswered_s: float = 0.0
    # since it last committed
    since_step_s: float = 0.0
    # of the last ones
    slowest_answer_s: float = 0.0
    # the median of the last ones
    step_s: float = 0.0
    slowest_step_s: float = 0.0


def _early(pulse: Pulse) -> bool:
    return pulse.steps < STEPS or pulse.answers < ANSWERS


def answer_s(pulse: Pulse, patience: Patience, others_wait: bool) -> float:
    """How long it may be silent."""
    found = max(patience.answer_s, patience.answer_times * pulse.slowest_answer_s)
    return max(found, patience.early_s) if _early(pulse) or not others_wait else found


def hangs(pulse: Pulse, patience: Patience, others_wait: bool) -> str:
    """Why it is to be killed and started again; empty to leave it alone. `others_wait`: somebody of
    the job has arrived at this step."""
    if pulse.unanswered_s > answer_s(pulse, patience, others_wait):
        return (
            f"it has not answered for {pulse.unanswered_s:.1f} s; its answers took at most "
            f"{pulse.slowest_answer_s:.2f} s before"
        )
    step_s = max(
        patience.step_s,
        patience.step_times * pulse.step_s,
        patience.slowest_times * pulse.slowest_step_s,
    )
    if others_wait and not _early(pulse) and not pulse.arrived and pulse.since_step_s > step_s:
        return (
            f"others wait for its step, which has taken {pulse.since_step_s:.1f} s; the median "
            f"is {pulse.step_s:.2f} s"
        )
    return ""


class Awake:
    """A clock that stands still while its owner does: whoever was frozen itself must not take
    everybody else for silent."""

    def __init__(self, clock: Callable[[], float], most_s: float) -> None:
        self._clock = clock
        self._most_s = most_s
        self._base, self._last = 0.0, clock()

    def __call__(self) -> float:
        """Seconds; no more than `most_s` pass between two ticks."""
        return self._base + min(self._clock() - self._last, self._most_s)

    def tick(self) -> None:
        """To be called more often than every `most_s`."""
        self._base, self._last = self(), self._clock()
