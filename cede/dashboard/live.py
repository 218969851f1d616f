"""Keeps the page as the cluster is."""

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial

from cede.dashboard.feed import Feed
from cede.dashboard.job_rows import Group, groups
from cede.dashboard.page import Page, page, with_trouble
from cede.dashboard.view import View
from cede.dashboard.watches import Watches
from cede.kube.client import HttpClient
from cede.kube.threads import run_in_thread

log = logging.getLogger(__name__)
INTERVAL_S = 1.0
"""Between two updates of the page."""
IDLE_S = 15.0
"""After this time the page is made again although nothing changed: a leader may be gone."""


class Live:
    """Makes the page of a cluster again and again, and gives it to `feed`."""

    def __init__(self, client: HttpClient, feed: Feed, context: str) -> None:
        self._feed = feed
        self._context = context
        self._wake = asyncio.Event()
        self._watches = Watches(client, self._wake.set)
        self._groups: dict[str, Group] = {}
        self._page = Page()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watches.run())
            group.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await self._wake.wait()
            self._wake.clear()
            await self._update()
            await asyncio.sleep(INTERVAL_S)

    async def _update(self) -> None:
        make = partial(self._make, self._watches.view(), time.time())
        try:
            self._page = await run_in_thread(make)
        # nothing that a cluster contains ends the page
        except Exception as error:
            log.exception("page not made")
            sentence = f"the page cannot be made ({type(error).__name__}: {error})"
            self._page = with_trouble(self._page, sentence)
        await self._feed.update(self._page)

    def _make(self, view: View, now: float) -> Page:
        self._groups = groups(view, self._groups, now)
        return page(view, self._groups, self._context, now)
