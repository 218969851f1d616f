"""Returns to Kueue's own preemption: `cede release`. It can be run again."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from cede.api import guards, names, private_quota, sizes
from cede.api.kueue import MetadataOnly, Pod
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    POLICIES,
    WORKLOADS,
    Json,
    Key,
    Kind,
    rfc3339,
    unix,
)
from cede.api.pod_owner import END_TIMEOUT_S, Owner, job_owners, pod_owner
from cede.api.servers import Deployment, LeaderWorkerSet
from cede.api.workload_identity import controller, identity
from cede.kube.client import Client
from cede.kube.errors import NotFound
from cede.release_steps import Outcome, Steps, Tell

POLL_INTERVAL_S = 0.5


async def release(client: Client, tell: Tell) -> Outcome:
    """Kueue preempts by its own rules afterwards, whether or not a component of Cede runs. Jobs
    that were stopped wait at their old places, and none has pods that still save.

    The policy comes first: otherwise a running quota_controller or scheduler would undo the rest.
    """
    steps = Steps(client, tell)
    await release_all(client, steps)
    return steps.outcome


async def release_all(client: Client, steps: Steps, *, opens_queues: bool = False) -> None:
    """All of it that `steps` can do. With `opens_queues`, the queue of an allocation that is being
    deleted admits jobs again: nobody will delete it once it is drained."""
    await steps.patch(
        POLICIES,
        ("", names.POLICY_NAME),
        {"spec": {"mode": "Observe"}},
        "ClusterPolicy: mode Observe",
    )
    specs = await _allocation_specs(client)
    queues = list[Json]()
    # Kueue is removed already
    with suppress(NotFound):
        queues, _ = await client.list(CLUSTER_QUEUES, dict, labels=names.MANAGED_SELECTOR)
    guarded = list[str]()
    for queue in queues:
        name = queue["metadata"]["name"]
        cession = queue["metadata"]["labels"].get(names.GUARD)
        if cession:
            guarded.append(cession)
            continue
        allocation = specs.get(name, {})
        spec: Json = {
            "queueingStrategy": "BestEffortFIFO",
            "preemption": {
                "withinClusterQueue": _preempts_own(allocation),
                "reclaimWithinCohort": "Any",
            },
        }
        result = f"ClusterQueue {name}: Kueue's own preemption"
        if opens_queues and _is_held_by_cede(queue, allocation):
            spec["stopPolicy"] = "None"
            result += ", and it admits jobs again"
        body: Json = {"spec": spec}
        if private_quota.read(queue):
            body["metadata"] = {"annotations": {names.PRIVATE_QUOTA: None}}
            spec["resourceGroups"] = private_quota.groups_before(queue)
        await steps.patch(CLUSTER_QUEUES, ("", name), body, result)
    # after private quota, which would be more than there is without them
    for cession in guarded:
        await _delete_guard(client, steps, cession)
    await _let_run_again(client, steps)
    await _give_back_replicas(client, steps)


async def _delete_guard(client: Client, steps: Steps, cession: str) -> None:
    """What it kept is free then; its preemptor waits in its queue like any other."""
    for kind, key in guards.objects(cession):
        result = f"{kind.kind} {key[1]}: deleted, it kept capacity for Cession {cession}"
        await steps.run(client.delete(kind, key), f"{kind.kind} {key[1]}", result)


async def _give_back_replicas(client: Client, steps: Steps) -> None:
    """The servers that have ceded ask for all their replicas again, and whoever may scales them."""
    for kind, server in await _ceded_servers(client):
        noted = sizes.parse_one(server.metadata.annotations.get(names.DESIRED_SIZE, ""))
        replicas = max(server.spec.replicas, noted or 0)
        notes = {names.DESIRED_SIZE: None, names.SHRUNK_AT: None}
        metadata = {"labels": {names.SERVER: names.WHOLE}, "annotations": notes}
        namespace, name = server.metadata.key
        await steps.patch(
            kind,
            server.metadata.key,
            {"metadata": metadata, "spec": {"replicas": replicas}},
            f"{kind.kind} {namespace}/{name}: has {replicas} replicas again",
        )


async def _ceded_servers(client: Client) -> list[tuple[Kind, Deployment | LeaderWorkerSet]]:
    labels = f"{names.SERVER}={names.CEDED}"
    deployments, _ = await client.list(DEPLOYMENTS, Deployment, labels=labels)
    sets = list[LeaderWorkerSet]()
    # not every cluster has the kind
    with suppress(NotFound):
        sets, _ = await client.list(LEADER_WORKER_SETS, LeaderWorkerSet, labels=labels)
    return [
        *((DEPLOYMENTS, deployment) for deployment in deployments),
        *((LEADER_WORKER_SETS, item) for item in sets),
    ]


async def _allocation_specs(client: Client) -> dict[str, Json]:
    """By name; of those too that this version cannot read as a whole."""
    try:
        allocations, _ = await client.list(ALLOCATIONS, dict)
    except NotFound:
        # the CRDs of Cede are deleted already
        return {}
    return {item["metadata"]["name"]: item.get("spec") or {} for item in allocations}


def _preempts_own(allocation: Json) -> str:
    """Whether its team's jobs may preempt each other, as its administrator set it."""
    return str(allocation.get("preemptOwnTasks", "LowerPriority"))


def _is_held_by_cede(queue: Json, allocation: Json) -> bool:
    """Whether the quota_controller drained the queue, such as one whose allocation is gone."""
    on_hold = queue["spec"].get("stopPolicy", "None") != "None"
    return on_hold and allocation.get("active", True) is not False


async def _let_run_again(client: Client, steps: Steps) -> None:
    """The Workloads that were stopped for a Cession may be admitted again. Each waits until its
    pods have ended: new ones would continue from what the old ones have not saved yet."""
    began = time.time()
    tried = set[Key]()
    while True:
        workloads = list[MetadataOnly]()
        # Kueue is removed already
        with suppress(NotFound):
            workloads, _ = await client.list(WORKLOADS, MetadataOnly, labels=names.STOPPED_FOR)
        stopped = [workload for workload in workloads if workload.metadata.key not in tried]
        saving = await _saving(client, stopped, began)
        for namespace, name in {workload.metadata.key for workload in stopped} - saving.keys():
            await steps.patch(
                WORKLOADS,
                (namespace, name),
                {"metadata": {"labels": {names.STOPPED_FOR: None}}, "spec": {"active": True}},
                f"Workload {namespace}/{name}: may be admitted again",
            )
            tried.add((namespace, name))
        if not saving:
            return
        steps.tell_once(_why_it_waits(saving))
        await asyncio.sleep(POLL_INTERVAL_S)


async def _saving(
    client: Client, workloads: Iterable[MetadataOnly], began: float
) -> dict[Key, float]:
    """The Workloads whose pods may still save, and until when they are waited for, in Unix seconds.
    Pods that are not told to end yet count as if they had been when the command `began`."""
    keys = dict[Owner, Key]()
    for workload in workloads:
        key = workload.metadata.key
        keys |= dict.fromkeys(job_owners(key, identity(workload)), key)
    saving = dict[Key, float]()
    for namespace in {owner.namespace for owner in keys}:
        keys |= await _of_jobs_made(client, namespace, keys)
        pods, _ = await client.list(PODS, Pod, namespace=namespace)
        for pod in filter(_is_on_node, pods):
            ends_by = (unix(pod.metadata.deletionTimestamp) or began) + END_TIMEOUT_S
            stopped = keys.get(pod_owner(pod))
            if stopped and time.time() < ends_by:
                saving[stopped] = max(ends_by, saving.get(stopped, 0.0))
    return saving


async def _of_jobs_made(
    client: Client, namespace: str, keys: Mapping[Owner, Key]
) -> dict[Owner, Key]:
    """The Jobs that a stopped object made, such as an AppWrapper, and its Workload."""
    jobs, _ = await client.list(JOBS, MetadataOnly, namespace=namespace)
    made = dict[Owner, Key]()
    for job in jobs:
        maker = controller(job)
        stopped = keys.get(Owner(namespace, uid=maker.uid)) if maker else None
        if stopped:
            made[Owner(namespace, uid=job.metadata.uid)] = stopped
    return made


def _is_on_node(pod: Pod) -> bool:
    return bool(pod.spec.nodeName) and pod.status.phase in ("Pending", "Running")


def _why_it_waits(saving: Mapping[Key, float]) -> str:
    workloads = ", ".join(sorted("/".join(key) for key in saving))
    until = rfc3339(max(saving.values()))
    return f"waiting until the pods of {workloads} have saved and ended, {until} at the latest"
