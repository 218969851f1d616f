"""PURE. The pods by node and by owner. Only pods that changed are read again."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cede.api.kueue import Pod
from cede.api.pod_owner import Owner, pod_owner
from cede.api.pods import pod_requests
from cede.api.resources import Resources
from scheduler.snapshot.job_pods import NO_PODS, JobPods, read_job_pods
from scheduler.snapshot.memory import ReadObjects

NOTHING: Mapping[str, int] = Resources()


class _PodFacts(NamedTuple):
    # empty if it is on none, or uses nothing of it any more
    node: str
    requested: Resources
    owner: Owner


class PodIndex:
    """What all pods request of each node, and what the pods of each owner show."""

    def __init__(self) -> None:
        self._facts = ReadObjects(_read)
        self._requested: dict[str, Resources] = {}
        # by node: a node without pods is forgotten, as it may be gone
        self._pods = Counter[str]()
        self._by_owner: dict[Owner, dict[int, Pod]] = defaultdict(dict)
        self._shown: dict[Owner, JobPods] = {}
        self._versions = defaultdict[str, object](object)

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
        for pod, _ in (*removed, *added):
            self._versions.pop(pod.metadata.namespace, None)
        for owner in {facts.owner for _, facts in removed}:
            if not self._by_owner[owner]:
                del self._by_owner[owner]

    def requested(self, node: str) -> Mapping[str, int]:
        """What its pods request of the node. The same object while nothing changed."""
        return self._requested.get(node, NOTHING)

    def version(self, namespace: str) -> object:
        """The same object while none of its pods changes."""
        return self._versions[namespace]

    def shown(self, owner: Owner) -> JobPods:
        """What the pods of the owner show. The same object while nothing changed."""
        shown = self._shown.get(owner)
        if shown is None:
            if owner not in self._by_owner:
                return NO_PODS
            shown = self._shown[owner] = read_job_pods(self._by_owner[owner].values())
        return shown

    def _change(self, node: str, requested: Resources, sign: int) -> None:
        if not node:
            return
        total = Resources(self._requested.get(node, NOTHING))
        for resource, amount in requested.items():
            total[resource] += sign * amount
        self._requested[node] = total
        self._pods[node] += sign
        if not self._pods[node]:
            del self._pods[node], self._requested[node]


def _read(pod: Pod) -> _PodFacts:
    uses_node = pod.spec.nodeName and pod.status.phase in ("Pending", "Running")
    return _PodFacts(
        node=pod.spec.nodeName if uses_node else "",
        requested=pod_requests(pod.spec) if uses_node else Resources(),
        owner=pod_owner(pod),
    )
