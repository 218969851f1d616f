"""Reads one job and what explains it: its pods and events only when they may tell something."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede.api import kueue, names, objects
from cede.api.objects import Key, condition, is_true
from cede.api.pod_state import Event, ObservedPod
from cede.api.written_workload import WrittenWorkload
from cede.causes.snapshot import Snapshot
from cede.causes.workload_state import current
from cede.kube.errors import Forbidden, NotFound
from cede.reading.reader import Reader, read_around

if TYPE_CHECKING:
    from cede.kube.client import Client

POD_LABELS = {
    "Job": names.POD_JOB_NAME,
    "JobSet": names.JOB_SET_NAME,
}
"""Kind of the Workload's owner → the label of its pods that has the owner's name."""


async def read_explained(client: "Client", key: Key) -> tuple[Snapshot, list[str]]:
    """The Job or Workload of this name with its surroundings, and what could not be read.

    Raises Forbidden if the user may not list the Workloads of the namespace.
    """
    namespace, name = key
    reader = Reader(client)
    around = await read_around(reader, namespace)
    workloads, _ = await client.list(
        objects.WORKLOADS, WrittenWorkload, namespace=namespace, unreadable=reader.unreadable
    )
    own = [workload for workload in workloads if _is_named(workload, name)]
    job = await _job(client, (namespace, _job_name(own, name)))
    snapshot = replace(around, workloads=workloads, job=job)
    if own:
        snapshot = replace(snapshot, **await _details(reader, current(own), job, workloads))
    return reader.finished(snapshot), reader.warnings()


def _is_named(workload: kueue.Workload, name: str) -> bool:
    owners = {owner.name for owner in workload.metadata.ownerReferences}
    return name == workload.metadata.name or name in owners


def _job_name(workloads: Sequence[kueue.Workload], name: str) -> str:
    for workload in workloads:
        if workload.metadata.name == name:
            owners = workload.metadata.ownerReferences
            return next((owner.name for owner in owners if owner.kind == "Job"), name)
    return name


async def _job(client: "Client", key: Key) -> kueue.Job | None:
    try:
        return await client.get(objects.JOBS, kueue.Job, key)
    except (NotFound, Forbidden):
        return None


async def _details(
    reader: Reader,
    workload: kueue.Workload,
    job: kueue.Job | None,
    of_namespace: Sequence[kueue.Workload],
) -> dict[str, Any]:
    """The fields of a Snapshot that its state asks for."""
    conditions = workload.status.conditions
    if is_true(conditions, names.FINISHED) or not workload.spec.active:
        return {}
    if workload.status.admission is None:
        # who has what it lacks
        everywhere = await reader.all(objects.WORKLOADS, kueue.Workload)
        # the scheduler records why it waits about the Job, or the Workload of another kind
        item = job or workload
        events = await _events(reader, workload.metadata.namespace, item.metadata.uid)
        return {"workloads": everywhere or of_namespace, "events": events}
    ready = condition(conditions, names.PODS_READY)
    is_small = job is not None and names.SIZES in job.metadata.annotations
    if ready is not None and ready.status == "True" and not is_small:
        return {}
    return await _pods(reader, workload, job)


async def _pods(reader: Reader, workload: kueue.Workload, job: kueue.Job | None) -> dict[str, Any]:
    """Those of the job, and why its controller could not make more."""
    namespace = workload.metadata.namespace
    owners = [owner for owner in workload.metadata.ownerReferences if owner.kind in POD_LABELS]
    if not owners:
        return {}
    labels = f"{POD_LABELS[owners[0].kind]}={owners[0].name}"
    pods = await reader.all(objects.PODS, ObservedPod, namespace=namespace, labels=labels)
    if objects.PODS.plural in reader.forbidden:
        return {}
    facts: dict[str, Any] = {"pods": pods}
    if job is not None and job.status.active < job.spec.parallelism:
        facts["events"] = await _events(reader, namespace, job.metadata.uid)
    return facts


async def _events(reader: Reader, namespace: str, uid: str) -> list[Event]:
    """About the object with this uid."""
    fields = f"regarding.uid={uid}"
    return await reader.all(objects.EVENTS, Event, namespace=namespace, fields=fields)
