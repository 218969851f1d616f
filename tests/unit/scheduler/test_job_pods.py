"""Which pods belong to which job, where they run, and how many are ready."""

import msgspec

from cede.api import names
from cede.api.kueue import Job, Pod
from cede.api.objects import Json
from scheduler.job_pods import group_key, pods_by_job
from tests.builders.scheduler import runtime_status

POD_0 = {names.POD_INDEX: "0"}


def pod(
    job: str = "",
    *,
    node: str = "n1",
    ready: bool = True,
    phase: str = "Running",
    namespace: str = "research",
    labels: Json | None = None,
) -> Pod:
    """A pod of the Job with this uid."""
    metadata = {"name": "p", "namespace": namespace, "labels": labels or {}} | owned("Job", job)
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": phase, "podIP": "10.0.0.1", "conditions": conditions}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod
    )


def owned(kind: str, uid: str) -> Json:
    return {"ownerReferences": [{"kind": kind, "name": "x", "uid": uid, "controller": True}]}


def test_the_pods_of_a_job_are_counted_by_node() -> None:
    pods = [pod("u"), pod("u", node="n2", ready=False), pod("u", node="", ready=False)]
    gpt = pods_by_job(pods, {}, {})["u"]
    assert (gpt.ready, gpt.per_node) == (1, {"n1": 1, "n2": 1})


def test_pods_that_have_ended_do_not_count() -> None:
    assert pods_by_job([pod("u", phase="Succeeded")], {}, {}) == {}


def test_pod_0_is_where_the_runtime_answers() -> None:
    assert pods_by_job([pod("u", labels=POD_0)], {}, {})["u"].address == "10.0.0.1"


def test_a_label_alone_makes_no_pod_of_a_job() -> None:
    """Otherwise a pod of another team could receive the requests to a job."""
    forged = pod("their-job", labels=POD_0 | {names.POD_JOB_UID: "u"})
    assert "u" not in pods_by_job([forged], {}, {})


def test_a_job_has_no_pods_in_other_namespaces() -> None:
    job = msgspec.convert({"metadata": {"uid": "u", "namespace": "research"}}, Job)
    assert pods_by_job([pod("u", namespace="vision", labels=POD_0)], {"u": job}, {}) == {}


def test_the_pods_of_a_job_that_a_job_set_owns_belong_to_the_job_set() -> None:
    metadata = {"uid": "child", "namespace": "research", **owned("JobSet", "set")}
    child = msgspec.convert({"metadata": metadata}, Job)
    assert pods_by_job([pod("child")], {"child": child}, {}).keys() == {"set"}


def test_pods_that_another_kind_owns_directly_belong_to_it() -> None:
    body = {"metadata": owned("PyTorchJob", "torch"), "status": {"phase": "Running"}}
    assert pods_by_job([msgspec.convert(body, Pod)], {}, {}) == {}
    body["spec"] = {"nodeName": "n1"}
    assert pods_by_job([msgspec.convert(body, Pod)], {}, {})["torch"].per_node == {"n1": 1}


def test_a_group_of_pods_has_the_name_of_its_workload() -> None:
    assert pods_by_job([pod(labels={names.POD_GROUP: "group"})], {}, {}).keys() == {
        group_key("research", "group")
    }


def test_a_runtime_that_answers_counts_before_its_pods_are_seen() -> None:
    assert pods_by_job([], {}, {"u": runtime_status()})["u"].runtime == runtime_status()


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
    gpt = pods_by_job([*pods, *(msgspec.convert(body, Pod) for body in bodies)], {}, {})["u"]
    assert (gpt.ready_indexes, gpt.unplaced) == (frozenset({0, 2}), 1)


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
    assert pods_by_job([msgspec.convert(body, Pod)], {}, {})["u"].ready_indexes == frozenset()
