"""Who may give for a preemptor, who is spared, and in which order the jobs of one team give."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api.surplus import Base
from scheduler.preemption.candidates import (
    CandidatePool,
    Candidates,
    stop_order,
    weight,
)
from scheduler.preemption.job_history import STOPS_PER_HOUR, JobHistory
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.quota.cohort import ResourceQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import (
    FLAVOR,
    KEY,
    NOW,
    admitted,
    cohort_quota,
    gpus,
    pending,
    queue,
    runtime_status,
    snapshot,
)

NEW = admitted(reserved_since=NOW - 30)


def preemptor_of(
    waited_s: float = 0, kind: ClaimKind = ClaimKind.OWN_QUOTA, priority: int = 50
) -> Preemptor:
    workload = pending(queued_at=NOW - waited_s, priority=priority)
    return Preemptor(workload, gpus(4), gpus(4), kind=kind)


def candidates_of(
    current: Snapshot, preemptor: Preemptor, history: JobHistory | None = None
) -> Candidates:
    """As tuples, to be compared."""
    pool = CandidatePool(current, history or JobHistory(), NOW, 60)
    jobs = pool.find(preemptor)
    last_resort = (jobs.new, jobs.stopped_before, jobs.winners)
    return Candidates(*map(tuple, (jobs.willing, jobs.sheltered, *last_resort)))


def test_a_job_without_a_start_has_its_minimum_runtime_too() -> None:
    """Only Jobs have a start: of other kinds it is their reservation."""
    job = replace(NEW, started=0.0)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()) == Candidates()


def test_an_owner_that_has_waited_takes_new_jobs_last_of_all() -> None:
    """A stream of jobs shorter than the minimum runtime does not keep the quota of others."""
    old = admitted("old", size=2)
    candidates = candidates_of(snapshot(admitted=[NEW, old]), preemptor_of(waited_s=60))
    assert candidates == Candidates((old,), new=(NEW,))


def test_a_surplus_is_never_spared() -> None:
    """It loses nothing when it is stopped. Its base would be stopped in its place."""
    surplus = replace(NEW, base=Base("js", "gpt-node-0", "child", 2))
    history = JobHistory(stopped_lately={surplus.identity})
    candidates = candidates_of(snapshot(admitted=[surplus]), preemptor_of(), history)
    assert candidates == Candidates((surplus,))


ALL_BUT_OWNERS = pytest.mark.parametrize(
    ("team", "kind"),
    [
        pytest.param("vision", ClaimKind.PRIORITY_IN_TEAM, id="inside the team"),
        pytest.param("research", ClaimKind.FAIR_SHARE, id="for a fair share"),
        pytest.param("research", ClaimKind.GROWTH, id="for growth"),
    ],
)


@ALL_BUT_OWNERS
def test_the_minimum_runtime_holds_for_all_but_owners(team: str, kind: ClaimKind) -> None:
    job = admitted("low", team, priority=10, reserved_since=NOW - 30)
    preemptor = preemptor_of(waited_s=9999, kind=kind)
    assert candidates_of(snapshot(admitted=[job]), preemptor) == Candidates()


SHELTERED = pytest.mark.parametrize(
    "history",
    [
        pytest.param(JobHistory(stops={"job-uid-low": STOPS_PER_HOUR}), id="often"),
        pytest.param(JobHistory(stopped_lately={"job-uid-low"}), id="lately"),
    ],
)


@SHELTERED
@ALL_BUT_OWNERS
def test_a_job_that_was_stopped_may_shrink_and_is_left_to_run(
    team: str, kind: ClaimKind, history: JobHistory
) -> None:
    low = admitted("low", team, priority=10)
    current = snapshot(admitted=[low])
    preemptor = preemptor_of(waited_s=9999, kind=kind)
    assert candidates_of(current, preemptor) == Candidates((low,))
    assert candidates_of(current, preemptor, history) == Candidates(sheltered=(low,))


@SHELTERED
def test_an_owner_that_has_waited_stops_a_job_that_was_stopped_last_of_all(
    history: JobHistory,
) -> None:
    """After new jobs, which have less to lose."""
    low = admitted("low")
    other = admitted("other")
    current = snapshot(admitted=[low, other, NEW])
    before = candidates_of(current, preemptor_of(waited_s=59), history)
    assert before == Candidates((other,), (low,))
    after = candidates_of(current, preemptor_of(waited_s=60), history)
    assert after == Candidates((other,), (low,), (NEW,), (low,))


def test_a_clock_that_was_set_back_keeps_no_owner_waiting() -> None:
    job = admitted(reserved_since=NOW + 600)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()).willing == (job,)


def test_a_job_that_kueue_evicts_gives_no_more() -> None:
    job = replace(admitted(), is_evicting=True)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()) == Candidates()


# The second name holds after that job has grown, and so has another Workload.
WON = JobHistory(stopped_for={"uid-claim": frozenset({"uid-0", ("research", "winner")})})
WINNER = replace(admitted("winner"), uid="uid-after-growth")


def test_a_job_leaves_the_job_alone_that_it_was_stopped_for() -> None:
    current = snapshot(admitted=[WINNER])
    assert candidates_of(current, preemptor_of()).willing == (WINNER,)
    assert candidates_of(current, preemptor_of(waited_s=59), WON) == Candidates()
    fair_share = preemptor_of(waited_s=9999, kind=ClaimKind.FAIR_SHARE)
    assert candidates_of(current, fair_share, WON) == Candidates()


def test_an_owner_that_has_waited_takes_from_that_job_after_all_others() -> None:
    """Otherwise a job that won once keeps what another team owns."""
    other = admitted("other")
    current = snapshot(admitted=[WINNER, other, NEW])
    candidates = candidates_of(current, preemptor_of(waited_s=60), WON)
    assert candidates == Candidates((other,), new=(NEW,), winners=(WINNER,))


def test_an_owner_from_before_the_clock_was_set_back_has_waited_while_it_is_led() -> None:
    current = replace(snapshot(admitted=[NEW]), led_since=NOW - 60)
    assert candidates_of(current, preemptor_of(waited_s=-3600)) == Candidates(new=(NEW,))
    just_leads = replace(current, led_since=NOW - 59)
    assert candidates_of(just_leads, preemptor_of(waited_s=-3600)) == Candidates()


# --- the order inside a team ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(admitted(priority=10), admitted(priority=20, size=2), id="lowest class"),
        pytest.param(
            admitted(size=8), admitted(size=2, allowed_sizes=()), id="who saves when asked"
        ),
        pytest.param(
            admitted(size=2, allowed_sizes=()),
            admitted(size=3, allowed_sizes=()),
            id="the fewest accelerators",
        ),
        pytest.param(
            admitted(allowed_sizes=(), reserved_since=NOW - 100),
            admitted(allowed_sizes=(), reserved_since=NOW - 300),
            id="the least work",
        ),
        pytest.param(
            admitted(allowed_sizes=(), reserved_since=NOW - 7000),
            admitted(allowed_sizes=(), reserved_since=NOW - 9000),
            id="the youngest, of two that may have lost the limit",
        ),
    ],
)
def test_stops_inside_a_team(first: AdmittedWorkload, second: AdmittedWorkload) -> None:
    order = stop_order(preemptor_of(), NOW)
    assert order(first) < order(second)


def test_growth_makes_no_job_younger() -> None:
    grown = admitted(started=NOW - 9000, reserved_since=NOW - 1)
    other = admitted(started=NOW - 5000)
    order = stop_order(preemptor_of(), NOW)
    assert order(other) < order(grown)


def test_accelerators_weigh_not_pods() -> None:
    pods_of_one = admitted(size=8)
    pod_of_eight = replace(admitted(size=1), usage=gpus(8), per_pod=gpus(8))
    assert weight(pods_of_one, gpus(4)) == weight(pod_of_eight, gpus(4)) == 2


def test_no_report_of_a_runtime_changes_the_order() -> None:
    order = stop_order(preemptor_of(), NOW)
    reports = [
        None,
        runtime_status(),
        runtime_status(step=2**53, durable_step=0, step_seconds=9999),
        runtime_status(step=100, durable_step=100),
    ]
    assert len({order(admitted(runtime=report)) for report in reports}) == 1


# --- which queues give ----------------------------------------------------------------------------
def test_candidates_hold_what_they_use_together() -> None:
    candidates = Candidates((admitted(size=2),), (admitted("other", size=3),))
    assert candidates.hold(gpus(5))
    assert not candidates.hold(gpus(6))


def test_a_queue_that_borrows_one_missing_resource_may_give_all_of_them() -> None:
    """Kueue takes from a queue that borrows any of the resources."""
    cpu = (FLAVOR, "cpu")
    both = Counter({KEY: 2, cpu: 2})
    job = replace(admitted(size=2), usage=both)
    lender = replace(queue("research", 4), usage=both)
    quotas = {KEY: ResourceQuota(4), cpu: ResourceQuota(4)}
    owner = replace(queue("vision"), quotas=quotas)
    current = snapshot(cohort_quota(owner, lender), admitted=[job])
    claim = replace(preemptor_of(), request=both, missing=both)
    assert candidates_of(current, claim).willing == (job,)


def test_other_teams_give_nothing_to_a_team_that_would_borrow_anyway() -> None:
    claim = replace(preemptor_of(), request=gpus(99), missing=gpus(99))
    assert candidates_of(snapshot(admitted=[admitted()]), claim) == Candidates()


def test_a_team_that_borrows_less_gives_nothing_for_a_fair_share() -> None:
    quota = cohort_quota(queue("vision", used=4), queue("research", used=6))
    current = snapshot(quota, admitted=[admitted(size=6)])
    two = replace(preemptor_of(kind=ClaimKind.FAIR_SHARE), request=gpus(2), missing=gpus(2))
    three = replace(two, request=gpus(3), missing=gpus(3))
    assert candidates_of(current, two).willing
    assert candidates_of(current, three) == Candidates()
