"""Who takes what is freed for a claim: what stock Kueue 0.19.2 was seen to do, by hand, in runs of
10, is what the model does.

A cohort of 8: team a owns 4 and may borrow 4, b and c own 2, d and e own nothing. Victims of a
claim of 4 give 2 and 2, 1.5 s apart. Three borrowers wait in each of two queues, two small jobs
wait behind the claimant in its own queue, and others arrive every 100 to 200 ms.
"""

import random
from dataclasses import replace

import pytest

from scheduler.quota.cohort import STRICT_FIFO
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Settings
from scheduler.simulate.objects import Job, JobSpec, TeamQuota

RUNS = 10
LONG_S = 10_000.0
# what holds the eight accelerators before a claim, by team, and whose jobs give 2 each
HELD = {
    "head": {"d": 4, "e": 4},
    "behind a hopeless job": {"d": 4, "e": 4},
    "past its own quota": {"a": 4, "b": 2, "c": 2},
    "borrowing": {"a": 4, "d": 2, "e": 2},
}
GIVERS = {
    "head": ("d", "e"),
    "behind a hopeless job": ("d", "e"),
    "past its own quota": ("a", "a"),
    "borrowing": ("d", "e"),
}


class Trial:
    """One claim, and everybody who would like what is freed for it."""

    def __init__(self, claim: str, seed: int, *, fair_sharing: bool) -> None:
        self.claim = claim
        self.random = random.Random(seed)  # noqa: S311
        teams = [
            TeamQuota("a", 4, borrowing_limit=4),
            TeamQuota("b", 2),
            TeamQuota("c", 2),
            TeamQuota("d", 0),
            TeamQuota("e", 0),
            TeamQuota("guard", 0, borrowing_limit=0, lending_limit=0),
        ]
        assumptions = Assumptions(start_s=1, eviction_s=1)
        self.cluster = Cluster(teams, Settings(fair_sharing=fair_sharing), assumptions)
        self.victims = self._occupy()
        self.wait(2)
        self.hopeless: Job | None = None
        if claim == "behind a hopeless job":
            self.hopeless = self.submit("hopeless", "a", 6)
            self.wait(0.3)
        self.claimant = self.submit("claimant", "a", 4, priority=50)
        for number in range(2):
            self.submit(f"own-{number}", "a", 1)
        for number in range(3):
            self.submit(f"wait-d{number}", "d", 1 + number % 2)
            self.submit(f"wait-e{number}", "e", 1 + number % 2)
        self.wait(3 + self.random.uniform(0, 1))
        self.before = {job.uid for job in self.cluster.jobs.values() if job.first_admitted}
        self.arrivals = 0
        self._arrive()

    def submit(self, name: str, team: str, count: int, priority: int = 50) -> Job:
        return self.cluster.submit(JobSpec(name, team, 0.0, count, LONG_S, priority))

    def wait(self, seconds: float) -> None:
        self.cluster.clock.run(self.cluster.now + seconds)

    def make_strict(self) -> None:
        self.cluster.set_strategy("a", STRICT_FIFO)

    def set_aside(self) -> None:
        """Park the hopeless job before the claimant."""
        if self.hopeless:
            self.cluster.set_active(self.hopeless.workload, active=False)

    def release_all(self) -> None:
        """The victims give 2 each, 1.5 s apart."""
        for victim in self.victims:
            self.cluster.resize(victim, victim.workload.count - 2, shrinks=True)
            self.wait(1.5)

    def release_at_once(self) -> None:
        for victim in self.victims:
            self.cluster.resize(victim, victim.workload.count - 2, shrinks=True)

    def is_robbed(self) -> bool:
        """Whether anybody else was admitted while the claimant waited, or it still waits."""
        self.wait(5)
        admitted_at = self.claimant.first_admitted or float("inf")
        others = [job for job in self.cluster.jobs.values() if job is not self.claimant]
        return admitted_at == float("inf") or any(
            job.first_admitted is not None and job.first_admitted < admitted_at
            for job in others
            if job.uid not in self.before and not job.spec.name.startswith("guard")
        )

    # --- a guard: a Workload that holds what is missing -------------------------------------------
    def admit_guard(self, size: int) -> Job:
        """Admitted from a quota of its own, which then goes: the cohort is short by its size."""
        self._set_quota("guard", nominal=size, lending_limit=0)
        guard = self.submit("guard", "guard", size)
        self.wait(0.5)
        assert guard.first_admitted
        self._set_quota("guard", nominal=0, lending_limit=0)
        return guard

    def give_private_quota(self, size: int) -> None:
        """The claimant's queue sees so much that nobody else can take."""
        queue = self.cluster.kueue.queues["a"]
        nominal = queue.quota.nominal
        lending_limit = max(0, nominal - queue.usage)
        self._set_quota("a", nominal=nominal + size, lending_limit=lending_limit)
        self.wait(2)
        self._set_quota("a", nominal=nominal, lending_limit=None)

    def _set_quota(self, name: str, *, nominal: int, lending_limit: int | None) -> None:
        quota = self.cluster.kueue.queues[name].quota
        self.cluster.set_quota(replace(quota, nominal=nominal, lending_limit=lending_limit))

    def _occupy(self) -> list[Job]:
        jobs = {}
        for team, count in HELD[self.claim].items():
            jobs[team] = self.submit(f"holds-{team}", team, count, priority=10)
            self.wait(0.5)
        return [jobs[team] for team in GIVERS[self.claim]]

    def _arrive(self) -> None:
        self.arrivals += 1
        # more important than the claimant, and no two alike: Kueue parks what is like a parked one
        self.submit(f"new-{self.arrivals}", self.random.choice("de"), 1, 60 + self.arrivals)
        if self.arrivals < 60:
            self.cluster.clock.after(self.random.uniform(0.1, 0.2), self._arrive)


def robbed(claim: str, *, fair_sharing: bool, wake_s: float, aside: bool = False) -> int:
    """Of 10 runs, under StrictFIFO set `wake_s` before the first release."""
    count = 0
    for seed in range(RUNS):
        trial = Trial(claim, seed, fair_sharing=fair_sharing)
        if aside:
            trial.set_aside()
        trial.make_strict()
        trial.wait(wake_s)
        trial.release_all()
        count += trial.is_robbed()
    return count


@pytest.mark.parametrize("fair_sharing", [True, False])
@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("head", 0),
        ("behind a hopeless job", RUNS),
        ("past its own quota", RUNS),
        ("borrowing", RUNS),
    ],
)
def test_strict_fifo_keeps_only_for_a_head_within_its_own_quota(
    claim: str, expected: int, fair_sharing: bool
) -> None:
    assert robbed(claim, fair_sharing=fair_sharing, wake_s=1.4) == expected


@pytest.mark.parametrize("fair_sharing", [True, False])
def test_with_the_hopeless_job_set_aside_the_claimant_is_the_head(fair_sharing: bool) -> None:
    claim = "behind a hopeless job"
    assert robbed(claim, fair_sharing=fair_sharing, wake_s=1.4, aside=True) == 0


@pytest.mark.parametrize("fair_sharing", [True, False])
def test_what_is_freed_at_once_past_the_own_quota_is_not_stolen(fair_sharing: bool) -> None:
    """The claimant's team does not borrow any more when Kueue tries it, so its turn comes first."""
    for seed in range(RUNS):
        trial = Trial("past its own quota", seed, fair_sharing=fair_sharing)
        trial.make_strict()
        trial.wait(1.4)
        trial.release_at_once()
        assert not trial.is_robbed(), seed


@pytest.mark.parametrize("fair_sharing", [True, False])
def test_what_is_freed_before_the_head_is_awake_is_stolen(fair_sharing: bool) -> None:
    """Seen: 10 of 10."""
    assert robbed("head", fair_sharing=fair_sharing, wake_s=0.3) == RUNS


@pytest.mark.parametrize("fair_sharing", [True, False])
@pytest.mark.parametrize("claim", HELD)
def test_a_guard_with_private_quota_keeps_for_every_claim(claim: str, fair_sharing: bool) -> None:
    """Seen: 0 of 80."""
    for seed in range(RUNS):
        trial = Trial(claim, seed, fair_sharing=fair_sharing)
        trial.set_aside()
        guard = trial.admit_guard(4)
        trial.make_strict()
        trial.release_all()
        trial.give_private_quota(4)
        trial.cluster.end(guard)
        assert not trial.is_robbed(), seed


@pytest.mark.parametrize("fair_sharing", [True, False])
def test_a_guard_alone_does_not_help_behind_a_hopeless_job(fair_sharing: bool) -> None:
    """Seen: 10 of 10, the head tried first is the hopeless one."""
    for seed in range(RUNS):
        trial = Trial("behind a hopeless job", seed, fair_sharing=fair_sharing)
        guard = trial.admit_guard(4)
        trial.make_strict()
        trial.release_all()
        trial.cluster.end(guard)
        assert trial.is_robbed(), seed
