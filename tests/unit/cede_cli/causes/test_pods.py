"""Why the pods of an admitted job do not run: statuses as Kubernetes writes them."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import Job
from cede.api.pod_state import Event
from cede.api.wait_reasons import WaitReason
from tests.builders.causes import cession, condition, pod, reasons, time, unscheduled, workload

ADMITTED = (condition(names.QUOTA_RESERVED, True), condition(names.ADMITTED, True))
NOT_READY = condition(
    names.PODS_READY, False, "Not all pods are ready or succeeded", "WaitForStart"
)
ENDED = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}, "name": "train"}
QUOTA_EVENT = Event(
    reason="FailedCreate",
    note='Error creating: pods "claim-0-x" is forbidden: exceeded quota: small, requested: pods=1',
)
SECURITY_EVENT = Event(
    reason="FailedCreate",
    note='Error creating: pods "claim-0-x" is forbidden: violates PodSecurity "restricted:latest"',
)
CREATED = Event(reason="SuccessfulCreate", note="Created pod: claim-0-x")
ENDING = cession(phase="Admitted", targets=[{"uid": "job-gpt", "stopped": True, "endingPods": 3}])


def dated(event: Event, ago_s: float) -> Event:
    return replace(event, deprecatedLastTimestamp=time(ago_s))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({}, WaitReason.PODS_NOT_READY, id="pods that were not read"),
        pytest.param(
            {"pods": [pod(waiting="ImagePullBackOff")]}, WaitReason.IMAGE_NOT_PULLED, id="no image"
        ),
        pytest.param(
            {"pods": [pod(waiting="CreateContainerConfigError")]},
            WaitReason.CONTAINER_NOT_CREATED,
            id="no Secret",
        ),
        pytest.param(
            {"pods": [pod("Running", waiting="CrashLoopBackOff")]},
            WaitReason.CONTAINER_CRASHES,
            id="crashes in one pod",
        ),
        pytest.param(
            {"pods": [pod("Failed", containerStatuses=[ENDED]), pod()]},
            WaitReason.CONTAINER_CRASHES,
            id="crashes in one pod after the other",
        ),
        pytest.param(
            {"pods": [pod(conditions=[unscheduled()])]}, WaitReason.POD_UNSCHEDULABLE, id="no node"
        ),
        pytest.param(
            {"pods": [pod(conditions=[unscheduled()])], "cessions": (ENDING,)},
            WaitReason.WAITS_FOR_ENDING_PODS,
            id="the node of pods that save",
        ),
        pytest.param(
            {"pods": [pod(gates=[{"name": "x/y"}], conditions=[unscheduled("SchedulingGated")])]},
            WaitReason.POD_GATED,
            id="a scheduling gate",
        ),
        pytest.param(
            {"pods": [], "events": [QUOTA_EVENT]}, WaitReason.API_QUOTA_EXCEEDED, id="ResourceQuota"
        ),
        pytest.param(
            {"pods": [], "events": [SECURITY_EVENT]}, WaitReason.PODS_REFUSED, id="PodSecurity"
        ),
        pytest.param(
            {"pods": [], "events": [dated(SECURITY_EVENT, 60), dated(CREATED, 60)]},
            WaitReason.PODS_REFUSED,
            id="some created, and the next refused in the same second",
        ),
        pytest.param(
            {"pods": [], "events": [dated(SECURITY_EVENT, 1800), dated(CREATED, 5)]},
            WaitReason.PODS_NOT_READY,
            id="refused half an hour ago, and created since",
        ),
    ],
)
def test_why_pods_do_not_run(changed: dict[str, Any], reason: WaitReason) -> None:
    job = msgspec.convert({"spec": {"parallelism": 4}, "status": {"active": 0}}, Job)
    assert reasons(workload(*ADMITTED, NOT_READY, used=4), job, **changed)[0] is reason
