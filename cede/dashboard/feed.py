"""The page as it is sent: as a whole, and then what changed, by numbered versions."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from cede.dashboard.page import SECTIONS, Page, changes

MAX_KEPT = 100
"""Changes that are kept for a reader whose connection broke; after more, it reads all again."""
KEEP_ALIVE_S = 15.0


@dataclass(frozen=True)
class Message:
    """One event of the stream. `version` is that of the page after it."""

    # change, or reload: the reader must read the page again
    event: str
    version: int
    data: bytes

    def encode(self) -> bytes:
        """As text/event-stream. JSON has no line break."""
        return f"id: {self.version}\nevent: {self.event}\ndata: ".encode() + self.data + b"\n\n"


ALIVE = b": alive\n\n"
"""A comment. It shows that the connection lives."""


class Feed:
    """The present page, and the last changes of it."""

    def __init__(self) -> None:
        self._page = Page()
        # A reader may come with a version of another feed. JavaScript's numbers hold 53 bits.
        self._version = secrets.randbits(31) << 20
        self._messages = deque[Message](maxlen=MAX_KEPT)
        self._changed = asyncio.Condition()
        self._closed = False

    async def update(self, page: Page) -> None:
        """A page that differs in nothing is no new version."""
        differing = changes(self._page, page)
        self._page = page
        if not differing:
            return
        self._version += 1
        self._messages.append(Message("change", self._version, msgspec.json.encode(differing)))
        await self._wake()

    async def close(self) -> None:
        """Every stream ends."""
        self._closed = True
        await self._wake()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def whole(self) -> bytes:
        """The page as JSON, with its version."""
        sections = {section: getattr(self._page, section) for section in SECTIONS}
        return msgspec.json.encode({"version": self._version, **sections})

    async def after(self, version: int) -> AsyncIterator[bytes]:
        """What changed after `version`, as it happens; and while nothing does, signs of life."""
        while not self._closed:
            for message in self._missed(version):
                yield message.encode()
                version = message.version
            try:
                async with asyncio.timeout(KEEP_ALIVE_S), self._changed:
                    if self._version == version and not self._closed:
                        await self._changed.wait()
            except TimeoutError:
                yield ALIVE

    def _missed(self, version: int) -> list[Message]:
        oldest = self._messages[0].version if self._messages else self._version + 1
        if not oldest - 1 <= version <= self._version:
            return [Message("reload", self._version, b"{}")]
        return [message for message in self._messages if message.version > version]
