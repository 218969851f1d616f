"""From objects to one picture: what Kueue counts, what is on its way, and what is none of ours."""

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import ClusterQueue, Job, LocalQueue, Node, Pod, Workload
from cede.api.objects import Json
from scheduler.snapshot import Objects, Running, Snapshot, take
from tests.builders.scheduler import GPU, KEY

OURS = {names.MANAGED_BY: names.MANAGED_BY_CEDE}


def workload(
    name: str,
    count: int,
    *,
    assigned: int = 0,
    finished: bool = False,
    replaces: str = "",
    active: bool = True,
) -> Workload:
    """Of the job `gpt`; with `assigned` pods it holds quota."""
    conditions = (
        [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        if assigned
        else []
    )
    conditions += [{"type": "Finished", "status": "True"}] if finished else []
    usage = {
        "name": "main",
        "count": assigned,
        "flavors": {GPU: "a100"},
        "resourceUsage": {GPU: str(assigned)},
    }
    status: Json = {"conditions": conditions} | (
        {"admission": {"clusterQueue": "research", "podSetAssignments": [usage]}}
        if assigned
        else {}
    )
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: 1}}}]}}
    body = {
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {names.SLICE_REPLACEMENT_FOR: f"research/{replaces}"}
            if replaces
            else {},
            "ownerReferences": [{"kind": "Job", "name": "gpt", "uid": "job-uid"}],
        },
        "spec": {
            "queueName": "default",
            "active": active,
            "podSets": [{"count": count, "template": template}],
        },
        "status": status,
    }
    return msgspec.convert(body, Workload, strict=False)


def job(parallelism: int = 8, annotations: dict[str, str] | None = None) -> Job:
    notes = {names.ELASTIC_JOB: "true", names.SIZES: "2-8", names.DESIRED_SIZE: "8"} | (
        annotations or {}
    )
    metadata = {
        "name": "gpt",
        "namespace": "research",
        "uid": "job-uid",
        "resourceVersion": "3",
        "annotations": notes,
    }
    return msgspec.convert(
        {"metadata": metadata, "spec": {"parallelism": parallelism, "completions": parallelism}},
        Job,
    )


def cluster_queue(
    name: str, cohort: str = "cede", labels: dict[str, str] = OURS, strategy: str = "BestEffortFIFO"
) -> ClusterQueue:
    group = {
        "coveredResources": [GPU],
        "flavors": [{"name": "a100", "resources": [{"name": GPU, "nominalQuota": 4}]}],
    }
    spec = {"cohortName": cohort, "queueingStrategy": strategy, "resourceGroups": [group]}
    return msgspec.convert(
        {"metadata": {"name": name, "labels": labels}, "spec": spec}, ClusterQueue
    )


def picture(*workloads: Workload, of: Job | None = None, **more: object) -> Snapshot:
    local = msgspec.convert(
        {
            "metadata": {"name": "default", "namespace": "research"},
            "spec": {"clusterQueue": "research"},
        },
        LocalQueue,
    )
    facts = {"cluster_queues": [cluster_queue("research"), cluster_queue("vision")]} | more
    return take(Objects(workloads=workloads, jobs=[of or job()], local_queues=[local], **facts))  # type: ignore[arg-type]


def only(seen: Snapshot) -> Running:
    (found,) = seen.running
    return found


def test_use_is_what_was_assigned_scaled_by_the_pods_that_are_left() -> None:
    seen = picture(workload("a", 3, assigned=8), of=job(3))
    assert only(seen).size == 3
    assert seen.tree.queues["research"].usage[KEY] == 3
    assert only(seen).each[KEY] == 1


def test_a_shrink_that_is_written_counts_before_kueue_has_followed() -> None:
    seen = picture(workload("a", 8, assigned=8), of=job(4))
    assert only(seen).size == 4
    assert seen.tree.queues["research"].usage[KEY] == 4


def test_a_slice_that_waits_is_no_claimant_and_its_job_keeps_what_it_has() -> None:
    seen = picture(workload("a", 2, assigned=2), workload("b", 8, replaces="a"))
    assert only(seen).size == 2
    assert [w.replaces for w in seen.waiting] == [True]


def test_two_slices_that_both_hold_quota_count_once() -> None:
    seen = picture(workload("a", 2, assigned=2), workload("b", 8, assigned=8, replaces="a"))
    assert only(seen).size == 8
    assert seen.tree.queues["research"].usage[KEY] == 8


def test_a_job_that_was_stopped_after_it_grew_waits_like_any_other() -> None:
    seen = picture(workload("a", 2, assigned=2, finished=True), workload("b", 8, replaces="a"))
    assert [w.replaces for w in seen.waiting] == [False]
    assert seen.running == ()


def test_a_finished_workload_holds_nothing() -> None:
    seen = picture(workload("a", 8, assigned=8, finished=True))
    assert seen.finished == {"uid-a"}
    assert seen.tree.queues["research"].usage[KEY] == 0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1h", 3600), ("", 0), ("soon", 0)]
)
def test_grace_is_read_as_the_webhook_writes_it(text: str, seconds: float) -> None:
    assert (
        only(picture(workload("a", 8, assigned=8), of=job(annotations={names.GRACE: text}))).grace_s
        == seconds
    )


def test_queues_outside_our_cohort_are_not_in_the_picture_and_guests_in_it_are_not_ours() -> None:
    queues = [
        cluster_queue("research"),
        cluster_queue("theirs", "other", {}),
        cluster_queue("guest", labels={}),
    ]
    seen = picture(cluster_queues=queues)
    assert {name: queue.ours for name, queue in seen.tree.queues.items()} == {
        "research": True,
        "guest": False,
    }


def test_limits_stand_in_for_requests_as_kueue_does() -> None:
    (waiting,) = picture(workload("a", 4)).waiting
    assert waiting.each == (({GPU: 1}, 4),)


def test_room_is_what_ready_nodes_have_left() -> None:
    def node(name: str, ready: str = "True", **spec: bool) -> Node:
        status = {"allocatable": {GPU: "4"}, "conditions": [{"type": "Ready", "status": ready}]}
        return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Node)

    container = {"name": "main", "resources": {"requests": {GPU: 3}}}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Running"},
    }
    nodes = [node("n1"), node("n2", "False"), node("n3", unschedulable=True)]
    seen = picture(nodes=nodes, pods=[msgspec.convert(pod, Pod)])
    assert [room[GPU] for room in seen.room] == [1]


@pytest.mark.parametrize("desired_size", ["²", "9" * 5000, "-1", "many"])
@pytest.mark.parametrize("shrunk", ["soon", "9" * 40, "2026-13-01T00:00:00Z"])
def test_whatever_a_user_writes_into_our_annotations_there_is_a_picture(
    desired_size: str, shrunk: str
) -> None:
    notes = {
        names.ELASTIC_JOB: "true",
        names.SIZES: "2-8",
        names.DESIRED_SIZE: desired_size,
        names.SHRUNK_AT: shrunk,
    }
    found = only(picture(workload("a", 8, assigned=8), of=job(annotations=notes)))
    assert (found.desired_size, found.shrunk_at) == (8, 0.0)
