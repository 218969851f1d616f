"""PURE. The pod sets of a Workload: what each of them requests."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cede.api.kueue import PodSet
from cede.api.pods import pod_requests
from cede.api.resources import Resources


@dataclass(frozen=True, slots=True)
class PodSetRequest:
    """Pods of one Workload that are alike."""

    name: str = "main"
    count: int = 1
    # what one pod requests
    per_pod: Resources = field(default_factory=Resources)

    @property
    def requested(self) -> Resources:
        """What all its pods request together."""
        return Resources({name: amount * self.count for name, amount in self.per_pod.items()})


def read_pod_sets(pod_sets: Iterable[PodSet]) -> tuple[PodSetRequest, ...]:
    return tuple(
        PodSetRequest(pod_set.name, pod_set.count, pod_requests(pod_set.template.spec))
        for pod_set in pod_sets
    )
