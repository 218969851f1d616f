"""PURE. The pod sets of a Workload: what each of them requests, and on which flavors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cede.api.kueue import Workload
from cede.api.pod_templates import TemplateSpec
from cede.api.pods import pod_requests
from cede.api.resources import Resources
from scheduler.quota.flavors import Flavors, unsuitable_flavors


@dataclass(frozen=True, slots=True)
class PodSetRequest:
    """Pods of one Workload that are alike."""

    name: str = "main"
    count: int = 1
    # what one pod requests; 0 of a resource needs a flavor too
    per_pod: Resources = field(default_factory=Resources)
    # flavors of its queue on which Kueue does not place these pods
    unsuitable: frozenset[str] = frozenset()

    @property
    def requested(self) -> Resources:
        """What all its pods request together."""
        return Resources({name: amount * self.count for name, amount in self.per_pod.items()})


def describe_kind(pods: PodSetRequest) -> tuple[object, ...]:
    """Equal for pod sets that lack the same, on the same flavors."""
    return pods.count, sorted(pods.per_pod.items()), sorted(pods.unsuitable)


def read_pod_sets(
    workload: Workload,
    counts: Mapping[str, int],
    queue_flavors: Collection[str] = (),
    flavors: Flavors | None = None,
) -> tuple[PodSetRequest, ...]:
    """`counts` are the pods of each pod set that have not finished."""
    return tuple(
        PodSetRequest(
            name=pod_set.name,
            count=counts[pod_set.name],
            per_pod=_requests(pod_set.template.spec),
            unsuitable=unsuitable_flavors(pod_set, queue_flavors, flavors or {}),
        )
        for pod_set in workload.spec.podSets
    )


def _requests(spec: TemplateSpec) -> Resources:
    named = {
        resource
        for container in (*spec.containers, *spec.initContainers)
        for resource in (*container.resources.limits, *container.resources.requests)
    }
    return Resources({**dict.fromkeys(named, 0), **pod_requests(spec)})
