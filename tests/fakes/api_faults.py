"""Answers of an API server that has a fault, for `ApiServer.script`."""

import asyncio

from aiohttp import web

from cede.api.objects import Json
from tests.fakes.http_messages import Answer, refusal, watch_line


def sends(*chunks: bytes) -> Answer:
    """200, these chunks one by one, then the end of the response."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        return response

    return answer


def refuses(
    status: int, reason: str, message: str = "no", headers: dict[str, str] | None = None
) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return refusal(status, reason, message, headers)

    return answer


def sends_error_event(status: int, reason: str, message: str = "no") -> Answer:
    """200, then an ERROR event: how a server ends a watch that it cannot continue."""
    body: Json = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": status,
    }
    return sends(watch_line("ERROR", body))


def drops(*chunks: bytes) -> Answer:
    """The connection breaks after these chunks, or before any response."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if chunks:
            await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        assert request.transport is not None
        request.transport.abort()
        return response

    return answer


def hangs() -> Answer:
    """The server never answers."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer
