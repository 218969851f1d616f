"""Whatever happens to jobs, quotas, nodes and the ledger itself, the sums are the capacity."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Workload
from ledger.bookkeeper import WRITE_INTERVAL
from ledger.timeline import SECOND
from tests.builders.ledger import (
    NOW,
    Ledger,
    allocation,
    policy,
    seen_at,
    workload,
)

TEAMS = ("research", "vision", "speech")
JOBS = ("a", "b", "c", "d")


# --- any history ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Moment:
    """One pass of the ledger."""

    # seconds since the pass before; below zero if the clock was set back
    passed: int
    # accelerators of all healthy nodes
    capacity: int
    # (owned, available, strategy) of each team
    quotas: tuple[tuple[int, int, str], ...]
    # (team, pods, since, waits) of each job; None if it is not there
    jobs: tuple[tuple[int, int, int, bool] | None, ...]
    # seconds since the server has confirmed what is seen
    silence: int = 0
    # the ledger starts again before
    restarts: bool = False
    # the database refuses
    refuses: bool = False

    @property
    def allocations(self) -> list[ComputeAllocation]:
        return [
            allocation(name, owned, available, strategy)
            for name, (owned, available, strategy) in zip(TEAMS, self.quotas, strict=True)
        ]

    @property
    def workloads(self) -> list[Workload]:
        return [
            workload(name, TEAMS[job[0]], job[1], since=NOW + job[2] * SECOND, waits=job[3])
            for name, job in zip(JOBS, self.jobs, strict=True)
            if job
        ]


quotas = st.tuples(
    st.integers(0, 8), st.integers(0, 8), st.sampled_from(["LendAndBorrow", "Lend", "DontLend"])
)
jobs = st.none() | st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 5), st.booleans())
moments = st.builds(
    Moment,
    passed=st.sampled_from([0, 1, 1, 7, 10, 10, 25, 30, 31, 400, 90_000, -5, -100]),
    capacity=st.integers(0, 24),
    quotas=st.tuples(quotas, quotas, quotas),
    jobs=st.tuples(jobs, jobs, jobs, jobs),
    silence=st.sampled_from([0, 0, 0, 3, 60, 170, 200]),
    restarts=st.sampled_from([False, False, False, True]),
    refuses=st.sampled_from([False, False, False, True]),
)


@dataclass
class History:
    """The books after these moments, and what the moments say by themselves."""

    ledger: Ledger = field(default_factory=Ledger)
    now: int = NOW
    start: int = NOW

    def play(self, history: Sequence[Moment]) -> None:
        for moment in history:
            self.now += moment.passed * SECOND
            if moment.restarts:
                self.ledger.restart(self.now)
            self.look(moment, silence=moment.silence, refuses=moment.refuses)

    def finish(self, last: Moment) -> "History":
        """Afterwards all that was seen is written, and a gap."""
        self.now = max(self.now, self.ledger.books.written) + 400 * SECOND
        for _ in range(2):
            self.look(last)
            self.now += WRITE_INTERVAL
        return self

    def in_gaps(self, begin: int, end: int) -> int:
        return sum(
            max(0, min(end, gap.end) - max(begin, gap.begin)) for gap in self.ledger.total.gaps
        )

    def look(self, moment: Moment, *, silence: int = 0, refuses: bool = False) -> None:
        self.ledger.look(
            seen_at(
                self.now,
                confirmed=self.now - silence * SECOND,
                cluster_policy=policy(moment.capacity),
                allocations=moment.allocations,
                workloads=moment.workloads,
            ),
            refuses=refuses,
        )


@given(st.lists(moments, min_size=1, max_size=15))
def test_the_sums_are_the_capacity_and_what_is_lent_is_borrowed(history: list[Moment]) -> None:
    played = History()
    played.play(history)
    played.finish(history[-1])
    pool = played.ledger.pool
    teams = Counter[str]()
    for sums in played.ledger.total.teams.values():
        assert all(value >= 0 for value in sums.values())
        assert sums["private"] <= sums["available"]
        idle = sums["available"] - (sums["used"] - sums["borrowed"]) - sums["lent"]
        assert idle >= 0
        teams["idle"] += idle
        teams.update(sums)
    free = pool["unallocated"] - pool["unallocated_lent"]
    assert teams["used"] - pool["excess"] + teams["idle"] + free == pool["capacity"]
    assert teams["borrowed"] == teams["lent"] + pool["unallocated_lent"] + pool["excess"]
    assert teams["available"] + pool["unallocated"] == pool["capacity"]
    jobs = Counter[str]()
    for sums in played.ledger.total.jobs.values():
        jobs.update(sums)
    assert (jobs["used"], jobs["borrowed"]) == (teams["used"], teams["borrowed"])


@given(st.lists(moments, min_size=1, max_size=15))
def test_every_moment_is_in_the_books_once_as_seen_or_as_a_gap(history: list[Moment]) -> None:
    """A job that has one accelerator all the time shows which time was counted."""
    always = ((0, 1, 0, False), None, None, None)
    steady = [replace(moment, jobs=always) for moment in history]
    played = History()
    played.play(steady)
    played.finish(steady[-1])
    counted = played.ledger.job("a")["used"]
    assert counted + played.ledger.gap == played.ledger.books.written - played.start
    gaps = played.ledger.total.gaps
    for first, second in pairwise(gaps):
        assert first.end <= second.begin


calm = st.builds(
    Moment,
    passed=st.sampled_from([0, 1, 7, 10, 25, 30]),
    capacity=st.integers(0, 24),
    quotas=st.tuples(quotas, quotas, quotas),
    jobs=st.tuples(jobs, jobs, jobs, jobs),
)


@given(st.lists(calm, min_size=2, max_size=12), st.integers(0, 11))
def test_a_restart_at_any_moment_changes_nothing_but_a_gap(
    history: list[Moment], number: int
) -> None:
    """What is not in a gap is what the moments say, counted by hand."""
    index = number % len(history)
    history = [*history[:index], replace(history[index], restarts=True), *history[index + 1 :]]
    # at the end nothing runs
    history.append(replace(history[-1], passed=10, jobs=(None,) * 4, restarts=False))
    played = History()
    played.play(history)
    played.finish(history[-1])
    expected = Counter[str]()
    begin = NOW
    for before, moment in pairwise(history):
        begin += before.passed * SECOND
        end = begin + moment.passed * SECOND
        length = end - begin - played.in_gaps(begin, end)
        for job, state in zip(JOBS, before.jobs, strict=True):
            if state and not state[3]:
                expected[job] += state[1] * length
    assert {job: played.ledger.job(job)["used"] for job in JOBS} == {
        job: expected[job] for job in JOBS
    }


@given(st.lists(calm, min_size=1, max_size=10))
def test_to_look_twice_or_in_another_order_changes_nothing(history: list[Moment]) -> None:
    """As when an event of a watch comes twice."""
    once = History()
    once.play(history)
    twice = History()
    for moment in history:
        twice.play([moment])
        twice.ledger.look(
            seen_at(
                twice.now,
                cluster_policy=policy(moment.capacity),
                allocations=moment.allocations[::-1],
                workloads=moment.workloads[::-1],
            )
        )
    for played in (once, twice):
        played.finish(history[-1])
    assert once.ledger.total == twice.ledger.total
