"""The Cession that is written for a preemption plan."""

import pytest

from cede.api import cession as api
from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec, Preemption
from cede.api.reasons import CessionReason
from scheduler.job_history import JobHistory
from scheduler.new_cession import new_cession
from scheduler.preemptors import preemptors
from scheduler.targets import TargetChooser
from scheduler.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, pending, snapshot

SETTINGS = Preemption(graceSeconds=60, maxGraceSeconds=90)


def made(job: AdmittedWorkload, name: str = "claim", attempt: int = 1) -> api.Cession:
    current = snapshot(admitted=[job], pending=[pending(name)])
    (preemptor,) = preemptors(current)
    policy = PolicySpec(preemption=Preemption(minRuntimeSeconds=0))
    plan = TargetChooser(current, policy, JobHistory(), NOW).choose(preemptor)
    return new_cession(plan, attempt, SETTINGS, NOW)


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
def test_the_deadline_is_the_longest_grace_of_the_targets(grace_s: float, seconds: float) -> None:
    assert made(admitted(grace_s=grace_s)).spec.deadline == rfc3339(NOW + seconds)
