"""Keeps room for API servers on the webhook's port, to which every pod can connect.

An open TLS connection costs about 100 KiB, and no network policy can tell an API server from a pod.
So connections of each sort are bounded: those that have sent no review, those on which a request
is being answered, and those between two reviews. When one too many arrives, the oldest of its sort
goes.
"""

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

MAX_STRANGERS = 100
"""Connections on which no review was answered yet: so many that send nothing or are in their
handshake, and so many that have sent half of a request or more. An API server sends its review
within milliseconds."""
MAX_IDLE = 100
"""Connections between two reviews: those of the latest reviews stay, however many others hold a
review that does not end."""
MAX_ANSWERING = 200
"""Connections with a review in flight: as many as fit into the memory of the webhook.

An API server may have more in flight, by default up to 600: with API Priority and Fairness its
limit is the sum of --max-requests-inflight and --max-mutating-requests-inflight
(k8s.io/apiserver, pkg/server/options/feature.go). So when all are in flight, the oldest review
goes: an honest one takes milliseconds, and one that does not end is not of an API server."""
STRANGER_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 120.0
"""Longer than Go's clients keep an idle connection (90 s), so that they close it and not we."""
SWEEP_INTERVAL_S = 1.0
COLLECT_AFTER = 100
"""Connections accepted, between two collections of those that have ended: each is a reference cycle
around some 150 KiB in OpenSSL's objects, which Python does not count. It would wait for thousands.
"""
BACKLOG = 512
CreateHandler = Callable[[], asyncio.Protocol]


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, from its arrival on."""

    # what the HTTP server created for it
    handler: asyncio.Protocol
    # by the event loop's clock: its arrival, or when its last review began or was answered
    since: float
    handshake: asyncio.Task[None] | None = None
    transport: asyncio.BaseTransport | None = None
    # requests that are being answered
    in_flight: int = 0
    is_stranger: bool = True

    @property
    def is_closed(self) -> bool:
        if self.transport is not None:
            return self.transport.is_closing()
        return self.handshake is not None and self.handshake.done()

    def abort(self) -> None:
        if self.handshake is not None:
            self.handshake.cancel()
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()


class Connections:
    """The open connections, in the order of their arrival."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Protocol, Connection] = {}
        # since the last collection
        self._accepted = 0

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def answering(self, handler: asyncio.Protocol) -> Iterator[Callable[[], None]]:
        """A request is being answered on the connection of this handler. Call what it yields when
        the request was a review."""
        connection = self._open.get(handler)
        if connection is None:
            # it was accepted by somebody else, who sets no limits
            yield lambda: None
            return
        connection.in_flight += 1
        _touch(connection)

        def note_review() -> None:
            connection.is_stranger = False

        try:
            yield note_review
        finally:
            connection.in_flight -= 1
            _touch(connection)

    async def serve(
        self, listener: socket.socket, create: CreateHandler, context: ssl.SSLContext
    ) -> None:
        """Accepts connections until cancelled; closes what is idle or never becomes a request."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._accept(listener, create, context))
            tasks.create_task(self._sweep_always())

    async def _accept(
        self, listener: socket.socket, create: CreateHandler, context: ssl.SSLContext
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listener)
            except OSError:
                # such as no file descriptor left, until the sweep has closed some
                await asyncio.sleep(SWEEP_INTERVAL_S)
                continue
            connection = Connection(create(), since=loop.time())
            # before the handshake, whose last packet may carry a request
            self._open[connection.handler] = connection
            self._accepted += 1
            connection.handshake = asyncio.create_task(_shake_hands(connection, peer, context))
            self._make_room()
            # what has arrived before goes on
            await asyncio.sleep(0)

    def _make_room(self) -> None:
        """At the bounds again, of each sort by itself: the oldest go."""
        self._forget_closed()
        strangers = [peer for peer in self._open.values() if peer.is_stranger]
        silent = [peer for peer in strangers if not peer.in_flight]
        asking = [peer for peer in strangers if peer.in_flight]
        for connection in (*silent[:-MAX_STRANGERS], *asking[:-MAX_STRANGERS]):
            self._drop(connection)
        by_age = sorted(self._open.values(), key=lambda peer: peer.since)
        answering = [peer for peer in by_age if peer.in_flight]
        idle = [peer for peer in by_age if not peer.in_flight and not peer.is_stranger]
        for connection in (*answering[:-MAX_ANSWERING], *idle[:-MAX_IDLE]):
            self._drop(connection)

    async def _sweep_always(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            self.sweep(asyncio.get_running_loop().time())

    def sweep(self, now: float) -> None:
        """Closes what has been idle for too long, and frees what ended connections took."""
        self._forget_closed()
        for connection in list(self._open.values()):
            limit_s = STRANGER_TIMEOUT_S if connection.is_stranger else IDLE_TIMEOUT_S
            if not connection.in_flight and now - connection.since > limit_s:
                self._drop(connection)
        if self._accepted >= COLLECT_AFTER:
            self._accepted = 0
            gc.collect()

    def _drop(self, connection: Connection) -> None:
        connection.abort()
        del self._open[connection.handler]

    def _forget_closed(self) -> None:
        for connection in [peer for peer in self._open.values() if peer.is_closed]:
            del self._open[connection.handler]


def _touch(connection: Connection) -> None:
    """A stranger gets no more time by requests that are no reviews."""
    if not connection.is_stranger:
        connection.since = asyncio.get_running_loop().time()


async def _shake_hands(
    connection: Connection, peer: socket.socket, context: ssl.SSLContext
) -> None:
    """Sets the transport when the peer has ended its handshake. A peer that does not is forgotten
    with the next sweep."""
    loop = asyncio.get_running_loop()
    with suppress(OSError, asyncio.CancelledError):
        connection.transport, _ = await loop.connect_accepted_socket(
            lambda: connection.handler,
            peer,
            ssl=context,
            ssl_handshake_timeout=STRANGER_TIMEOUT_S,
        )


def listen(port: int) -> socket.socket:
    """A socket on this port of all addresses, IPv6 too where the machine has it."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return _without_blocking(
                socket.create_server(
                    ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
                )
            )
    return _without_blocking(socket.create_server(("", port), backlog=BACKLOG))


def _without_blocking(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)
    return listener
