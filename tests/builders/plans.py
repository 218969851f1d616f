"""What the scheduler plans for a snapshot, under a policy that spares no young job."""

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec, Preemption
from scheduler.actions import Action, OpenCession, ResizeJob
from scheduler.plan import plan
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.preemption.preemptors import preemptors
from scheduler.preemption.targets import TargetChooser
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import NOW, admitted, cession, cohort_quota, pending, queue, snapshot

POLICY = PolicySpec(preemption=Preemption(minRuntimeSeconds=0, growCooldownSeconds=60))


def planned(current: Snapshot, now: float = NOW) -> list[Action]:
    return list(plan(current, POLICY, now).actions)


def opened(actions: list[Action]) -> list[Cession]:
    return [action.cession for action in actions if isinstance(action, OpenCession)]


def resizes(actions: list[Action]) -> list[ResizeJob]:
    return [action for action in actions if isinstance(action, ResizeJob)]


def preemption_plans(
    current: Snapshot,
    policy: PolicySpec = POLICY,
    history: JobHistory | None = None,
    *,
    fair_shares: bool = False,
) -> list[PreemptionPlan]:
    """One for every preemptor, also without targets."""
    chooser = TargetChooser(current, policy, history or JobHistory(), NOW)
    claims = preemptors(current, fair_shares=fair_shares)
    return [chooser.choose(preemptor) for preemptor in claims]


def sizes(plans: list[PreemptionPlan]) -> dict[str, int]:
    """By job: the size that it gets."""
    return {target.job.name: target.size for plan in plans for target in plan.targets}


def robbed_after(seconds: float) -> Snapshot:
    """Another job has what was released for `claim` so many seconds ago."""
    quota = cohort_quota(
        queue("vision", strategy="StrictFIFO"), queue("research", used=12), cohort_nominal=4
    )
    jobs = [
        admitted(size=4, allowed_sizes=(4, 8)),
        admitted("thief", size=8, allowed_sizes=(), started=NOW),
    ]
    record = cession("Released", releasedTime=rfc3339(NOW - seconds))
    return snapshot(quota, admitted=jobs, pending=[pending()], cessions=[record])
