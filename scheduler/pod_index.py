"""PURE. The pods by node and by owner. Only pods that changed are read again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cede.api import names
from cede.api.kueue import Pod
from cede.api.objects import Key, Meta
from cede.api.pods import pod_requests
from cede.api.resources import Resources
from scheduler.job_pods import NO_PODS, JobPods, read_job_pods
from scheduler.memory import ReadObjects

NOTHING: Mapping[str, int] = Resources()


class _PodFacts(NamedTuple):
    # empty if it is on none, or uses nothing of it any more
    node: str
    requested: Resources
    # namespace, and uid of the controller or name of the group
    owner: Key


class PodIndex:
    """What all pods request of each node, and what the pods of each owner show."""

    def __init__(self) -> None:
        self._facts = ReadObjects(_read)
        self._requested: dict[str, Resources] = {}
        self._by_owner: dict[Key, dict[int, Pod]] = defaultdict(dict)
        self._shown: dict[Key, JobPods] = {}

    def update(self, pods: Sequence[Pod]) -> None:
        removed, added = self._facts.update(pods)
        for pod, facts in removed:
            self._by_owner[facts.owner].pop(id(pod))
            self._shown.pop(facts.owner, None)
            self._change(facts.node, facts.requested, -1)
        for pod, facts in added:
            self._by_owner[facts.owner][id(pod)] = pod
            self._shown.pop(facts.owner, None)
            self._change(facts.node, facts.requested, 1)
        for owner in {facts.owner for _, facts in removed}:
            if not self._by_owner[owner]:
                del self._by_owner[owner]

    def requested(self, node: str) -> Mapping[str, int]:
        """What its pods request of the node. The same object while nothing changed."""
        return self._requested.get(node, NOTHING)

    def shown(self, namespace: str, owner: str) -> JobPods:
        """What the pods show that an object with this uid controls, or of the group of this name.
        The same object while nothing changed."""
        key = (namespace, owner)
        if key not in self._by_owner:
            return NO_PODS
        if key not in self._shown:
            self._shown[key] = read_job_pods(self._by_owner[key].values())
        return self._shown[key]

    def _change(self, node: str, requested: Resources, sign: int) -> None:
        if not node:
            return
        total = Resources(self._requested.get(node, NOTHING))
        for resource, amount in requested.items():
            total[resource] += sign * amount
        self._requested[node] = total


def _read(pod: Pod) -> _PodFacts:
    uses_node = pod.spec.nodeName and pod.status.phase in ("Pending", "Running")
    return _PodFacts(
        node=pod.spec.nodeName if uses_node else "",
        requested=pod_requests(pod.spec) if uses_node else Resources(),
        owner=(pod.metadata.namespace, _owner(pod)),
    )


def _owner(pod: Pod) -> str:
    """Anybody may write a label, and the uids of Jobs are no secret. A group is only a name."""
    return pod.metadata.labels.get(names.POD_GROUP) or controller_uid(pod.metadata)


def controller_uid(metadata: Meta) -> str:
    for reference in metadata.ownerReferences:
        if reference.controller:
            return reference.uid
    return ""
