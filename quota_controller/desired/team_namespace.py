"""PURE. A team's namespace and what Cede puts into it."""

import base64

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import LOCAL_QUEUES, NAMESPACES, SECRETS, SERVICES, Json
from cede.api.policy import PolicySpec
from elastic_runtime.contract import derive_key, replace_key
from quota_controller.desired.desired_object import DesiredObject, LiveObjects, desired_object
from quota_controller.desired.network_policy import network_policy
from quota_controller.desired.object_counts import object_counts


def namespace_objects(
    allocation: ComputeAllocation, policy: PolicySpec, key_entry: str, live: LiveObjects
) -> list[DesiredObject]:
    """The namespace, its local queue, the Service and the NetworkPolicy of the jobs' pods, the
    ResourceQuota and the control Secret.

    A namespace that Cede did not create gets no ResourceQuota, nor does any if the policy has no
    limit. `key_entry` is the base64 content of the Secret; there is no Secret if it is empty.
    """
    owner = allocation.metadata.name
    namespace = allocation.namespace
    local_queue = desired_object(
        LOCAL_QUEUES, (namespace, names.LOCAL_QUEUE), owner, {"spec": {"clusterQueue": owner}}
    )
    service_spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.ELASTIC_POD: "true"},
    }
    service = desired_object(
        SERVICES, (namespace, names.PEERS_SERVICE), owner, {"spec": service_spec}
    )
    secret = desired_object(
        SECRETS,
        (namespace, names.CONTROL_SECRET),
        owner,
        {"type": "Opaque", "data": {names.SECRET_KEY: key_entry}},
    )
    peers = network_policy(namespace, owner, policy.security.metricsNamespaces)
    is_created = _is_created(allocation, live.get((NAMESPACES, ("", namespace))))
    objects = [_namespace(allocation, policy, is_created=is_created), local_queue, service, peers]
    most = policy.security.maxObjectsPerKind
    if most and is_created:
        objects.append(object_counts(namespace, owner, most))
    return [*objects, secret] if key_entry else objects


def _namespace(
    allocation: ComputeAllocation, policy: PolicySpec, *, is_created: bool
) -> DesiredObject:
    owner = allocation.metadata.name
    labels = {names.TEAM: allocation.team, names.ALLOCATION: owner}
    annotations = _annotations(allocation, policy)
    # one of somebody else keeps the manager and the pod security that it has
    if is_created:
        labels[names.MANAGED_BY] = names.MANAGED_BY_CEDE
        labels[names.POD_SECURITY_ENFORCE] = policy.security.podSecurity
        labels[names.POD_SECURITY_WARN] = "restricted"
        annotations[names.CREATED_FOR] = owner
    return desired_object(NAMESPACES, ("", allocation.namespace), owner, {}, labels, annotations)


def _is_created(allocation: ComputeAllocation, live: Json | None) -> bool:
    """Whether Cede creates the namespace, or has: the policy cede-namespaces lets it mark no other
    one as such. `adopt` changes nothing of one that exists: without its marks, one that Cede
    created would lose its pod security."""
    if live is None:
        return not (allocation.spec.namespace and allocation.spec.namespace.adopt)
    labels, annotations = (live["metadata"].get(part) or {} for part in ("labels", "annotations"))
    return labels.get(names.MANAGED_BY) == names.MANAGED_BY_CEDE or names.CREATED_FOR in annotations


def _annotations(allocation: ComputeAllocation, policy: PolicySpec) -> dict[str, str]:
    """What the admission policies read, which have no parameters."""
    types = policy.instanceTypes
    accelerators = {name for type_ in types for name in (type_.accelerator, *type_.partitions)}
    annotations = {
        names.ACCELERATORS: ",".join(sorted(accelerators)),
        names.CONTROLLERS: ",".join(policy.security.trusted_namespaces),
    }
    classes = policy.allowed_classes(allocation.spec.maxPriorityClass)
    if classes:
        annotations[names.PRIORITY_CLASSES] = ",".join(classes)
    return annotations


def key_entry(namespace: str, live: LiveObjects, root_keys: tuple[bytes, bytes], now: float) -> str:
    """The base64 content of the namespace's control Secret.

    Its newest key is derived from the first root key; the one before stays for a while. While the
    root key is lost, the live Secret keeps its keys.
    """
    secret = live.get((SECRETS, (namespace, names.CONTROL_SECRET))) or {}
    entry = str((secret.get("data") or {}).get(names.SECRET_KEY, ""))
    if not root_keys[0]:
        return entry
    newest, previous = (derive_key(key, namespace) if key else b"" for key in root_keys)
    content = replace_key(_decoded(entry), newest, previous, now)
    return base64.b64encode(content).decode()


def _decoded(entry: str) -> bytes:
    """Empty if it is no base64."""
    try:
        return base64.b64decode(entry)
    except ValueError:
        return b""
