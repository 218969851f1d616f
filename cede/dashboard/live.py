"""Looks at the cluster whenever it changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from cede.dashboard.metrics import note_picture
from cede.dashboard.view import View
from cede.dashboard.watches import Watches
from cede.kube.client import HttpClient

INTERVAL_S = 1.0
"""Between two updates of the page."""
IDLE_S = 15.0
"""After this time the page is made again although nothing changed: a leader may be gone."""


class Live:
    """Gives what the cluster holds, and the time, to `update`, again and again."""

    def __init__(
        self, client: HttpClient, update: Callable[[View, float], Awaitable[None]]
    ) -> None:
        self._update = update
        self._wake = asyncio.Event()
        self.watches = Watches(client, self._wake.set)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watches.run())
            group.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await self._wake.wait()
            self._wake.clear()
            now, age_s = time.time(), self.watches.age_s
            await self._update(self.watches.view(), now)
            note_picture(now, age_s)
            await asyncio.sleep(INTERVAL_S)
