"""The whole demo against a fake cluster: what it does, waits for, and records."""

import asyncio
import io
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cede.api.kueue import Pod
from cede.api.names import GPU, POD_INDEX, POD_JOB_NAME, POD_JOB_UID
from cede.api.objects import PODS, WORKLOADS, Json
from deploy.demo import scenario
from deploy.demo.cluster_watch import watch_cluster
from deploy.demo.driver import Driver, journal_path
from deploy.demo.kubectl import KubectlFailed
from deploy.demo.record import Line, Record
from deploy.demo.summary import defects, summary
from deploy.demo.terminal import Screen
from tests.fakes.api_server import ApiServer

STEP_S = 0.004
OWNER_RUNTIME_S = 0.3


class FakeKubectl:
    """Answers kubectl, and plays Kueue, Cede and the jobs on a fake API server."""

    kubeconfig = ""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.commands: list[str] = []
        self.mode = "Enforce"
        # the lines that the followed job has written, also before a restart
        self.lines: list[Line] = []
        # the same of the plain job, and the step after which it began
        self.plain: list[Line] = []
        self.plain_saved = 0
        self._next_step = 1
        self._generation = 0
        self._tasks = set[asyncio.Task[None]]()

    async def __call__(self, *args: str) -> str:
        command = " ".join(args)
        self.commands.append(command)
        if "patch clusterpolicy" in command:
            self.mode = "Observe" if "Observe" in command else "Enforce"
        elif command.endswith("claim.yaml"):
            self._start_owner()
        elif command.endswith("gentle/job.yaml"):
            self._start("plain", 4)
        elif command.endswith("gpt/job.yaml"):
            self._start("gpt", 4)
        elif command.endswith("job-torchrun.yaml"):
            self._start("gpt-torchrun", 8)
        elif command.startswith("delete job"):
            self._delete(args[3], args[4])
        return ""

    async def json(self, *args: str) -> Any:
        if "clusterqueue" in args:
            reclaim = "Never" if self.mode == "Enforce" else "Any"
            return {"spec": {"preemption": {"reclaimWithinCohort": reclaim}}}
        created = {"name": "c-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {"items": [{"metadata": created, "spec": {"why": "vision needs its quota"}}]}

    async def follow(self, namespace: str, pod: str, path: str) -> AsyncIterator[Line]:
        for line in list(self.lines):
            yield line
        while running := self._pods("research", pod.rpartition("-")[0]):
            line = {
                "step": self._next_step,
                "loss": 1.0,
                "size": len(running),
                "time": time.time(),
                "generation": self._generation,
                "pause_ms": 5.0,
            }
            self.lines.append(line)
            self._next_step += 1
            yield line
            await asyncio.sleep(STEP_S)

    async def read_lines(self, namespace: str, pod: str, files: str) -> list[Line]:
        if "/plain/" in files:
            return self._plain_lines()
        if files.endswith("run.json"):
            return [{"micro_batches": 1, "micro_batch_size": 1, "samples": 10**6}]
        if "samples" in files:
            return [{**line, "micro_batch": 0, "samples": [line["step"]]} for line in self.lines]
        return list(self.lines)

    def _plain_lines(self) -> list[Line]:
        """It does a step whenever somebody looks."""
        step = len(self.plain) + 1
        line = {"step": step, "loss": 1.0, "size": 4, "generation": self.plain_saved}
        self.plain.append({**line, "time": time.time()})
        return list(self.plain)

    # --- jobs -------------------------------------------------------------------------------------
    def _start(self, job: str, size: int, namespace: str = "research") -> None:
        if namespace == "research":
            self.lines = []
            self._next_step = 1
        owners = [{"kind": "Job", "name": job, "uid": job}]
        metadata = {"name": f"job-{job}", "namespace": namespace, "ownerReferences": owners}
        self.server.put(WORKLOADS, {"metadata": metadata, "spec": {}})
        self._add_pods(namespace, job, range(size))

    def _start_owner(self) -> None:
        self._start("inference", 4, "vision")
        if self._pods("research", "plain"):
            # it has saved
            self.plain_saved = len(self.plain)
            self._remove_pods("research", "plain")
            # the demo ends vision's job
            return
        if self.mode == "Enforce":
            self._resize(4)
        else:
            self._evict()
        task = asyncio.create_task(self._end_owner())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end_owner(self) -> None:
        await asyncio.sleep(OWNER_RUNTIME_S)
        for pod in self._pods("vision", "inference"):
            self.server.put(PODS, pod | {"status": {"phase": "Succeeded"}})
        job = "gpt" if self.mode == "Enforce" else "gpt-torchrun"
        if job == "gpt":
            self._resize(8)
        else:
            self._add_pods("research", job, range(8))

    def _resize(self, size: int) -> None:
        self._generation += 1
        for pod in self._pods("research", "gpt"):
            if int(pod["metadata"]["labels"][POD_INDEX]) >= size:
                self.server.remove(PODS, ("research", pod["metadata"]["name"]))
        present = len(self._pods("research", "gpt"))
        self._add_pods("research", "gpt", range(present, size))

    def _evict(self) -> None:
        key = ("research", "job-gpt-torchrun")
        workload = self.server.get(WORKLOADS, key) or {}
        evicted = {"type": "Evicted", "status": "True", "reason": "Preempted"}
        self.server.put(WORKLOADS, workload | {"status": {"conditions": [evicted]}})
        self._remove_pods("research", "gpt-torchrun")
        # the last save
        self._next_step = 41

    def _add_pods(self, namespace: str, job: str, indexes: range) -> None:
        for index in indexes:
            labels = {POD_JOB_NAME: job, POD_JOB_UID: job, POD_INDEX: str(index)}
            container = {"name": "main", "resources": {"limits": {GPU: 1}}}
            pod = {
                "metadata": {"name": f"{job}-{index}", "namespace": namespace, "labels": labels},
                "spec": {"containers": [container]},
                "status": {"phase": "Running"},
            }
            self.server.put(PODS, pod)

    def _pods(self, namespace: str, job: str) -> list[Json]:
        return [
            pod
            for pod in self.server.objects(PODS)
            if pod["metadata"]["namespace"] == namespace
            and pod["metadata"]["labels"][POD_JOB_NAME] == job
            and pod["status"]["phase"] == "Running"
        ]

    def _delete(self, namespace: str, job: str) -> None:
        if not self.server.get(WORKLOADS, (namespace, f"job-{job}")):
            raise KubectlFailed(f"no job {job}")
        self.server.remove(WORKLOADS, (namespace, f"job-{job}"))
        self._remove_pods(namespace, job)
        if self.plain_saved and job == "inference" and self._plain_waits():
            self._add_pods("research", "plain", range(4))
        if job == "plain":
            self._resize(8)

    def _plain_waits(self) -> bool:
        is_there = self.server.get(WORKLOADS, ("research", "job-plain"))
        return bool(is_there) and not self._pods("research", "plain")

    def _remove_pods(self, namespace: str, job: str) -> None:
        for pod in self.server.objects(PODS):
            metadata = pod["metadata"]
            if metadata["namespace"] == namespace and metadata["labels"][POD_JOB_NAME] == job:
                self.server.remove(PODS, (namespace, metadata["name"]))


async def run(server: ApiServer, kubectl: Any, output: io.StringIO) -> Record:
    record = Record()
    wake = asyncio.Event()
    async with server.client() as client, watch_cluster(client, wake.set) as watch:
        driver = Driver(kubectl, watch, wake, Screen(8, output))
        await driver.clean_up()
        await scenario.share(driver)
        await scenario.cede(driver, record, 8)
        await scenario.kill(driver, record, 8)
        await driver.clean_up()
    return record


async def test_the_demo_records_a_cession_and_a_kill() -> None:
    output = io.StringIO()
    async with ApiServer() as server:
        kubectl = FakeKubectl(server)
        record = await asyncio.wait_for(run(server, kubectl, output), 60)
        assert not server.objects(PODS)
    assert list(record.marks) == [
        "plain is told",
        "plain trains again",
        "vision asks",
        "vision runs",
        "vision is done",
        "research grew back",
    ]
    assert {8, 4} <= {step.size for step in record.steps}
    assert len(record.joined_at) == 4
    assert record.cession == "c-1: vision needs its quota"
    assert record.killed_at <= record.restarted_at
    assert max(holding.by_team.get("vision", 0) for holding in record.holdings) == 4
    values = summary(record, 8, {})
    assert values["killed_steps_lost"] > 0
    assert values["plain_saved_step"] > 0
    assert {"plain", "research"} <= {
        name for holding in record.holdings for name in holding.by_team
    }
    assert defects(values) == []
    assert kubectl.mode == "Enforce"
    assert "Vision runs" in output.getvalue()


async def test_a_wait_that_takes_too_long_names_its_subject() -> None:
    async with ApiServer() as server, server.client() as client:
        wake = asyncio.Event()
        async with watch_cluster(client, wake.set) as watch:
            kubectl: Any = FakeKubectl(server)
            driver = Driver(kubectl, watch, wake, Screen(8, io.StringIO()))
            with pytest.raises(TimeoutError, match="waited 0 s for a miracle"):
                await driver.wait_until(lambda: False, "a miracle", 0.05)


def test_the_journal_of_a_job_is_in_a_folder_of_its_uid() -> None:
    pod = Pod()
    pod.metadata.labels[POD_JOB_UID] = "u-1"
    assert journal_path(pod, "run.json") == "/shared/u-1/run.json"
