"""The pages of all who look: those with equal rights share one."""

import asyncio
import time

from cede.dashboard.audience import Audience
from cede.dashboard.feed import Feed
from cede.dashboard.people.person import Rights, visible
from cede.dashboard.view import View

UNUSED_S = 120.0
"""A page that nobody has asked for is not made any more."""
MAX_AUDIENCES = 200


class TooMany(Exception):
    """No page more can be made now."""


class Audiences:
    def __init__(self, context: str) -> None:
        self._context = context
        self._view = View(reading=True)
        self._audiences: dict[Rights, Audience] = {}
        self._used: dict[Rights, float] = {}

    @property
    def team_namespaces(self) -> frozenset[str]:
        return self._view.team_namespaces

    @property
    def is_ready(self) -> bool:
        """Whether the cluster was read: without that, nobody knows which namespaces there are."""
        return not self._view.reading

    async def feed(self, rights: Rights) -> Feed:
        """The page of those with these rights. Raises TooMany."""
        audience = self._audiences.get(rights)
        if audience is None and len(self._audiences) >= MAX_AUDIENCES:
            raise TooMany
        self._used[rights] = _now()
        if audience is None:
            audience = self._audiences[rights] = Audience(self._context)
            await audience.update(visible(self._view, rights), time.time())
        return audience.feed

    async def update(self, view: View, now: float) -> None:
        """Makes all of them again."""
        self._view = view
        for rights, audience in list(self._audiences.items()):
            if _now() - self._used[rights] > UNUSED_S:
                await self._drop(rights)
            else:
                await audience.update(visible(view, rights), now)

    async def close(self) -> None:
        """Every stream ends."""
        for rights in list(self._audiences):
            await self._drop(rights)

    async def _drop(self, rights: Rights) -> None:
        del self._used[rights]
        await self._audiences.pop(rights).feed.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
