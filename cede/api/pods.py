"""PURE. What a pod requests of its node, and on which nodes a DaemonSet runs one.

The rules are those of Kubernetes, with the source of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cede.api.kueue import Container, Node, PodSpec, Taint
from cede.api.objects import Meta
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
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Source: k8s.io/api/core/v1, Toleration.ToleratesTaint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Nothing matches an unknown operator.

        Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
        """
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt" if value is not None and len(self.values) == 1:
                return self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        try:
            left = int(value)
            right = int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class Term:
    matchExpressions: tuple[Requirement, ...] = ()
    matchFields: tuple[Requirement, ...] = ()

    def matches(self, node: Node) -> bool:
        """Whether the node meets all requirements; no node matches an empty term."""
        if not self.matchExpressions and not self.matchFields:
            return False
        labels = node.metadata.labels
        fields = {"metadata.name": node.metadata.name}
        return all(requirement.matches(labels) for requirement in self.matchExpressions) and all(
            requirement.matches(fields) for requirement in self.matchFields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    nodeSelectorTerms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None


@dataclass(frozen=True, slots=True)
class Affinity:
    nodeAffinity: NodeAffinity | None = None


@dataclass(frozen=True, slots=True)
class DaemonPod:
    containers: tuple[Container, ...] = ()
    initContainers: tuple[Container, ...] = ()
    overhead: dict[str, str | int] = field(default_factory=dict)
    nodeName: str = ""
    nodeSelector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class DaemonTemplate:
    metadata: Meta = field(default_factory=Meta)
    spec: DaemonPod = field(default_factory=DaemonPod)


@dataclass(frozen=True, slots=True)
class DaemonSpec:
    template: DaemonTemplate = field(default_factory=DaemonTemplate)


@dataclass(frozen=True, slots=True)
class DaemonSet:
    metadata: Meta = field(default_factory=Meta)
    spec: DaemonSpec = field(default_factory=DaemonSpec)

    @property
    def requests(self) -> Resources:
        """What its pod requests of each node on which it runs."""
        pod = self.spec.template.spec
        return pod_requests(PodSpec(pod.containers, pod.initContainers, pod.overhead))

    def runs_on(self, node: Node) -> bool:
        """Whether it runs a pod on the node, if the node is healthy.

        Source: pkg/controller/daemon, NodeShouldRunDaemonPod.
        """
        pod = self.spec.template.spec
        if pod.nodeName and pod.nodeName != node.metadata.name:
            return False
        if not pod.nodeSelector.items() <= node.metadata.labels.items():
            return False
        if not _affinity_matches(pod.affinity, node):
            return False
        taints = [taint for taint in node.spec.taints if _repels(taint)]
        return all(_tolerated(taint, pod.tolerations) for taint in taints)


def _affinity_matches(affinity: Affinity | None, node: Node) -> bool:
    node_affinity = affinity.nodeAffinity if affinity else None
    if node_affinity is None:
        return True
    required = node_affinity.requiredDuringSchedulingIgnoredDuringExecution
    return required is None or any(term.matches(node) for term in required.nodeSelectorTerms)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


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


def _repels(taint: Taint) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute") and taint.key not in _TRANSIENT_TAINTS


def daemon_requests(daemons: tuple[DaemonSet, ...], node: Node) -> Resources:
    """What the pods of all DaemonSets request of the node together."""
    total = Resources()
    for daemon in daemons:
        if not daemon.metadata.deletionTimestamp and daemon.runs_on(node):
            total += daemon.requests
    return total
