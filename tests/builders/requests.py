"""Accounts, and objects of their requests, for tests of admission policies."""

import json
from typing import Any

from cede.api import names
from cede.api.objects import Json
from scheduler.cession import guard_objects

ACCOUNT = "system:serviceaccount:cede-system:"
QUOTA_CONTROLLER = f"{ACCOUNT}cede-quota-controller"
SCHEDULER = f"{ACCOUNT}cede-scheduler"
WEBHOOK = f"{ACCOUNT}cede-webhook"
GPU_FLAVOR = ("a100", names.GPU)
NOTE = json.dumps({"cession": "c-1", "originals": []})


def obj(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Json:
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def groups(nominal: str = "4", **more: str) -> list[Json]:
    quota = {"name": names.GPU, "nominalQuota": nominal, "borrowingLimit": "2"} | more
    flavors = [{"name": "a100", "resources": [quota]}]
    return [{"coveredResources": [names.GPU], "flavors": flavors}]


def queue(**spec: Any) -> Json:
    made = obj("kueue.x-k8s.io/v1beta2", "ClusterQueue", "vision")
    made["metadata"]["labels"] = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
    fields = {"cohortName": names.COHORT, "queueingStrategy": "BestEffortFIFO", "preemption": {}}
    made["spec"] = fields | {"namespaceSelector": {}, "resourceGroups": groups()} | spec
    return made


def private(nominal: str = "6") -> Json:
    """With a note."""
    made = queue(resourceGroups=groups(nominal, lendingLimit="0"))
    made["metadata"]["annotations"] = {names.PRIVATE_QUOTA: NOTE}
    return made


def guard() -> Json:
    made = guard_objects.cluster_queue("c-1", {GPU_FLAVOR: 4})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"} | made
