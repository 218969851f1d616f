"""Those who may see the same: one page for all of them, made from what they may see."""

import asyncio
import logging
from functools import partial

from cede.dashboard.feed import Feed
from cede.dashboard.job_rows import Group, groups
from cede.dashboard.page import Page, page, with_trouble
from cede.dashboard.view import View
from cede.kube.threads import run_in_thread

log = logging.getLogger(__name__)


class Audience:
    """`context` is the name of the cluster on the page."""

    def __init__(self, context: str) -> None:
        self.feed = Feed()
        self._context = context
        self._groups: dict[str, Group] = {}
        self._page = Page()
        self._turn = asyncio.Lock()

    async def update(self, view: View, now: float) -> None:
        """`view`: all that they may see."""
        async with self._turn:
            try:
                self._page = await run_in_thread(partial(self._make, view, now))
            # nothing that a cluster contains ends the page
            except Exception as error:
                log.exception("page not made")
                sentence = f"the page cannot be made ({type(error).__name__}: {error})"
                self._page = with_trouble(self._page, sentence)
            await self.feed.update(self._page)

    def _make(self, view: View, now: float) -> Page:
        self._groups = groups(view, self._groups, now)
        return page(view, self._groups, self._context, now)
