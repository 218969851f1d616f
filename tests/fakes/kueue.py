"""What stands around the scheduler in its tests: Kueue with the Job controller in a few lines, and
a runtime that really signs."""

import asyncio
import base64
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    POLICIES,
    SECRETS,
    WORKLOADS,
    Json,
    Key,
    rfc3339,
)
from elastic_runtime import contract
from elastic_runtime.contract import State, Status
from tests.fakes.api_server import ApiServer

GPU = "nvidia.com/gpu"
FLAVOR = "a100"
ROOT = b"0123456789abcdef" * 4
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}]}}


class Runtime:
    """Pod 0 of a job, on a loopback address of its own. It cedes once it has been asked for its
    state `patience` times."""

    def __init__(
        self, address: str, namespace: str, uid: str, size: int, patience: float = 2
    ) -> None:
        self.address = address
        self.uid = uid
        self.patience = patience
        self.key = contract.derive_key(ROOT, namespace)
        self.status = Status(state=State.TRAINING, size=size, step=10)
        self.asked: list[tuple[int, str]] = []
        self._nonces = contract.Nonces()
        self._left = 0.0

    async def __aenter__(self) -> "Runtime":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, contract.PORT).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        refused = self._nonces.refusal(
            self.key, request.method, request.path, self.uid, request.headers, body, time.time()
        )
        assert refused is None, refused
        if request.method == "PUT":
            wanted = contract.decode_size(body)
            self.asked.append((wanted.size, wanted.cession))
            self.status = replace(
                self.status, state=State.RESIZING, wanted=wanted.size, cession=wanted.cession
            )
            self._left = self.patience
        elif self.status.state == State.RESIZING:
            self._left -= 1
            if self._left <= 0:
                state = State.TRAINING if self.status.wanted else State.STOPPED
                self.status = replace(
                    self.status, state=state, size=self.status.wanted, step=self.status.step + 1
                )
        content = contract.encode(self.status)
        return web.Response(
            body=content, headers=contract.sign_reply(self.key, 200, request.headers, content)
        )


class Kueue:
    """Admits what fits into `total`, follows shrinks, stops what is inactive, grows by slices; and
    makes the pods, all ready at once.

    It is told of every change like the real one, and looks at everything each time.
    """

    def __init__(self, server: ApiServer, total: int) -> None:
        self.server = server
        self.total = total

    def turn(self) -> None:
        for workload in self.server.objects(WORKLOADS):
            job = self._job(workload)
            if job is None:
                self.server.remove(WORKLOADS, _key(workload))
            elif _is(workload, "Finished"):
                continue
            elif _is(workload, "QuotaReserved") and not workload["spec"].get("active", True):
                self._store(workload, "QuotaReserved", "False", admission=None)
            elif _is(workload, "QuotaReserved"):
                self._resize(workload, job)
        waiting = [
            w
            for w in self.server.objects(WORKLOADS)
            if not _is(w, "QuotaReserved") and not _is(w, "Finished")
        ]
        for workload in sorted(
            waiting, key=lambda w: (-w["spec"]["priority"], w["metadata"]["creationTimestamp"])
        ):
            if (
                workload["spec"].get("active", True)
                and self.used() + _count(workload) - self._before(workload) <= self.total
            ):
                self._admit(workload)
        self._make_pods()

    def used(self) -> int:
        return sum(_count(w) for w in self._holding())

    def _holding(self) -> list[Json]:
        return [
            w
            for w in self.server.objects(WORKLOADS)
            if _is(w, "QuotaReserved") and not _is(w, "Finished")
        ]

    def _job(self, workload: Json) -> Json | None:
        owner = workload["metadata"]["ownerReferences"][0]
        job = self.server.get(JOBS, (workload["metadata"]["namespace"], owner["name"]))
        return job if job and job["metadata"]["uid"] == owner["uid"] else None

    def _resize(self, workload: Json, job: Json) -> None:
        size = job["spec"]["parallelism"]
        slices = [w for w in self.server.objects(WORKLOADS) if self._replaces(w) == _key(workload)]
        if size < _count(workload):
            workload["spec"]["podSets"][0]["count"] = size
            self.server.put(WORKLOADS, workload)
        elif size > _count(workload) and not slices:
            replacing = {names.SLICE_REPLACEMENT_FOR: "/".join(_key(workload))}
            name = f"{workload['metadata']['name']}-{job['metadata']['generation']}"
            self.server.put(WORKLOADS, claim(job, name, workload["spec"]["priority"], replacing))

    def _replaces(self, workload: Json) -> Key | None:
        said = workload["metadata"].get("annotations", {}).get(names.SLICE_REPLACEMENT_FOR)
        return tuple(said.split("/")) if said and not _is(workload, "QuotaReserved") else None

    def _before(self, workload: Json) -> int:
        old = (
            self.server.get(WORKLOADS, replaced) if (replaced := self._replaces(workload)) else None
        )
        return _count(old) if old else 0

    def _admit(self, workload: Json) -> None:
        if old := self._replaces(workload):
            self._store(self.server.get(WORKLOADS, old) or {}, "Finished", "True")
        count = _count(workload)
        assigned = {
            "name": "main",
            "count": count,
            "flavors": {GPU: FLAVOR},
            "resourceUsage": {GPU: str(count)},
        }
        queue = {"research": "research", "vision": "vision"}[workload["metadata"]["namespace"]]
        self._store(
            workload,
            "QuotaReserved",
            "True",
            admission={"clusterQueue": queue, "podSetAssignments": [assigned]},
        )

    def _store(self, workload: Json, condition: str, status: str, **facts: Any) -> None:
        said = {"type": condition, "status": status, "lastTransitionTime": rfc3339(time.time())}
        others = [
            c for c in workload.get("status", {}).get("conditions", []) if c["type"] != condition
        ]
        full = {**workload.get("status", {}), **facts, "conditions": [*others, said]}
        self.server.put(
            WORKLOADS, workload | {"status": {k: v for k, v in full.items() if v is not None}}
        )

    def _make_pods(self) -> None:
        granted = {w["metadata"]["ownerReferences"][0]["uid"]: _count(w) for w in self._holding()}
        alive = {job["metadata"]["uid"] for job in self.server.objects(JOBS)}
        for orphan in [
            pod
            for pod in self.server.objects(PODS)
            if pod["metadata"]["labels"][names.POD_JOB_UID] not in alive
        ]:
            self.server.remove(PODS, _key(orphan))
        there = {_key(pod) for pod in self.server.objects(PODS)}
        for job in self.server.objects(JOBS):
            key = _key(job)
            uid = job["metadata"]["uid"]
            wanted = {
                (key[0], f"{key[1]}-{i}")
                for i in range(min(granted.get(uid, 0), job["spec"]["parallelism"]))
            }
            mine = {k for k in there if k[0] == key[0] and k[1].rsplit("-", 1)[0] == key[1]}
            for gone in mine - wanted:
                self.server.remove(PODS, gone)
            for new in wanted - mine:
                self.server.put(
                    PODS,
                    pod(
                        new,
                        uid,
                        job["metadata"].get("annotations", {}).get("test/address", "127.0.0.9"),
                    ),
                )


def _key(body: Json) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _count(workload: Json) -> int:
    return int(workload["spec"]["podSets"][0]["count"])


def _is(body: Json, condition: str) -> bool:
    return any(
        c["type"] == condition and c["status"] == "True"
        for c in body.get("status", {}).get("conditions", [])
    )


def pod(key: Key, uid: str, address: str) -> Json:
    index = key[1].rsplit("-", 1)[1]
    return {
        "metadata": {
            "namespace": key[0],
            "name": key[1],
            "labels": {names.POD_JOB_UID: uid, names.POD_INDEX: index},
        },
        "spec": TEMPLATE["spec"] | {"nodeName": "n1"},
        "status": {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def claim(
    job: Json, name: str, priority: int = 50, annotations: dict[str, str] | None = None
) -> Json:
    """The Workload of a Job."""
    owner = {
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner],
        "annotations": annotations or {},
        "creationTimestamp": rfc3339(time.time()),
    }
    pods = [{"name": "main", "count": job["spec"]["parallelism"], "template": TEMPLATE}]
    return {
        "metadata": metadata,
        "spec": {"queueName": "default", "active": True, "priority": priority, "podSets": pods},
    }


class Cluster:
    """Two teams of four accelerators each, on one node of eight."""

    def __init__(self, server: ApiServer, grace_s: int = 60, total: int = 8) -> None:
        self.server, self.kueue = server, Kueue(server, total)
        ours = {"labels": {names.MANAGED_BY: names.MANAGED_BY_CEDE}}
        server.put(
            NODES,
            {
                "metadata": {"name": "n1"},
                "status": {
                    "allocatable": {GPU: str(total)},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        server.put(COHORTS, {"metadata": {"name": names.COHORT}, "spec": {}})
        server.put(
            SECRETS,
            {
                "metadata": {"namespace": names.SYSTEM_NAMESPACE, "name": names.ROOT_SECRET},
                "data": {"key": base64.b64encode(ROOT).decode()},
            },
        )
        take_back = {"graceSeconds": grace_s, "minRuntimeSeconds": 0, "growCooldownSeconds": 120}
        server.put(POLICIES, {"metadata": {"name": "default"}, "spec": {"preemption": take_back}})
        for team in ("vision", "research"):
            group = {
                "coveredResources": [GPU],
                "flavors": [{"name": FLAVOR, "resources": [{"name": GPU, "nominalQuota": "4"}]}],
            }
            spec = {
                "cohortName": names.COHORT,
                "queueingStrategy": "BestEffortFIFO",
                "resourceGroups": [group],
            }
            server.put(CLUSTER_QUEUES, {"metadata": {"name": team} | ours, "spec": spec})
            server.put(
                LOCAL_QUEUES,
                {
                    "metadata": {"namespace": team, "name": "default"},
                    "spec": {"clusterQueue": team},
                },
            )
            server.put(
                ALLOCATIONS,
                {
                    "metadata": {"name": team},
                    "spec": {"quotas": [{"instanceType": FLAVOR, "count": 1}]},
                },
            )

    def job(
        self,
        team: str,
        name: str,
        size: int,
        sizes: str = "",
        address: str = "127.0.0.9",
        priority: int = 50,
    ) -> str:
        """Its uid."""
        notes = {"test/address": address} | (
            {names.SIZES: sizes, names.ELASTIC_JOB: "true", names.DESIRED_SIZE: str(size)}
            if sizes
            else {}
        )
        spec = {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "template": TEMPLATE,
        }
        job = self.server.put(
            JOBS,
            {
                "metadata": {"namespace": team, "name": name, "annotations": notes},
                "spec": spec,
                "status": {},
            },
        )
        self.server.put(WORKLOADS, claim(job, f"job-{name}", priority))
        self.kueue.turn()
        return str(job["metadata"]["uid"])

    async def until(self, holds: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
        """Kueue takes its turn after every change, until this holds."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    version = self.server.version
                    self.kueue.turn()
                    if holds():
                        return
                    # what a runtime hears changes nothing here
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.server.change(version), 0.1)
        except TimeoutError:
            raise AssertionError(f"never came: {what}") from None
