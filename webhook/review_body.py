"""Reads the body of a review within bounds, and finds who asked even in one that is no JSON."""

import asyncio
import re
from contextlib import AsyncExitStack

from aiohttp import web

MAX_BODY_BYTES = 4 << 20
"""The review of an update carries two objects of up to 1.5 MB, which is etcd's limit. Kueue refuses
beyond 7 MiB (controller-runtime, pkg/webhook/admission/http.go)."""
MAX_VALUES = 200_000
"""In both objects of a review, counted by the characters that begin or separate them (RFC 8259,
section 2), those in texts too. In Python a value takes up to 150 bytes, and a changed one as many
again. A Job with 1,000 variables has about 6,000 of these characters."""
SMALL_BODY_BYTES = 256 << 10
MAX_LARGE_BODIES = 8
"""At once, with the connections that are allowed: what all bodies may take of the memory."""
HEAD_BYTES = 4096
# an API server writes the uid as the first field of the request, before all that a user wrote
_UID = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([-0-9A-Za-z]{1,64})"')


class TooLarge(ValueError):
    """The body has more than `MAX_BODY_BYTES`, or more than `MAX_VALUES`."""


class ReviewBody:
    """The body of one request, as far as it has arrived."""

    def __init__(self) -> None:
        self.content = bytearray()

    @property
    def is_large(self) -> bool:
        return len(self.content) > SMALL_BODY_BYTES

    @property
    def uid(self) -> str:
        """Of the review, as an API server writes it; empty if it is not there."""
        match = _UID.search(self.content[:HEAD_BYTES])
        return match[1].decode() if match else ""

    async def read(
        self, request: web.BaseRequest, turns: asyncio.Semaphore, stack: AsyncExitStack
    ) -> None:
        """Reads the body. A large one waits for its turn, which ends with `stack`.

        Raises TooLarge once all of it has arrived: an answer before would be an error to its
        sender. Of what is beyond `MAX_BODY_BYTES` only the first bytes are kept.
        """
        is_waiting = False
        size = 0
        async for part in request.content.iter_any():
            size += len(part)
            if size > MAX_BODY_BYTES:
                del self.content[HEAD_BYTES:]
                continue
            self.content += part
            if self.is_large and not is_waiting:
                is_waiting = True
                await stack.enter_async_context(turns)
        if size > MAX_BODY_BYTES:
            raise TooLarge(f"the review has {size} bytes, above {MAX_BODY_BYTES}")
        values = sum(map(self.content.count, b"{[,"))
        if values > MAX_VALUES:
            raise TooLarge(
                f"the object, and what it was before, have {values} fields and values, by their "
                f"characters {{ [ and , above {MAX_VALUES}: make the object smaller"
            )
