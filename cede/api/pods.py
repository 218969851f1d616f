"""PURE. What a pod requests of its node, and on which nodes a DaemonSet runs one.

The rules are those of Kubernetes, with the source of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cede.api.kueue import Node
from cede.api.node_selection import matches_any, required_terms, untolerated
from cede.api.objects import Meta
from cede.api.pod_templates import Container, PodSpec, PodTemplate
from cede.api.resources import Resources, amount


def pod_requests(spec: PodSpec) -> Resources:
    """What one pod requests of its node: the most that it needs at any time, and its overhead.

    While it runs, these are its containers and sidecars. While it starts, these are one init
    container and the sidecars before it. A limit counts where there is no request.
    Source: k8s.io/component-helpers/resource, PodRequests; KEP-753.
    """
    running = Resources()
    sidecars = Resources()
    starting = Resources()
    for container in spec.containers:
        running += _container_requests(container)
    for container in spec.initContainers:
        if container.restartPolicy == "Always":
            sidecars += _container_requests(container)
            starting |= sidecars
        else:
            starting |= sidecars + _container_requests(container)
    return (running + sidecars | starting) + _amounts(spec.overhead)


def _container_requests(container: Container) -> Resources:
    return _amounts({**container.resources.limits, **container.resources.requests})


def _amounts(quantities: Mapping[str, str | int]) -> Resources:
    return Resources({name: amount(name, text) for name, text in quantities.items()})


# --- DaemonSets -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DaemonSpec:
    template: PodTemplate = field(default_factory=PodTemplate)


@dataclass(frozen=True, slots=True)
class DaemonSet:
    metadata: Meta = field(default_factory=Meta)
    spec: DaemonSpec = field(default_factory=DaemonSpec)

    @property
    def requests(self) -> Resources:
        """What its pod requests of each node on which it runs."""
        return pod_requests(self.spec.template.spec)

    def runs_on(self, node: Node) -> bool:
        """Whether it runs a pod on the node, if the node is healthy.

        Source: pkg/controller/daemon, NodeShouldRunDaemonPod.
        """
        pod = self.spec.template.spec
        if pod.nodeName and pod.nodeName != node.metadata.name:
            return False
        labels = node.metadata.labels
        if not pod.nodeSelector.items() <= labels.items():
            return False
        if not matches_any(required_terms(pod.affinity), labels, node.metadata.name):
            return False
        taints = [taint for taint in node.spec.taints if taint.key not in _TRANSIENT_TAINTS]
        return untolerated(taints, pod.tolerations) is None


_TRANSIENT_TAINTS = {
    f"node.kubernetes.io/{state}"
    for state in (
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    )
}
"""Taints of the node controller that every DaemonSet tolerates.

Source: pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations.
"""


def daemon_requests(daemons: tuple[DaemonSet, ...], node: Node) -> Resources:
    """What the pods of all DaemonSets request of the node together."""
    total = Resources()
    for daemon in daemons:
        if not daemon.metadata.deletionTimestamp and daemon.runs_on(node):
            total += daemon.requests
    return total
