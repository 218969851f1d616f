"""No lie pays: whatever a job reports, and whatever a user may still edit while it runs, the same
jobs give, and each of them as much.

What the webhook refuses is tested there: larger smallest sizes, a higher class, the time of the
last shrink.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from cede.api.policy import PolicySpec, Preemption
from elastic_runtime.contract import State
from scheduler.preemption.job_history import LATE_ANSWERS_PER_DAY, JobHistory
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.plans import preemption_plans, sizes
from tests.builders.scheduler import (
    NOW,
    admitted,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)
from tests.marks import LONG

WORLDS = 200
MANY_WORLDS = 10_000
POLICY = PolicySpec(preemption=Preemption(minRuntimeSeconds=60))
Lie = Callable[[AdmittedWorkload], AdmittedWorkload]
LIES: dict[str, Lie] = {
    "never saves": lambda job: replace(
        job, runtime=runtime_status(job.size, step=10**6, durable_step=0, step_seconds=60.0)
    ),
    "claims endless unsaved work": lambda job: replace(
        job, runtime=runtime_status(job.size, step=2**53, step_seconds=1e6)
    ),
    "claims to be busy": lambda job: replace(
        job, runtime=runtime_status(job.size, state=State.RESIZING)
    ),
    "does not answer": lambda job: replace(job, runtime=None, addresses=()),
    "has a long grace": lambda job: replace(job, grace_s=86400.0),
    "wants more": lambda job: replace(job, desired_size=4096),
    "wants less": lambda job: replace(job, desired_size=1),
    "shrank a moment ago": lambda job: replace(job, shrunk_at=NOW + 10**6),
    "grew a moment ago": lambda job: replace(job, reserved_since=NOW),
}


def random_world(random: Random) -> Snapshot:
    """Three teams with jobs of all kinds, and a claim that some of them must serve."""
    jobs = list[AdmittedWorkload]()
    for number in range(random.randint(2, 9)):
        size = random.randint(1, 8)
        sizes = tuple(range(random.randint(1, size), size + 1)) if random.random() < 0.7 else ()
        job = admitted(
            str(number),
            random.choice(["vision", "research", "speech"]),
            size,
            sizes,
            priority=random.choice([10, 50, 90]),
            started=NOW - random.randint(0, 2000),
            runtime=runtime_status(size, step=random.randint(0, 99), step_seconds=1.0),
        )
        jobs.append(job)
    used = Counter[str]()
    for job in jobs:
        used[job.queue] += job.size
    owned = [random.randint(0, 12) for _ in QUEUES]
    queues = [queue(name, nominal, used[name]) for name, nominal in zip(QUEUES, owned, strict=True)]
    quota = cohort_quota(*queues, cohort_nominal=max(0, used.total() - sum(owned)))
    claim = pending(pods=random.randint(1, 8), priority=random.choice([10, 50, 90]))
    return snapshot(quota, admitted=jobs, pending=[claim])


QUEUES = ("vision", "research", "speech")


def given(current: Snapshot, history: JobHistory | None = None) -> list[dict[str, int]]:
    """For each claim: the size that each target gets."""
    return [sizes([plan]) for plan in preemption_plans(current, POLICY, history, fair_shares=True)]


def check_lies(seed: int) -> bool:
    """Whether somebody gave."""
    random = Random(seed)  # noqa: S311
    honest = random_world(random)
    expected = given(honest)
    liar = random.randrange(len(honest.admitted))
    for name, lie in LIES.items():
        jobs = list(honest.admitted)
        jobs[liar] = lie(jobs[liar])
        assert given(replace(honest, admitted=tuple(jobs))) == expected, (seed, name)
    # who does not answer in time gives as much, and is asked no longer
    late = JobHistory(late_answers={honest.admitted[liar].identity: LATE_ANSWERS_PER_DAY})
    assert given(honest, late) == expected, seed
    return any(expected)


def test_no_lie_changes_who_gives() -> None:
    gave = sum(check_lies(seed) for seed in range(WORLDS))
    assert gave > WORLDS / 10


@LONG
def test_in_many_worlds_no_lie_changes_who_gives() -> None:
    for seed in range(MANY_WORLDS):
        check_lies(seed)
