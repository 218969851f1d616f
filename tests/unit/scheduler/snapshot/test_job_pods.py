"""Where the pods of a job run, and how many are ready."""

from dataclasses import replace
from math import inf

import msgspec

from cede.api import names
from cede.api.kueue import Pod
from cede.api.objects import Json, unix
from scheduler.snapshot.job_pods import NO_PODS, combined, read_job_pods
from tests.builders.scheduler import GPU

POD_0 = {names.POD_INDEX: "0"}


def pod(
    job: str = "",
    *,
    node: str = "n1",
    ready: bool = True,
    phase: str = "Running",
    namespace: str = "research",
    labels: Json | None = None,
    annotations: Json | None = None,
    deleted: str | None = None,
) -> Pod:
    """A pod of the Job with this uid."""
    metadata = {"name": "p", "namespace": namespace, "labels": labels or {}} | owned("Job", job)
    metadata |= {"annotations": annotations or {}}
    metadata |= {"deletionTimestamp": deleted} if deleted else {}
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": phase, "podIP": "10.0.0.1", "conditions": conditions}
    spec = {"nodeName": node, "containers": [{"resources": {"requests": {GPU: 1}}}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def owned(kind: str, uid: str) -> Json:
    return {"ownerReferences": [{"kind": kind, "name": "x", "uid": uid, "controller": True}]}


def test_the_pods_of_a_job_are_counted_by_node() -> None:
    pods = [pod("u"), pod("u", node="n2", ready=False), pod("u", node="", ready=False)]
    gpt = read_job_pods(pods)
    assert (gpt.ready, gpt.requested_per_node) == (1, {"n1": {GPU: 1}, "n2": {GPU: 1}})


def test_pods_that_have_ended_do_not_count() -> None:
    assert read_job_pods([pod("u", phase="Succeeded")]) == NO_PODS
    assert read_job_pods([pod("u", phase="Failed", labels=POD_0)]) == NO_PODS


def test_the_indexes_that_have_succeeded_are_known() -> None:
    ended = read_job_pods([pod("u", phase="Succeeded", labels=POD_0), pod("u")])
    assert (ended.completed_indexes, ended.ready) == (frozenset({0}), 1)


def test_when_the_pods_on_nodes_have_ended_is_known_once_all_are_being_deleted() -> None:
    first, last = "2026-01-02T00:00:05Z", "2026-01-02T00:00:20Z"
    ending = [pod("u", deleted=last), pod("u", deleted=first), pod("u", node="", ready=False)]
    shown = read_job_pods(ending)
    assert (shown.on_nodes, shown.ends_by) == (2, unix(last))
    assert read_job_pods([*ending, pod("u")]).ends_by == inf
    together = combined([shown, read_job_pods([pod("v", deleted=first)])])
    assert (together.on_nodes, together.ends_by) == (3, unix(last))


def test_a_job_stays_stopped_if_one_of_its_pods_says_so() -> None:
    stays = pod("v", annotations={names.AFTER_PREEMPTION: names.STOP})
    comes_back = pod("u", annotations={names.AFTER_PREEMPTION: names.REQUEUE})
    assert read_job_pods([stays]).stays_stopped
    assert not read_job_pods([comes_back]).stays_stopped
    assert combined([read_job_pods([comes_back]), read_job_pods([stays])]).stays_stopped


def running(index: int, node: str, *, ready: bool = True, phase: str = "Running") -> Pod:
    """Its address ends with its index."""
    indexed = pod("u", node=node, ready=ready, phase=phase, labels={names.POD_INDEX: str(index)})
    return replace(indexed, status=replace(indexed.status, podIP=f"10.0.0.{index}"))


def indexes_asked(*pods: Pod) -> list[int]:
    return [int(address.rpartition(".")[2]) for address in read_job_pods(pods).addresses]


def test_one_pod_of_every_node_is_asked_before_a_second_of_one() -> None:
    pods = [running(index, node) for index, node in enumerate("aaabb")]
    assert indexes_asked(*pods[::-1]) == [0, 3, 1, 4, 2]
    assert indexes_asked(*(running(index, "a") for index in (11, 2))) == [2, 11]


def test_pods_that_are_not_ready_are_asked_last_and_those_that_do_not_run_never() -> None:
    lost = running(0, "a", ready=False)
    assert indexes_asked(lost, running(1, "b"), running(2, "b", phase="Pending")) == [1, 0]
    assert read_job_pods([pod("u")]).addresses == (), "of no Indexed Job"


def test_several_owners_together() -> None:
    """Such as the Jobs of one AppWrapper."""
    parts = [read_job_pods([pod("a", labels=POD_0)]), read_job_pods([pod("b", node="n2")])]
    together = combined([NO_PODS, *parts])
    assert together.ready == 2
    assert together.requested_per_node == {"n1": {GPU: 1}, "n2": {GPU: 1}}
    assert together.addresses == ("10.0.0.1",)


def test_the_indexes_of_ready_pods_and_the_pods_without_a_node() -> None:
    def indexed(index: str, *, ready: bool = True) -> Pod:
        return pod("u", labels={names.POD_INDEX: index}, ready=ready)

    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    gated = unscheduled | {"reason": "SchedulingGated"}
    bodies: list[Json] = [
        {
            "metadata": owned("Job", "u"),
            "status": {"phase": "Pending", "conditions": [reason]},
        }
        for reason in (unscheduled, gated)
    ]
    pods = [indexed("0"), indexed("2"), indexed("3", ready=False)]
    gpt = read_job_pods([*pods, *(msgspec.convert(body, Pod) for body in bodies)])
    assert (gpt.ready_indexes, gpt.unplaced) == (frozenset({0, 2}), 1)
    assert gpt.node_of_index == {0: "n1", 2: "n1", 3: "n1"}


def test_pods_with_a_container_that_cannot_start_are_counted_by_reason() -> None:
    def waiting(reason: str, field: str = "containerStatuses") -> Pod:
        status = {"phase": "Pending", field: [{"state": {"waiting": {"reason": reason}}}]}
        return msgspec.convert({"metadata": owned("Job", "u"), "status": status}, Pod)

    pods = [
        waiting("ErrImagePull"),
        waiting("ImagePullBackOff", "initContainerStatuses"),
        waiting("CrashLoopBackOff"),
        waiting("ContainerCreating"),
        pod("u"),
    ]
    counts = {"ImagePullBackOff": 2, "CrashLoopBackOff": 1}
    assert read_job_pods(pods).failing == counts
    one_by_one = [read_job_pods([item]) for item in pods]
    assert combined(one_by_one).failing == counts


def test_a_ready_pod_that_is_being_deleted_is_missing() -> None:
    """As for the Job controller, which counts active pods."""
    body: Json = {
        "metadata": {
            "labels": {names.POD_INDEX: "1"},
            **owned("Job", "u"),
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert read_job_pods([msgspec.convert(body, Pod)]).ready_indexes == frozenset()


def test_an_index_that_nobody_could_have_is_none() -> None:
    long = pod("u", labels={names.POD_INDEX: "9" * 5000}, ready=True)
    without = pod("u", ready=True)
    assert read_job_pods([long]).ready_indexes == read_job_pods([without]).ready_indexes
