"""What the pods request of each node, and whose they are; only what changed is read again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api import names
from cede.api.kueue import Pod
from cede.api.objects import Json
from cede.api.pod_owner import Owner
from scheduler.snapshot.job_pods import NO_PODS
from scheduler.snapshot.pod_index import PodIndex
from tests.builders.scheduler import GPU


def pod(
    owner: str = "u",
    node: str = "n1",
    *,
    phase: str = "Running",
    namespace: str = "research",
    labels: Json | None = None,
    annotations: Json | None = None,
    kind: str = "Job",
    uid: str = "",
) -> Pod:
    """It requests one accelerator."""
    reference = {"kind": kind, "name": "x", "uid": owner, "controller": True}
    metadata = {
        "name": f"p-{node}",
        "namespace": namespace,
        "uid": uid,
        "labels": labels or {},
        "annotations": annotations or {},
        "ownerReferences": [reference] if owner else [],
    }
    spec = {"nodeName": node, "containers": [{"resources": {"requests": {GPU: 1}}}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Pod)


def index(*pods: Pod) -> PodIndex:
    result = PodIndex()
    result.update(pods)
    return result


def test_pods_that_have_ended_request_nothing_of_their_node() -> None:
    pods = index(pod(), pod(), pod(phase="Failed"), pod(node=""))
    assert pods.requested("n1")[GPU] == 2


def test_a_label_alone_makes_no_pod_of_a_job() -> None:
    """Otherwise a pod of another job could receive the requests to this one."""
    forged = pod("other", labels={names.POD_JOB_UID: "u", names.POD_INDEX: "0"})
    assert index(forged).shown(Owner("research", "u")) is NO_PODS


def test_a_job_has_no_pods_in_other_namespaces() -> None:
    assert index(pod(namespace="vision")).shown(Owner("research", "u")) is NO_PODS


def test_pods_that_another_kind_owns_directly_belong_to_it() -> None:
    assert index(pod("torch")).shown(Owner("research", "torch")).requested_per_node == {
        "n1": {GPU: 1}
    }


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("kind", ["", "StatefulSet"], ids=["no controller", "StatefulSet"])
def test_a_group_of_pods_is_known_by_its_name(place: str, kind: str) -> None:
    """Kueue groups the pods of a StatefulSet, and those of each group of a LeaderWorkerSet."""
    group = {names.POD_GROUP: "group"}
    label, note = (group, {}) if place == "labels" else ({}, group)
    grouped = pod("set" if kind else "", kind=kind, labels=label, annotations=note)
    assert index(grouped).shown(Owner("research", workload="group")).requested_per_node == {
        "n1": {GPU: 1}
    }


@pytest.mark.parametrize("kind", ["", "ReplicaSet"], ids=["no controller", "ReplicaSet"])
def test_a_pod_that_has_a_workload_for_itself_is_known_by_its_uid(kind: str) -> None:
    alone = pod("set" if kind else "", kind=kind, uid="uid-pod")
    assert index(alone).shown(Owner("research", "uid-pod")).requested_per_node == {"n1": {GPU: 1}}


def test_a_group_that_is_named_like_the_uid_of_a_job_is_not_that_job() -> None:
    """Otherwise its pod 0 could receive the requests to the runtime of the Job."""
    forged = pod("", labels={names.POD_GROUP: "u", names.POD_INDEX: "0"})
    assert index(forged).shown(Owner("research", "u")) is NO_PODS


def test_a_pod_of_a_job_stays_its_own_whatever_group_its_label_names() -> None:
    group = {names.POD_GROUP: "group"}
    labelled = index(pod("u", labels=group, annotations=group))
    assert labelled.shown(Owner("research", "u")) is not NO_PODS
    assert labelled.shown(Owner("research", workload="group")) is NO_PODS


def test_a_node_without_pods_is_forgotten() -> None:
    """The names of autoscaled nodes never come again."""
    pods = index(pod(node="n1"), pod(node="n2"))
    pods.update([])
    assert pods._requested == {}


def test_what_an_owner_shows_stays_the_same_object_until_one_of_its_pods_changes() -> None:
    own, other = pod("u"), pod("v")
    pods = index(own, other)
    before = pods.shown(Owner("research", "u"))
    pods.update([own, pod("v", "n2")])
    assert pods.shown(Owner("research", "u")) is before
    pods.update([own, pod("u")])
    assert pods.shown(Owner("research", "u")).requested_per_node == {"n1": {GPU: 2}}
    pods.update([])
    assert pods.shown(Owner("research", "u")) is NO_PODS


def test_the_version_of_a_namespace_changes_with_its_pods() -> None:
    own = pod("u")
    pods = index(own)
    before = pods.version("research")
    pods.update([own, pod("v", namespace="vision")])
    assert pods.version("research") is before
    pods.update([pod("u", "n2")])
    assert pods.version("research") is not before


POD = st.builds(
    pod,
    st.sampled_from(["u", "v"]),
    st.sampled_from(["n1", "n2", ""]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded"]),
    # no two objects in a cache are equal
    uid=st.uuids().map(str),
)


@given(st.lists(st.lists(POD, max_size=6), min_size=1, max_size=5), st.data())
def test_an_index_that_follows_changes_is_as_a_new_one(
    passes: list[list[Pod]], data: st.DataObject
) -> None:
    followed = PodIndex()
    current: list[Pod] = []
    for added in passes:
        kept = [old for old in current if data.draw(st.booleans())]
        current = kept + added
        followed.update(current)
        fresh = index(*current)
        for node in ("n1", "n2"):
            assert followed.requested(node).get(GPU, 0) == fresh.requested(node).get(GPU, 0)
        for owner in ("u", "v"):
            assert followed.shown(Owner("research", owner)) == fresh.shown(Owner("research", owner))
