"""Who may give for a preemptor, who is spared, and in which order the jobs of one team give."""

from collections import Counter
from dataclasses import replace

import pytest

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
    candidates = CandidatePool(current, history or JobHistory(), NOW, 60).find(preemptor)
    return Candidates(tuple(candidates.willing), tuple(candidates.reluctant))


def test_a_job_without_a_start_has_its_minimum_runtime_too() -> None:
    """Only Jobs have a start: of other kinds it is their reservation."""
    job = replace(NEW, started=0.0)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()) == Candidates()


def test_an_owner_that_has_waited_takes_new_jobs_last_of_all() -> None:
    """A stream of jobs shorter than the minimum runtime does not keep the quota of others."""
    old = admitted("old", size=2)
    candidates = candidates_of(snapshot(admitted=[NEW, old]), preemptor_of(waited_s=60))
    assert candidates == Candidates((old,), (NEW,))


@pytest.mark.parametrize(
    ("job", "kind"),
    [
        pytest.param(
            admitted("low", "vision", priority=10, reserved_since=NOW - 30),
            ClaimKind.PRIORITY_IN_TEAM,
            id="inside the team",
        ),
        pytest.param(NEW, ClaimKind.FAIR_SHARE, id="for a fair share"),
    ],
)
def test_the_minimum_runtime_holds_for_all_but_owners(
    job: AdmittedWorkload, kind: ClaimKind
) -> None:
    candidates = candidates_of(snapshot(admitted=[job]), preemptor_of(waited_s=9999, kind=kind))
    assert candidates == Candidates()


def test_a_job_that_was_stopped_often_is_left_to_finish() -> None:
    low = admitted("low", "vision", priority=10)
    often = JobHistory(stops={low.identity: STOPS_PER_HOUR})
    preemptor = preemptor_of(kind=ClaimKind.PRIORITY_IN_TEAM)
    assert candidates_of(snapshot(admitted=[low]), preemptor).willing == (low,)
    assert candidates_of(snapshot(admitted=[low]), preemptor, often) == Candidates()


def test_an_owner_takes_a_job_that_was_stopped_often_last_of_all() -> None:
    job = admitted()
    often = JobHistory(stops={job.identity: STOPS_PER_HOUR})
    current = snapshot(admitted=[job])
    assert candidates_of(current, preemptor_of(waited_s=60), often) == Candidates((), (job,))


def test_a_clock_that_was_set_back_keeps_no_owner_waiting() -> None:
    job = admitted(reserved_since=NOW + 600)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()).willing == (job,)


def test_a_job_that_kueue_evicts_gives_no_more() -> None:
    job = replace(admitted(), is_evicting=True)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()) == Candidates()


def test_a_job_never_takes_from_the_job_that_it_was_stopped_for() -> None:
    """Also after that one has grown, and so has another Workload."""
    job = replace(admitted("winner"), uid="uid-after-growth")
    history = JobHistory(stopped_for={"uid-claim": frozenset({"uid-0", ("research", "winner")})})
    assert candidates_of(snapshot(admitted=[job]), preemptor_of()).willing == (job,)
    assert candidates_of(snapshot(admitted=[job]), preemptor_of(), history) == Candidates()


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
