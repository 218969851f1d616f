"""Removes Cede from a cluster: `cede uninstall`. It can be run again, and at any time: before the
manifests are deleted, while that waits, and after."""

import asyncio
from contextlib import suppress

from cede.api import job_progress, names
from cede.api.kueue import MetadataOnly
from cede.api.objects import ALLOCATIONS, CONFIG_MAPS, DEPLOYMENTS, PODS, Kind
from cede.kube.client import Client
from cede.kube.errors import ApiError, NotFound
from cede.release import POLL_INTERVAL_S, release_all
from cede.release_steps import Outcome, Steps, Tell

STOP_TIMEOUT_S = 60.0
STOPPED = (names.QUOTA_CONTROLLER, names.SCHEDULER, names.WEBHOOK)
"""The Deployments that are scaled to 0: the ledger and the page change nothing."""
COMPONENT_LABEL = "app.kubernetes.io/name"
CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
ADMISSION_POLICIES = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
RULES = Kind("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule")
RUNTIMES = Kind(
    "trainer.kubeflow.org",
    "v1alpha1",
    "clustertrainingruntimes",
    "ClusterTrainingRuntime",
    namespaced=False,
)
ADDITIONS: dict[str, tuple[Kind, str]] = {
    "dashboard": (DEPLOYMENTS, names.DASHBOARD),
    "ledger": (DEPLOYMENTS, names.LEDGER),
    "leader-worker-set": (ADMISSION_POLICIES, "cede-group-servers"),
    "monitoring": (RULES, "cede"),
    "trainer": (RUNTIMES, "cede-torch"),
}
"""An object by which each folder of deploy/components is known, wherever it was applied."""


async def uninstall(client: Client, tell: Tell) -> Outcome:
    """No component runs and no finalizer of ours is left afterwards: `kubectl delete -k` completes,
    also one that was started before and waits.

    Jobs and quotas stay; the notes of their progress do not. An allocation has our finalizer until
    it is drained, and without the quota_controller nothing else would remove it.
    """
    steps = Steps(client, tell)
    await release_all(client, steps)
    for name in STOPPED:
        key = (names.SYSTEM_NAMESPACE, name)
        await steps.patch(
            DEPLOYMENTS, key, {"spec": {"replicas": 0}}, f"Deployment {name}: scaled to 0"
        )
    # a quota_controller that is still stopping would add its finalizer again
    if await _pods_have_ended(client):
        # what a pass of the scheduler wrote after the first time, and of the quota_controller
        again = Steps(client, tell)
        await release_all(client, again, opens_queues=True)
        steps.done += [sentence for sentence in again.done if sentence not in steps.done]
        steps.failed += again.failed
        await _remove_finalizers(client, steps)
        await _remove_progress(client, steps)
    else:
        steps.failed.append(
            f"pods in namespace {names.SYSTEM_NAMESPACE} still run after {STOP_TIMEOUT_S:.0f} s: "
            "if their node is lost, `kubectl delete pod --force`"
        )
    await _tell_what_stays(client, tell)
    return steps.outcome


async def _pods_have_ended(client: Client) -> bool:
    """Waits until no pod of `STOPPED` is left; False after `STOP_TIMEOUT_S`."""
    for _ in range(round(STOP_TIMEOUT_S / POLL_INTERVAL_S)):
        pods, _ = await client.list(
            PODS, MetadataOnly, namespace=names.SYSTEM_NAMESPACE, labels=names.PART_OF_CEDE
        )
        components = {pod.metadata.labels.get(COMPONENT_LABEL) for pod in pods}
        if components.isdisjoint(STOPPED):
            return True
        await asyncio.sleep(POLL_INTERVAL_S)
    return False


async def _tell_what_stays(client: Client, tell: Tell) -> None:
    """What the manifests would take with them, and what they would leave behind."""
    for place in await _places(client, CLAIMS, names.LEDGER):
        tell(
            f"PersistentVolumeClaim {place} has the ledger's database, and is deleted with the "
            "ledger and with its namespace: make a backup first (docs/ledger.md)"
        )
    commands = [
        f"`kubectl delete -k deploy/components/{folder}`"
        for folder, (kind, name) in ADDITIONS.items()
        if await _places(client, kind, name)
    ]
    if commands:
        tell(
            "the deletion of the manifests leaves parts of the components that are here: before "
            f"it, run {', '.join(commands)}"
        )


async def _places(client: Client, kind: Kind, name: str) -> list[str]:
    """`namespace/name` of each object of this name that is Cede's."""
    objects = list[MetadataOnly]()
    # the cluster does not have the kind, or the user may not list it
    with suppress(ApiError):
        fields = f"metadata.name={name}"
        objects, _ = await client.list(kind, MetadataOnly, labels=names.PART_OF_CEDE, fields=fields)
    return ["/".join(obj.metadata.key) for obj in objects]


async def _remove_progress(client: Client, steps: Steps) -> None:
    """What a scheduler that runs would note again."""
    try:
        config_maps, _ = await client.list(CONFIG_MAPS, MetadataOnly, fields=job_progress.FIELDS)
    except ApiError as error:
        steps.failed.append(f"ConfigMaps {names.PROGRESS}: {error}")
        return
    for config_map in config_maps:
        key = config_map.metadata.key
        place = "/".join(key)
        await steps.run(
            client.delete(CONFIG_MAPS, key),
            f"ConfigMap {place}",
            f"ConfigMap {place}: deleted",
        )


async def _remove_finalizers(client: Client, steps: Steps) -> None:
    try:
        allocations, _ = await client.list(ALLOCATIONS, MetadataOnly)
    except NotFound:
        # the CRDs of Cede are deleted already
        return
    for allocation in allocations:
        metadata = allocation.metadata
        remaining = [
            finalizer
            for finalizer in metadata.finalizers
            if finalizer != names.ALLOCATION_FINALIZER
        ]
        result = "its deletion ends" if metadata.deletionTimestamp else "may be deleted"
        if len(remaining) < len(metadata.finalizers):
            changed = {"finalizers": remaining, "resourceVersion": metadata.resourceVersion}
            await steps.patch(
                ALLOCATIONS,
                metadata.key,
                {"metadata": changed},
                f"ComputeAllocation {metadata.name}: {result}",
            )
