"""PURE. Kueue's managedJobsNamespaceSelector: the namespaces whose jobs Kueue queues."""

from collections.abc import Mapping
from typing import Any

from cede.api import names
from cede.api.node_selection import Requirement
from cede.api.objects import Json


def guard_labels(namespace: Json) -> dict[str, str]:
    """The labels of the namespace of guards, which may not be there yet, with the one that the API
    server gives it."""
    labels: dict[str, str] = namespace.get("metadata", {}).get("labels") or {}
    return {"kubernetes.io/metadata.name": names.GUARD_NAMESPACE} | labels


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a namespace with these labels is selected. Without a selector Kueue leaves out only
    its own namespace and kube-system (Kueue: apis/config/v1beta2/defaults.go)."""
    exact = selector.get("matchLabels")
    if isinstance(exact, dict) and not exact.items() <= labels.items():
        return False
    expressions = selector.get("matchExpressions")
    if not isinstance(expressions, list):
        return True
    return all(_requirement(entry).matches(labels) for entry in expressions)


def _requirement(entry: object) -> Requirement:
    """Nothing matches what is no expression: Kueue does not start with it."""
    if not isinstance(entry, dict):
        return Requirement()
    values = entry.get("values")
    texts = tuple(map(str, values)) if isinstance(values, list) else ()
    return Requirement(str(entry.get("key")), str(entry.get("operator")), texts)
