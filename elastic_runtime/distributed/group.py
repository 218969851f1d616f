"""Process groups of one generation: form, cut, move, close. Over gloo, and for what is on a GPU
over NCCL.

Which of the two a collective takes is decided by where its tensor is. Votes, and state that moves
from rank to rank, are on the CPU: what
is on a GPU is copied to the host on the way out and back on the way in.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from elastic_runtime.distributed import gloo, nccl

CPU = torch.device("cpu")
Call = gloo.Call | nccl.Call


@dataclass(frozen=True, slots=True)
class Parts:
    """torch's process groups of one generation, all of one kind."""

    call: Callable[[gloo.Cuttable, Any], Call]
    everybody: Any
    # those who share a copy of a sharded model
    shard: Any = None
    # those who hold the same shard, if there are several copies
    copies: Any = None


class Group:
    """The ranks of one generation. Every collective raises RuntimeError once it was cut or a peer
    is gone.

    `shards`: so many neighbouring ranks hold one copy of a sharded model together; it divides
    `world`. 0 for a model that is not sharded.
    `device`: where this rank's model is.
    """

    def __init__(
        self, generation: int, rank: int, world: int, shards: int = 0, device: torch.device = CPU
    ) -> None:
        self.generation = generation
        self.rank = rank
        self.world = world
        self.shards = shards
        self._device = device
        self._changed = threading.Condition()
        self._cut = False
        self._sockets: gloo.Sockets | None = None
        # NCCL's, connected or not
        self._communicators: list[Any] = []

    def form(self, store: str) -> None:
        """Meet the others at `store` (host:port). Raises RuntimeError when cut meanwhile or when
        somebody does not come.

        On a thread of its own: who waits for a store or a peer to connect holds no socket that
        could be shut, so when this group is
        cut the thread is left to itself. Raises ValueError if the ranks' devices can never be one
        group.
        """
        self._sockets = opened = gloo.Sockets()
        made: list[Any] = []

        def meet() -> None:
            try:
                found: Any = self._meet(store, opened)
            except (RuntimeError, ValueError) as error:
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
            if isinstance(made[0], RuntimeError | ValueError):
                raise made[0]
            self._store, self._gloo, self._nccl = made[0]

    def alone(self) -> "Group":
        """Formed at once: the group of a job of one."""
        self._store, one = gloo.HashStore(), nccl.Alone()
        made = gloo.Gloo(self._store, 0, 1, gloo.CONNECT)
        self._gloo, self._nccl = Parts(gloo.Call, made, made), Parts(nccl.Call, one, one)
        return self

    def _meet(self, address: str, opened: gloo.Sockets) -> tuple[Any, Parts, Parts]:
        host, _, port = address.rpartition(":")
        store = gloo.TCPStore(host, int(port), None, False, gloo.MEET, wait_for_workers=False)
        prefixed = gloo.PrefixStore(f"generation-{self.generation}", store)
        here = [f"here-{rank}" for rank in range(self.world)]
        prefixed.set(here[self.rank], nccl.name(self._device))
        prefixed.wait(here, gloo.MEET)
        over_gloo = self._parts(gloo.Call, prefixed, gloo.make)
        opened.remember()
        if self._device.type != "cuda":
            return store, over_gloo, over_gloo
        if self.world > 1:
            nccl.check([name.decode() for name in prefixed.multi_get(here)])
        return (
            store,
            over_gloo,
            self._parts(nccl.Call, gloo.PrefixStore("nccl", prefixed), self._connected),
        )

    def _parts(
        self,
        call: Callable[[gloo.Cuttable, Any], Call],
        store: Any,
        make: Callable[[Any, int, int], Any],
    ) -> Parts:
        everybody = make(store, self.rank, self.world)
        if self.shards in (0, self.world):
            return Parts(call, everybody, everybody if self.shards else None)
        copy, at = divmod(self.rank, self.shards)
        shard = make(gloo.PrefixStore(f"copy-{copy}", store), at, self.shards)
        return Parts(
            call,
            everybody,
            shard,
            make(gloo.PrefixStore(f"shard-{at}", store), copy, self.world // self.shards),
        )

    def _connected(self, store: Any, rank: int, world: int) -> Any:
        if world == 1:
            return nccl.Alone()
        made = nccl.make(store, rank, world)
        # from now on a cut aborts it
        with self._changed:
            if self._cut:
                raise RuntimeError("the group was cut")
            self._communicators.append(made)
        nccl.connect(made, self._device, self)
        return made

    def cut(self) -> None:
        """Free every blocked call of this group, here and, by the closed connections, at the
        peers."""
        with self._changed:
            first = not self._cut
            self._cut = True
            self._changed.notify_all()
        if first:
            nccl.abort(self._communicators)
        if self._sockets:
            self._sockets.shut()

    def close(self) -> None:
        """Drop the group. Closing costs 10 ms a connection (gloo's loop tick), so it happens on a
        thread."""
        held = [self.__dict__.pop(name, None) for name in ("_gloo", "_nccl", "_store")]
        communicators = self._communicators
        self._communicators = []

        def drop() -> None:
            if not self._cut:
                nccl.abort(communicators)
            for group in (held[0].everybody, held[0].shard, held[0].copies) if held[0] else ():
                with suppress(RuntimeError):
                    if group is not None:
                        group.abort()
            communicators.clear()
            held.clear()

        threading.Thread(target=drop, daemon=True, name="close-group").start()

    @property
    def is_cut(self) -> bool:
        return self._cut

    def unless_cut(self, ask: Callable[[], bool]) -> bool:
        """What `ask` answers, with no cut meanwhile. Raises RuntimeError if there was one
        before."""
        with self._changed:
            if self._cut:
                raise RuntimeError("the group was cut")
            return ask()

    @property
    def shard(self) -> Any:
        """torch's group, over gloo, of those who share a copy of a sharded model."""
        return self._gloo.shard

    def _over(self, tensor: torch.Tensor) -> Parts:
        # a rank alone has no connection that would tell it
        if self._cut:
            raise RuntimeError("the group was cut")
        over: Parts = self._nccl if tensor.is_cuda else self._gloo
        return over

    def all_reduce(self, tensor: torch.Tensor) -> Call:
        """Sum in place, asynchronously: `wait()` on what it gives."""
        over = self._over(tensor)
        return over.call(self, over.everybody.allreduce([tensor]))

    def all_reduce_copies(self, tensor: torch.Tensor) -> None:
        """Sum in place over the ranks that hold the same shard as this one."""
        over = self._over(tensor)
        if over.copies is not None:
            over.call(self, over.copies.allreduce([tensor])).wait()

    def all_gather_shards(self, output: torch.Tensor, given: torch.Tensor) -> None:
        """`given` of all ranks that share a copy of the model, end to end; on a GPU, for what is
        queued there after it."""
        over = self._over(given)
        over.call(self, over.shard._allgather_base(output, given)).follow()

    def reduce_scatter_shards(self, output: torch.Tensor, given: torch.Tensor) -> None:
        """This rank's piece of the sum of `given` over them, likewise."""
        over = self._over(given)
        over.call(self, over.shard._reduce_scatter_base(output, given)).follow()

    def all_to_all(self, output: torch.Tensor, given: torch.Tensor) -> None:
        """Row i of `given`, of as many rows as ranks, goes to rank i; row i of `output` came from
        it."""
        over = self._over(given)
        over.call(self, over.everybody.alltoall_base(output, given, [], [])).wait()

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        over = self._over(tensor)
        out = [torch.empty_like(tensor) for _ in range(self.world)]
        over.call(self, over.everybody.allgather([out], [tensor])).wait()
        return out

    def all_gather_said(self, said: Any) -> list[Any]:
        """Plain data of every rank, by rank."""
        raw = json.dumps(said).encode()
        lengths = [int(n) for n in self.all_gather(torch.tensor([len(raw)]))]
        mine = torch.zeros(max(lengths), dtype=torch.uint8)
        mine[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return [
            json.loads(bytes(told[:n].tolist()))
            for told, n in zip(self.all_gather(mine), lengths, strict=True)
        ]

    def post(self, tensors: Sequence[torch.Tensor], peer: int, *, out: bool, tag: int) -> list[Any]:
        """Send to, or receive from, rank `peer`; `finish` what it gives. The peer uses the same
        tags, from `tag` on. On the CPU only."""
        call = self._gloo.everybody.send if out else self._gloo.everybody.recv
        return [call([tensor], peer, tag + i) for i, tensor in enumerate(tensors)]

    def finish(self, posted: Sequence[Any]) -> None:
        """Until all that was posted is done. Raises RuntimeError when the group was cut or a peer
        is gone.

        Waited for on a thread: to stop waiting for one of them closes every connection of its
        group.
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
            raise RuntimeError(
                f"generation {self.generation} was given up while state moved"
            ) from (ended[0] if ended else None)

    def send(self, tensors: Sequence[torch.Tensor], to: int) -> None:
        self.finish(self.post(tensors, to, out=True, tag=0))

    def receive(self, tensors: Sequence[torch.Tensor], source: int, first: int = 0) -> None:
        """What `send` gave, from its tensor number `first` on, into these tensors."""
        self.finish(self.post(tensors, source, out=False, tag=first))


def all_say(group: Group | None, said: Any) -> list[Any]:
    """Plain data of every rank, by rank; in a job of one, its own."""
    return group.all_gather_said(said) if group else [said]
