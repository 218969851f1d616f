"""Why a Workload is not active: conditions as Kueue 0.19.2 writes them."""

from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import Json
from cede.api.wait_reasons import WaitReason
from tests.builders.causes import cession, condition, reasons, time, workload


def inactive(*conditions: Json, writer: str = "", **labels: str) -> Workload:
    """`writer`: who made it so, as the API server records it."""
    metadata: Json = {"labels": labels}
    if writer:
        fields: Json = {"f:spec": {"f:active": {}}}
        metadata["managedFields"] = [{"manager": writer, "time": time(30), "fieldsV1": fields}]
    return workload(*conditions, spec={"active": False}, metadata=metadata)


def deactivated(cause: str) -> Json:
    """pkg/controller/core/workload_controller.go, Reconcile."""
    message = f"The workload is deactivated due to {cause}"
    return condition(names.EVICTED, True, message, "Deactivated")


FOR_GOOD = cession(
    preemptor="first",
    target="claim",
    phase="Completed",
    targets=[{"uid": "job-claim", "stopped": True, "staysStopped": True}],
)
FOR_CESSION = inactive(**{names.STOPPED_FOR: "c-1"})


@pytest.mark.parametrize(
    ("item", "changed", "reason"),
    [
        pytest.param(
            inactive(
                condition(names.EVICTED, True, "The workload is deactivated", "Deactivated"),
                writer="kubectl-patch",
            ),
            {},
            WaitReason.DEACTIVATED_BY_HAND,
            id="by hand",
        ),
        pytest.param(
            FOR_CESSION,
            {"cessions": (cession(preemptor="first", target="claim"),)},
            WaitReason.STOPPED_FOR_CESSION,
            id="for a Cession",
        ),
        pytest.param(
            inactive(),
            {"cessions": (FOR_GOOD,)},
            WaitReason.KEPT_STOPPED,
            id="for a Cession, for good",
        ),
        pytest.param(
            inactive(writer="cede-scheduler"),
            {"cessions": (FOR_GOOD,)},
            WaitReason.KEPT_STOPPED,
            id="for a Cession, for good, as the API server records it",
        ),
        pytest.param(
            inactive(writer="kubectl-patch"),
            {"cessions": (FOR_GOOD,)},
            WaitReason.DEACTIVATED_BY_HAND,
            id="by hand, after it was stopped for a Cession and started again",
        ),
        pytest.param(
            FOR_CESSION,
            {"cessions": (cession(preemptor="first"),)},
            WaitReason.ASIDE_FOR_CESSION,
            id="set aside",
        ),
        pytest.param(
            inactive(**{names.STOPPED_FOR: names.NO_BASE}),
            {},
            WaitReason.BASE_NOT_RUNNING,
            id="a surplus without its base",
        ),
        pytest.param(
            inactive(deactivated("exceeding the maximum number of re-queuing retries")),
            {},
            WaitReason.RETRIES_EXHAUSTED,
            id="too many retries",
        ),
        pytest.param(
            inactive(deactivated("exceeding the maximum execution time")),
            {},
            WaitReason.RUNTIME_EXHAUSTED,
            id="too long a run",
        ),
        pytest.param(
            inactive(deactivated('Admission check in Rejected state: "prov" (no)')),
            {},
            WaitReason.CHECK_REJECTED,
            id="a check that rejects",
        ),
    ],
)
def test_why_a_job_is_inactive(item: Workload, changed: dict[str, Any], reason: WaitReason) -> None:
    assert reasons(item, **changed) == [reason]
