"""gloo: how the ranks of a generation agree on anything, and how a model on the CPU is trained.

In torch 2.13 and 2.15 gloo's `abort()` and `shutdown()` free nobody who waits: only ranks that talk
to the dead peer notice, the others
sit out the timeout. shutdown(2) on the group's sockets frees every blocked call within
milliseconds. So a group remembers which sockets
it opened: those that are there right after it was made and were not right before. All but one: gloo
forgets whoever waits for what it is
just sending when the connection closes (tcp/pair.cc, signalException). So nobody waits for longer
than `LOOK` without looking up.
"""

import datetime
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch.distributed as dist

# torch's own stubs know neither these names nor their methods.
TCPStore: Any = dist.TCPStore  # type: ignore[attr-defined]
PrefixStore: Any = dist.PrefixStore  # type: ignore[attr-defined]
HashStore: Any = dist.HashStore  # type: ignore[attr-defined]
Gloo: Any = dist.ProcessGroupGloo

# detects nothing: whoever is told of a loss cuts; a save may be loaded meanwhile
TIMEOUT = datetime.timedelta(hours=1)
# for the members of one generation to come together
MEET = datetime.timedelta(seconds=20)
# for those who came to connect: milliseconds, unless one is lost just then
CONNECT = datetime.timedelta(seconds=5)
LOOK = datetime.timedelta(seconds=0.1)
# ports of the stores in this process: their connections belong to the peers
_served: deque[int] = deque(maxlen=8)


class Cuttable(Protocol):
    """What a call sees of its group."""

    @property
    def is_cut(self) -> bool: ...
    def unless_cut(self, ask: Callable[[], bool]) -> bool: ...


class Call:
    """A collective under way."""

    def __init__(self, group: Cuttable, work: Any) -> None:
        self._group = group
        self._work = work

    def wait(self) -> None:
        """Until it is done here. Raises RuntimeError when the group was cut or a peer is gone."""
        while True:
            over = self._group.is_cut or self._work.is_completed()
            try:
                self._work.wait(LOOK)
            except RuntimeError:
                # it failed, or is not done yet
                if over:
                    raise
            else:
                return

    def follow(self) -> None:
        """What is computed from now on comes after it: here that is to wait."""
        self.wait()

    @property
    def may_write(self) -> bool:
        """Whether it may still write its tensors. Not once it has ended, well or not.

        gloo keeps no buffer beyond that (tcp/pair.cc, NonOwningPtr).
        """
        return not self._work.is_completed()


def make(store: Any, rank: int, world: int) -> Any:
    """A process group of those who meet at `store`, connected."""
    made = Gloo(store, rank, world, CONNECT)
    made._set_default_timeout(TIMEOUT)
    return made


class Sockets:
    """Those a group opens between now and `remember`."""

    def __init__(self) -> None:
        self._before = sockets()
        self._opened: dict[int, str] | None = None

    def remember(self) -> None:
        self._opened = self._ours()

    def _ours(self) -> dict[int, str]:
        return {fd: link for fd, link in sockets().items() if self._before.get(fd) != link}

    def shut(self) -> None:
        """Free every call that is blocked on one, here and, by the closed connections, at the
        peers."""
        opened = self._opened if self._opened is not None else self._ours()
        now = sockets()
        for fd, link in opened.items():
            if now.get(fd) != link:
                # closed meanwhile, perhaps used again by somebody else
                continue
            try:
                with socket.socket(fileno=os.dup(fd)) as opened_socket:
                    opened_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def sockets() -> dict[int, str]:
    """Descriptor → inode of this process's connected TCP sockets, those of its stores left out."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as opened:
                    # Only what is connected: gloo ends the process when its listening socket is
                    # shut down.
                    if (
                        opened.family in (socket.AF_INET, socket.AF_INET6)
                        and opened.getpeername()
                        and opened.getsockname()[1] not in _served
                    ):
                        found[int(name)] = link
        except OSError:
            # closed meanwhile
            continue
    return found


def open_store() -> tuple[Any, int]:
    """The place where one generation meets, and its port. It lives in a rank and serves this
    generation only."""
    store = TCPStore("0.0.0.0", 0, None, True, MEET, wait_for_workers=False)  # noqa: S104  the pod's own address is not known to torch
    _served.append(int(store.port))
    return store, int(store.port)
