"""PURE. What a take-back cost a job, from its journal and the times that were observed.

All times are Unix seconds of this machine.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.bench.runtime.commits import Commit

STEPS_AFTER = 3
"""So many steps of the new membership show how long one takes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of a job's membership."""

    # The first commit of the step before `first`: the last work that counts.
    kept: float
    # The first commit of the new membership.
    first: float
    # Seconds of a step of the new membership.
    step_s: float
    # Steps that were done again, or left out.
    steps_lost: int

    @property
    def gap_s(self) -> float:
        """Seconds without a useful step."""
        return max(0.0, self.first - self.kept - self.step_s)


def turn(commits: Iterable[Commit], asked: float, size: int) -> Turn | None:
    """The first membership of `size` ranks that began after `asked`; None until it has done some
    steps. A job that did no step before `asked` has none."""
    commits = sorted(commits, key=lambda commit: commit.time)
    known = max((c.era for c in commits if c.time < asked), default=None)
    if known is None:
        return None
    first_commits: dict[int, float] = {}
    for commit in commits:
        if commit.era > known and commit.world == size:
            first_commits.setdefault(commit.step, commit.time)
    if len(first_commits) < STEPS_AFTER:
        return None
    step, first = min(first_commits.items(), key=lambda item: item[1])
    before = [c for c in commits if c.time < first]
    kept = [c.time for c in before if c.step == step - 1]
    last = max(c.step for c in before)
    durations = [later - earlier for earlier, later in pairwise(first_commits.values())]
    return Turn(
        kept=min(kept, default=before[0].time),
        first=first,
        step_s=statistics.median(durations),
        steps_lost=abs(last + 1 - step),
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """What one take-back and its end cost; None: not measured."""

    # From the creation of the owner's Workload to its running pods.
    owner_s: float | None
    # Until the target's first step with its new size.
    first_step_s: float
    steps_lost: int
    accelerator_s_lost: float


def cost_of_resizes(
    shrink: Turn,
    growth: Turn,
    asked: float,
    freed: float,
    joined: Sequence[float],
    stay: int,
) -> Cost:
    """Of a job that gives as many accelerators as `joined` has, and keeps `stay`.

    Those that leave count from the last step until the owner runs, `freed`; those that stay count
    while there is no step, twice; those that join count from the start of their pods, `joined`.
    """
    lost = len(joined) * max(0.0, freed - shrink.kept)
    lost += stay * (shrink.gap_s + growth.gap_s)
    lost += sum(max(0.0, growth.first - growth.step_s - time) for time in joined)
    steps = shrink.steps_lost + growth.steps_lost
    return Cost(freed - asked, shrink.first - asked, steps, lost)


def cost_of_stop(
    back: Turn, asked: float, freed: float, ended: float, running: float, accelerators: int
) -> Cost:
    """Of a job that is stopped, and runs again from `running` on, after the owner's end, `ended`.

    The steps that it repeats are in the time from the last step that counts until the owner runs.
    """
    lost = accelerators * max(0.0, freed - back.kept)
    lost += accelerators * max(0.0, back.first - back.step_s - running)
    return Cost(freed - asked, back.first - ended, back.steps_lost, lost)


def cost_of_shrink(shrink: Turn, asked: float, left: float, leave: int, stay: int) -> Cost:
    """Of a job without an owner that waits for it: `leave` ranks have ended when it is `left`."""
    lost = leave * max(0.0, left - shrink.kept) + stay * shrink.gap_s
    return Cost(None, shrink.first - asked, shrink.steps_lost, lost)


def is_between_saves(commits: Sequence[Commit], size: int, period: int) -> bool:
    """Whether the newest membership has `size` ranks, has done some steps, and is half a period
    after a save."""
    if not commits:
        return False
    last = max(commits, key=lambda commit: (commit.era, commit.step))
    done = {commit.step for commit in commits if commit.era == last.era}
    return last.world == size and len(done) > STEPS_AFTER and last.step % period == period // 2
