"""Writes and deletes the objects of guards, and private quota."""

from contextlib import suppress

from cede.api import guards, names
from cede.api.objects import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, Json
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists
from cede.kube.guards import delete_guard
from scheduler.actions import CreateGuard, DeleteGuard, JoinGuard, SetPrivateQuota
from scheduler.cession import guard_objects

GuardAction = CreateGuard | JoinGuard | DeleteGuard | SetPrivateQuota


async def perform(client: Client, action: GuardAction) -> None:
    """Raises ApiError; Conflict if the queue has another version than the plan knew."""
    match action:
        case CreateGuard():
            await _create(client, action)
        case JoinGuard():
            spec = guard_objects.joined(action.keys)
            body = {"metadata": {"resourceVersion": action.version}, "spec": spec}
            await client.patch(CLUSTER_QUEUES, ("", guards.queue_name(action.cession)), body)
        case DeleteGuard():
            await delete_guard(client, action.cession)
        case SetPrivateQuota():
            note = {names.PRIVATE_QUOTA: action.note or None}
            metadata: Json = {"resourceVersion": action.version, "annotations": note}
            spec = {"resourceGroups": list(action.resource_groups)}
            body = {"metadata": metadata, "spec": spec}
            await client.patch(CLUSTER_QUEUES, ("", action.queue), body)


async def _create(client: Client, action: CreateGuard) -> None:
    """Objects that exist already are left as they are."""
    name = action.cession
    objects = (
        (CLUSTER_QUEUES, guard_objects.cluster_queue(name, action.amounts)),
        (LOCAL_QUEUES, guard_objects.local_queue(name)),
        (JOBS, guard_objects.job(name, action.amounts, action.limit_s)),
    )
    for kind, body in objects:
        with suppress(AlreadyExists):
            namespace = body["metadata"].get("namespace", "")
            await client.create(kind, body, namespace=namespace)
