"""Why a Workload waits: objects and messages as Kueue 0.19.2 writes them."""

from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import Workload
from cede.api.wait_reasons import WaitReason
from tests.builders.causes import (
    PREFIX,
    cession,
    condition,
    exceeds,
    lacks,
    pending,
    queue,
    reasons,
    time,
    workload,
)

FULL = (queue("vision", 4, 0), queue("research", 8, 8))
RESERVED = {"clusterQueue": "vision", "podSetAssignments": [{"count": 4}]}
TAINT = "untolerated taint {gpu true NoSchedule <nil>} in flavor a100"


@pytest.mark.parametrize(
    ("item", "changed", "reason"),
    [
        pytest.param(
            # pkg/workload/resources.go, ErrNamespaceMismatch
            workload(pending("workload namespace doesn't match ClusterQueue selector")),
            {},
            WaitReason.NAMESPACE_NOT_SELECTED,
            id="another team's queue",
        ),
        pytest.param(workload(), {}, WaitReason.NOT_TRIED_YET, id="Kueue has written nothing"),
        pytest.param(
            # pkg/controller/core/workload_controller.go, reconcileNotReadyTimeout
            workload(
                condition(
                    names.EVICTED,
                    True,
                    "Exceeded the PodsReady timeout vision/w-claim",
                    "PodsReadyTimeout",
                ),
                status={"requeueState": {"count": 1, "requeueAt": time(-50)}},
            ),
            {},
            WaitReason.BACK_OFF,
            id="back-off after pods that were not ready",
        ),
        pytest.param(
            workload(
                condition(
                    names.QUOTA_RESERVED, False, "Admission is gated by: budget", "AdmissionGated"
                ),
                metadata={"annotations": {names.ADMISSION_GATED_BY: "budget"}},
            ),
            {},
            WaitReason.ADMISSION_GATED,
            id="an admission gate",
        ),
        pytest.param(
            # pkg/scheduler/scheduler.go, markPreemptionGated
            workload(
                pending("Workload requires preemption, but it's gated"),
                condition(
                    "BlockedOnPreemptionGates",
                    True,
                    "Workload requires preemption, but it's gated",
                    "PreemptionGated",
                ),
            ),
            {},
            WaitReason.PREEMPTION_GATED,
            id="a preemption gate",
        ),
        pytest.param(
            workload(
                condition(names.QUOTA_RESERVED, True),
                status={
                    "admission": RESERVED,
                    "admissionChecks": [{"name": "prov", "state": "Pending", "message": "asked"}],
                },
            ),
            {},
            WaitReason.ADMISSION_CHECK_PENDING,
            id="an admission check that is pending",
        ),
        pytest.param(
            workload(
                condition(names.QUOTA_RESERVED, True),
                status={
                    "admission": RESERVED,
                    "admissionChecks": [{"name": "prov", "state": "Retry"}],
                },
            ),
            {},
            WaitReason.ADMISSION_CHECK_FAILED,
            id="an admission check that retries",
        ),
        pytest.param(
            workload(condition(names.QUOTA_RESERVED, True), status={"admission": RESERVED}),
            {},
            WaitReason.PLACEMENT_PENDING,
            id="no placement yet",
        ),
        pytest.param(
            # pkg/scheduler/scheduler.go, waitForPodsReadyIfNeeded
            workload(
                condition(
                    names.QUOTA_RESERVED,
                    False,
                    "waiting for all admitted workloads to be in PodsReady condition",
                    "Waiting",
                )
            ),
            {},
            WaitReason.OTHERS_NOT_READY,
            id="blockAdmission",
        ),
        pytest.param(
            # pkg/workload/resources.go, ErrLimitRangeConstraintsUnsatisfiedResources
            workload(
                pending("resources didn't satisfy LimitRange constraints: [requests above max]")
            ),
            {},
            WaitReason.INVALID_REQUESTS,
            id="a LimitRange",
        ),
        pytest.param(
            # pkg/scheduler/flavorassigner/flavorassigner.go, findFlavorForPodSets
            workload(pending(f"{PREFIX}resource amd.com/gpu unavailable in ClusterQueue")),
            {},
            WaitReason.RESOURCE_NOT_IN_QUEUE,
            id="a resource without quota",
        ),
        pytest.param(
            # pkg/scheduler/flavorassigner/flavorassigner.go, checkFlavorForPodSets
            workload(pending(f"{PREFIX}flavor a100 doesn't match node affinity, {TAINT}")),
            {},
            WaitReason.NO_FLAVOR_MATCHES,
            id="a node selector that matches nothing",
        ),
        pytest.param(
            # pkg/cache/scheduler/tas_flavor_snapshot.go, notFitMessage
            workload(
                pending(
                    f'{PREFIX}topology "racks" allows to fit only 2 out of 4 pod(s). Total nodes: 2'
                    '; excluded: resource "nvidia.com/gpu": 1'
                )
            ),
            {},
            WaitReason.NO_NODE_FITS,
            id="no rack that is large enough",
        ),
        pytest.param(
            # pkg/scheduler/scheduler.go, markPreemptionOutcome
            workload(
                pending(
                    f"{PREFIX}insufficient unused quota for nvidia.com/gpu in flavor a100, 4 more "
                    "needed. Pending the preemption of 2 workload(s)"
                )
            ),
            {},
            WaitReason.KUEUE_EVICTS,
            id="Kueue preempts for it",
        ),
        pytest.param(
            workload(pending("Failed to admit workload: of a new kind")),
            {},
            WaitReason.OTHER_MESSAGE,
            id="a message that is not known",
        ),
        pytest.param(
            workload(lacks(4)),
            {"cessions": (cession(phase="Pending"),)},
            WaitReason.CESSION_PENDING,
            id="a Cession is recorded",
        ),
        pytest.param(
            workload(lacks(4)),
            {"cessions": (cession(phase="Asked"),)},
            WaitReason.CESSION_ASKED,
            id="targets save",
        ),
        pytest.param(
            workload(lacks(4)),
            {"cessions": (cession(phase="Released"),)},
            WaitReason.CESSION_RELEASED,
            id="targets have released",
        ),
        pytest.param(
            workload(lacks(2), gpus=2),
            {
                "queues": (queue("vision", 4, 0, queueingStrategy="StrictFIFO"), FULL[1]),
                "workloads": (
                    workload(lacks(2), gpus=2),
                    workload(lacks(4), job="first", priority=80),
                ),
            },
            WaitReason.BEHIND_HEAD,
            id="behind the head",
        ),
        pytest.param(
            workload(lacks(2), gpus=2),
            {
                "queues": (queue("vision", 4, 0, queueingStrategy="StrictFIFO"), FULL[1]),
                "workloads": (
                    workload(lacks(2), gpus=2),
                    workload(exceeds(16, 8), job="first", gpus=16, age_s=999),
                ),
            },
            WaitReason.HOPELESS_HEAD,
            id="behind a head that never fits",
        ),
    ],
)
def test_why_a_job_waits(item: Workload, changed: dict[str, Any], reason: WaitReason) -> None:
    assert reasons(item, **changed)[0] is reason
