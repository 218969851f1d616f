"""Which pending Workload opens a Cession, and which Cession gets more targets."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec, Preemption
from cede.api.preference_reasons import PreferenceReason
from cede.api.reasons import CessionReason
from scheduler.actions import AmendCession
from scheduler.cession.opening import MAX_ROUNDS, Claims, Decision, amend, decide
from scheduler.faults import Faults
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.preemption.preemptors import Preemptor
from scheduler.preemption.targets import TargetChooser
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import (
    KEY,
    NOW,
    admitted,
    cession,
    cohort_quota,
    gpus,
    pending,
    queue,
    snapshot,
)

POLICY = PolicySpec(preemption=Preemption(minRuntimeSeconds=0))


def decisions(
    current: Snapshot, open_cessions: Sequence[Cession] = (), faults: Faults | None = None
) -> list[Decision]:
    claims = Claims(current, open_cessions, POLICY, NOW)
    return list(decide(current, claims, NOW, faults or Faults()))


def test_a_team_that_only_seems_about_to_borrow_owes_nothing() -> None:
    """Of the six that are idle Kueue may soon lend four to research. Vision's own job, and what is
    idle, would do: nobody who is within its quota is stopped."""
    quota = cohort_quota(queue("vision", 8, used=2), queue("research", 4, used=4), queue("idle", 0))
    jobs = [admitted("low", "vision", size=2, priority=1), admitted(size=4, allowed_sizes=())]
    waiting = [pending(pods=8, priority=90), pending("next", "research", pods=4)]
    opened = [d.opened for d in decisions(snapshot(quota, admitted=jobs, pending=waiting))]
    targets = [t.job for action in opened if action for t in action.cession.spec.targets]
    assert "gpt" not in targets


def two_claims() -> Snapshot:
    quota = cohort_quota(queue("vision"), queue("speech"), queue("research", used=12))
    job = admitted(size=12, allowed_sizes=tuple(range(2, 13)))
    claims = [pending(), pending("asr", "speech")]
    return snapshot(quota, admitted=[job], pending=claims)


def test_one_preemptor_opens_a_cession_in_a_pass() -> None:
    (decision,) = decisions(two_claims())
    assert decision.opened
    assert decision.opened.cession.spec.preemptor.job == "claim"


def test_a_preemptor_whose_cession_ends_in_this_pass_is_examined_in_the_next() -> None:
    """A failure is not recorded before, and with it the pause."""
    current = two_claims()
    claims = Claims(current, (), POLICY, NOW)
    first, second = (workload.uid for workload in current.pending)
    ended, decision = decide(current, claims, NOW, Faults(), {first: "its Cession has ended"})
    assert not ended.opened
    assert ended.why == "claim (vision) stays pending: its Cession has ended"
    assert decision.opened
    assert decision.preemptor.workload.uid == second


@pytest.mark.parametrize(
    ("owned", "targets"),
    [
        pytest.param(6, {"low"}, id="Kueue keeps what is idle for an owner"),
        pytest.param(4, {"low", "lower"}, id="not for who would borrow"),
    ],
)
def test_a_claim_beyond_its_own_quota_does_not_count_on_what_others_get(
    owned: int, targets: set[str]
) -> None:
    """Otherwise it fails a moment later, and tries again and again."""
    quota = cohort_quota(queue("vision", owned, 2), queue("research", 6 - owned, 2))
    jobs = [
        admitted("low", "vision", 1, (), priority=20),
        admitted("lower", "vision", 1, (), priority=20, reserved_since=NOW - 2000),
    ]
    waiting = [pending(pods=3, priority=90), pending("asr", "research", 1)]
    assert quota.available("vision", KEY) == 2
    (decision,) = decisions(snapshot(quota, admitted=jobs, pending=waiting))
    assert decision.opened
    assert {t.job for t in decision.opened.cession.spec.targets} == targets


def test_a_preemptor_whose_last_cession_failed_pauses_and_others_go_on() -> None:
    failed = cession("Failed", completionTime=rfc3339(NOW - 29))
    paused, other = decisions(replace(two_claims(), cessions=(failed,)))
    assert not paused.opened
    assert "failed a moment ago" in paused.why
    assert other.opened
    over = cession("Failed", completionTime=rfc3339(NOW - 30))
    assert decisions(replace(two_claims(), cessions=(over,)))[0].opened


def test_an_error_in_the_plan_of_one_preemptor_leaves_the_others_working(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose = TargetChooser.choose

    def choose_or_raise(chooser: TargetChooser, preemptor: Preemptor) -> PreemptionPlan:
        if preemptor.workload.job[1] == "claim":
            raise ZeroDivisionError("per_pod is empty")
        return choose(chooser, preemptor)

    monkeypatch.setattr(TargetChooser, "choose", choose_or_raise)
    faults = Faults()
    broken, other = decisions(two_claims(), faults=faults)
    assert broken.is_broken
    assert other.opened
    (fault,) = faults.all
    assert fault.subject == "Workload vision/job-claim"
    assert "per_pod is empty" in fault.reason


def test_a_cession_records_what_would_have_been_done_without_its_targets() -> None:
    jobs = [admitted("old", size=4, allowed_sizes=()), admitted("soft", size=8)]
    quota = cohort_quota(queue("vision"), queue("research", 8, used=12))
    (decision,) = decisions(snapshot(quota, admitted=jobs, pending=[pending()]))
    assert decision.opened
    [alternative] = decision.opened.cession.spec.alternatives
    assert alternative.spared == "job-uid-soft"
    assert [(job.name, job.how) for job in alternative.jobs] == [("old", "Stop")]
    assert (alternative.costSeconds, alternative.plannedSeconds) == ("2640", "0")
    assert alternative.reason is PreferenceReason.SHRINKS_FIRST


def test_a_team_that_only_seems_about_to_borrow_is_no_alternative() -> None:
    """Beyond its own quota, vision may take only from teams that borrow already."""
    quota = cohort_quota(queue("vision", 8, used=2), queue("research", 4, used=4), queue("idle", 0))
    jobs = [admitted("low", "vision", size=2, priority=1), admitted(size=4, allowed_sizes=())]
    waiting = [pending(pods=8, priority=90), pending("next", "research", pods=4)]
    opened = [d.opened for d in decisions(snapshot(quota, admitted=jobs, pending=waiting))]
    recorded = [a for action in opened if action for a in action.cession.spec.alternatives]
    assert "gpt" not in [job.name for alternative in recorded for job in alternative.jobs]


@pytest.mark.parametrize("jobs", [1000, 1001])
def test_a_claim_on_more_jobs_than_a_record_holds_is_explained(jobs: int) -> None:
    quota = cohort_quota(queue("vision", jobs), queue("research", 0, used=jobs))
    borrowing = [admitted(f"{i}", size=1, allowed_sizes=()) for i in range(jobs)]
    (decision,) = decisions(snapshot(quota, admitted=borrowing, pending=[pending(pods=jobs)]))
    assert (bool(decision.opened), decision.is_oversized) == (jobs <= 1000, jobs > 1000)
    assert decision.opened or "1001 jobs would have to" in decision.why


# --- more targets ---------------------------------------------------------------------------------
def robbed() -> Snapshot:
    """`gpt` has released four, and `thief`, the youngest, has taken them; `bert` borrows too."""
    quota = cohort_quota(queue("vision"), queue("research", used=12))
    jobs = [
        admitted(size=4, allowed_sizes=(4, 8)),
        admitted("bert", size=4, allowed_sizes=()),
        admitted("thief", size=4, allowed_sizes=(), started=NOW),
    ]
    return snapshot(replace(quota, cohort_nominal=gpus(4)), admitted=jobs, pending=[pending()])


def test_more_targets_are_chosen_when_the_released_capacity_was_taken() -> None:
    record = cession("Released")
    amendment = amend(record, robbed(), (), POLICY, NOW)
    assert isinstance(amendment, AmendCession)
    assert [target.job for target in amendment.spec.targets] == ["gpt", "thief"]
    assert amendment.spec.round == 2
    [alternative] = amendment.spec.alternatives
    assert (alternative.spared, alternative.jobs[0].name) == ("job-uid-thief", "bert")
    assert amendment.spec.reason is CessionReason.RECLAIM_OWN_QUOTA


def test_a_job_that_has_ceded_is_not_stopped_as_well() -> None:
    """Not even if it is the only one that could give more."""
    quota = cohort_quota(queue("vision"), queue("research", used=4), queue("other", 0, used=4))
    jobs = [
        admitted(size=4, allowed_sizes=(4, 8)),
        admitted("rigid", "other", size=4, allowed_sizes=()),
    ]
    current = snapshot(quota, admitted=jobs, pending=[pending()])
    amendment = amend(cession("Released"), current, (), POLICY, NOW)
    assert amendment is not None
    hows = [(target.job, target.how) for target in amendment.spec.targets]
    assert hows == [("gpt", "Shrink"), ("rigid", "Stop")]
    own = cohort_quota(queue("vision"), queue("research", nominal=0, used=4))
    alone = snapshot(own, admitted=jobs[:1], pending=[pending()])
    assert amend(cession("Released"), alone, (), POLICY, NOW) is None


def test_targets_are_added_a_bounded_number_of_times() -> None:
    record = cession("Released")
    record.spec.round = MAX_ROUNDS
    assert amend(record, robbed(), (), POLICY, NOW) is None


def test_nothing_is_added_if_no_job_may_give_way() -> None:
    within = cohort_quota(queue("vision"), queue("research", used=4), queue("other", used=4))
    jobs = [admitted(size=4), admitted("thief", "other", size=4)]
    current = snapshot(within, admitted=jobs, pending=[pending(pods=5)])
    assert amend(cession("Released"), current, (), POLICY, NOW) is None
