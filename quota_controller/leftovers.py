"""Undoes what a scheduler left behind that does not lead any more."""

import logging
from collections.abc import Awaitable

from cede.api import names
from cede.api.kueue import MetadataOnly
from cede.api.objects import CLUSTER_QUEUES, WORKLOADS, Json, Key
from cede.kube.client import Client
from cede.kube.errors import ApiError
from cede.kube.gather import gather_bounded
from quota_controller.desired.desired_object import LiveObjects

log = logging.getLogger("quota_controller")
HELD_BACK = (names.STOPPED_FOR,)
"""Labels of Workloads that are inactive until a Cession ends."""


async def undo(client: Client, live: LiveObjects) -> None:
    """Stopped jobs may run again, and no queue is StrictFIFO. What fails is logged, and tried again
    in the next pass. A scheduler that comes back finds its Cessions and plans anew."""
    for label in HELD_BACK:
        await _logged(_activate_all(client, label))
    strict = [obj for (kind, _), obj in live.items() if kind == CLUSTER_QUEUES and _is_strict(obj)]
    await gather_bounded(_logged(_restore(client, queue)) for queue in strict)


async def _activate_all(client: Client, label: str) -> None:
    workloads, _ = await client.list(WORKLOADS, MetadataOnly, labels=label)
    await gather_bounded(
        _logged(_activate(client, workload.metadata.key, workload.metadata.uid, label))
        for workload in workloads
    )


async def _activate(client: Client, key: Key, uid: str, label: str) -> None:
    metadata = {"uid": uid, "labels": {label: None}}
    await client.patch(WORKLOADS, key, {"metadata": metadata, "spec": {"active": True}})
    log.info("workload may run again", extra={"workload": "/".join(key)})


def _is_strict(queue: Json) -> bool:
    return bool(queue["spec"].get("queueingStrategy") == "StrictFIFO")


async def _restore(client: Client, queue: Json) -> None:
    metadata = queue["metadata"]
    body = {
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "spec": {"queueingStrategy": "BestEffortFIFO"},
    }
    await client.patch(CLUSTER_QUEUES, ("", metadata["name"]), body)
    log.info("queue restored", extra={"queue": metadata["name"]})


async def _logged(write: Awaitable[None]) -> None:
    try:
        await write
    except ApiError as error:
        log.warning("leftover not undone", extra={"reason": str(error)})
