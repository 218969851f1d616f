"""PURE. One object that should exist in the cluster, and the live objects it is compared with."""

from collections.abc import Mapping
from dataclasses import dataclass

from cede.api import names
from cede.api.objects import (
    CLUSTER_QUEUES,
    CLUSTER_ROLE_BINDINGS,
    COHORTS,
    LOCAL_QUEUES,
    NETWORK_POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    ROLE_BINDINGS,
    SERVICES,
    TOPOLOGIES,
    Json,
    Key,
    Kind,
)
from quota_controller.desired.drift import matches

SHARED = names.POLICY_NAME
"""The owner of the objects that all teams share: the ClusterPolicy."""

LABELLED_KINDS = (
    TOPOLOGIES,
    RESOURCE_FLAVORS,
    COHORTS,
    PRIORITY_CLASSES,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    SERVICES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
)
"""The kinds of which only objects with Cede's label are watched."""
ObjectId = tuple[Kind, Key]
LiveObjects = Mapping[ObjectId, Json]
"""The labelled objects of Cede and all namespaces, as the API server has them."""


@dataclass(frozen=True)
class DesiredObject:
    """One object that should exist, with every field that Cede sets in it."""

    kind: Kind
    key: Key
    body: Json
    # the allocation it comes from, or `SHARED`
    owner: str

    @property
    def object_id(self) -> ObjectId:
        return self.kind, self.key

    @property
    def content(self) -> Json:
        """The fields to compare, without apiVersion and kind: items of a list do not have them."""
        return {k: v for k, v in self.body.items() if k not in ("apiVersion", "kind")}

    def matches(self, live: Json | None) -> bool:
        """Whether the live object has all of the content already."""
        return live is not None and matches(live, self.content)

    @property
    def display_name(self) -> str:
        return display_name(self.kind, self.key)


def desired_object(
    kind: Kind,
    key: Key,
    owner: str,
    content: Json,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> DesiredObject:
    """An object with this content and Cede's labels, or with exactly `labels`."""
    namespace, name = key
    if labels is None:
        labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE, names.ALLOCATION: owner}
    metadata: Json = {"name": name, "labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if namespace:
        metadata["namespace"] = namespace
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
    return DesiredObject(kind, key, body, owner)


def display_name(kind: Kind, key: Key) -> str:
    """`LocalQueue default in namespace vision`."""
    namespace, name = key
    suffix = f" in namespace {namespace}" if namespace else ""
    return f"{kind.kind} {name}{suffix}"


def owner_of(obj: Json) -> str:
    """The allocation in the object's label, or `SHARED`; empty for an object that is not Cede's."""
    return str((obj["metadata"].get("labels") or {}).get(names.ALLOCATION, ""))
