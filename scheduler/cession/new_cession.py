"""PURE. Writes the Cession of a preemption plan."""

import math
from collections.abc import Iterable

from cede.api import alternative as alternative_api
from cede.api import cession as api
from cede.api.objects import Meta
from cede.api.resources import describe_amount
from cede.api.short_text import cut
from scheduler.preemption.alternatives import Alternative
from scheduler.preemption.preemption_plan import PreemptionPlan, Target
from scheduler.preemption.preemptors import Preemptor

MAX_NAME_PART = 40
"""Characters of the preemptor's name in the name of its Cession."""
MAX_NEEDS = 64
MAX_WHY = 2048


def new_cession(
    plan: PreemptionPlan, attempt: int, alternatives: Iterable[Alternative] = ()
) -> api.Cession:
    """The Cession of a plan that has targets, cut to what a record may hold.

    Its name follows from the preemptor and the attempt, counted from 1: creating it twice creates
    it once.
    """
    workload = plan.preemptor.workload
    short_name = workload.name[:MAX_NAME_PART].rstrip(".-")
    return api.Cession(
        metadata=Meta(name=f"{short_name}-{workload.uid[:8]}-{attempt}"),
        spec=api.CessionSpec(
            preemptor=_preemptor(plan.preemptor),
            reason=plan.reason,
            need=_need(plan.preemptor)[:MAX_NEEDS],
            targets=[_target(target) for target in plan.targets],
            why=cut(plan.why, MAX_WHY),
            alternatives=[_alternative(alternative) for alternative in alternatives],
        ),
    )


def amended(
    spec: api.CessionSpec, plan: PreemptionPlan, alternatives: Iterable[Alternative] = ()
) -> api.CessionSpec:
    """The spec with the targets of a further plan. A target that it has already gives more."""
    more = [_target(target) for target in plan.targets]
    uids = {target.uid for target in more}
    kept = [target for target in spec.targets if target.uid not in uids]
    why = cut(f"{plan.why}. Before: {spec.why}", MAX_WHY)
    targets = [*kept, *more]
    new = [_alternative(alternative) for alternative in alternatives]
    # of a target that gives more, what was true when it gave less is not any more
    old = [alternative for alternative in spec.alternatives if alternative.spared not in uids]
    return spec.model_copy(
        update={
            "targets": targets,
            "round": spec.round + 1,
            "why": why,
            "alternatives": [*new, *old][: alternative_api.MAX_ALTERNATIVES],
        }
    )


def _preemptor(preemptor: Preemptor) -> api.Preemptor:
    workload = preemptor.workload
    return api.Preemptor(
        namespace=workload.key[0],
        workload=workload.key[1],
        uid=workload.uid,
        job=workload.job[1],
        growingJob=workload.growing_job,
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
        how=_how(target),
        graceSeconds=math.ceil(target.grace_s),
    )


def _alternative(alternative: Alternative) -> alternative_api.Alternative:
    targets = alternative.targets
    named = targets[: alternative_api.MAX_JOBS]
    return alternative_api.Alternative(
        spared=alternative.spared.job.identity,
        jobs=[_alternative_job(target) for target in named],
        moreJobs=len(targets) - len(named),
        costSeconds=_seconds(alternative.cost_s),
        plannedSeconds=_seconds(alternative.planned_s),
        reason=alternative.reason,
    )


def _alternative_job(target: Target) -> alternative_api.AlternativeJob:
    job = target.job
    return alternative_api.AlternativeJob(
        namespace=job.job[0] or job.key[0],
        name=job.name,
        fromSize=job.size,
        toSize=target.size,
        how=_how(target),
    )


def _seconds(cost_s: float | None) -> str:
    return "" if cost_s is None else f"{cost_s:.0f}"


def _how(target: Target) -> alternative_api.How:
    if target.stops:
        return "Stop"
    return "Drain" if target.job.drains else "Shrink"
