"""A small Kueue with the Job controller, on the objects of the fake API server."""

import time
from typing import Any

from cede.api import names
from cede.api.objects import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    WORKLOADS,
    Json,
    Key,
    condition,
    is_true,
    rfc3339,
)
from tests.fakes.api_server import ApiServer
from tests.fakes.job_controller import GPU, key_of, make_pods, owner_reference, template_of
from tests.fakes.kueue_quota import Quota

FLAVOR = "a100"
IN_USE = "kueue.x-k8s.io/resource-in-use"


class Kueue:
    """Admits what fits, follows shrinks, stops inactive Workloads, grows by slices.

    In a StrictFIFO queue it tries only the first active Workload, and keeps capacity for it within
    the queue's nominal quota. The pods of what it admits are ready at once.

    Like the real one it is level-triggered: each pass looks at everything.
    """

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        # within one pass: quota, the LocalQueues, and the Workloads that a pending slice replaces
        self._quota = Quota([])
        self._queues = dict[Key, str]()
        self._sliced = set[Key]()

    def reconcile(self) -> None:
        self._make_workloads()
        workloads = self.server.objects(WORKLOADS)
        self._sliced = {key for key in map(self._replaces, workloads) if key}
        for workload in workloads:
            self._follow_job(workload)
        self._read_queues()
        pending = [workload for workload in self.server.objects(WORKLOADS) if self._waits(workload)]
        pending.sort(key=lambda w: (-w["spec"]["priority"], w["metadata"]["creationTimestamp"]))
        strict = self._observe_queues()
        for name in strict:
            head = next((w for w in pending if self._queue_of(w) == name), None)
            if head and not self._admit_if_it_fits(head):
                self._quota.reserve(name, _amount(head))
                self._is_tried(head)
        for workload in pending:
            if self._queue_of(workload) not in strict:
                self._admit_if_it_fits(workload)
        granted = {_owner(workload)["uid"]: _count(workload) for workload in self._with_quota()}
        make_pods(self.server, granted)

    def used(self) -> int:
        self._read_queues()
        return self._quota.used.total()

    # --- queues -----------------------------------------------------------------------------------
    def _read_queues(self) -> None:
        self._quota = Quota(self.server.objects(CLUSTER_QUEUES))
        self._queues = {
            key_of(queue): queue["spec"]["clusterQueue"]
            for queue in self.server.objects(LOCAL_QUEUES)
        }
        for workload in self._with_quota():
            self._quota.used[workload["status"]["admission"]["clusterQueue"]] += _amount(workload)

    def _queue_of(self, workload: Json) -> str:
        """Empty if one of its queues does not exist."""
        namespace = workload["metadata"]["namespace"]
        name = self._queues.get((namespace, workload["spec"]["queueName"]), "")
        return name if name in self._quota.nominal else ""

    def _waits(self, workload: Json) -> bool:
        is_over = _has(workload, "QuotaReserved") or _has(workload, "Finished")
        is_active = workload["spec"].get("active", True)
        return is_active and not is_over and bool(self._queue_of(workload))

    def _observe_queues(self) -> list[str]:
        """Every queue gets its condition Active, and stays until nothing in it has quota. Returns
        the strict ones."""
        strict = list[str]()
        for queue in self.server.objects(CLUSTER_QUEUES):
            metadata = queue["metadata"]
            is_used = self._quota.used[metadata["name"]] > 0
            is_needed = is_used or not metadata.get("deletionTimestamp")
            active = {"type": names.ACTIVE, "status": "True"}
            active["observedGeneration"] = metadata["generation"]
            queue["status"] = {"conditions": [active]}
            queue["metadata"] = metadata | {"finalizers": [IN_USE] if is_needed else []}
            self.server.put(CLUSTER_QUEUES, queue)
            if queue["spec"].get("queueingStrategy") == "StrictFIFO":
                strict.append(metadata["name"])
        return strict

    def _admit_if_it_fits(self, workload: Json) -> bool:
        name = self._queue_of(workload)
        added = _amount(workload) - self._replaced_amount(workload)
        fits = added <= self._quota.available(name)
        if fits:
            self._admit(workload, name)
            self._quota.used[name] += added
        return fits

    def _is_tried(self, workload: Json) -> None:
        """Kueue says so once for each `spec`."""
        conditions = workload.get("status", {}).get("conditions", [])
        tried = condition(conditions, "QuotaReserved") or {}
        if tried.get("observedGeneration") != workload["metadata"]["generation"]:
            self._store(workload, "QuotaReserved", "False")

    def _with_quota(self) -> list[Json]:
        return [
            workload
            for workload in self.server.objects(WORKLOADS)
            if _has(workload, "QuotaReserved") and not _has(workload, "Finished")
        ]

    # --- jobs -------------------------------------------------------------------------------------
    def _make_workloads(self) -> None:
        """For Jobs that name a queue, such as those of guards."""
        for job in self.server.objects(JOBS):
            namespace, name = key_of(job)
            queue = job["metadata"].get("labels", {}).get(names.QUEUE_NAME)
            if queue and not self.server.get(WORKLOADS, (namespace, f"job-{name}")):
                workload = workload_of(job, f"job-{name}", priority=0)
                workload["spec"]["queueName"] = queue
                self.server.put(WORKLOADS, workload)

    def _follow_job(self, workload: Json) -> None:
        """Only a Job can be deleted or resized; what owns another Workload stays as it is."""
        is_job = _owner(workload)["kind"] == "Job"
        job = self._job(workload) if is_job else None
        if is_job and job is None:
            self.server.remove(WORKLOADS, key_of(workload))
        elif _has(workload, "Finished") or not _has(workload, "QuotaReserved"):
            return
        elif workload["spec"].get("active", True):
            if job:
                self._resize(workload, job)
        else:
            self._store(workload, "QuotaReserved", "False", admission=None)

    def _job(self, workload: Json) -> Json | None:
        owner = _owner(workload)
        job = self.server.get(JOBS, (workload["metadata"]["namespace"], owner["name"]))
        return job if job and job["metadata"]["uid"] == owner["uid"] else None

    def _resize(self, workload: Json, job: Json) -> None:
        size = job["spec"]["parallelism"]
        if size < _count(workload):
            workload["spec"]["podSets"][0]["count"] = size
            self.server.put(WORKLOADS, workload)
        elif size > _count(workload) and key_of(workload) not in self._sliced:
            replacing = {names.SLICE_REPLACEMENT_FOR: "/".join(key_of(workload))}
            name = f"{workload['metadata']['name']}-{job['metadata']['generation']}"
            priority = workload["spec"]["priority"]
            self.server.put(WORKLOADS, workload_of(job, name, priority, replacing))

    def _replaces(self, workload: Json) -> Key | None:
        """The Workload that this pending slice replaces."""
        note = workload["metadata"].get("annotations", {}).get(names.SLICE_REPLACEMENT_FOR)
        return tuple(note.split("/")) if note and not _has(workload, "QuotaReserved") else None

    def _replaced_amount(self, workload: Json) -> int:
        key = self._replaces(workload)
        replaced = self.server.get(WORKLOADS, key) if key else None
        return _amount(replaced) if replaced else 0

    def _admit(self, workload: Json, queue: str) -> None:
        if replaced := self._replaces(workload):
            self._store(self.server.get(WORKLOADS, replaced) or {}, "Finished", "True")
        assigned = {
            "name": "main",
            "count": _count(workload),
            "flavors": {GPU: FLAVOR},
            "resourceUsage": {GPU: str(_amount(workload))},
        }
        admission = {"clusterQueue": queue, "podSetAssignments": [assigned]}
        self._store(workload, "QuotaReserved", "True", admission=admission)

    def _store(self, workload: Json, type_: str, status: str, **fields: Any) -> None:
        changed: Json = {
            "type": type_,
            "status": status,
            "lastTransitionTime": rfc3339(time.time()),
            "observedGeneration": workload["metadata"]["generation"],
        }
        old = workload.get("status", {})
        others = [entry for entry in old.get("conditions", []) if entry["type"] != type_]
        new = {**old, **fields, "conditions": [*others, changed]}
        present = {name: value for name, value in new.items() if value is not None}
        self.server.put(WORKLOADS, workload | {"status": present})


def _count(workload: Json) -> int:
    return int(workload["spec"]["podSets"][0]["count"])


def _amount(workload: Json) -> int:
    """What all its pods request."""
    (container,) = workload["spec"]["podSets"][0]["template"]["spec"]["containers"]
    return _count(workload) * int(container["resources"]["requests"][GPU])


def _owner(workload: Json) -> Json:
    owner: Json = workload["metadata"]["ownerReferences"][0]
    return owner


def _has(body: Json, type_: str) -> bool:
    return is_true(body.get("status", {}).get("conditions", []), type_)


def workload_of(
    job: Json, name: str, priority: int = 50, annotations: dict[str, str] | None = None
) -> Json:
    metadata = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner_reference(job)],
        "annotations": annotations or {},
        "creationTimestamp": rfc3339(time.time()),
    }
    pods = [{"name": "main", "count": job["spec"]["parallelism"], "template": template_of(job)}]
    return {
        "metadata": metadata,
        "spec": {"queueName": "default", "active": True, "priority": priority, "podSets": pods},
    }
