"""Kueue is down, or a queue admits nothing: objects as Kueue 0.19.2 writes them."""

from typing import Any

import msgspec
import pytest

from cede.api.kueue import ClusterQueue, Workload
from cede.api.objects import Json
from cede.api.wait_reasons import WaitReason
from cede.causes.snapshot import Deployment
from tests.builders.causes import condition, lacks, local_queue, pending, queue, reasons, workload
from tests.builders.reports import allocation


def _with_condition(queue_: ClusterQueue, entry: Json) -> ClusterQueue:
    body = msgspec.to_builtins(queue_)
    body["status"]["conditions"] = [entry]
    return msgspec.convert(body, ClusterQueue)


@pytest.mark.parametrize(
    ("item", "changed", "reason"),
    [
        pytest.param(
            workload(lacks(4)),
            {"local_queues": ()},
            WaitReason.UNKNOWN_LOCAL_QUEUE,
            id="no LocalQueue",
        ),
        pytest.param(
            workload(pending("ClusterQueue vision doesn't exist")),
            {"queues": ()},
            WaitReason.UNKNOWN_CLUSTER_QUEUE,
            id="no ClusterQueue",
        ),
        pytest.param(
            workload(pending("LocalQueue default is stopped")),
            {"local_queues": (local_queue(stopPolicy="Hold"),)},
            WaitReason.QUEUE_ON_HOLD,
            id="a LocalQueue on hold",
        ),
        pytest.param(
            workload(pending("ClusterQueue vision is stopped")),
            {"queues": (queue("vision", 4, 0, stopPolicy="HoldAndDrain"),)},
            WaitReason.QUEUE_ON_HOLD,
            id="a ClusterQueue on hold",
        ),
        pytest.param(
            workload(pending("ClusterQueue vision is stopped")),
            {
                "queues": (queue("vision", 4, 0, stopPolicy="Hold"),),
                "allocations": (allocation("vision", spec={"active": False}),),
            },
            WaitReason.ALLOCATION_NOT_ACTIVE,
            id="an allocation that is not active",
        ),
        pytest.param(
            # pkg/cache/scheduler/clusterqueue.go, inactiveReason
            workload(pending("ClusterQueue vision is inactive")),
            {
                "queues": (
                    _with_condition(
                        queue("vision", 4, 0),
                        condition(
                            "Active",
                            False,
                            "Can't admit new workloads: references missing ResourceFlavor(s): a.",
                            "FlavorNotFound",
                        ),
                    ),
                )
            },
            WaitReason.QUEUE_UNUSABLE,
            id="a queue without its flavor",
        ),
        pytest.param(
            workload(lacks(4)),
            {"deployments": {"kueue-controller-manager": Deployment()}},
            WaitReason.KUEUE_DOWN,
            id="Kueue is down",
        ),
    ],
)
def test_why_a_queue_admits_nothing(
    item: Workload, changed: dict[str, Any], reason: WaitReason
) -> None:
    assert reasons(item, **changed)[0] is reason
