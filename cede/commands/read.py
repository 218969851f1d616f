"""Reads the objects that a report needs."""

from typing import TYPE_CHECKING, Any

from cede.api import kueue, names, objects
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.objects import Key
from cede.api.policy import ClusterPolicy
from cede.commands.command import CommandFailed
from cede.kube.errors import Forbidden, NotFound, Unreadable
from cede.kube.failures import failure_sentence
from cede.report.snapshot import COMPONENT_BY_LEASE, Snapshot

if TYPE_CHECKING:
    from cede.kube.client import Client


async def read_snapshot(client: "Client", key: Key | None = None) -> Snapshot:
    """Reads what a report needs; with `key`, also that Job or Workload and what surrounds it."""
    errors = list[Unreadable]()
    policies, _ = await client.list(objects.POLICIES, ClusterPolicy, unreadable=errors)
    facts: dict[str, Any] = {"policy": policies[0] if policies else None}
    facts["allocations"], _ = await client.list(
        objects.ALLOCATIONS, ComputeAllocation, unreadable=errors
    )
    facts["cessions"], _ = await client.list(objects.CESSIONS, Cession, unreadable=errors)
    facts["queues"], _ = await client.list(
        objects.CLUSTER_QUEUES, kueue.ClusterQueue, unreadable=errors
    )
    facts["leases"] = await read_leases(client)
    if key is not None:
        facts |= await _around_job(client, key, errors)
    return Snapshot(**facts, unreadable=[failure_sentence(error) for error in errors])


async def read_leases(client: "Client") -> dict[str, kueue.Lease | None]:
    """The leases by name; without those that the user may not read, None for a missing one."""
    leases: dict[str, kueue.Lease | None] = {}
    for name in COMPONENT_BY_LEASE:
        key = (names.SYSTEM_NAMESPACE, name)
        try:
            leases[name] = await client.get(objects.LEASES, kueue.Lease, key)
        except NotFound:
            leases[name] = None
        except Forbidden:
            continue
    return leases


async def read_job(client: "Client", key: Key) -> kueue.Job:
    """The Job. Raises CommandFailed that says where to look when there is none."""
    try:
        return await client.get(objects.JOBS, kueue.Job, key)
    except NotFound as error:
        namespace, name = key
        raise CommandFailed(
            f"there is no Job {name} in namespace {namespace}: see `cede jobs -n {namespace}`"
        ) from error


async def _around_job(client: "Client", key: Key, unreadable: list[Unreadable]) -> dict[str, Any]:
    """The fields of a Snapshot that only `cede explain` needs."""
    namespace, name = key
    workloads, _ = await client.list(
        objects.WORKLOADS, kueue.Workload, namespace=namespace, unreadable=unreadable
    )
    local_queues, _ = await client.list(
        objects.LOCAL_QUEUES, kueue.LocalQueue, namespace=namespace, unreadable=unreadable
    )
    job_name = name
    for workload in workloads:
        if workload.metadata.name == name:
            owners = workload.metadata.ownerReferences
            job_name = next((owner.name for owner in owners if owner.kind == "Job"), name)
    try:
        job = await client.get(objects.JOBS, kueue.Job, (namespace, job_name))
    except NotFound:
        job = None
    return {"workloads": workloads, "local_queues": local_queues, "job": job}
