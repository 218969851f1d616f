"""The ledger's controller with an API server in memory, a real database, and a clock of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import ALLOCATIONS, CONFIG_MAPS, POLICIES, WORKLOADS, Json
from cede.kube.cache import all_synced
from cede.kube.client import HttpClient
from ledger.controller import Controller
from ledger.database import Database
from ledger.month_sums import read_month
from ledger.months import parse_month
from ledger.statement_tables import MonthSums
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, allocation, policy
from tests.fakes.api_server import ApiServer

HEAD = ("cede-system", "cede-ledger")


@dataclass
class LedgerWorld:
    server: ApiServer
    client: HttpClient
    database: Database
    # seconds since the start of the test
    seconds: float = 0.0
    # of the ledger's clock before that of the server
    ahead_s: float = 0.0
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        self.server.clock = lambda: NOW / SECOND + self.seconds
        self.server.put(POLICIES, policy().model_dump(mode="json"))
        for name in ("research", "vision"):
            self.server.put(ALLOCATIONS, allocation(name).model_dump(mode="json"))
        self.server.put(CONFIG_MAPS, {"metadata": {"name": HEAD[1], "namespace": HEAD[0]}})

    def put(self, workload: Workload) -> None:
        self.server.put(WORKLOADS, msgspec.to_builtins(workload))

    def remove(self, name: str) -> None:
        self.server.remove(WORKLOADS, ("research", name))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Controller]:
        """A process of the ledger, whose caches are synced."""

        def clock() -> float:
            return NOW / SECOND + self.seconds + self.ahead_s

        controller = Controller(self.client, asyncio.Event(), clock, self.database)
        tasks = [asyncio.create_task(cache.run()) for cache in controller.caches]
        await all_synced(controller.caches)
        self.controller = controller
        try:
            yield controller
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def passes(self, seconds: int, step: int = 20) -> None:
        """Passes for so long, and one that knows all that the server has sent."""
        await self.controller.reconcile()
        for _ in range(0, seconds, step):
            self.seconds += step
            await self.controller.reconcile()

    async def changed(self) -> None:
        """The controller has seen the last change."""
        await self.controller.wake.wait()
        self.controller.wake.clear()

    @property
    def month(self) -> MonthSums:
        return read_month(self.database, parse_month("2026-11"))

    def used_s(self, job: str) -> float:
        """Accelerator-seconds."""
        return sum(s["used"] for key, s in self.month.jobs.items() if key.job == job) / SECOND

    @property
    def head(self) -> str:
        """The newest record of the audit, as the cluster has it."""
        config_map: Json = self.server.get(CONFIG_MAPS, HEAD) or {"metadata": {}}
        return str(config_map["metadata"].get("annotations", {}).get(names.AUDIT_HEAD, ""))


@asynccontextmanager
async def ledger_world(database: Database) -> AsyncIterator[LedgerWorld]:
    async with ApiServer() as server, server.client(manager=names.LEDGER) as client:
        yield LedgerWorld(server, client, database)
