"""PURE. The conditions Ready and Admits of a ComputeAllocation."""

from cede.api.allocation import ComputeAllocation
from cede.api.objects import CLUSTER_QUEUES, Json, condition
from cede.api.reasons import AdmitsReason, AllocationReason
from cede.api.resources import Quota, describe_amounts
from cede.api.verdict import Verdict
from quota_controller.desired.conflicts import Problems, failed
from quota_controller.desired.plan import NO_POLICY, Plan, Snapshot
from quota_controller.status.quota_verdict import quota_verdict

NOT_ACTIVE = "the allocation is not active: nothing new is admitted, running jobs continue"
DRAINED = "no workload uses its quota any more: its queues are deleted, the namespace stays"
STOPPED = Verdict(False, AdmitsReason.ADMISSION_STOPPED, "nothing is admitted: see condition Ready")


def _live_queue(allocation: ComputeAllocation, snapshot: Snapshot) -> Json | None:
    return snapshot.live.get((CLUSTER_QUEUES, ("", allocation.metadata.name)))


def _active_condition(queue: Json) -> Json | None:
    """Kueue's condition Active of the queue; None until Kueue has written it."""
    return condition((queue.get("status") or {}).get("conditions", []), "Active")


def waiting_workloads(allocation: ComputeAllocation, snapshot: Snapshot) -> int:
    """How many workloads wait in the team's queue."""
    queue = _live_queue(allocation, snapshot) or {}
    return int((queue.get("status") or {}).get("pendingWorkloads") or 0)


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


# --- Ready ----------------------------------------------------------------------------------------
def ready_verdict(
    allocation: ComputeAllocation, plan: Plan, snapshot: Snapshot, write_problems: Problems
) -> Verdict:
    """Condition Ready: whether the team's queue admits work as the spec says, and what to do."""
    name = allocation.metadata.name
    queue = _live_queue(allocation, snapshot)
    # also one that keeps a deletion from its end
    if name in write_problems:
        return failed(write_problems[name])
    if allocation.metadata.deletionTimestamp:
        return _deletion_verdict(allocation, plan, queue)
    if name in plan.problems:
        return failed(plan.problems[name])
    if queue is None:
        message = f"ClusterQueue {name} is being created"
        return Verdict(None, AllocationReason.CREATING, message)
    active = _active_condition(queue)
    if active is None:
        message = (
            f"Kueue has not reported on ClusterQueue {name} yet: check that its controller runs"
        )
        return Verdict(None, AllocationReason.WAITING_FOR_KUEUE, message)
    if not allocation.spec.active:
        return Verdict(True, AllocationReason.NOT_ACTIVE, NOT_ACTIVE)
    if active["status"] != "True":
        message = f"Kueue does not use ClusterQueue {name}: {active.get('message', '')}"
        return Verdict(False, AllocationReason.QUEUE_INACTIVE, message)
    return quota_verdict(allocation, plan)


def _deletion_verdict(allocation: ComputeAllocation, plan: Plan, queue: Json | None) -> Verdict:
    if allocation.metadata.name in plan.drained:
        return Verdict(False, AllocationReason.DELETING, DRAINED)
    workloads = ((queue or {}).get("status") or {}).get("reservingWorkloads", 0)
    progress = "Kueue has not confirmed it yet"
    if workloads:
        users = _count(workloads, "workload still uses", "workloads still use")
        progress = f"{users} its quota and may run to the end or be deleted"
    message = f"its queue is on hold, nothing new is admitted; {progress}"
    return Verdict(False, AllocationReason.DRAINING, message)


# --- Admits ---------------------------------------------------------------------------------------
def admits_verdict(allocation: ComputeAllocation, plan: Plan, snapshot: Snapshot) -> Verdict:
    """Condition Admits: whether work waits, and what the team's next job could use."""
    if snapshot.policy and allocation.metadata.name in plan.kept:
        return STOPPED
    queue = _live_queue(allocation, snapshot)
    active = _active_condition(queue) if queue else None
    if queue is None or active is None:
        message = "Kueue has not reported on the queue yet"
        return Verdict(None, AdmitsReason.WAITING_FOR_KUEUE, message)
    if queue["spec"].get("stopPolicy", "None") != "None" or active["status"] != "True":
        return STOPPED
    waiting = waiting_workloads(allocation, snapshot)
    if not waiting:
        return Verdict(True, AdmitsReason.NO_WORKLOADS_PENDING, "no workload waits")
    workloads = _count(waiting, "workload waits", "workloads wait")
    cause = _available_text(allocation, plan)
    return Verdict(False, AdmitsReason.WORKLOADS_PENDING, f"{workloads}: {cause}")


def _available_text(allocation: ComputeAllocation, plan: Plan) -> str:
    """What the team's next job could use, and who uses the rest of the team's own quota."""
    name = allocation.metadata.name
    if name not in plan.available:
        return NO_POLICY
    clauses = [f"the team's next job could use {_describe_accelerators(plan.available[name])}"]
    lent = plan.usage.lent_by(name)
    if lent:
        own = plan.grants.usable[name] - plan.usage.used_by(name)
        preempting = "Cede" if plan.cede_preempts else "Kueue"
        clauses.append(
            f"{_describe_accelerators(own)} of its own quota is idle or lent, and other teams use "
            f"{_describe_accelerators(lent)} of that: {preempting} reclaims what a job of the "
            "team lacks"
        )
    clauses.append(f"`cede explain JOB -n {allocation.namespace}` shows what a job lacks")
    return "; ".join(clauses)


def _describe_accelerators(quota: Quota) -> str:
    """The accelerators of a quota, which jobs usually wait for; all of it if there are none."""
    accelerators = Quota({key: value for key, value in quota.items() if "/" in key[1]})
    return describe_amounts(accelerators or quota)
