"""What the pods request of each node, and whose they are; only what changed is read again."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cede.api import names
from cede.api.kueue import Pod
from cede.api.objects import Json
from scheduler.job_pods import NO_PODS
from scheduler.pod_index import PodIndex
from tests.builders.scheduler import GPU


def pod(
    owner: str = "u",
    node: str = "n1",
    *,
    phase: str = "Running",
    namespace: str = "research",
    labels: Json | None = None,
) -> Pod:
    """It requests one accelerator."""
    reference = {"kind": "Job", "name": "x", "uid": owner, "controller": True}
    metadata = {
        "name": f"p-{node}",
        "namespace": namespace,
        "labels": labels or {},
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
    assert index(forged).shown("research", "u") is NO_PODS


def test_a_job_has_no_pods_in_other_namespaces() -> None:
    assert index(pod(namespace="vision")).shown("research", "u") is NO_PODS


def test_pods_that_another_kind_owns_directly_belong_to_it() -> None:
    assert index(pod("torch")).shown("research", "torch").per_node == {"n1": 1}


def test_a_group_of_pods_is_known_by_its_name() -> None:
    grouped = pod("", labels={names.POD_GROUP: "group"})
    assert index(grouped).shown("research", "group").per_node == {"n1": 1}


def test_what_an_owner_shows_stays_the_same_object_until_one_of_its_pods_changes() -> None:
    own, other = pod("u"), pod("v")
    pods = index(own, other)
    before = pods.shown("research", "u")
    pods.update([own, pod("v", "n2")])
    assert pods.shown("research", "u") is before
    pods.update([own, pod("u")])
    assert pods.shown("research", "u").per_node == {"n1": 2}
    pods.update([])
    assert pods.shown("research", "u") is NO_PODS


POD = st.builds(
    pod,
    st.sampled_from(["u", "v"]),
    st.sampled_from(["n1", "n2", ""]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded"]),
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
            assert followed.shown("research", owner) == fresh.shown("research", owner)
