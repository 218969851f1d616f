"""Somebody whom the server answers, what they may ask, and how they are known."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from cede.api.objects import Key
from cede.dashboard.feed import Feed
from cede.dashboard.history import Answer
from cede.dashboard.questions import Question
from cede.prediction import Prediction
from cede.report.explanation import Explanation

Explain = Callable[[Key], Awaitable[Explanation]]
Predict = Callable[[Question], Awaitable[Prediction]]
History = Callable[[], Awaitable[Answer]]


@dataclass(frozen=True)
class Visitor:
    """All of it is with the visitor's own rights."""

    feed: Feed
    explain: Explain
    predict: Predict
    history: History
    # the name in the cluster; empty for whoever started the command
    user: str = ""
    # whether they can sign out
    signed_in: bool = False


class Access(Protocol):
    def routes(self) -> Iterable[web.RouteDef]:
        """What is needed to be let in."""
        ...

    async def close(self) -> None:
        """Every stream ends."""
        ...

    def check(self, request: web.Request) -> None:
        """Raises what refuses the request, whatever it is for."""
        ...

    async def visitor(self, request: web.Request) -> Visitor:
        """Who asks. It is asked for again and again while a page is open. Raises what refuses the
        request."""
        ...
