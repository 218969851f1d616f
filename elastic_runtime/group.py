"""Process groups of one generation: form, cut, close. gloo; NCCL is not built yet.

In torch 2.13 and 2.15 gloo's `abort()` and `shutdown()` free nobody who waits: only ranks that talk to the dead peer notice, the others
sit out the timeout. shutdown(2) on the group's sockets frees every blocked call within milliseconds. So a group remembers which sockets
it opened: those that are there right after it was made and were not right before. All but one: gloo forgets whoever waits for what it is
just sending when the connection closes (tcp/pair.cc, signalException). So nobody waits for longer than `LOOK` without looking up.
"""

import datetime
import json
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
HashStore: Any = dist.HashStore  # type: ignore[attr-defined]
Gloo: Any = dist.ProcessGroupGloo

TIMEOUT = datetime.timedelta(hours=1)  # detects nothing: whoever is told of a loss cuts; a save may be loaded meanwhile
MEET = datetime.timedelta(seconds=20)  # for the members of one generation to come together
CONNECT = datetime.timedelta(seconds=5)  # for those who came to connect: milliseconds, unless one is lost just then
LOOK = datetime.timedelta(seconds=0.1)
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


class Call:
    """A collective under way."""

    def __init__(self, group: "Group", work: Any) -> None:
        self._group, self._work = group, work

    def wait(self) -> None:
        """Until it is done here. Raises RuntimeError when the group was cut or a peer is gone."""
        while True:
            over = self._group.is_cut or self._work.is_completed()
            try:
                self._work.wait(LOOK)
            except RuntimeError:  # it failed, or is not done yet
                if over:
                    raise
            else:
                return


class Group:
    """The ranks of one generation. Every collective raises RuntimeError once it was cut or a peer is gone.

    `shards`: so many neighbouring ranks hold one copy of a sharded model together; it divides `world`. 0 for a model that is not sharded.
    """

    def __init__(self, generation: int, rank: int, world: int, shards: int = 0) -> None:
        self.generation, self.rank, self.world, self.shards = generation, rank, world, shards
        self._changed, self._cut = threading.Condition(), False
        self._before: dict[int, str] = {}
        self._opened: dict[int, str] | None = None
        self.shard: Any = None  # torch's group of those who share a copy of a sharded model
        self._copies: Any = None  # and of those who hold the same shard, if there are several copies

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
            self._store, self._group, self.shard, self._copies = made[0]
            self._opened = self._ours()

    def alone(self) -> "Group":
        """Formed at once: the group of a job of one."""
        self._store = HashStore()
        self._group = self.shard = Gloo(self._store, 0, 1, CONNECT)
        return self

    def _meet(self, address: str) -> tuple[Any, Any, Any, Any]:
        host, _, port = address.rpartition(":")
        store = TCPStore(host, int(port), None, False, MEET, wait_for_workers=False)
        prefixed = PrefixStore(f"generation-{self.generation}", store)
        prefixed.set(f"here-{self.rank}", "")
        prefixed.wait([f"here-{rank}" for rank in range(self.world)], MEET)
        group = Gloo(prefixed, self.rank, self.world, CONNECT)
        shard, copies = None, None
        if self.shards:
            copy, at = divmod(self.rank, self.shards)
            whole = self.shards == self.world
            shard = group if whole else Gloo(PrefixStore(f"copy-{copy}", prefixed), at, self.shards, CONNECT)
            copies = None if whole else Gloo(PrefixStore(f"shard-{at}", prefixed), copy, self.world // self.shards, CONNECT)
        for made in filter(None, (group, shard, copies)):
            made._set_default_timeout(TIMEOUT)
        return store, group, shard, copies

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
        held = [self.__dict__.pop(name, None) for name in ("_group", "shard", "_copies", "_store")]

        def drop() -> None:
            for group in held[:-1]:
                with suppress(RuntimeError):
                    if group is not None:
                        group.abort()
            held.clear()

        threading.Thread(target=drop, daemon=True, name="close-group").start()

    @property
    def is_cut(self) -> bool:
        return self._cut

    def all_reduce(self, tensor: torch.Tensor) -> Call:
        """Sum in place, asynchronously: `wait()` on what it gives."""
        return Call(self, self._group.allreduce([tensor]))

    def all_reduce_copies(self, tensor: torch.Tensor) -> None:
        """Sum in place over the ranks that hold the same shard as this one."""
        if self._copies is not None:
            Call(self, self._copies.allreduce([tensor])).wait()

    def all_gather_shards(self, output: torch.Tensor, given: torch.Tensor) -> None:
        """`given` of all ranks that share a copy of the model, end to end."""
        Call(self, self.shard._allgather_base(output, given)).wait()

    def reduce_scatter_shards(self, output: torch.Tensor, given: torch.Tensor) -> None:
        """This rank's piece of the sum of `given` over them."""
        Call(self, self.shard._reduce_scatter_base(output, given)).wait()

    def all_to_all(self, output: torch.Tensor, given: torch.Tensor) -> None:
        """Row i of `given`, of as many rows as ranks, goes to rank i; row i of `output` came from it."""
        Call(self, self._group.alltoall_base(output, given, [], [])).wait()

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        out = [torch.empty_like(tensor) for _ in range(self.world)]
        Call(self, self._group.allgather([out], [tensor])).wait()
        return out

    def all_gather_said(self, said: Any) -> list[Any]:
        """Plain data of every rank, by rank."""
        raw = json.dumps(said).encode()
        lengths = [int(n) for n in self.all_gather(torch.tensor([len(raw)]))]
        mine = torch.zeros(max(lengths), dtype=torch.uint8)
        mine[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return [json.loads(bytes(told[:n].tolist())) for told, n in zip(self.all_gather(mine), lengths, strict=True)]

    def post(self, tensors: Sequence[torch.Tensor], peer: int, *, out: bool, tag: int) -> list[Any]:
        """Send to, or receive from, rank `peer`; `finish` what it gives. The peer uses the same tags, from `tag` on."""
        call = self._group.send if out else self._group.recv
        return [call([tensor], peer, tag + i) for i, tensor in enumerate(tensors)]

    def finish(self, posted: Sequence[Any]) -> None:
        """Until all that was posted is done. Raises RuntimeError when the group was cut or a peer is gone.

        Waited for on a thread: to stop waiting for one of them closes every connection of its group.
        """
        ended: list[RuntimeError | None] = []

        def wait() -> None:
            error = None
            try:
                for work in posted:
                    work.wait()
            except RuntimeError as lost:
                error = lost
            with self._changed:
                ended.append(error)
                self._changed.notify_all()

        threading.Thread(target=wait, daemon=True, name="carry").start()
        with self._changed:
            self._changed.wait_for(lambda: ended or self._cut)
        if self._cut or ended[0]:
            raise RuntimeError(f"generation {self.generation} was given up while state moved") from (ended[0] if ended else None)

    def send(self, tensors: Sequence[torch.Tensor], to: int) -> None:
        self.finish(self.post(tensors, to, out=True, tag=0))

    def receive(self, tensors: Sequence[torch.Tensor], source: int, first: int = 0) -> None:
        """What `send` gave, from its tensor number `first` on, into these tensors."""
        self.finish(self.post(tensors, source, out=False, tag=first))


def open_store() -> tuple[Any, int]:
    """The place where one generation meets, and its port. It lives in a rank and serves this generation only."""
    store = TCPStore("0.0.0.0", 0, None, True, MEET, wait_for_workers=False)  # noqa: S104  the pod's own address is not known to torch
    _served.append(int(store.port))
    return store, int(store.port)
