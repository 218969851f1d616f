"""PURE. On which nodes a pod may run: selectors, affinity, taints and tolerations.

The rules are those of Kubernetes, with the source of each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taint:
    key: str = ""
    effect: str = ""
    value: str = ""


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

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether the node meets all requirements; no node matches an empty term."""
        if not self.matchExpressions and not self.matchFields:
            return False
        fields = {"metadata.name": node_name}
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


def required_terms(affinity: Affinity | None) -> tuple[Term, ...] | None:
    """The terms of the required node affinity; None if any node will do."""
    node_affinity = affinity.nodeAffinity if affinity else None
    if node_affinity is None:
        return None
    required = node_affinity.requiredDuringSchedulingIgnoredDuringExecution
    return None if required is None else required.nodeSelectorTerms


def matches_any(
    terms: Iterable[Term] | None, labels: Mapping[str, str], node_name: str = ""
) -> bool:
    """Whether a node with these labels matches one of the terms; any node does if they are None."""
    return terms is None or any(term.matches(labels, node_name) for term in terms)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod off the node; None if none does.

    Source: k8s.io/component-helpers/scheduling/corev1, FindMatchingUntoleratedTaint.
    """
    allowed = tuple(tolerations)
    for taint in taints:
        repels = taint.effect in ("NoSchedule", "NoExecute")
        if repels and not any(toleration.tolerates(taint) for toleration in allowed):
            return taint
    return None
