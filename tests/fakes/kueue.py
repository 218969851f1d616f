"""A small Kueue with the Job controller, on the objects of the fake API server."""

import time
from collections import Counter, defaultdict
from typing import Any

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS, Json, Key, is_true, rfc3339
from tests.fakes.api_server import ApiServer
from tests.fakes.runtime import loopback_address

GPU = "nvidia.com/gpu"
FLAVOR = "a100"
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}]}}
READY = {"type": "Ready", "status": "True"}
# annotation of a test's Job: the address of its pods
ADDRESS = "test/address"
# no runtime answers there
SILENT_ADDRESS = loopback_address(2)


class Kueue:
    """Admits what fits into `total`, follows shrinks, stops inactive Workloads, grows by slices.

    In a StrictFIFO queue it tries only the first active Workload, and keeps capacity for it within
    the queue's nominal quota. It also makes the pods, all ready at once.

    Like the real one it is level-triggered: each pass looks at everything.
    """

    def __init__(self, server: ApiServer, total: int) -> None:
        self.server = server
        self.total = total
        # within one pass: what each team uses, and the Workloads that a pending slice replaces
        self._used = Counter[str]()
        self._sliced = set[Key]()

    def reconcile(self) -> None:
        workloads = self.server.objects(WORKLOADS)
        self._sliced = {key for key in map(self._replaces, workloads) if key}
        for workload in workloads:
            self._follow_job(workload)
        self._used = self._used_by_team()
        strict = self._observe_queues()
        pending = [
            workload
            for workload in self.server.objects(WORKLOADS)
            if not _has(workload, "QuotaReserved")
            and not _has(workload, "Finished")
            and workload["spec"].get("active", True)
        ]
        pending.sort(key=lambda w: (-w["spec"]["priority"], w["metadata"]["creationTimestamp"]))
        kept = 0
        for name, nominal in strict.items():
            head = next((w for w in pending if w["metadata"]["namespace"] == name), None)
            pending = [w for w in pending if w["metadata"]["namespace"] != name]
            if head and not self._admit_if_it_fits(head, kept) and _count(head) <= nominal:
                kept += max(0, min(_count(head), nominal - self._used[name]))
        for workload in pending:
            self._admit_if_it_fits(workload, kept)
        self._make_pods()

    def _observe_queues(self) -> dict[str, int]:
        """Every queue gets its condition Active. Returns the nominal quota of the strict ones."""
        strict = dict[str, int]()
        for queue in self.server.objects(CLUSTER_QUEUES):
            active = {"type": names.ACTIVE, "status": "True"}
            active["observedGeneration"] = queue["metadata"]["generation"]
            self.server.put(CLUSTER_QUEUES, queue | {"status": {"conditions": [active]}})
            if queue["spec"].get("queueingStrategy") == "StrictFIFO":
                groups = queue["spec"]["resourceGroups"]
                nominal = groups[0]["flavors"][0]["resources"][0]["nominalQuota"] if groups else 0
                strict[queue["metadata"]["name"]] = int(nominal)
        return strict

    def _admit_if_it_fits(self, workload: Json, kept: int) -> bool:
        added = _count(workload) - self._replaced_count(workload)
        fits = self._used.total() + kept + added <= self.total
        if fits:
            self._admit(workload)
            self._used[workload["metadata"]["namespace"]] += added
        return fits

    def used(self) -> int:
        return self._used_by_team().total()

    def _used_by_team(self) -> Counter[str]:
        used = Counter[str]()
        for workload in self._with_quota():
            used[workload["metadata"]["namespace"]] += _count(workload)
        return used

    def _with_quota(self) -> list[Json]:
        return [
            workload
            for workload in self.server.objects(WORKLOADS)
            if _has(workload, "QuotaReserved") and not _has(workload, "Finished")
        ]

    def _follow_job(self, workload: Json) -> None:
        """Only a Job can be deleted or resized; what owns another Workload stays as it is."""
        is_job = workload["metadata"]["ownerReferences"][0]["kind"] == "Job"
        job = self._job(workload) if is_job else None
        if is_job and job is None:
            self.server.remove(WORKLOADS, _key(workload))
        elif _has(workload, "Finished") or not _has(workload, "QuotaReserved"):
            return
        elif workload["spec"].get("active", True):
            if job:
                self._resize(workload, job)
        else:
            self._store(workload, "QuotaReserved", "False", admission=None)

    def _job(self, workload: Json) -> Json | None:
        owner = workload["metadata"]["ownerReferences"][0]
        job = self.server.get(JOBS, (workload["metadata"]["namespace"], owner["name"]))
        return job if job and job["metadata"]["uid"] == owner["uid"] else None

    def _resize(self, workload: Json, job: Json) -> None:
        size = job["spec"]["parallelism"]
        if size < _count(workload):
            workload["spec"]["podSets"][0]["count"] = size
            self.server.put(WORKLOADS, workload)
        elif size > _count(workload) and _key(workload) not in self._sliced:
            replacing = {names.SLICE_REPLACEMENT_FOR: "/".join(_key(workload))}
            name = f"{workload['metadata']['name']}-{job['metadata']['generation']}"
            priority = workload["spec"]["priority"]
            self.server.put(WORKLOADS, workload_of(job, name, priority, replacing))

    def _replaces(self, workload: Json) -> Key | None:
        """The Workload that this pending slice replaces."""
        note = workload["metadata"].get("annotations", {}).get(names.SLICE_REPLACEMENT_FOR)
        return tuple(note.split("/")) if note and not _has(workload, "QuotaReserved") else None

    def _replaced_count(self, workload: Json) -> int:
        key = self._replaces(workload)
        replaced = self.server.get(WORKLOADS, key) if key else None
        return _count(replaced) if replaced else 0

    def _admit(self, workload: Json) -> None:
        if replaced := self._replaces(workload):
            self._store(self.server.get(WORKLOADS, replaced) or {}, "Finished", "True")
        count = _count(workload)
        assigned = {
            "name": "main",
            "count": count,
            "flavors": {GPU: FLAVOR},
            "resourceUsage": {GPU: str(count)},
        }
        # each team's queue has the name of its namespace
        queue = workload["metadata"]["namespace"]
        admission = {"clusterQueue": queue, "podSetAssignments": [assigned]}
        self._store(workload, "QuotaReserved", "True", admission=admission)

    def _store(self, workload: Json, condition: str, status: str, **fields: Any) -> None:
        changed = {"type": condition, "status": status, "lastTransitionTime": rfc3339(time.time())}
        old = workload.get("status", {})
        others = [entry for entry in old.get("conditions", []) if entry["type"] != condition]
        new = {**old, **fields, "conditions": [*others, changed]}
        present = {name: value for name, value in new.items() if value is not None}
        self.server.put(WORKLOADS, workload | {"status": present})

    # --- the Job controller -----------------------------------------------------------------------
    def _make_pods(self) -> None:
        granted = {
            workload["metadata"]["ownerReferences"][0]["uid"]: _count(workload)
            for workload in self._with_quota()
        }
        jobs = self.server.objects(JOBS)
        self._remove_orphans({job["metadata"]["uid"] for job in jobs})
        existing = defaultdict[Key, set[Key]](set)
        for key in map(_key, self.server.objects(PODS)):
            existing[key[0], key[1].rsplit("-", 1)[0]].add(key)
        for job in jobs:
            count = min(granted.get(job["metadata"]["uid"], 0), job["spec"]["parallelism"])
            self._make_pods_of(job, count, existing[_key(job)])

    def _remove_orphans(self, jobs: set[str]) -> None:
        for pod in self.server.objects(PODS):
            if pod["metadata"]["labels"][names.POD_JOB_UID] not in jobs:
                self.server.remove(PODS, _key(pod))

    def _make_pods_of(self, job: Json, count: int, existing: set[Key]) -> None:
        namespace, name = _key(job)
        wanted = {(namespace, f"{name}-{index}") for index in range(count)}
        for key in existing - wanted:
            self.server.remove(PODS, key)
        for key in wanted - existing:
            self.server.put(PODS, pod_of(job, key))


def _key(body: Json) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _count(workload: Json) -> int:
    return int(workload["spec"]["podSets"][0]["count"])


def _has(body: Json, condition: str) -> bool:
    return is_true(body.get("status", {}).get("conditions", []), condition)


def pod_of(job: Json, key: Key) -> Json:
    address = job["metadata"].get("annotations", {}).get(ADDRESS, SILENT_ADDRESS)
    labels = {
        names.POD_JOB_UID: job["metadata"]["uid"],
        names.POD_INDEX: key[1].rsplit("-", 1)[1],
    }
    metadata: Json = {"namespace": key[0], "name": key[1], "labels": labels}
    metadata["ownerReferences"] = [owner_reference(job)]
    return {
        "metadata": metadata,
        "spec": TEMPLATE["spec"] | {"nodeName": "n1"},
        "status": {"phase": "Running", "podIP": address, "conditions": [READY]},
    }


def owner_reference(job: Json) -> Json:
    metadata = job["metadata"]
    uid = metadata.get("uid", "")
    return {"kind": "Job", "name": metadata["name"], "uid": uid, "controller": True}


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
    pods = [{"name": "main", "count": job["spec"]["parallelism"], "template": TEMPLATE}]
    return {
        "metadata": metadata,
        "spec": {"queueName": "default", "active": True, "priority": priority, "podSets": pods},
    }
