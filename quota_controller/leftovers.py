"""Undoes what a scheduler left behind that does not lead any more."""

import logging
from collections.abc import Awaitable

from cede.api import names, private_quota
from cede.api.kueue import MetadataOnly
from cede.api.objects import CLUSTER_QUEUES, WORKLOADS, Json, Key
from cede.kube.client import Client
from cede.kube.errors import ApiError
from cede.kube.gather import gather_bounded
from cede.kube.guards import delete_guard
from quota_controller.desired.desired_object import LiveObjects

log = logging.getLogger("quota_controller")


async def undo(client: Client, live: LiveObjects) -> None:
    """Workloads that were stopped or set aside for a Cession may run again, no queue is StrictFIFO
    or has private quota, and no guard is left, so that Kueue's own preemption works. What fails is
    logged, and tried again in the next pass. A scheduler that comes back finds its Cessions and
    plans again."""
    await _logged(_activate_all(client))
    strict = [obj for (kind, _), obj in live.items() if kind == CLUSTER_QUEUES and _is_strict(obj)]
    await gather_bounded(_logged(_restore(client, queue)) for queue in strict)
    queues = [obj for (kind, _), obj in live.items() if kind == CLUSTER_QUEUES]
    private = [queue for queue in queues if private_quota.read(queue)]
    await gather_bounded(_logged(_remove_private_quota(client, queue)) for queue in private)
    if private:
        # without guards, private quota is more than there is: its end must be written before
        return
    for queue in queues:
        guarded = (queue["metadata"].get("labels") or {}).get(names.GUARD)
        if guarded:
            await _logged(_delete_guard(client, guarded))


async def _activate_all(client: Client) -> None:
    workloads, _ = await client.list(WORKLOADS, MetadataOnly, labels=names.STOPPED_FOR)
    await gather_bounded(
        _logged(_activate(client, workload.metadata.key, workload.metadata.uid))
        for workload in workloads
    )


async def _activate(client: Client, key: Key, uid: str) -> None:
    metadata = {"uid": uid, "labels": {names.STOPPED_FOR: None}}
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


async def _remove_private_quota(client: Client, queue: Json) -> None:
    """The plan has written the team's own quota: without a leader it keeps no private quota. The
    note goes in a later write, so it is there for as long as the quota may be private."""
    metadata = queue["metadata"]
    note = {names.PRIVATE_QUOTA: None}
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": note}}
    await client.patch(CLUSTER_QUEUES, ("", metadata["name"]), body)
    log.info("private quota removed", extra={"queue": metadata["name"]})


async def _delete_guard(client: Client, cession: str) -> None:
    await delete_guard(client, cession)
    log.info("guard deleted", extra={"cession": cession})


async def _logged(write: Awaitable[None]) -> None:
    try:
        await write
    except ApiError as error:
        log.warning("leftover not undone", extra={"reason": str(error)})
