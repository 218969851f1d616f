"""Answers of an API server that is not well, for `ApiServer.script`."""

import asyncio

from aiohttp import web

from cede.api.objects import Json
from tests.fakes.api_server import Answer, line, refusal


def says(*chunks: bytes) -> Answer:
    """200, these chunks one by one, then the end."""

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


def in_stream(status: int, reason: str, message: str = "no") -> Answer:
    """200, and then an ERROR event, as a server tells a watch that it cannot go on."""
    body: Json = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": status,
    }
    return says(line("ERROR", body))


def drops(*chunks: bytes) -> Answer:
    """The connection breaks, after these chunks."""

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
    """No answer, ever."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer
