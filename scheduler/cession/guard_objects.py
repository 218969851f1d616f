"""PURE. The objects of a guard: a ClusterQueue, a LocalQueue and a Job with one gated pod.

A Job and not a bare Workload: Kueue takes quota back only from what a job reconciler stops, so
under its own preemption and at every timeout it ends a Job, but leaves a bare Workload its quota.
"""

from collections.abc import Iterable, Mapping

from cede.api import names
from cede.api.guards import queue_name
from cede.api.objects import Json
from cede.api.resources import FlavorResource, quantity

NO_PREEMPTION = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}


def cluster_queue(cession: str, amounts: Mapping[FlavorResource, int]) -> Json:
    """It is outside of the Cohort: its quota is real only after `joined`, when targets give it."""
    own = {"matchLabels": {"kubernetes.io/metadata.name": names.GUARD_NAMESPACE}}
    quotas = {key: {"nominalQuota": quantity(key[1], value)} for key, value in amounts.items()}
    return {
        "metadata": {"name": queue_name(cession), "labels": _labels(cession)},
        "spec": {
            "namespaceSelector": own,
            "preemption": NO_PREEMPTION,
            "resourceGroups": _groups(quotas),
        },
    }


def joined(keys: Iterable[FlavorResource]) -> Json:
    """The changed spec of a guard's queue that has admitted it: in the Cohort, without quota. What
    the guard uses is then missing in the Cohort."""
    nothing = {"nominalQuota": "0", "borrowingLimit": "0", "lendingLimit": "0"}
    return {
        "cohortName": names.COHORT,
        "resourceGroups": _groups(dict.fromkeys(keys, nothing)),
    }


def _groups(quotas: Mapping[FlavorResource, Json]) -> list[Json]:
    """One group for each flavor: Kueue allows a flavor, and a resource, in one group only."""
    by_flavor: dict[str, list[Json]] = {}
    for (flavor, resource), amounts in sorted(quotas.items()):
        by_flavor.setdefault(flavor, []).append({"name": resource, **amounts})
    return [_group(flavor, resources) for flavor, resources in by_flavor.items()]


def _group(flavor: str, resources: list[Json]) -> Json:
    return {
        "coveredResources": [resource["name"] for resource in resources],
        "flavors": [{"name": flavor, "resources": resources}],
    }


def local_queue(cession: str) -> Json:
    return {"metadata": _metadata(cession), "spec": {"clusterQueue": queue_name(cession)}}


def job(cession: str, amounts: Mapping[FlavorResource, int], limit_s: int) -> Json:
    """Kueue deactivates it `limit_s` seconds after its admission, whoever is alive then."""
    metadata = _metadata(cession)
    metadata["labels"] |= {names.QUEUE_NAME: cession, names.MAX_EXECUTION_TIME: str(limit_s)}
    requests = {
        resource: quantity(resource, amount) for (_, resource), amount in amounts.items() if amount
    }
    pod = {
        "restartPolicy": "Never",
        "schedulingGates": [{"name": names.GUARD}],
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "guard",
                "image": "none",
                "resources": {"requests": requests, "limits": requests},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
    spec = {"parallelism": 1, "completions": 1, "suspend": True, "template": {"spec": pod}}
    return {"metadata": metadata, "spec": spec}


def _metadata(cession: str) -> Json:
    return {"name": cession, "namespace": names.GUARD_NAMESPACE, "labels": _labels(cession)}


def _labels(cession: str) -> dict[str, str]:
    return {names.MANAGED_BY: names.MANAGED_BY_CEDE, names.GUARD: cession}
