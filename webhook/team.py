"""What the webhook knows of a namespace: (allocations, policy, its queues) → Team. Pure."""

from collections.abc import Iterable

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import LocalQueue
from cede.api.names import GPU
from cede.api.policy import ClusterPolicy
from cede.api.resources import Resources, parse
from webhook.admission import Team


def team_of(
    namespace: str,
    policy: ClusterPolicy | None,
    allocations: Iterable[ComputeAllocation],
    queues: Iterable[LocalQueue],
) -> Team:
    """What the team of `namespace` may use. What nobody has said yet is not checked."""
    found = list(allocations)
    claim = [each for each in found if each.namespace == namespace]
    # the one that has it
    mine = next(
        (each for each in claim if each.status.namespace == namespace), claim[0] if claim else None
    )
    others = {each.metadata.name for each in found if each is not mine}
    names = (
        q.metadata.name
        for q in queues
        if q.metadata.namespace == namespace and q.spec.clusterQueue not in others
    )
    spec = policy.spec if policy else ClusterPolicy().spec
    return Team(
        name=mine.team if mine else namespace,
        classes={each.name: each.weight for each in spec.priorityClasses},
        default_class=spec.defaultPriorityClass,
        ceiling=mine.spec.maxPriorityClass if mine else "",
        queues=frozenset(names),
        accelerators=frozenset(
            {
                GPU,
                *(
                    name
                    for each in spec.instanceTypes
                    for name in (each.accelerator, *each.partitions)
                    if name
                ),
            }
        ),
        nodes=nodes_of(policy) if policy else {},
        grace_s=spec.preemption.graceSeconds,
        max_grace_s=spec.preemption.maxGraceSeconds,
    )


def nodes_of(policy: ClusterPolicy) -> dict[str, Resources]:
    """Instance type → what jobs can have of its largest node; nothing in it where that is not
    known."""
    known = {each.name: each.whole for each in policy.status.instanceTypes}
    return {each.name: parse(known.get(each.name, {})) for each in policy.spec.instanceTypes}
