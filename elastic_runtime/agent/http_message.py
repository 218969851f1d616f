"""Requests and replies of HTTP/1.1 on asyncio's streams.

A training image brings no HTTP library that we could rely on.
"""

import asyncio
from collections.abc import Mapping

# Bytes of all headers of a message.
MAX_HEADERS = 1 << 13
Message = tuple[str, Mapping[str, str], bytes]
"""(first line, headers, body)."""


class _Headers(dict[str, str]):
    """Keys are spelled as in the contract, in whatever case they arrive."""

    def __setitem__(self, name: str, value: str) -> None:
        super().__setitem__(name.title(), value)


async def read_message(reader: asyncio.StreamReader, max_body: int) -> Message | None:
    """None when the other side sends nothing more. Raises ValueError for what is no message."""
    first_line = await reader.readline()
    if not first_line.strip():
        return None
    headers = _Headers()
    size = 0
    while line := (await reader.readline()).strip():
        size += len(line)
        if size > MAX_HEADERS:
            raise ValueError(f"the headers are more than {MAX_HEADERS} bytes")
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip()] = value.strip()
    length = int(headers.get("Content-Length", "0"))
    if not 0 <= length <= max_body:
        raise ValueError(f"the body has {length} bytes: at most {max_body} are allowed")
    return first_line.decode("latin-1").strip(), headers, await reader.readexactly(length)


def encode_message(
    first_line: str,
    headers: Mapping[str, str],
    body: bytes,
    content_type: str = "application/json",
) -> bytes:
    lines = [
        first_line,
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
