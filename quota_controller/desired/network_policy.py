"""PURE. Who may connect to the pods of a team's elastic jobs."""

from collections.abc import Sequence

from cede.api import names
from cede.api.objects import NETWORK_POLICIES, Json
from elastic_runtime import contract
from quota_controller.desired.desired_object import DesiredObject, desired_object

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Kubernetes gives every Namespace this label, and nobody can change its value."""
APP_NAME = "app.kubernetes.io/name"


def network_policy(namespace: str, owner: str, metrics_namespaces: Sequence[str]) -> DesiredObject:
    """Elastic pods of the namespace connect to each other, on ports that the kernel chooses: the
    store and the connections of gloo and NCCL know no key. The scheduler and who reads metrics
    reach the control port. Others reach nothing.
    """
    elastic_pods: Json = {"podSelector": {"matchLabels": {names.ELASTIC_POD: "true"}}}
    scheduler = _in_namespace(names.SYSTEM_NAMESPACE) | {
        "podSelector": {"matchLabels": {APP_NAME: names.SCHEDULER}}
    }
    readers = [_in_namespace(reader) for reader in metrics_namespaces]
    control_port: Json = {"port": contract.PORT, "protocol": "TCP"}
    spec: Json = {
        "podSelector": elastic_pods["podSelector"],
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [elastic_pods]},
            {"from": [scheduler, *readers], "ports": [control_port]},
        ],
    }
    return desired_object(
        NETWORK_POLICIES, (namespace, names.NETWORK_POLICY), owner, {"spec": spec}
    )


def _in_namespace(name: str) -> Json:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}
