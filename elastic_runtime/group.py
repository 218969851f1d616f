"""Process groups of one generation: form, cut, close. gloo; NCCL is not built yet.

In torch 2.13 and 2.15 gloo's `abort()` and `shutdown()` free nobody who waits: only ranks that talk to the dead peer notice, the others
sit out the timeout. shutdown(2) on the group's sockets frees every blocked call within milliseconds. So a group remembers which sockets
it opened: those that are there right after it was made and were not right before.
"""

import datetime
import os
import socket
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

# torch's own stubs know neither these names nor their methods.
TCPStore: Any = dist.TCPStore  # type: ignore[attr-defined]
PrefixStore: Any = dist.PrefixStore  # type: ignore[attr-defined]
Gloo: Any = dist.ProcessGroupGloo

TIMEOUT = datetime.timedelta(seconds=120)  # detects nothing: whoever is told of a loss cuts
MEET = datetime.timedelta(seconds=20)  # for the members of one generation to come together
CONNECT = datetime.timedelta(seconds=5)  # for those who came to connect: milliseconds, unless one is lost just then
_served: deque[int] = deque(maxlen=8)  # ports of the stores in this process: their connections belong to the peers


def sockets() -> dict[int, str]:
    """Descriptor → inode of this process's connected TCP sockets, those of its stores left out."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as opened:
                    # Only what is connected: gloo ends the process when its listening socket is shut down.
                    if (
                        opened.family in (socket.AF_INET, socket.AF_INET6)
                        and opened.getpeername()
                        and opened.getsockname()[1] not in _served
                    ):
                        found[int(name)] = link
        except OSError:
            continue  # closed meanwhile
    return found


class Group:
    """The ranks of one generation. Every collective raises RuntimeError once it was cut or a peer is gone."""

    def __init__(self, generation: int, rank: int, world: int) -> None:
        self.generation, self.rank, self.world = generation, rank, world
        self._changed, self._cut = threading.Condition(), False
        self._before: dict[int, str] = {}
        self._opened: dict[int, str] | None = None

    def form(self, store: str) -> None:
        """Meet the others at `store` (host:port). Raises RuntimeError when cut meanwhile or when somebody does not come.

        On a thread of its own: who waits for a store or a peer to connect holds no socket that could be shut, so when this group is
        cut the thread is left to itself.
        """
        self._before = sockets()
        made: list[Any] = []

        def meet() -> None:
            try:
                found: Any = self._meet(store)
            except RuntimeError as error:
                found = error
            with self._changed:
                if not self._cut:
                    made.append(found)
                self._changed.notify_all()

        threading.Thread(target=meet, daemon=True, name="form-group").start()
        with self._changed:
            self._changed.wait_for(lambda: made or self._cut)
            if self._cut:
                raise RuntimeError(f"generation {self.generation} was given up while it formed")
            if isinstance(made[0], RuntimeError):
                raise made[0]
            self._store, self._group = made[0]
            self._opened = self._ours()

    def _meet(self, address: str) -> tuple[Any, Any]:
        host, _, port = address.rpartition(":")
        store = TCPStore(host, int(port), None, False, MEET, wait_for_workers=False)
        prefixed = PrefixStore(f"generation-{self.generation}", store)
        prefixed.set(f"here-{self.rank}", "")
        prefixed.wait([f"here-{rank}" for rank in range(self.world)], MEET)
        group = Gloo(prefixed, self.rank, self.world, CONNECT)
        group._set_default_timeout(TIMEOUT)
        return store, group

    def _ours(self) -> dict[int, str]:
        return {fd: link for fd, link in sockets().items() if self._before.get(fd) != link}

    def cut(self) -> None:
        """Free every blocked call of this group, here and, by the closed connections, at the peers."""
        with self._changed:
            self._cut = True
            self._changed.notify_all()
            opened = self._opened if self._opened is not None else self._ours()
        now = sockets()
        for fd, link in opened.items():
            if now.get(fd) != link:
                continue  # closed meanwhile, perhaps used again by somebody else
            try:
                with socket.socket(fileno=os.dup(fd)) as opened_socket:
                    opened_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        """Drop the group. Closing costs 10 ms a connection (gloo's loop tick), so it happens on a thread."""
        held = [self.__dict__.pop("_group", None), self.__dict__.pop("_store", None)]

        def drop() -> None:
            with suppress(RuntimeError):
                if held[0] is not None:
                    held[0].abort()
            held.clear()

        threading.Thread(target=drop, daemon=True, name="close-group").start()

    def all_reduce(self, tensor: torch.Tensor) -> Any:
        """Sum in place, asynchronously: `wait()` on what it gives."""
        return self._group.allreduce([tensor])

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        out = [torch.empty_like(tensor) for _ in range(self.world)]
        self._group.allgather([out], [tensor]).wait()
        return out

    def send(self, tensors: Sequence[torch.Tensor], to: int) -> None:
        for work in [self._group.send([tensor], to, i) for i, tensor in enumerate(tensors)]:
            work.wait()

    def receive(self, tensors: Sequence[torch.Tensor], source: int, first: int = 0) -> None:
        """What `send` gave, from its tensor number `first` on, into these tensors."""
        for work in [self._group.recv([tensor], source, first + i) for i, tensor in enumerate(tensors)]:
            work.wait()


def open_store() -> tuple[Any, int]:
    """The place where one generation meets, and its port. It lives in a rank and serves this generation only."""
    store = TCPStore("0.0.0.0", 0, None, True, MEET, wait_for_workers=False)  # noqa: S104  the pod's own address is not known to torch
    _served.append(int(store.port))
    return store, int(store.port)
