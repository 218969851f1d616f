"""A team that owns two types of accelerators takes back the type on which Kueue will place the
preemptor."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cede.api.resources import Resources
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.quota.cohort import CohortQuota, Queue, ResourceGroup, ResourceQuota
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.plans import preemption_plans
from tests.builders.scheduler import GPU, admitted, pending, queue, snapshot

GROUPS = (ResourceGroup((GPU,), ("a100", "h100")), ResourceGroup(("cpu",), ("main",)))
DRIVER = PodSetRequest("driver", 1, Resources({"cpu": 4000}))


def on(flavor: str, team: str, priority: int = 50) -> AdmittedWorkload:
    """An elastic job of four pods."""
    job = admitted(f"{team}-{flavor}", team, 4, (1, 2, 3, 4), priority=priority)
    key = (flavor, GPU)
    return replace(job, per_pod=Counter({key: 1}), usage=Counter({key: 4}))


def team(name: str, nominal: int, jobs: Sequence[AdmittedWorkload]) -> Queue:
    """It owns so many accelerators of each type."""
    quotas = {(flavor, GPU): ResourceQuota(nominal) for flavor in ("a100", "h100")}
    quotas["main", "cpu"] = ResourceQuota(8000)
    usage = Counter[tuple[str, str]]()
    for job in jobs:
        usage += job.usage if job.queue == name else Counter()
    return replace(queue(name), quotas=quotas, usage=usage, groups=GROUPS)


def claim_of_two(*jobs: AdmittedWorkload, selects: str = "", driver: bool = False) -> Snapshot:
    """Vision owns four of each type, research nothing; the pods of the claim may select one type
    by their node selector."""
    unsuitable = frozenset({"a100", "h100"} - {selects} if selects else ())
    workers = PodSetRequest("workers", 2, Resources({GPU: 1}), unsuitable)
    pod_sets = (DRIVER, workers) if driver else (workers,)
    quota = CohortQuota({"vision": team("vision", 4, jobs), "research": team("research", 0, jobs)})
    return snapshot(quota, admitted=jobs, pending=[pending(pod_sets=pod_sets)])


def givers(plans: list[PreemptionPlan]) -> list[str]:
    """Of the first claim for which jobs can give."""
    first = next((plan for plan in plans if plan.targets), None)
    return [target.job.name for target in first.targets] if first else []


BOTH_LENT = (on("a100", "research"), on("h100", "research"))


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(claim_of_two(*BOTH_LENT), ["research-a100"], id="the first type it may have"),
        pytest.param(
            claim_of_two(*BOTH_LENT, selects="h100"), ["research-h100"], id="the type it selects"
        ),
        pytest.param(
            claim_of_two(on("h100", "research"), selects="h100"),
            ["research-h100"],
            id="although the other type is idle",
        ),
        pytest.param(claim_of_two(on("h100", "research")), [], id="nothing if the other type does"),
        pytest.param(
            claim_of_two(on("a100", "vision"), on("h100", "research")),
            ["research-h100"],
            id="the type that is lent, not the one that its team uses",
        ),
        pytest.param(
            claim_of_two(on("a100", "vision", priority=10), on("h100", "research")),
            ["research-h100"],
            id="from borrowers before lower classes of its team on another type",
        ),
        pytest.param(
            claim_of_two(on("a100", "vision", priority=10), on("h100", "vision", priority=90)),
            ["vision-a100"],
            id="else from a lower class of its team",
        ),
        pytest.param(
            claim_of_two(*BOTH_LENT, selects="a100", driver=True),
            ["research-a100"],
            id="beside a driver on a type of its own",
        ),
    ],
)
def test_who_gives_has_what_kueue_will_assign(current: Snapshot, expected: list[str]) -> None:
    assert givers(preemption_plans(current)) == expected
