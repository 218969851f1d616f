"""The levels on the local cluster: an owner takes half of a job's accelerators, and goes again.

`vision` owns all eight accelerators, and uses four. `research` owns none: its job has the other
four, and trains. A job of `vision` for two comes, and is deleted when it runs.
"""

import json
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from cede.api.objects import JOBS
from cede.kube.connection import connect
from deploy.demo.cluster_watch import watch_cluster
from tests.bench.levels.figures import (
    Cost,
    Turn,
    cost_of_resizes,
    cost_of_stop,
    is_between_saves,
    turn,
)
from tests.bench.levels.jobs import CLAIM, PODS, WORKERS, Level, sleeper, target
from tests.bench.levels.workers.tiny import SAVE_EVERY
from tests.bench.runtime.commits import read_journal
from tests.bench.scheduler.time_to_owner import Bench
from tests.harness.local_cluster import Cluster, deploy_local
from tests.paths import TREE

FILLER = "filler"


@dataclass(frozen=True)
class Target:
    """The job of a level, and its journal as this machine sees it."""

    level: Level
    name: str
    journal: Path

    def turn(self, asked: float, size: int) -> Turn | None:
        return turn(read_journal(self.journal), asked, size)

    def is_between_saves(self) -> bool:
        return is_between_saves(read_journal(self.journal), PODS, SAVE_EVERY)


class LevelBench:
    """`shared`: the folder that all pods have as /shared."""

    def __init__(self, bench: Bench, shared: Path) -> None:
        self.bench = bench
        self.run = f"levels-{uuid4().hex[:8]}"
        self.folder = shared / self.run
        self.claims = 0

    async def costs(self, level: Level, runs: int) -> AsyncIterator[Cost]:
        """A job that was stopped lately is spared, so a level that stops has a job for each run."""
        await self.bench.set_mode(level.mode)
        for turns in [runs] if level.is_elastic else [1] * runs:
            async with self._training(level) as training:
                for _ in range(turns):
                    yield await self._take_back(training)

    @asynccontextmanager
    async def _training(self, level: Level) -> AsyncIterator[Target]:
        """On all accelerators that `vision` leaves."""
        name = f"{level.name.lower()}-{uuid4().hex[:4]}"
        journal = self.folder / name
        journal.mkdir(parents=True)
        # the pods may have another user
        journal.chmod(0o777)
        shutil.copytree(TREE / WORKERS, self.folder / WORKERS, dirs_exist_ok=True)
        body = target(level, name, f"/shared/{self.run}", f"/shared/{self.run}/{name}")
        await self.bench.client.create(JOBS, body, namespace="research")
        try:
            yield Target(level, name, journal)
        finally:
            await self.bench.delete("research", name)

    async def _take_back(self, training: Target) -> Cost:
        level, watch = training.level, self.bench.watch

        async def may_begin() -> bool:
            return training.is_between_saves()

        await self.bench.until(may_begin, f"{training.name} to train between two saves")
        self.claims += 1
        claim = f"claim-{self.claims}"
        await self.bench.client.create(JOBS, sleeper(claim, CLAIM, 1), namespace="vision")
        await self.bench.until_running("vision", claim, CLAIM)
        workload = watch.workload_of("vision", claim)
        assert workload, "a pod runs, so its Workload was admitted"
        asked = watch.created_at[workload.metadata.uid]
        freed = max(self._running_at("vision", claim).values())
        shrink = await self._turn(training, asked, PODS - CLAIM) if level.is_elastic else None
        stay = set(self._running_at("research", training.name))
        await self.bench.delete("vision", claim)
        ended = time.time()
        back = await self._turn(training, ended, PODS)
        running = self._running_at("research", training.name)
        if not shrink:
            return cost_of_stop(back, asked, freed, ended, min(running.values()), PODS)
        joined = [seconds for uid, seconds in running.items() if uid not in stay]
        return cost_of_resizes(shrink, back, asked, freed, joined, len(stay))

    async def _turn(self, training: Target, asked: float, size: int) -> Turn:
        turns: list[Turn] = []

        async def has_turned() -> bool:
            turns.extend(filter(None, [training.turn(asked, size)]))
            return bool(turns)

        await self.bench.until(has_turned, f"{training.name} to train with {size} ranks")
        return turns[0]

    def _running_at(self, namespace: str, job: str) -> dict[str, float]:
        """The uids of its running pods, and when each began to run."""
        pods = self.bench.watch.running(namespace, job)
        return {pod.metadata.uid: self.bench.watch.running_at[pod.metadata.uid] for pod in pods}


async def measure(
    levels: Sequence[Level], runs: int, note: Callable[[str, list[Cost] | str], None]
) -> None:
    """Notes for each level the costs of each run, or why there is none. Removes the teams that are
    there, and leaves none."""
    status = json.loads(deploy_local("status", "-o", "json"))
    cluster = Cluster(Path(status["kubeconfig"]), Path(status["kubectl"]))
    kubeconfig = str(cluster.kubeconfig)
    # limits that others have written would stay
    cluster.without_teams()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(manager="bench", kubeconfig=kubeconfig))
        watch = await stack.enter_async_context(watch_cluster(client, lambda: None))
        bench = Bench(client, watch, cluster)
        await bench.set_up()
        level_bench = LevelBench(bench, cluster.kubeconfig.parent / "shared")
        await client.create(JOBS, sleeper(FILLER, 1, PODS), namespace="vision")
        try:
            await bench.until_running("vision", FILLER, 1)
            for level in levels:
                note(level.name, await _costs_or_reason(level_bench, level, runs))
        finally:
            cluster.without_teams()
            shutil.rmtree(level_bench.folder, ignore_errors=True)


async def _costs_or_reason(bench: LevelBench, level: Level, runs: int) -> list[Cost] | str:
    """What was measured before a wait took too long counts."""
    costs: list[Cost] = []
    try:
        async for cost in bench.costs(level, runs):
            print(f"{level.name}: {cost}", flush=True)
            costs.append(cost)
    except TimeoutError as error:
        print(f"{level.name}: {error}", flush=True)
        return costs or f"not measured: {error}"
    return costs
