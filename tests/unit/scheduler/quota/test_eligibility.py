"""Which Workloads Kueue would not try, whatever quota is free."""

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import ClusterQueue, LocalQueue, Workload
from cede.api.objects import Json
from scheduler.quota.eligibility import why_ineligible

LOCAL_QUEUE = {"spec": {"clusterQueue": "research"}}
DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


def why(
    workload: Json | None = None,
    local_queue: Json = LOCAL_QUEUE,
    queue: Json | None = None,
) -> str:
    body = workload or {}
    body.setdefault("metadata", {}).setdefault("namespace", "research")
    return why_ineligible(
        msgspec.convert(body, Workload),
        msgspec.convert(local_queue, LocalQueue),
        msgspec.convert(queue or {}, ClusterQueue),
    )


def condition(type_: str, status: str, reason: str = "") -> Json:
    return {"status": {"conditions": [{"type": type_, "status": status, "reason": reason}]}}


def test_a_workload_that_only_lacks_quota_is_tried() -> None:
    assert why() == ""


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param({"spec": {"active": False}}, "not active", id="inactive"),
        pytest.param(DELETED, "deleted", id="being deleted"),
        pytest.param(
            {"metadata": {"annotations": {names.ADMISSION_GATED_BY: "budget"}}},
            "admission gate",
            id="gated",
        ),
        pytest.param(
            {"metadata": {"annotations": {names.ADMISSION_GATED_BY: ""}}}, "", id="no gate is left"
        ),
        pytest.param(condition("QuotaReserved", "False", "OnHold"), "on hold", id="job on hold"),
        pytest.param(
            condition("QuotaReserved", "False", "Misconfigured"), "as it is", id="breaks a limit"
        ),
        pytest.param(condition("QuotaReserved", "False", "Pending"), "", id="waits for quota"),
        pytest.param(
            condition("WaitingForReplacementPods", "True"), "replacements", id="pods missing"
        ),
        pytest.param(condition("Requeued", "False"), "waits before", id="back-off"),
        pytest.param(condition("Requeued", "True"), "", id="back-off is over"),
        pytest.param(condition("Evicted", "True", "Preempted"), "", id="evicted before"),
        pytest.param(
            {"status": {"requeueState": {"requeueAt": "2026-01-01T00:00:00Z"}}},
            "waits before",
            id="requeued later",
        ),
        pytest.param({"status": {"requeueState": {"requeueAt": None}}}, "", id="requeued now"),
        pytest.param(
            {"status": {"admissionChecks": [{"name": "budget", "state": "Rejected"}]}},
            "admission checks",
            id="check rejected",
        ),
        pytest.param(
            {"status": {"admissionChecks": [{"name": "budget", "state": "Pending"}]}},
            "",
            id="check pending",
        ),
    ],
)
def test_what_keeps_a_workload_from_being_tried(workload: Json, expected: str) -> None:
    assert expected in why(workload)
    assert bool(why(workload)) == bool(expected)


@pytest.mark.parametrize(
    ("local_queue", "expected"),
    [
        pytest.param(DELETED, "deleted", id="being deleted"),
        pytest.param({"spec": {"stopPolicy": "Hold"}}, "on hold", id="hold"),
        pytest.param({"spec": {"stopPolicy": "HoldAndDrain"}}, "on hold", id="drain"),
    ],
)
def test_a_local_queue_that_holds_its_workloads(local_queue: Json, expected: str) -> None:
    assert expected in why(local_queue=local_queue)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        pytest.param({"spec": {"stopPolicy": "Hold"}}, "on hold", id="hold"),
        pytest.param({"spec": {"stopPolicy": "HoldAndDrain"}}, "on hold", id="drain"),
        pytest.param(DELETED, "deleted", id="being deleted"),
        pytest.param(condition("Active", "False", "FlavorNotFound"), "FlavorNotFound", id="broken"),
        pytest.param(condition("Active", "True"), "", id="active"),
        pytest.param(
            {"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}},
            "namespace",
            id="for another namespace",
        ),
        pytest.param({"spec": {"namespaceSelector": {}}}, "", id="for any namespace"),
    ],
)
def test_a_cluster_queue_that_admits_nothing(queue: Json, expected: str) -> None:
    assert expected in why(queue=queue)
    assert bool(why(queue=queue)) == bool(expected)
