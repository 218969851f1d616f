"""The story itself: what a user and an admin type, what is waited for, and what is measured on the
way."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cede.api.kueue import Pod
from cede.api.names import POD_JOB_UID
from deploy.demo.cluster_watch import Watching
from deploy.demo.figures import Holding, Line, Step
from deploy.demo.kubectl import Failed, Kubectl
from deploy.demo.terminal import Screen

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ELASTIC = "gpt"
STOCK = "gpt-torchrun"
CLAIM = "inference"
# in the job's own folder
LIVE = "steps-0-0.jsonl"
STEPS = "steps-*.jsonl"
SAMPLES = "samples-*.jsonl"
RUN = "run.json"


@dataclass
class Record:
    """What the story left behind; times are Unix seconds of this machine."""

    marks: dict[str, float] = field(default_factory=dict)
    holdings: list[Holding] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    samples: list[Line] = field(default_factory=list)
    # the size of the dataset and of a step
    run: Line = field(default_factory=dict)
    killed_steps: list[Step] = field(default_factory=list)
    owner_wait_s: float = 0.0
    owner_wait_killed_s: float = 0.0
    grew_back_s: float = 0.0
    # of the pods that came when it grew back
    joined_at: list[float] = field(default_factory=list)
    killed_at: float = 0.0
    restarted_at: float = 0.0
    cession: str = ""


class Story:
    def __init__(
        self, kubectl: Kubectl, watching: Watching, wake: asyncio.Event, screen: Screen, full: int
    ) -> None:
        self.kubectl = kubectl
        self.watching = watching
        self.wake = wake
        self.screen = screen
        self.full = full
        self.record = Record()
        self.step: Step | None = None
        self.job_steps: dict[str, list[Step]] = {}
        self.following: asyncio.Task[None] | None = None

    async def until(self, true: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for a change that makes `true` hold. Raises TimeoutError naming `what`."""
        end = time.monotonic() + seconds
        while not true():
            self.screen.draw(self.watching.held(), self.step)
            if self.following and self.following.done() and not self.following.cancelled():
                # what it died of is said, not that a step did not come
                self.following.result()
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self.wake.wait()
            self.wake.clear()
        self.screen.draw(self.watching.held(), self.step)

    async def poll(self, probe: Callable[[], Awaitable[bool]], what: str, seconds: float) -> None:
        """Ask kubectl until it says yes; for what the caches do not show."""
        end = time.monotonic() + seconds
        while not await probe():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            await asyncio.sleep(0.3)

    async def follow(self, job: str) -> None:
        """Keep `self.step` at the newest line of the job's metrics; start over when its pod 0 is
        replaced."""
        seen = self.job_steps.setdefault(job, [])
        while True:
            for pod in self.watching.running("research", job):
                if pod.metadata.labels.get("batch.kubernetes.io/job-completion-index") == "0":
                    lines = 0
                    async for line in self.kubectl.follow(
                        "research", pod.metadata.name, folder(pod, LIVE)
                    ):
                        if (lines := lines + 1) > len(seen):
                            seen.append(Step.read(line))
                            self.step = seen[-1]
                            self.wake.set()
            await asyncio.sleep(0.3)

    # --- what the admin does ----------------------------------------------------------------------

    async def share(self) -> None:
        self.screen.say(
            "The admin writes a policy and two allocations: vision and research own half each, "
            "and lend what is idle."
        )
        await self.kubectl(
            "apply", "-f", str(EXAMPLES / "policy.yaml"), "-f", str(EXAMPLES / "allocations.yaml")
        )
        await self.kubectl(
            "wait",
            "computeallocation/vision",
            "computeallocation/research",
            "--for=condition=Ready",
            "--timeout=60s",
        )

    async def mode(self, mode: str, reclaim: str) -> None:
        await self.kubectl(
            "patch",
            "clusterpolicy",
            "default",
            "--type=merge",
            "-p",
            f'{{"spec":{{"mode":"{mode}"}}}}',
        )

        async def done() -> bool:
            queue = await self.kubectl.json("get", "clusterqueue", "vision")
            return bool(queue["spec"]["preemption"]["reclaimWithinCohort"] == reclaim)

        await self.poll(done, f"the queues to say reclaimWithinCohort {reclaim}", 30)

    # --- the two halves ---------------------------------------------------------------------------

    async def claim(self) -> float:
        """Vision sends its job. Seconds from its Workload's creation to its last pod running."""
        await self.kubectl("apply", "-f", str(EXAMPLES / "claim.yaml"))
        await self.until(
            lambda: self.watching.workload_of("vision", CLAIM) is not None, "vision's Workload", 20
        )
        workload = self.watching.workload_of("vision", CLAIM)
        assert workload
        created = self.watching.workload_seen[workload.metadata.uid]
        await self.until(
            lambda: len(self.watching.running("vision", CLAIM)) >= 4, "vision's pods to run", 120
        )
        last = max(
            self.watching.running_seen[p.metadata.uid]
            for p in self.watching.running("vision", CLAIM)
        )
        return last - created

    async def gone(self, namespace: str, job: str, seconds: float = 60) -> None:
        pods = self.watching.pods

        def none() -> bool:
            return not any(
                p.metadata.namespace == namespace
                and p.metadata.labels.get("batch.kubernetes.io/job-name") == job
                and p.status.phase in ("Pending", "Running")
                for p in pods.all()
            )

        await self.until(none, f"the pods of {job} to end", seconds)

    async def gentle(self) -> None:
        self.screen.say(
            "Research sends an ordinary Job: kubectl apply -f examples/gpt/job.yaml (sizes 2-8)."
        )
        await self.kubectl("apply", "-f", str(EXAMPLES / "gpt" / "job.yaml"))
        self.following = asyncio.create_task(self.follow(ELASTIC))
        try:
            await self.until(lambda: self.step is not None, "the first step", 120)
            self.screen.say(
                f"It trains, on {self.step.size if self.step else '?'}; the rest is idle, so "
                f"it "
                f"grows."
            )
            await self.until(
                lambda: self.at_size(self.full), f"research to train on all {self.full}", 150
            )
            await self.steps_more(10)
            self.screen.say(
                "It trains on all 8, half of them vision's. Now vision wants its 4 back."
            )
            self.record.marks["vision asks"] = time.time()
            self.record.owner_wait_s = await self.claim()
            self.record.marks["vision runs"] = time.time()
            self.screen.say(
                f"Vision runs {self.record.owner_wait_s:.2f} s after its Workload was made; "
                f"research trains on."
            )
            await self.until(lambda: self.at_size(self.full // 2), "research to train on half", 30)
            stayed = {pod.metadata.uid for pod in self.watching.running("research", ELASTIC)}
            self.record.cession = await self.cession()
            self.screen.say(self.record.cession)
            await self.gone("vision", CLAIM)
            ended = self.record.marks["vision is done"] = time.time()
            self.screen.say("Vision is done; what it leaves idle flows back.")
            await self.until(lambda: self.at_size(self.full), "research to grow back", 150)
            self.record.grew_back_s = time.time() - ended
            self.record.marks["research grew back"] = time.time()
            came = [
                pod.metadata.uid
                for pod in self.watching.running("research", ELASTIC)
                if pod.metadata.uid not in stayed
            ]
            self.record.joined_at = [self.watching.running_seen[uid] for uid in came]
            await self.steps_more(5)
            await self.read_logs()
        finally:
            self.following.cancel()
        self.record.holdings = list(self.watching.holdings)
        await self.kubectl("delete", "job", "-n", "vision", CLAIM, "--wait=true")
        await self.kubectl("delete", "job", "-n", "research", ELASTIC, "--wait=true")
        await self.gone("research", ELASTIC)

    async def killed(self) -> None:
        self.screen.say(
            "Now stock Kueue (mode Observe), and the same training under plain "
            "torch.distributed, "
            "saving every 20 steps."
        )
        self.step = None
        await self.mode("Observe", "Any")
        await self.kubectl("apply", "-f", str(EXAMPLES / "gpt" / "job-torchrun.yaml"))
        self.following = asyncio.create_task(self.follow(STOCK))
        try:
            # Asked for so that, a second or two later, the kill falls about half-way between two
            # saves.
            await self.until(
                lambda: self.step is not None and self.step.step >= 47,
                "47 steps of the ordinary job",
                180,
            )
            before = len(self.job_steps[STOCK])
            victim = self.watching.workload_of("research", STOCK)
            assert victim
            self.record.owner_wait_killed_s = await self.claim()
            self.record.killed_at = self.watching.evicted_seen[victim.metadata.uid]
            self.screen.say(
                f"Vision runs after {self.record.owner_wait_killed_s:.2f} s; research's job is "
                f"dead, all 8 of it."
            )
            await self.gone("vision", CLAIM)
            await self.until(
                lambda: len(self.watching.running("research", STOCK)) >= self.full,
                "the killed job to run again",
                120,
            )
            again = self.watching.running("research", STOCK)
            self.record.restarted_at = min(
                self.watching.running_seen[p.metadata.uid] for p in again
            )
            await self.until(lambda: self.came_back(before), "the killed job to train again", 120)
            self.record.killed_steps = list(self.job_steps[STOCK])
        finally:
            self.following.cancel()
            await self.kubectl(
                "delete", "job", "-n", "vision", CLAIM, "--ignore-not-found", "--wait=true"
            )
            await self.kubectl(
                "delete", "job", "-n", "research", STOCK, "--ignore-not-found", "--wait=true"
            )
            await self.mode("Enforce", "Never")

    # --- what is read -----------------------------------------------------------------------------

    def at_size(self, size: int) -> bool:
        return self.step is not None and self.step.size == size

    def came_back(self, before: int) -> bool:
        return any(s.time > self.record.restarted_at for s in self.job_steps[STOCK][before:])

    async def steps_more(self, n: int) -> None:
        target = (self.step.step if self.step else 0) + n
        await self.until(
            lambda: self.step is not None and self.step.step >= target, f"{n} more steps", 120
        )

    async def read_logs(self) -> None:
        """The job's own journal, whole, read in its pod: steps first, so that every step in them
        has its samples."""
        pod = self.watching.running("research", ELASTIC)[0]

        async def read(files: str) -> list[Line]:
            return await self.kubectl.lines("research", pod.metadata.name, folder(pod, files))

        self.record.steps = [Step.read(line) for line in await read(STEPS)]
        self.record.samples = await read(SAMPLES)
        self.record.run = (await read(RUN))[0]

    async def cession(self) -> str:
        """The newest Cession, in its own words."""
        items = (await self.kubectl.json("get", "cessions"))["items"]
        if not items:
            return "no Cession was written"
        newest = max(items, key=lambda c: str(c["metadata"]["creationTimestamp"]))
        return f"{newest['metadata']['name']}: {newest['spec']['why']}"

    async def clean(self) -> None:
        """Whatever an earlier run left."""
        for namespace, job in (("vision", CLAIM), ("research", ELASTIC), ("research", STOCK)):
            with suppress(Failed):
                await self.kubectl(
                    "delete", "job", "-n", namespace, job, "--ignore-not-found", "--wait=true"
                )


def folder(pod: Pod, name: str) -> str:
    """Where a job keeps its journal: a folder named by its uid, on the file system its pods
    share."""
    return f"/shared/{pod.metadata.labels[POD_JOB_UID]}/{name}"
