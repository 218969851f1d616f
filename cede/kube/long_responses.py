"""Reads pages and lines in bounded memory, however large users make their objects."""

from collections.abc import AsyncIterator

import aiohttp
from aiohttp.http_exceptions import LineTooLong

from cede.kube.errors import Gone

MAX_LINE_BYTES = 1 << 24
"""Of an event. By default etcd takes objects of 1.5 MiB, and in JSON one byte of a text may be
six."""
MAX_OBJECTS = 250
"""Of a page. A list of 10,000 objects costs as much CPU as with 500, and half as much again with
50."""
MAX_PAGE_BYTES = 1 << 23
"""Bytes of a page. A page of one object may be larger."""
FEWER = 8
"""By how much the limit is divided after a page that is too large."""


class PageTooLarge(Exception):
    """The same page must be asked for with the lower limit."""


class Pages:
    """Reads the pages of one list. `limit` is for the next one."""

    def __init__(self) -> None:
        self.limit = MAX_OBJECTS

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """The content. Raises PageTooLarge as soon as it has too many bytes."""
        parts = list[bytes]()
        left = MAX_PAGE_BYTES
        async for part in response.content.iter_any():
            parts.append(part)
            left -= len(part)
            if left < 0 and self.limit > 1:
                response.close()
                self.limit = max(1, self.limit // FEWER)
                raise PageTooLarge
        self.limit = min(MAX_OBJECTS, 2 * self.limit)
        return b"".join(parts)


async def read_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines that are not empty. Raises Gone for one that is too long.

    A repeated watch would get the same line. A list has no limit for one object, so it reads it.
    """
    try:
        while line := await response.content.readline(max_line_length=MAX_LINE_BYTES):
            if line.strip():
                yield line
    except LineTooLong as error:
        raise Gone(410, "LineTooLong", f"a line has more than {MAX_LINE_BYTES} bytes") from error
