"""From the objects in the caches to one snapshot: what counts, and what does not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import ClusterQueue, Job, Pod, ResourceFlavor, ResourceFlavorSpec, Workload
from cede.api.objects import Meta
from cede.api.pod_templates import PodTemplate, TemplateSpec
from cede.api.policy import ClusterPolicy, PolicyStatus
from scheduler.preemption.seats import places_are_known
from scheduler.snapshot.snapshot import Memory, RawObjects, Snapshot, take
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.kueue_objects import (
    cluster_queue,
    job,
    local_queue,
    owner,
    owners_of_kind,
    workload,
)
from tests.builders.scheduler import FLAVOR, GPU, KEY, cession, runtime_status

QUEUES = (cluster_queue("research"), cluster_queue("vision"))


def taken(
    *workloads: Workload, gpt: Job | None = None, queues: Sequence[ClusterQueue] = QUEUES
) -> Snapshot:
    return take(
        RawObjects(
            workloads=workloads,
            jobs=[gpt or job()],
            local_queues=[local_queue()],
            cluster_queues=queues,
        )
    )


def only(current: Snapshot) -> AdmittedWorkload:
    (workload,) = current.admitted
    return workload


def used(current: Snapshot) -> int:
    return current.quota.queues["research"].usage[KEY]


def test_usage_counts_the_pods_that_are_left() -> None:
    current = taken(workload("a", 3, assigned=8), gpt=job(3))
    assert only(current).size == 3
    assert used(current) == 3


def test_a_guard_sits_outside_of_the_cohort_too() -> None:
    """Kueue admits it there. It is no job of a team."""
    of_guard = cluster_queue("research", cohort="", labels={names.GUARD: "c-1"})
    current = taken(workload("a", 3, assigned=3, owners=[]), queues=[of_guard])
    (guard,) = current.guards
    assert (guard.is_admitted, guard.in_cohort, current.admitted) == (True, False, ())


def test_a_guard_that_kueue_stopped_has_ended_wherever_its_queue_is() -> None:
    """Kueue stops it at its time limit, also outside of the Cohort, and never admits it again."""
    labels = {names.GUARD: "c-1"}
    of_guard = cluster_queue("cede-guard-c-1", cohort="", labels=labels)
    for active in (True, False):
        waiting = workload("a", 3, active=active)
        metadata = replace(waiting.metadata, namespace=names.GUARD_NAMESPACE)
        waiting = replace(waiting, metadata=metadata, spec=replace(waiting.spec, queueName="c-1"))
        (guard,) = taken(waiting, queues=[of_guard]).guards
        assert guard.is_ended is not active


def test_a_written_shrink_counts_before_kueue_follows() -> None:
    current = taken(workload("a", 8, assigned=8), gpt=job(4))
    assert only(current).size == 4
    assert used(current) == 4


def test_a_pending_slice_leaves_its_job_what_it_has() -> None:
    current = taken(workload("a", 2, assigned=2), workload("b", 8, replaces="a"))
    assert only(current).size == 2
    assert [pending.is_scale_up for pending in current.pending] == [True]


def test_two_slices_that_both_have_quota_count_once() -> None:
    current = taken(workload("a", 2, assigned=2), workload("b", 8, assigned=8, replaces="a"))
    assert only(current).size == 8
    assert used(current) == 8


def test_a_replaced_slice_that_lost_its_quota_is_not_pending() -> None:
    current = taken(workload("a", 2), workload("b", 8, assigned=8, replaces="a"))
    assert current.pending == ()


def test_a_job_stopped_after_it_grew_is_pending_like_any_other() -> None:
    current = taken(workload("a", 2, assigned=2, finished=True), workload("b", 8, replaces="a"))
    assert [pending.is_scale_up for pending in current.pending] == [False]
    assert current.admitted == ()


def test_an_inactive_workload_uses_nothing() -> None:
    current = taken(workload("a", 8, assigned=8, active=False))
    assert only(current).size == 8
    assert used(current) == 0


def test_a_pending_workload_of_a_queue_on_hold_would_not_be_tried() -> None:
    on_hold = replace(QUEUES[0], spec=replace(QUEUES[0].spec, stopPolicy="Hold"))
    (pending,) = taken(workload("a", 8), queues=[on_hold]).pending
    assert pending.ineligible == "its ClusterQueue is on hold"
    (pending,) = taken(workload("a", 8)).pending
    assert not pending.ineligible


def test_a_pending_workload_has_no_flavor_that_its_node_selector_excludes() -> None:
    flavor = ResourceFlavor(Meta(FLAVOR), ResourceFlavorSpec({"type": FLAVOR}))
    template = PodTemplate(spec=TemplateSpec(nodeSelector={"type": "h100"}))
    excluded = workload("a", 8)
    spec = replace(excluded.spec, podSets=(replace(excluded.spec.podSets[0], template=template),))
    objects = RawObjects(
        workloads=[replace(excluded, spec=spec)],
        local_queues=[local_queue()],
        cluster_queues=QUEUES,
        resource_flavors=[flavor],
    )
    (pending,) = take(objects).pending
    assert pending.pod_sets[0].unsuitable == {FLAVOR}


def test_pending_workloads_have_the_order_of_kueue() -> None:
    """Of the same priority and second, the smaller uid comes first, whatever the name."""
    first = workload("z", 8)
    second = workload("a", 8)
    first = replace(first, metadata=replace(first.metadata, uid="1"))
    second = replace(second, metadata=replace(second.metadata, uid="2"))
    assert [pending.uid for pending in taken(second, first).pending] == ["1", "2"]


def test_a_finished_workload_uses_nothing() -> None:
    current = taken(workload("a", 8, assigned=8, finished=True))
    assert current.finished == {"uid-a"}
    assert used(current) == 0


def test_workloads_of_queues_outside_the_cohort_are_left_out() -> None:
    current = taken(workload("a", 8, assigned=8), queues=[cluster_queue("research", "other", {})])
    assert (current.admitted, current.pending) == ((), ())


@pytest.mark.parametrize(
    ("preemption", "expected"), [("Kueue", True), ("Cede", False), ("", False)]
)
def test_who_preempts_is_what_the_policy_says(preemption: str, expected: bool) -> None:
    policy = ClusterPolicy(status=PolicyStatus(preemption=preemption))
    assert take(RawObjects(policies=[policy])).kueue_preempts is expected


def test_a_workload_of_a_queue_that_does_not_exist_is_left_out() -> None:
    waiting = workload("a", 8)
    alone = RawObjects(workloads=[waiting], cluster_queues=QUEUES)
    assert take(alone).pending == ()
    assert take(replace(alone, local_queues=[local_queue()])).pending
    assert take(replace(alone, local_queues=[local_queue()], cluster_queues=())).pending == ()


def test_the_pods_of_the_jobs_that_a_job_set_made_are_its_own() -> None:
    made = {
        "name": "it-0",
        "namespace": "research",
        "uid": "uid-it-0",
        "ownerReferences": owners_of_kind("JobSet"),
    }
    metadata = {
        "name": "it-0-0",
        "namespace": "research",
        "ownerReferences": [owner("Job", "it-0", "uid-it-0")],
    }
    spec = {"nodeName": "n1", "containers": [{"resources": {"requests": {GPU: 1}}}]}
    pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    objects = RawObjects(
        workloads=[workload("it", 1, assigned=1, owners=owners_of_kind("JobSet"))],
        cluster_queues=QUEUES,
        jobs=[msgspec.convert({"metadata": made}, Job)],
        pods=[msgspec.convert(pod, Pod)],
    )
    assert places_are_known(only(take(objects)), [KEY])


def test_the_pods_that_name_the_workload_of_a_train_job_are_its_own() -> None:
    """Between it and its pods are a JobSet and a Job."""
    train_job = workload("it", 1, assigned=1, owners=owners_of_kind("TrainJob"))
    named = of_job_set(names_workload="it")
    objects = RawObjects(workloads=[train_job], cluster_queues=QUEUES, pods=[named])
    assert places_are_known(only(take(objects)), [KEY])


def test_a_pod_that_names_the_workload_of_a_job_is_none_of_its_pods() -> None:
    """The runtime of the Job is asked at its pods."""
    forged = of_job_set(names_workload="a")
    current = take(
        RawObjects(workloads=[workload("a", 1, assigned=1)], cluster_queues=QUEUES, pods=[forged])
    )
    assert only(current).requested_per_node == {}


def of_job_set(names_workload: str) -> Pod:
    metadata = {
        "name": "it-0-0",
        "namespace": "research",
        "labels": {names.JOB_SET_NAME: "it"},
        "annotations": {names.POD_WORKLOAD: names_workload},
        "ownerReferences": [owner("Job", "it-0", "uid-it-0")],
    }
    spec = {"nodeName": "n1", "containers": [{"resources": {"requests": {GPU: 1}}}]}
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, Pod
    )


@pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet", "PodGroup", "Deployment"])
def test_the_places_of_pods_are_known_for_every_kind_that_kueue_groups(kind: str) -> None:
    """Kueue names the group in an annotation, and the Workload is named like it."""
    grouped = workload("it-group", 1, assigned=1, owners=owners_of_kind(kind))
    controller = {"Deployment": "ReplicaSet", "LeaderWorkerSet": "StatefulSet"}.get(kind, kind)
    owners = [] if kind == "PodGroup" else [owner(controller, "it", "uid-of-set")]
    notes = {} if kind == "Deployment" else {names.POD_GROUP: "it-group"}
    metadata = {
        "name": "it-0",
        "namespace": "research",
        "uid": "uid-pod-0",
        "annotations": notes,
        "ownerReferences": owners,
    }
    spec = {"nodeName": "n1", "containers": [{"resources": {"requests": {GPU: 1}}}]}
    pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    objects = RawObjects(
        workloads=[grouped], cluster_queues=QUEUES, pods=[msgspec.convert(pod, Pod)]
    )
    assert places_are_known(only(take(objects)), [KEY])


def test_cessions_are_ordered_by_age() -> None:
    older = cession().model_copy(deep=True)
    older.metadata = type(older.metadata)(name="z", creationTimestamp="1970-01-01T00:00:01Z")
    current = take(RawObjects(cessions=[cession(), older]))
    assert [record.metadata.name for record in current.cessions] == ["z", "c-1"]


def test_a_snapshot_with_a_memory_is_as_one_without() -> None:
    """Also after Workloads, Jobs, pods and queues have changed."""
    memory = Memory()
    pods = [pod(0), pod(1)]
    waits, runs = workload("b", 4), workload("a", 8, assigned=8)
    on_hold = replace(QUEUES[0], spec=replace(QUEUES[0].spec, stopPolicy="Hold"))
    objects = RawObjects(
        workloads=[waits, runs],
        jobs=[job()],
        pods=pods,
        local_queues=[local_queue()],
        cluster_queues=QUEUES,
    )
    changes: list[dict[str, Any]] = [
        {},
        {"workloads": [waits, workload("a", 8)]},
        {"workloads": [waits, runs], "jobs": [job(4)]},
        {"pods": [pods[0], pod(1, ready=False)]},
        {"cluster_queues": [on_hold, QUEUES[1]]},
        {"statuses": {"job-uid": runtime_status()}},
        {"workloads": []},
    ]
    for change in changes:
        objects = replace(objects, **change)
        assert take(objects, memory) == take(objects)


def pod(index: int, *, ready: bool = True) -> Pod:
    """Of the job gpt."""
    metadata = {
        "name": f"gpt-{index}",
        "namespace": "research",
        "ownerReferences": [{"kind": "Job", "uid": "job-uid", "controller": True}],
    }
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running", "conditions": conditions}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status}, Pod
    )
