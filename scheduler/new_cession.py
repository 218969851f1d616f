"""PURE. Writes the Cession of a preemption plan."""

from cede.api import cession as api
from cede.api.objects import Meta, rfc3339
from cede.api.policy import Preemption
from cede.api.resources import describe_amount
from scheduler.preemption_plan import PreemptionPlan, Target
from scheduler.preemptors import Preemptor

MAX_NAME_PART = 40
"""Characters of the preemptor's name in the name of its Cession."""


def new_cession(
    plan: PreemptionPlan, attempt: int, settings: Preemption, now: float
) -> api.Cession:
    """The Cession of a plan that has targets.

    Its name follows from the preemptor and the attempt, counted from 1: creating it twice creates
    it once.
    """
    workload = plan.preemptor.workload
    short_name = workload.name[:MAX_NAME_PART].rstrip(".-")
    graces = [target.job.grace_s or settings.graceSeconds for target in plan.targets]
    grace_s = min(max(graces, default=0.0), settings.maxGraceSeconds)
    return api.Cession(
        metadata=Meta(name=f"{short_name}-{workload.uid[:8]}-{attempt}"),
        spec=api.CessionSpec(
            preemptor=_preemptor(plan.preemptor),
            reason=plan.reason,
            need=_need(plan.preemptor),
            targets=[_target(target) for target in plan.targets],
            deadline=rfc3339(now + grace_s),
            why=plan.why,
            reserved=plan.preemptor.reserved,
        ),
    )


def _preemptor(preemptor: Preemptor) -> api.Preemptor:
    workload = preemptor.workload
    return api.Preemptor(
        namespace=workload.key[0],
        workload=workload.key[1],
        uid=workload.uid,
        job=workload.job[1],
        queue=workload.queue,
        priorityClass=workload.priority_class,
        creationTime=workload.created,
    )


def _need(preemptor: Preemptor) -> list[api.Need]:
    return [
        api.Need(
            flavor=flavor,
            resource=resource,
            # the resource has a field of its own
            amount=describe_amount(resource, amount).removesuffix(f" {resource}"),
        )
        for (flavor, resource), amount in sorted(preemptor.missing.items())
    ]


def _target(target: Target) -> api.Target:
    job = target.job
    return api.Target(
        namespace=job.job[0] or job.key[0],
        job=job.job[1],
        uid=job.identity,
        workload=job.key[1],
        queue=job.queue,
        fromSize=job.size,
        toSize=target.size,
        how="Stop" if target.stops else "Shrink",
    )
