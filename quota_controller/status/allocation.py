"""PURE. What an admin reads: the statuses, told from the plan and from Kueue's own figures."""

from collections.abc import Mapping

from cede.api import names
from cede.api.allocation import AllocationStatus, ComputeAllocation, QuotaStatus
from cede.api.objects import CLUSTER_QUEUES, Json, set_condition
from cede.api.resources import Quota, describe_amounts, quantity
from quota_controller.desired.capacity import Supply
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.plan import NO_POLICY, Plan, Seen

ADMITS = "Admits"


def allocation_statuses(
    plan: Plan, seen: Seen, clashes: Problems, now: float
) -> dict[str, AllocationStatus]:
    """The status of every allocation."""
    return {a.metadata.name: _allocation(a, plan, seen, clashes, now) for a in seen.allocations}


def _allocation(
    a: ComputeAllocation, plan: Plan, seen: Seen, clashes: Problems, now: float
) -> AllocationStatus:
    name = a.metadata.name
    used, borrowed, lent = (
        of.get(name, Quota())
        for of in (plan.account.used, plan.account.borrowed, plan.account.lent)
    )
    ready, reason, message = _ready(a, plan, seen, clashes)
    conditions = set_condition(
        a.status.conditions,
        names.READY,
        ready,
        reason,
        message,
        generation=a.metadata.generation,
        now=now,
    )
    admits, reason, message = _admits(a, plan, seen)
    conditions = set_condition(
        conditions, ADMITS, admits, reason, message, generation=a.metadata.generation, now=now
    )
    # the figures are the policy's: the last ones stand
    if not seen.policy:
        return a.status.model_copy(
            update={"observedGeneration": a.metadata.generation, "conditions": conditions}
        )
    owns = plan.owns.get(name, Quota())
    granted = plan.shares.granted.get(name, Quota())
    waiting = _waiting(a, seen)
    here = {entry.instanceType for entry in a.spec.quotas} | {
        flavor for (flavor, _), value in used.items() if value
    }
    supply = {flavor: plan.supply[flavor] for flavor in plan.supply if flavor in here}
    return AllocationStatus(
        observedGeneration=a.metadata.generation,
        conditions=conditions,
        team=a.team,
        namespace="" if name in plan.kept else a.namespace,
        clusterQueue=name,
        localQueue=names.LOCAL_QUEUE,
        waiting=waiting,
        owns=short(owns, supply),
        used=short(used, supply),
        lent=short(lent, supply),
        borrowed=short(borrowed, supply),
        quotas=[
            QuotaStatus(
                instanceType=flavor,
                promised=one.promised,
                nominal=amounts(owns, one),
                healthy=amounts(granted, one),
                # What is idle in the cohort changes with every job of anybody: said to all, each
                # admission would write every status.
                free=amounts(plan.free.get(name, Quota()), one) if waiting else {},
                used=amounts(used, one),
                borrowed=amounts(borrowed, one),
                lent=amounts(lent, one),
            )
            for flavor, one in supply.items()
        ],
    )


def _waiting(a: ComputeAllocation, seen: Seen) -> int:
    queue = seen.live.get((CLUSTER_QUEUES, ("", a.metadata.name))) or {}
    return int((queue.get("status") or {}).get("pendingWorkloads") or 0)


def _admits(a: ComputeAllocation, plan: Plan, seen: Seen) -> tuple[bool | None, str, str]:
    """Whether what its users send is admitted, told by the queue as it is, and what there is for it
    when it is not."""
    name = a.metadata.name
    waiting = _waiting(a, seen)
    queue = seen.live.get((CLUSTER_QUEUES, ("", name)))
    if seen.policy and name in plan.kept:
        return False, "Closed", "nothing is admitted: condition Ready says why"
    if queue is None or (active := _active(queue)) is None:
        return None, "NotReady", "not yet"
    if queue["spec"].get("stopPolicy", "None") != "None" or active["status"] != "True":
        return False, "Closed", "nothing is admitted: condition Ready says why"
    if not waiting:
        return True, "NothingWaits", "no workload waits"
    said = f"{waiting} {'workload waits' if waiting == 1 else 'workloads wait'}"
    if name not in plan.free:
        return False, "WorkWaits", f"{said} for room in the quotas as they are: {NO_POLICY}"
    lent = plan.account.lent.get(name, Quota())
    own = plan.shares.granted[name] - plan.account.used.get(name, Quota())
    said += f": its next job could have {_of(plan.free[name])}"
    if lent:
        who = (
            "Cede takes back what a job of the team lacks"
            if plan.cede_takes_back
            else "Kueue takes it back by preempting"
        )
        said += f"; of its own {_of(own)} is idle or lent, {_of(lent)} of that to others: {who}"
    return (
        False,
        "WorkWaits",
        f"{said}; what one lacks is in its Workload, and in `cede explain JOB -n {a.namespace}`",
    )


def _active(queue: Json) -> Json | None:
    """Kueue's own word on the queue; None while there is none."""
    return next(
        (c for c in (queue.get("status") or {}).get("conditions", []) if c["type"] == "Active"),
        None,
    )


def _of(amounts_: Quota) -> str:
    """Accelerators, which are what one waits for; all of it where there are none."""
    accelerators = Quota({key: value for key, value in amounts_.items() if "/" in key[1]})
    return describe_amounts(accelerators or amounts_)


def amounts(of: Quota, supply: Supply) -> dict[str, str]:
    return {name: quantity(name, of[supply.type.name, name]) for name in supply.resources}


def short(of: Quota, supply: Mapping[str, Supply]) -> str:
    """`4 gpu`, `7 mig-1g.10gb`: accelerators and partitions only, for a column; CPU where a team's
    types have none."""
    kinds = {
        name
        for one in supply.values()
        for name in one.resources
        if "/" in name and one.largest[name]
    } or {"cpu"}
    total = {kind: sum(of[flavor, kind] for flavor in supply) for kind in sorted(kinds)}
    said = {kind: value for kind, value in total.items() if value} or dict(list(total.items())[:1])
    return ", ".join(
        f"{quantity(kind, value)} {kind.rsplit('/', 1)[-1]}" for kind, value in said.items()
    )


def _ready(
    a: ComputeAllocation, plan: Plan, seen: Seen, clashes: Problems
) -> tuple[bool | None, str, str]:
    name = a.metadata.name
    queue = seen.live.get((CLUSTER_QUEUES, ("", name)))
    status = (queue or {}).get("status") or {}
    if a.metadata.deletionTimestamp:
        if name in plan.leaving:
            return (
                False,
                "Leaving",
                "nothing runs on its quota any more: its queues go; the namespace stays",
            )
        jobs = status.get("reservingWorkloads", 0)
        held = (
            f"{jobs} {'workload still holds' if jobs == 1 else 'workloads still hold'} its quota"
            if jobs
            else "Kueue has not confirmed it yet"
        )
        return (
            False,
            "Draining",
            (
                f"its queue is held, nothing new is admitted; {held}; they run to their end or are "
                f"deleted"
            ),
        )
    if name in clashes:
        return False, *clashes[name]
    if name in plan.problems:
        return False, *plan.problems[name]
    if queue is None:
        return None, "Creating", f"ClusterQueue {name} is being made"
    if (active := _active(queue)) is None:
        return (
            None,
            "WaitingForKueue",
            f"Kueue has not taken up ClusterQueue {name} yet: is its controller running?",
        )
    if not a.spec.active:
        return (
            True,
            "Held",
            "the allocation is not active: nothing new is admitted, what runs goes on to its end",
        )
    if active["status"] != "True":
        return (
            False,
            "QueueInactive",
            f"Kueue does not use ClusterQueue {name}: {active.get('message', '')}",
        )
    return True, *_holdings(a, plan)


def _holdings(a: ComputeAllocation, plan: Plan) -> tuple[str, str]:
    """(reason, sentence): what the team owns, shares, and what of it is not there."""
    name = a.metadata.name
    owns = plan.owns[name]
    granted = plan.shares.granted[name]
    sharing = a.spec.sharing
    limit = (
        f" up to {sharing.borrowLimitPercent} % of that"
        if sharing.borrowLimitPercent is not None
        else ""
    )
    limit = " within its borrowLimits" if sharing.borrowLimits else limit
    terms = {
        "LendAndBorrow": f"lends what is idle and borrows{limit}",
        "Lend": "lends what is idle",
        "DontLend": "shares nothing",
    }
    said = f"team {a.team} owns {describe_amounts(owns)}; it {terms[sharing.strategy]}"
    promised = sorted(
        {flavor for flavor, _ in owns}
        & {flavor for flavor, one in plan.supply.items() if one.promised}
    )
    if missing := owns - granted:
        failed = sorted({flavor for flavor, _ in missing})
        said += (
            f"; {describe_amounts(missing)} of it is not there: healthy {', '.join(failed)} nodes "
            f"hold less than is allocated,"
        )
        return "Short", f"{said} and every owner gives in proportion"
    if promised:
        return (
            "Promised",
            f"{said}; no node of type {', '.join(promised)} exists yet: that part is promised",
        )
    return "InPlace", said
