"""PURE. The limits of a namespace's team, from its allocation, the policy and its queues."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import LocalQueue
from cede.api.names import GPU
from cede.api.policy import ClusterPolicy
from cede.api.priority_class import allowed_classes
from cede.api.resources import Resources, parse
from cede.api.team_security import CONTROLLER_NAMESPACES


@dataclass(frozen=True)
class Team:
    """What the jobs in a namespace may use. Fields that the admin has not set are empty."""

    name: str = ""
    # priority class → weight
    classes: Mapping[str, int] = field(default_factory=dict)
    # those that the policy has no more, while jobs have them
    removed_classes: frozenset[str] = frozenset()
    default_class: str = ""
    # the highest class allowed
    max_class: str = ""
    # PriorityClasses of Kubernetes that its pods may name
    pod_classes: frozenset[str] = frozenset()
    # namespaces of the controllers that may name an owner
    controller_namespaces: frozenset[str] = frozenset(CONTROLLER_NAMESPACES)
    # names of its LocalQueues
    queues: frozenset[str] = frozenset()
    # resource names, of whole accelerators and of partitions
    accelerators: frozenset[str] = frozenset({GPU})
    # instance type → what jobs can use of its largest node; empty while that is not known
    nodes: Mapping[str, Resources] = field(default_factory=dict)
    grace_s: int = 60
    max_grace_s: int = 600
    # whether elastic jobs that do not say it get the runtime from Cede's image
    injects_runtime: bool = False
    # Cede's own image; empty if the webhook could not find it
    runtime_image: str = ""

    @property
    def allowed_classes(self) -> list[str]:
        """The priority classes that its jobs may name, the highest first.

        Only the lowest class is allowed when `max_class` names a class that no longer exists.
        """
        return allowed_classes(self.classes, self.max_class)


TeamLookup = Callable[[str], Team]
"""Namespace → its team. Answers from memory: a review waits for no other request."""


def is_accelerator(resource: str, team: Team) -> bool:
    """True for the accelerators and partitions of the policy, and for NVIDIA's own names."""
    return (
        resource in team.accelerators or resource == GPU or resource.startswith("nvidia.com/mig-")
    )


def build_team(
    namespace: str,
    policy: ClusterPolicy | None,
    allocations: Iterable[ComputeAllocation],
    queues: Iterable[LocalQueue],
) -> Team:
    """The team of `namespace`. Limits that are not known yet are left open."""
    allocations = list(allocations)
    allocation = _find_allocation(namespace, allocations)
    other_queues = {other.metadata.name for other in allocations if other is not allocation}
    own_queues = [
        queue.metadata.name
        for queue in queues
        if queue.metadata.namespace == namespace and queue.spec.clusterQueue not in other_queues
    ]
    spec = policy.spec if policy else ClusterPolicy().spec
    accelerators = {GPU}
    for instance_type in spec.instanceTypes:
        accelerators |= {instance_type.accelerator, *instance_type.partitions}
    return Team(
        name=allocation.team if allocation else namespace,
        classes={priority.name: priority.weight for priority in spec.priorityClasses},
        removed_classes=frozenset(policy.status.removedPriorityClasses if policy else ()),
        default_class=spec.defaultPriorityClass,
        max_class=allocation.spec.maxPriorityClass if allocation else "",
        pod_classes=frozenset(spec.security.podPriorityClasses),
        controller_namespaces=frozenset(spec.security.trusted_namespaces),
        queues=frozenset(own_queues),
        accelerators=frozenset(accelerators - {""}),
        nodes=get_largest_nodes(policy) if policy else {},
        grace_s=spec.preemption.graceSeconds,
        max_grace_s=spec.preemption.maxGraceSeconds,
        injects_runtime=spec.runtime == "Inject",
    )


def _find_allocation(
    namespace: str, allocations: Sequence[ComputeAllocation]
) -> ComputeAllocation | None:
    """Of several allocations for one namespace, the one that the quota_controller accepted."""
    claims = [claim for claim in allocations if claim.namespace == namespace]
    for claim in claims:
        if claim.status.namespace == namespace:
            return claim
    return claims[0] if claims else None


def get_largest_nodes(policy: ClusterPolicy) -> dict[str, Resources]:
    """Instance type → what jobs can use of its largest node; empty while that is not known."""
    known = {
        instance_type.name: instance_type.largestNode
        for instance_type in policy.status.instanceTypes
    }
    return {
        instance_type.name: parse(known.get(instance_type.name, {}))
        for instance_type in policy.spec.instanceTypes
    }
