"""A trace on the simulated cluster: the books have what the cluster used, and all of its time."""

import random
from functools import cache

import pytest

from ledger.timeline import SECOND
from scheduler.simulate.elastic import make_elastic
from scheduler.simulate.objects import JobSpec, TeamQuota
from scheduler.simulate.replay import Way, Window
from tests.harness.ledger_replay import LedgerReplay

TEAMS = (TeamQuota("a", 16), TeamQuota("b", 8), TeamQuota("c", 8))
HOURS = 12


@cache
def trace() -> list[JobSpec]:
    """More than the cluster can run at once, from teams that take turns."""
    generator = random.Random(7)  # noqa: S311
    jobs = [
        JobSpec(
            f"job-{number}",
            generator.choice("abc"),
            submit=generator.uniform(0, HOURS * 3600),
            accelerators=generator.choice([1, 1, 2, 4, 8]),
            duration=generator.expovariate(1 / 3600),
        )
        for number in range(150)
    ]
    return make_elastic(jobs, 0.7, 1)


@cache
def replayed(way: Way) -> LedgerReplay:
    replay = LedgerReplay(TEAMS, way)
    replay.run(trace(), Window(0, HOURS * 3600))
    return replay


@pytest.mark.parametrize("way", Way)
def test_the_books_have_what_the_cluster_used_and_all_of_its_time(way: Way) -> None:
    replay = replayed(way)
    books = replay.ledger
    used = sum(sums["used"] for sums in books.total.teams.values())
    assert used / SECOND == pytest.approx(replay.used, rel=1e-6)
    assert books.pool["capacity"] == 32 * (books.books.written - replay.started)
    assert books.books.written - replay.started > (HOURS * 3600 - 20) * SECOND
    assert books.gap == 0
    idle = sum(
        sums["available"] - sums["used"] + sums["borrowed"] - sums["lent"]
        for sums in books.total.teams.values()
    )
    assert used + idle == books.pool["capacity"]


def test_with_private_partitions_nothing_is_borrowed() -> None:
    teams = replayed(Way.PRIVATE).ledger.total.teams.values()
    assert sum(sums["borrowed"] + sums["lent"] for sums in teams) == 0
    assert sum(sums["used"] - sums["private"] for sums in teams) == 0


def test_what_shrunk_jobs_miss_is_counted_by_claim() -> None:
    claims = replayed(Way.CEDE).ledger.total.claims
    assert sum(sums["taken_back"] for sums in claims.values()) > 0
    assert all(key.claimant in "abc" for _, key in claims)
    assert replayed(Way.PRIVATE).ledger.total.claims == {}


def test_the_estimate_for_private_partitions_is_between_theirs_and_what_ran() -> None:
    """It is made from what ran with sharing, without another replay. Partitions as small as these
    run less: they fit whole jobs only."""
    with_sharing = replayed(Way.CEDE).ledger.total.teams.values()
    estimate = sum(sums["private"] for sums in with_sharing) / SECOND
    assert replayed(Way.PRIVATE).used < estimate < replayed(Way.CEDE).used
