"""The runtime of a job, as the scheduler meets it: HTTP that is really signed."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web

from elastic_runtime import contract
from elastic_runtime.agent.nonces import Nonces
from elastic_runtime.contract import State, Status

ROOT_KEY = b"0123456789abcdef" * 4
RESEARCH_KEY = contract.derive_key(ROOT_KEY, "research")


def loopback_address(index: int) -> str:
    """An address of this process only (Linux answers on all of 127.0.0.0/8): tests that run side by
    side use the same port."""
    high, low = divmod(os.getpid() % 2**16, 2**8)
    return f"127.{index}.{high}.{low}"


def signed(
    request: web.Request, status: int, body: bytes, key: bytes = RESEARCH_KEY
) -> web.Response:
    """The answer of a pod of research, or of the holder of another `key`."""
    headers = contract.sign_reply(key, status, request.headers, body)
    return web.Response(status=status, body=body, headers=headers)


@asynccontextmanager
async def answering(
    address: str, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> AsyncIterator[None]:
    """A pod that answers every request like this."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, address, contract.PORT).start()
    try:
        yield
    finally:
        await runner.cleanup()


def saved(status: Status) -> Status:
    """After the step in which the job was asked."""
    return replace(status, step=status.step + 1, durableStep=status.step + 1)


class Runtime:
    """A pod of a job, on its own loopback address.

    After a request for another size it cedes at the `polls_until_ceded`-th poll of its status.
    """

    def __init__(
        self, address: str, namespace: str, uid: str, size: int, polls_until_ceded: float = 2
    ) -> None:
        self.address = address
        self.uid = uid
        self.polls_until_ceded = polls_until_ceded
        self.key = contract.derive_key(ROOT_KEY, namespace)
        self.status = Status(state=State.TRAINING, size=size, step=10)
        # (size, Cession) of every request, in order
        self.requests: list[tuple[int, str]] = []
        # how often it was asked to save; then its status is the one that `on_save` makes of it
        self.saves = 0
        self.on_save: Callable[[Status], Status] = saved
        # how often its status was read
        self.polls = 0
        self._nonces = Nonces(started_at=0.0)
        self._polls_left = 0.0

    async def __aenter__(self) -> "Runtime":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, contract.PORT).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        refusal = self._nonces.refusal(
            self.key, request.method, request.path, self.uid, request.headers, body, time.time()
        )
        assert refusal is None, refusal
        if request.method == "PUT":
            self._accept(body)
        elif request.method == "POST":
            assert request.path == contract.CHECKPOINT_PATH
            self.saves += 1
            self.status = self.on_save(self.status)
        else:
            self.polls += 1
            if self.status.state == State.RESIZING:
                self._resize()
        return signed(request, 200, contract.encode(self.status), self.key)

    def _accept(self, body: bytes) -> None:
        request = contract.decode_size(body)
        self.requests.append((request.size, request.cession))
        self.status = replace(
            self.status, state=State.RESIZING, wanted=request.size, cession=request.cession
        )
        self._polls_left = self.polls_until_ceded

    def _resize(self) -> None:
        self._polls_left -= 1
        if self._polls_left <= 0:
            state = State.TRAINING if self.status.wanted else State.STOPPED
            step = self.status.step + 1
            self.status = replace(self.status, state=state, size=self.status.wanted, step=step)
