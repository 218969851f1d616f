"""What the demo does on the cluster, and what it waits for."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cede.api.kueue import Pod
from cede.api.names import POD_INDEX, POD_JOB_UID
from deploy.demo.cluster_watch import PLAIN_JOB, ClusterWatch
from deploy.demo.kubectl import Kubectl, KubectlFailed
from deploy.demo.record import Line, Step
from deploy.demo.terminal import Screen

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ELASTIC_JOB = "gpt"
STOCK_JOB = "gpt-torchrun"
OWNER_JOB = "inference"
OWNER_PODS = 4
# files in the journal of a job; the first is that of rank 0 in its first group
FOLLOWED_FILE = "steps-0-0.jsonl"
STEP_FILES = "steps-*.jsonl"
SAMPLE_FILES = "samples-*.jsonl"
RUN_FILE = "run.json"
REDRAW_INTERVAL_S = 0.5
POLL_INTERVAL_S = 0.3


class Driver:
    def __init__(
        self, kubectl: Kubectl, watch: ClusterWatch, wake: asyncio.Event, screen: Screen
    ) -> None:
        self.kubectl = kubectl
        self.watch = watch
        self.wake = wake
        self.screen = screen
        # the newest step of the job that is followed, and all its steps so far
        self.step: Step | None = None
        self.steps: list[Step] = []
        self._following: asyncio.Task[None] | None = None

    # --- waiting ----------------------------------------------------------------------------------
    async def wait_until(
        self, condition: Callable[[], bool], subject: str, timeout_s: float
    ) -> None:
        """Waits for a change after which `condition` holds. Raises TimeoutError with `subject`."""
        end = time.monotonic() + timeout_s
        while not condition():
            self.screen.draw(self.watch.present_holdings(), self.step)
            if self._following and self._following.done() and not self._following.cancelled():
                # raise why following has failed; without it, no step would ever come
                self._following.result()
            if time.monotonic() > end:
                raise TimeoutError(f"waited {timeout_s:.0f} s for {subject}")
            with suppress(TimeoutError):
                async with asyncio.timeout(REDRAW_INTERVAL_S):
                    await self.wake.wait()
            self.wake.clear()
        self.screen.draw(self.watch.present_holdings(), self.step)

    async def poll(
        self, probe: Callable[[], Awaitable[bool]], subject: str, timeout_s: float
    ) -> None:
        """Like `wait_until`, for what only kubectl can tell."""
        end = time.monotonic() + timeout_s
        while not await probe():
            self.screen.draw(self.watch.present_holdings(), self.step)
            if time.monotonic() > end:
                raise TimeoutError(f"waited {timeout_s:.0f} s for {subject}")
            await asyncio.sleep(POLL_INTERVAL_S)

    async def wait_for_steps(self, count: int) -> None:
        """`count` more steps than now."""
        target = (self.step.step if self.step else 0) + count
        await self.wait_until(lambda: self.has_reached(target), f"{count} more steps", 120)

    async def wait_for_end(self, namespace: str, job: str) -> None:
        """The job has no pod any more that is pending or running."""

        def ended() -> bool:
            phases = {pod.status.phase for pod in self.watch.pods_of(namespace, job)}
            return not phases & {"Pending", "Running"}

        await self.wait_until(ended, f"the pods of {job} to end", 60)

    def trains_on(self, size: int) -> bool:
        return self.step is not None and self.step.size == size

    def has_reached(self, step: int) -> bool:
        return self.step is not None and self.step.step >= step

    # --- following a job --------------------------------------------------------------------------
    @asynccontextmanager
    async def following(self, job: str) -> AsyncIterator[None]:
        """Keeps `step` and `steps` up to date with the job's journal in the context."""
        self.step = None
        self.steps = []
        self._following = asyncio.create_task(self._follow(job))
        try:
            yield
        finally:
            self._following.cancel()

    async def _follow(self, job: str) -> None:
        """Reads the journal in pod 0, and again from its start when that pod is replaced."""
        while True:
            for pod in self.watch.running("research", job):
                if pod.metadata.labels.get(POD_INDEX) == "0":
                    await self._follow_pod(pod)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _follow_pod(self, pod: Pod) -> None:
        path = journal_path(pod, FOLLOWED_FILE)
        count = 0
        async for line in self.kubectl.follow("research", pod.metadata.name, path):
            count += 1
            if count > len(self.steps):
                self.step = Step.read(line)
                self.steps.append(self.step)
                self.wake.set()

    async def read_journal(self, pod: Pod) -> tuple[list[Step], list[Line], Line]:
        """(steps, samples, run) of all ranks. Steps come first, so every step has its samples."""

        async def read(files: str) -> list[Line]:
            path = journal_path(pod, files)
            return await self.kubectl.read_lines("research", pod.metadata.name, path)

        steps = [Step.read(line) for line in await read(STEP_FILES)]
        samples = await read(SAMPLE_FILES)
        run = (await read(RUN_FILE))[0]
        return steps, samples, run

    async def plain_steps(self) -> list[Step]:
        """The steps that the plain job has done so far, all of them; none while it does not run."""
        for pod in self.watch.running("research", PLAIN_JOB):
            path = journal_path(pod, STEP_FILES)
            with suppress(KubectlFailed):
                lines = await self.kubectl.read_lines("research", pod.metadata.name, path)
                return [Step.read(line) for line in lines]
        return []

    # --- the administrator ------------------------------------------------------------------------
    async def apply_policy_and_allocations(self) -> None:
        files = [EXAMPLES / "policy.yaml", EXAMPLES / "allocations.yaml"]
        await self.kubectl("apply", "-f", str(files[0]), "-f", str(files[1]))
        teams = [f"computeallocation/{team}" for team in ("vision", "research")]
        await self.kubectl("wait", *teams, "--for=condition=Ready", "--timeout=60s")

    async def set_mode(self, mode: str, reclaim: str) -> None:
        """Waits until the queues have `reclaimWithinCohort: reclaim`."""
        patch = f'{{"spec":{{"mode":"{mode}"}}}}'
        await self.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", patch)

        async def in_effect() -> bool:
            queue = await self.kubectl.json("get", "clusterqueue", "vision")
            return bool(queue["spec"]["preemption"]["reclaimWithinCohort"] == reclaim)

        await self.poll(in_effect, f"queues with reclaimWithinCohort {reclaim}", 30)

    async def newest_cession(self) -> str:
        """The name of the newest Cession and its reason."""
        cessions = (await self.kubectl.json("get", "cessions"))["items"]
        if not cessions:
            return "no Cession was written"
        newest = max(cessions, key=lambda item: str(item["metadata"]["creationTimestamp"]))
        return f"{newest['metadata']['name']}: {newest['spec']['why']}"

    # --- jobs -------------------------------------------------------------------------------------
    async def submit(self, file: str) -> None:
        await self.kubectl("apply", "-f", str(EXAMPLES / file))

    async def submit_owner_job(self) -> float:
        """Returns the seconds from the creation of its Workload to its last pod running."""
        await self.submit("claim.yaml")
        await self.wait_until(
            lambda: self.watch.workload_of("vision", OWNER_JOB) is not None,
            "vision's Workload",
            20,
        )
        workload = self.watch.workload_of("vision", OWNER_JOB)
        assert workload
        await self.wait_until(
            lambda: len(self.watch.running("vision", OWNER_JOB)) >= OWNER_PODS,
            "vision's pods to run",
            120,
        )
        pods = self.watch.running("vision", OWNER_JOB)
        last = max(self.watch.running_at[pod.metadata.uid] for pod in pods)
        return last - self.watch.created_at[workload.metadata.uid]

    async def end_owner_job(self) -> None:
        """Ends vision's job before its time. Afterwards neither its pods nor its Workload exist."""
        await self.delete_job("vision", OWNER_JOB)
        await self.wait_until(
            lambda: (
                not self.watch.pods_of("vision", OWNER_JOB)
                and self.watch.workload_of("vision", OWNER_JOB) is None
            ),
            "vision's job to be gone",
            60,
        )

    async def delete_job(self, namespace: str, job: str) -> None:
        await self.kubectl(
            "delete", "job", "-n", namespace, job, "--ignore-not-found", "--wait=true"
        )

    async def clean_up(self) -> None:
        """Deletes the jobs of this run, or of an earlier one."""
        for namespace, job in (
            ("vision", OWNER_JOB),
            ("research", ELASTIC_JOB),
            ("research", PLAIN_JOB),
            ("research", STOCK_JOB),
        ):
            with suppress(KubectlFailed):
                await self.delete_job(namespace, job)


def journal_path(pod: Pod, files: str) -> str:
    """Of files in a job's journal, a folder on the file system that all its pods share."""
    return f"/shared/{pod.metadata.labels[POD_JOB_UID]}/{files}"
