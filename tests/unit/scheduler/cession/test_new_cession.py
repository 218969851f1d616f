"""The Cession that is written for a preemption plan."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cede.api import cession as api
from cede.api.alternative import MAX_ALTERNATIVES, MAX_JOBS
from cede.api.policy import PolicySpec, Preemption
from cede.api.preference_reasons import PreferenceReason
from cede.api.reasons import CessionReason
from scheduler.cession.new_cession import amended, new_cession
from scheduler.preemption.alternatives import Alternative
from scheduler.preemption.preemption_plan import PreemptionPlan, Target
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.plans import preemption_plans
from tests.builders.scheduler import admitted, cohort_quota, pending, queue, snapshot

SETTINGS = Preemption(graceSeconds=60, maxGraceSeconds=90, minRuntimeSeconds=0)
POLICY = PolicySpec(preemption=SETTINGS)


def plan_of(jobs: Sequence[AdmittedWorkload], pods: int) -> PreemptionPlan:
    used = sum(job.size for job in jobs)
    quota = cohort_quota(queue("vision", nominal=pods), queue("research", 0, used=used))
    current = snapshot(quota, admitted=jobs, pending=[pending(pods=pods)])
    (plan,) = preemption_plans(current, POLICY)
    return plan


def made(job: AdmittedWorkload, name: str = "claim", attempt: int = 1) -> api.Cession:
    current = snapshot(admitted=[job], pending=[pending(name)])
    (plan,) = preemption_plans(current, POLICY)
    return new_cession(plan, attempt)


def test_it_names_preemptor_targets_need_and_reason() -> None:
    spec = made(admitted()).spec
    assert (spec.preemptor.job, spec.preemptor.queue) == ("claim", "vision")
    assert [(t.job, t.fromSize, t.toSize, t.how) for t in spec.targets] == [("gpt", 8, 4, "Shrink")]
    assert [(n.flavor, n.resource, n.amount) for n in spec.need] == [
        ("a100", "nvidia.com/gpu", "4")
    ]
    assert spec.reason is CessionReason.RECLAIM_OWN_QUOTA
    assert spec.why.startswith("claim (vision) reclaims")


def test_a_job_that_is_not_elastic_is_stopped() -> None:
    (target,) = made(admitted(allowed_sizes=())).spec.targets
    assert (target.toSize, target.how) == (0, "Stop")


def test_its_name_follows_from_the_preemptor_and_the_attempt() -> None:
    assert made(admitted()).metadata.name == "claim-uid-clai-1"
    assert made(admitted(), attempt=2).metadata.name == "claim-uid-clai-2"
    assert made(admitted(), name="x" * 39 + "-y").metadata.name == "x" * 39 + "-uid-xxxx-1"


@pytest.mark.parametrize(
    ("grace_s", "seconds"),
    [
        pytest.param(0, 60, id="the policy's if the job sets none"),
        pytest.param(30, 30, id="the job's own"),
        pytest.param(3600, 90, id="capped by the policy"),
    ],
)
def test_every_target_has_a_grace_period_of_its_own(grace_s: float, seconds: int) -> None:
    (target,) = made(admitted(grace_s=grace_s)).spec.targets
    assert target.graceSeconds == seconds


def test_texts_are_cut_to_what_a_record_may_hold() -> None:
    plan = replace(plan_of([admitted()], pods=4), why="w" * 9999)
    assert len(new_cession(plan, 1).spec.why) == 2048


def test_more_targets_are_added_and_a_target_may_give_more() -> None:
    first = made(admitted()).spec
    again = plan_of([admitted(size=4), admitted("bert", size=4, allowed_sizes=())], pods=8)
    spec = amended(first, again)
    sizes = [(target.job, target.fromSize, target.toSize) for target in spec.targets]
    assert sizes == [(t.job.job[1], t.job.size, t.size) for t in again.targets]
    assert spec.round == 2
    assert first.why in spec.why


# --- alternatives ---------------------------------------------------------------------------------
def alternative(name: str, others: int = 1) -> Alternative:
    targets = tuple(Target(admitted(f"other-{i}"), 0) for i in range(others))
    reason = PreferenceReason.LEAST_COST
    return Alternative(Target(admitted(name), 0), targets, 1840.4, 0.0, reason)


def test_it_records_what_would_have_been_done_without_a_target() -> None:
    plan = plan_of([admitted()], pods=4)
    [record] = new_cession(plan, 1, [alternative("gpt")]).spec.alternatives
    assert record.model_dump(mode="json") == {
        "spared": "job-uid-gpt",
        "jobs": [
            {
                "namespace": "research",
                "name": "other-0",
                "fromSize": 8,
                "toSize": 0,
                "how": "Stop",
            }
        ],
        "moreJobs": 0,
        "costSeconds": "1840",
        "plannedSeconds": "0",
        "reason": "LeastCost",
    }


def test_an_alternative_of_many_jobs_names_a_few_and_counts_the_others() -> None:
    plan = plan_of([admitted()], pods=4)
    [record] = new_cession(plan, 1, [alternative("gpt", others=5)]).spec.alternatives
    assert (len(record.jobs), record.moreJobs) == (MAX_JOBS, 2)


def test_alternatives_of_a_further_plan_replace_those_of_the_same_target() -> None:
    plan = plan_of([admitted()], pods=4)
    first = new_cession(plan, 1, [alternative("gpt"), alternative("bert")]).spec
    again = amended(first, plan, [alternative("gpt", others=2)])
    recorded = [(item.spared, len(item.jobs)) for item in again.alternatives]
    assert recorded == [("job-uid-gpt", 2), ("job-uid-bert", 1)]
    assert not {item.spared for item in amended(first, plan).alternatives} & {"job-uid-gpt"}
    many = [alternative(f"job-{i}") for i in range(MAX_ALTERNATIVES + 1)]
    assert len(amended(first, plan, many).alternatives) == MAX_ALTERNATIVES
