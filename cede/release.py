"""Taking Cede away: what `cede release` and `cede uninstall` do. Each may be said again."""

import asyncio
from collections.abc import Awaitable

from cede.api import kueue, names, objects
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.kube.client import ApiError, Client, NotFound

PATIENCE_S = 60.0
POD_SELECTOR = "app.kubernetes.io/part-of=cede"
"""The label of our pods in deploy/base."""
Outcome = tuple[list[str], list[str]]
"""(what was done, what failed), a sentence each."""


class Steps:
    """Goes on past what fails, and past what is not there."""

    def __init__(self) -> None:
        self.done, self.failed = list[str](), list[str]()

    async def take(self, step: Awaitable[object], of: str, says: str) -> None:
        try:
            await step
            self.done.append(says)
        except NotFound:
            return
        except ApiError as error:
            self.failed.append(f"{of}: {error}")


async def release(client: Client) -> Outcome:
    """Afterwards Kueue preempts by its own rules, whether or not any part of Cede is there.

    The policy first: a quota_controller or scheduler that is alive would undo the rest.
    """
    steps = Steps()

    async def patch(kind: objects.Kind, key: objects.Key, body: objects.Json, says: str) -> None:
        await steps.take(client.patch(kind, key, body), f"{kind.kind} {key[1]}", says)

    await patch(
        objects.POLICIES,
        ("", names.POLICY_NAME),
        {"spec": {"mode": "Observe"}},
        "ClusterPolicy: mode Observe",
    )
    within = await _own_tasks(client)
    for queue in (await client.list(objects.CLUSTER_QUEUES, dict, labels=names.MANAGED_SELECTOR))[0]:
        name = queue["metadata"]["name"]
        own = {
            "withinClusterQueue": within.get(name, "LowerPriority"),
            "reclaimWithinCohort": "Any",
        }
        stock = {"queueingStrategy": "BestEffortFIFO", "preemption": own}
        await patch(
            objects.CLUSTER_QUEUES,
            ("", name),
            {"spec": stock},
            f"ClusterQueue {name}: Kueue's own preemption",
        )
    for key in await held_back(client):
        await patch(
            objects.WORKLOADS,
            key,
            {"spec": {"active": True}},
            f"Workload {key[0]}/{key[1]}: may be admitted again",
        )
    return steps.done, steps.failed


async def _own_tasks(client: Client) -> dict[str, str]:
    """Allocation → whether its team's important jobs may take from its lesser ones, as its admin
    has said."""
    try:
        return {
            a.metadata.name: a.spec.preemptOwnTasks
            for a in (await client.list(objects.ALLOCATIONS, ComputeAllocation))[0]
        }
    except NotFound:
        # Cede's kinds are gone already
        return {}


async def uninstall(client: Client) -> Outcome:
    """Afterwards none of Cede's parts runs and nothing of ours waits for one: `kubectl delete -k`
    comes to its end. Jobs and quotas stay.

    An allocation carries our finalizer until it is drained. Once the quota_controller is gone
    nobody would take it off.
    """
    done, failed = await release(client)
    steps = Steps()
    for name in (names.QUOTA_CONTROLLER, names.SCHEDULER, names.WEBHOOK):
        scale = client.patch(
            objects.DEPLOYMENTS, (names.SYSTEM_NAMESPACE, name), {"spec": {"replicas": 0}}
        )
        await steps.take(scale, f"Deployment {name}", f"Deployment {name}: ended")
    if not await _gone(client):
        steps.failed.append(
            f"pods in namespace {names.SYSTEM_NAMESPACE} are still there after {PATIENCE_S:.0f} s"
        )
        return done + steps.done, failed + steps.failed
    try:
        allocations, _ = await client.list(objects.ALLOCATIONS, kueue.MetadataOnly)
    except NotFound:
        # its kind is gone already
        allocations = []
    for one in allocations:
        meta = one.metadata
        left = [each for each in meta.finalizers if each != names.ALLOCATION_FINALIZER]
        if len(left) < len(meta.finalizers):
            body = {"metadata": {"finalizers": left, "resourceVersion": meta.resourceVersion}}
            patch = client.patch(objects.ALLOCATIONS, meta.key, body)
            await steps.take(
                patch,
                f"ComputeAllocation {meta.name}",
                f"ComputeAllocation {meta.name}: may be deleted",
            )
    return done + steps.done, failed + steps.failed


async def _gone(client: Client) -> bool:
    """None of our pods is left: one that is on its way out would still put a finalizer back."""
    for _ in range(round(PATIENCE_S / 0.5)):
        if not (
            await client.list(
                objects.PODS, kueue.MetadataOnly, namespace=names.SYSTEM_NAMESPACE, labels=POD_SELECTOR
            )
        )[0]:
            return True
        await asyncio.sleep(0.5)
    return False


async def held_back(client: Client) -> list[tuple[str, str]]:
    """Workloads that a take-back stopped and whose return nobody has seen to."""
    try:
        cessions, _ = await client.list(objects.CESSIONS, Cession)
    except NotFound:
        # Cede's kinds are gone already
        return []
    stopped = {
        said.uid
        for c in cessions
        if not c.status.completionTime
        for said in c.status.targets
        if said.stopped
    }
    if not stopped:
        return []
    workloads, _ = await client.list(objects.WORKLOADS, kueue.Workload)
    return [
        w.metadata.key
        for w in workloads
        if not w.spec.active and w.metadata.labels.get(names.JOB_UID) in stopped
    ]
