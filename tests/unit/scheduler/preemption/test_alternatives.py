"""What would have been done without a target of a plan: by the same rules, on the same snapshot."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cede.api.preference_reasons import PreferenceReason
from cede.api.resources import Quota, Resources
from scheduler.preemption.alternatives import MAX_SPARED, Alternative, find_alternatives
from scheduler.preemption.candidates import Candidates
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemptors import Preemptor, preemptors
from scheduler.preemption.targets import TargetChooser
from scheduler.quota.cohort import CohortQuota, ResourceGroup, ResourceQuota
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.plans import POLICY
from tests.builders.scheduler import NOW, admitted, cohort_quota, pending, queue, snapshot


def alternatives(
    jobs: Sequence[AdmittedWorkload],
    workload: PendingWorkload | None = None,
    quota: CohortQuota | None = None,
    history: JobHistory | None = None,
) -> list[Alternative]:
    """By default, for a claim on the four that research borrows of vision."""
    used = sum(job.size for job in jobs)
    quota = quota or cohort_quota(queue("vision"), queue("research", used - 4, used=used))
    current = snapshot(quota, admitted=jobs, pending=[workload or pending()])
    chooser = TargetChooser(current, POLICY, history or JobHistory(), NOW)
    (plan,) = map(chooser.choose, preemptors(current))
    return list(find_alternatives(plan, chooser, NOW))


def stopped(name: str, age_s: float = 1000, size: int = 4) -> AdmittedWorkload:
    """A job of this age that cannot be asked to save."""
    return admitted(name, size=size, allowed_sizes=(), reserved_since=NOW - age_s)


def test_the_cost_of_another_stop_is_what_the_choice_compared() -> None:
    """Accelerators × (60 s to start again, and the time since the start)."""
    [alternative] = alternatives([stopped("old", 400), stopped("young", 200)])
    [target] = alternative.targets
    assert (alternative.spared.job.name, target.job.name) == ("young", "old")
    assert (alternative.cost_s, alternative.planned_s) == (4 * (60 + 400), 4 * (60 + 200))
    assert alternative.reason is PreferenceReason.LEAST_COST


def test_a_shrink_costs_nothing_and_a_stop_in_its_place_does() -> None:
    [alternative] = alternatives([admitted("soft"), stopped("hard")])
    assert [(target.job.name, target.size) for target in alternative.targets] == [("hard", 0)]
    assert (alternative.cost_s, alternative.planned_s) == (4 * (60 + 600), 0)
    assert alternative.reason is PreferenceReason.SHRINKS_FIRST


def test_a_target_in_whose_place_no_other_job_could_give_is_told_so() -> None:
    [alternative] = alternatives([admitted()])
    assert alternative.targets == ()
    assert alternative.reason is PreferenceReason.NO_OTHER_JOBS


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        pytest.param(
            [admitted("a", size=6), admitted("b", size=6, priority=60)],
            PreferenceReason.LOWEST_CLASS,
            id="class",
        ),
        pytest.param(
            [admitted("a", size=6), admitted("b", size=6, reserved_since=NOW - 2000)],
            PreferenceReason.YOUNGEST_FIRST,
            id="age",
        ),
        pytest.param(
            [admitted("a", size=6, allowed_sizes=(6,)), stopped("b", 30, size=6)],
            PreferenceReason.SAVES_FIRST,
            id="whether it saves first",
        ),
        pytest.param(
            [
                admitted("a", size=8, allowed_sizes=(4, 8)),
                admitted("b", size=8, allowed_sizes=(8,)),
            ],
            PreferenceReason.SHRINKS_FIRST,
            id="whether it shrinks",
        ),
        pytest.param(
            [
                admitted("a", size=8, allowed_sizes=(4, 8), reserved_since=NOW - 2000),
                admitted("b", size=8, allowed_sizes=(2, 8)),
            ],
            PreferenceReason.BEST_FIT,
            id="what fits, although the other is younger",
        ),
    ],
)
def test_the_rule_that_chose_between_jobs_of_one_team_is_named(
    jobs: list[AdmittedWorkload], reason: PreferenceReason
) -> None:
    [alternative] = alternatives(jobs)
    assert (alternative.spared.job.name, alternative.targets[0].job.name) == ("a", "b")
    assert alternative.reason is reason


def test_the_team_that_is_furthest_over_its_share_comes_first() -> None:
    quota = cohort_quota(
        queue("vision"), queue("research", 2, used=8), queue("speech", 4, used=8), cohort_nominal=6
    )
    jobs = [admitted("a"), admitted("b", "speech")]
    [alternative] = alternatives(jobs, pending(pods=2), quota)
    assert alternative.spared.job.name == "a"
    assert alternative.reason is PreferenceReason.TEAM_ORDER


def test_a_job_that_was_stopped_before_is_the_last_resort() -> None:
    history = JobHistory(stopped_lately={"job-uid-lately"})
    waited = pending(queued_at=NOW - 100)
    jobs = [stopped("lately"), stopped("never")]
    [alternative] = alternatives(jobs, waited, history=history)
    assert [target.job.name for target in alternative.targets] == ["lately"]
    assert alternative.reason is PreferenceReason.LAST_RESORT


def test_a_claim_for_no_accelerators_has_no_cost_in_them() -> None:
    cpu = ("a100", "cpu")

    def counted(amount: int) -> Quota:
        return Counter({cpu: amount})

    quota = CohortQuota(
        {
            name: replace(
                queue(name),
                quotas={cpu: ResourceQuota(4)},
                usage=counted(used),
                groups=(ResourceGroup(("cpu",), ("a100",)),),
            )
            for name, used in (("vision", 0), ("research", 8))
        },
        counted(0),
    )
    jobs = [
        replace(job, usage=counted(4), per_pod=counted(1), counted=counted(4))
        for job in (stopped("old"), stopped("young", 200))
    ]
    workload = pending(requested=Resources({"cpu": 4}))
    [alternative] = alternatives(jobs, workload, quota)
    assert [target.job.name for target in alternative.targets] == ["old"]
    assert (alternative.cost_s, alternative.planned_s) == (None, None)


def test_only_the_targets_that_cost_most_are_asked_about() -> None:
    jobs = [stopped(f"s{age}", age, size=1) for age in (100, 200, 300, 400, 500)]
    recorded = alternatives(jobs)
    assert len(recorded) == MAX_SPARED
    assert [alternative.spared.job.name for alternative in recorded] == ["s400", "s300", "s200"]
    assert all(alternative.targets[0].job.name == "s500" for alternative in recorded)


def test_the_candidates_are_looked_for_once_for_all_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [stopped(f"s{age}", age, size=1) for age in (100, 200, 300, 400, 500)]
    quota = cohort_quota(queue("vision"), queue("research", 1, used=5))
    current = snapshot(quota, admitted=jobs, pending=[pending()])
    chooser = TargetChooser(current, POLICY, JobHistory(), NOW)
    (plan,) = map(chooser.choose, preemptors(current))
    asked = list[Preemptor]()
    find = chooser.candidates

    def note(preemptor: Preemptor) -> Candidates:
        asked.append(preemptor)
        return find(preemptor)

    monkeypatch.setattr(chooser, "candidates", note)
    assert len(list(find_alternatives(plan, chooser, NOW))) == MAX_SPARED
    assert asked == [plan.preemptor]


def test_nothing_is_different_for_the_next_preemptor() -> None:
    """The question is asked on a copy: the same plan follows again."""
    current = snapshot(admitted=[admitted("a"), admitted("b")], pending=[pending()])
    chooser = TargetChooser(current, POLICY, JobHistory(), NOW)
    (preemptor,) = preemptors(current)
    plan = chooser.choose(preemptor)
    list(find_alternatives(plan, chooser, NOW))
    assert chooser.choose(preemptor) == plan
