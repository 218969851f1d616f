"""What a pod asks of a node, and where a DaemonSet puts one: projections, and Kubernetes' own rules
on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cede.api.kueue import Container, Node, PodSpec, Taint
from cede.api.objects import Meta
from cede.api.resources import Resources, amount


def pod_requests(spec: PodSpec) -> Resources:
    """What one pod asks of its node: its containers and sidecars together, or more while it starts;
    and its overhead.

    A limit stands in for a request that is not said. Source: k8s.io/component-helpers/resource,
    PodRequests; KEP-753.
    """
    running = Resources()
    sidecars = Resources()
    starting = Resources()
    for container in spec.containers:
        running += _asked(container)
    for container in spec.initContainers:
        if container.restartPolicy == "Always":
            sidecars += _asked(container)
            starting |= sidecars
        else:
            starting |= sidecars + _asked(container)
    overhead = Resources({name: amount(name, text) for name, text in spec.overhead.items()})
    return (running + sidecars | starting) + overhead


def _asked(container: Container) -> Resources:
    said: Mapping[str, str | int] = {
        **container.resources.get("limits", {}),
        **container.resources.get("requests", {}),
    }
    return Resources({name: amount(name, text) for name, text in said.items()})


# --- DaemonSets -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Whether the taint keeps no pod away that has this. Source: k8s.io/api/core/v1,
        Toleration.ToleratesTaint."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or (
            self.operator in ("", "Equal") and self.value == taint.value
        )


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def meets(self, found: Mapping[str, str]) -> bool:
        """Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity. An operator nobody knows
        is met by nothing."""
        value = found.get(self.key)
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
                try:
                    left = int(value)
                    right = int(self.values[0])
                except ValueError:
                    return False
                return left > right if self.operator == "Gt" else left < right
        return False


@dataclass(frozen=True, slots=True)
class Term:
    matchExpressions: tuple[Requirement, ...] = ()
    matchFields: tuple[Requirement, ...] = ()

    def meets(self, node: Node) -> bool:
        """All of it; a term that says nothing is met by no node."""
        fields = {"metadata.name": node.metadata.name}
        said = bool(self.matchExpressions or self.matchFields)
        by_labels = all(each.meets(node.metadata.labels) for each in self.matchExpressions)
        return said and by_labels and all(each.meets(fields) for each in self.matchFields)


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
    def asks(self) -> Resources:
        """What its pod takes of each node it runs on."""
        pod = self.spec.template.spec
        return pod_requests(PodSpec(pod.containers, pod.initContainers, pod.overhead))

    def runs_on(self, node: Node) -> bool:
        """Whether it has a pod there, when all is well with the node. Source:
        pkg/controller/daemon, NodeShouldRunDaemonPod."""
        pod = self.spec.template.spec
        if pod.nodeName and pod.nodeName != node.metadata.name:
            return False
        if not pod.nodeSelector.items() <= node.metadata.labels.items():
            return False
        affinity = pod.affinity.nodeAffinity if pod.affinity else None
        required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
        if required is not None and not any(
            term.meets(node) for term in required.nodeSelectorTerms
        ):
            return False
        return all(
            any(each.covers(taint) for each in pod.tolerations)
            for taint in node.spec.taints
            if _keeps_away(taint)
        )


_PASSING = {
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
"""What the node controller writes and DaemonSets tolerate by themselves
(pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations)."""


def _keeps_away(taint: Taint) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute") and taint.key not in _PASSING


def daemon_requests(daemons: tuple[DaemonSet, ...], node: Node) -> Resources:
    """What DaemonSets take of a node together."""
    out = Resources()
    for daemon in daemons:
        if not daemon.metadata.deletionTimestamp and daemon.runs_on(node):
            out += daemon.asks
    return out
