"""PURE. A team's namespace and what Cede puts into it."""

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import LOCAL_QUEUES, NAMESPACES, SECRETS, SERVICES
from cede.api.policy import PolicySpec
from quota_controller.desired.desired_object import DesiredObject, desired_object
from quota_controller.desired.network_policy import network_policy
from quota_controller.desired.object_counts import object_counts


def namespace_objects(
    allocation: ComputeAllocation, policy: PolicySpec, key_entry: str
) -> list[DesiredObject]:
    """The namespace, its local queue, the Service and the NetworkPolicy of the jobs' pods, the
    ResourceQuota and the control Secret.

    An adopted namespace gets no ResourceQuota, nor does any if the policy has no limit. `key_entry`
    is the base64 content of the Secret; there is no Secret if it is empty.
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
    objects = [_namespace(allocation, policy), local_queue, service, peers]
    most = policy.security.maxObjectsPerKind
    if most and not _is_adopted(allocation):
        objects.append(object_counts(namespace, owner, most))
    return [*objects, secret] if key_entry else objects


def _namespace(allocation: ComputeAllocation, policy: PolicySpec) -> DesiredObject:
    owner = allocation.metadata.name
    labels = {names.TEAM: allocation.team, names.ALLOCATION: owner}
    # an adopted namespace keeps the manager and the pod security that it has
    if not _is_adopted(allocation):
        labels[names.MANAGED_BY] = names.MANAGED_BY_CEDE
        labels[names.POD_SECURITY_ENFORCE] = policy.security.podSecurity
        labels[names.POD_SECURITY_WARN] = "restricted"
    key = ("", allocation.namespace)
    return desired_object(NAMESPACES, key, owner, {}, labels, _annotations(allocation, policy))


def _is_adopted(allocation: ComputeAllocation) -> bool:
    reference = allocation.spec.namespace
    return bool(reference and reference.adopt)


def _annotations(allocation: ComputeAllocation, policy: PolicySpec) -> dict[str, str]:
    """What the admission policies read, which have no parameters."""
    types = policy.instanceTypes
    accelerators = {name for type_ in types for name in (type_.accelerator, *type_.partitions)}
    annotations = {
        names.ACCELERATORS: ",".join(sorted(accelerators)),
        names.CONTROLLERS: ",".join(policy.security.controllerNamespaces),
    }
    classes = policy.allowed_classes(allocation.spec.maxPriorityClass)
    if classes:
        annotations[names.PRIORITY_CLASSES] = ",".join(classes)
    return annotations
