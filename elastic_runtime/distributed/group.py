"""The ranks of one generation and their collectives, over gloo on the CPU and NCCL on a GPU.

The device of a tensor decides which of the two a collective uses. Votes, and state that moves from
rank to rank, are on the CPU: data on a GPU is copied to the host before and from it afterwards.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from elastic_runtime.distributed import gloo, nccl, process_groups
from elastic_runtime.distributed.gloo import PeerLost, reporting_lost_peers
from elastic_runtime.distributed.meetings import Meetings
from elastic_runtime.distributed.process_groups import ProcessGroups, Rendezvous, Work

CPU = torch.device("cpu")


class Group:
    """The ranks of one generation.

    `shard_group_size`: this many neighbouring ranks hold one copy of a sharded model together; it
    divides `world`. 0 for a model that is not sharded.
    `device`: where this rank's model is.

    Every collective raises PeerLost once the group was aborted or a peer is lost.
    """

    def __init__(
        self,
        generation: int,
        rank: int,
        world: int,
        shard_group_size: int = 0,
        device: torch.device = CPU,
    ) -> None:
        self.generation = generation
        self.rank = rank
        self.world = world
        self.shard_group_size = shard_group_size
        self._device = device
        self._changed = threading.Condition()
        self._aborted = False
        self.failure = ""
        self.meetings = Meetings(world, lambda: self._aborted)
        # Where the ranks listen, once they have met.
        self._listeners = set[gloo.Address]()
        # Over NCCL, connected or not.
        self._communicators: list[Any] = []

    # --- connect and abort ------------------------------------------------------------------------

    def connect(self, store: str) -> None:
        """Meet the other ranks at `store` (host:port) and connect to them.

        Raises PeerLost when the group is aborted meanwhile or a peer is lost, ValueError if the
        ranks' devices can never form a group. It runs on a thread of its own: a thread that
        waits for a store or a peer has no socket yet that `abort` could shut down, so after an
        abort that thread is abandoned.
        """
        rendezvous = Rendezvous(
            self.generation, self.rank, self.world, self.shard_group_size, self._device
        )
        results: list[Any] = []

        def meet() -> None:
            result: Any
            try:
                with reporting_lost_peers():
                    result = rendezvous.meet(store, self._listeners, self._make_nccl)
            except (RuntimeError, ValueError, OSError) as error:
                result = error
            with self._changed:
                if not self._aborted:
                    results.append(result)
                self._changed.notify_all()

        threading.Thread(target=meet, daemon=True, name="connect-group").start()
        with self._changed:
            self._changed.wait_for(lambda: results or self._aborted)
            if self._aborted:
                raise PeerLost(f"generation {self.generation} was aborted while it formed")
            if isinstance(results[0], Exception):
                raise results[0]
            self._store, self._gloo, self._nccl = results[0]
        self.meetings.open(self._store)

    def connect_alone(self) -> "Group":
        """The group of a job of one, connected at once."""
        self._store, self._gloo, self._nccl = process_groups.single_rank()
        return self

    def _make_nccl(self, store: Any, rank: int, world: int) -> Any:
        if world == 1:
            return nccl.SingleRankGroup()
        communicator = nccl.make(store, rank, world)
        with self._changed:
            if self._aborted:
                raise PeerLost("the group was aborted")
            # From now on `abort` aborts it too.
            self._communicators.append(communicator)
        nccl.connect(communicator, self._device, self)
        return communicator

    def abort(self) -> None:
        """Free every blocked call of this group, here and, by closed connections, at the peers."""
        with self._changed:
            is_first = not self._aborted
            self._aborted = True
            self._changed.notify_all()
        if is_first:
            nccl.abort(self._communicators)
        gloo.shut_down_connections(frozenset(self._listeners))

    def close(self) -> None:
        """Drop the group, on a thread: gloo needs 10 ms for each connection (its loop's tick).

        Only that thread may hold the last reference. To drop torch's group waits for its threads,
        and one of them may be in a call that gloo never ends (see gloo.py).
        """
        attributes = self.__dict__
        # (_gloo, the others): only in this list, which the thread empties.
        dropped = [attributes.pop(name, None) for name in ("_gloo", "_nccl", "_store")]
        dropped.append(self.meetings.close())
        communicators = self._communicators
        self._communicators = []

        def drop() -> None:
            if not self._aborted:
                nccl.abort(communicators)
            over_gloo: ProcessGroups | None = dropped[0]
            if over_gloo:
                for group in (over_gloo.world, over_gloo.shard, over_gloo.replicate):
                    with suppress(RuntimeError):
                        if group is not None:
                            group.abort()
            communicators.clear()
            dropped.clear()

        threading.Thread(target=drop, daemon=True, name="close-group").start()

    @property
    def is_connected(self) -> bool:
        return hasattr(self, "_gloo")

    @property
    def is_aborted(self) -> bool:
        return self._aborted

    def unless_aborted(self, query: Callable[[], bool]) -> bool:
        """What `query` returns; the group is not aborted while it runs.

        Raises PeerLost if it was aborted before.
        """
        with self._changed:
            if self._aborted:
                raise PeerLost("the group was aborted")
            return query()

    @property
    def shard(self) -> Any:
        """torch's process group, over gloo, of the ranks that hold one copy of a sharded model."""
        return self._gloo.shard

    def keep_waiting(self) -> None:
        """Called while this rank waits. Raises Mistake if others wait for it elsewhere."""
        self.meetings.look()

    # --- collectives ------------------------------------------------------------------------------

    def _groups_for(self, tensor: torch.Tensor) -> ProcessGroups:
        # A rank alone has no connection whose end would show it.
        if self._aborted:
            raise PeerLost("the group was aborted")
        groups: ProcessGroups = self._nccl if tensor.is_cuda else self._gloo
        return groups

    def _start(self, tensor: torch.Tensor, launch: Callable[[ProcessGroups], Any]) -> Work:
        """What `launch` starts for this tensor; `launch` returns torch's work."""
        groups = self._groups_for(tensor)
        try:
            return groups.work_type(self, launch(groups))
        except torch.distributed.DistBackendError as error:
            # NCCL may learn of a lost peer before gloo.
            raise PeerLost(str(error)) from error

    def all_reduce(self, tensor: torch.Tensor) -> Work:
        """Start to sum in place; call `wait()` on what it returns."""
        return self._start(tensor, lambda groups: groups.world.allreduce([tensor]))

    def all_reduce_replicas(self, tensor: torch.Tensor) -> None:
        """Sum in place over the ranks that hold the same shard as this one."""
        if self._groups_for(tensor).replicate is not None:
            self._start(tensor, lambda groups: groups.replicate.allreduce([tensor])).wait()

    def all_gather_shards(self, output: torch.Tensor, source: torch.Tensor) -> None:
        """Concatenate `source` of all ranks of the shard group.

        On a GPU the result is there for what is queued afterwards.
        """
        work = self._start(source, lambda groups: groups.shard._allgather_base(output, source))
        work.block_current_stream()

    def reduce_scatter_shards(self, output: torch.Tensor, source: torch.Tensor) -> None:
        """This rank's piece of the sum of `source` over the shard group, as `all_gather_shards`."""
        work = self._start(source, lambda groups: groups.shard._reduce_scatter_base(output, source))
        work.block_current_stream()

    def all_to_all(self, output: torch.Tensor, source: torch.Tensor) -> None:
        """Send row i of `source` to rank i, and receive row i of `output` from it.

        Both have one row for each rank.
        """
        self._start(
            source, lambda groups: groups.world.alltoall_base(output, source, [], [])
        ).wait()

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of all ranks, by rank."""
        gathered = [torch.empty_like(tensor) for _ in range(self.world)]
        self._start(tensor, lambda groups: groups.world.allgather([gathered], [tensor])).wait()
        return gathered

    def all_gather_object(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank: plain data that JSON holds."""
        return [json.loads(data) for data in self.all_gather_bytes(json.dumps(value).encode())]

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks, by rank."""
        lengths = [int(length) for length in self.all_gather(torch.tensor([len(data)]))]
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        if data:
            padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return [
            gathered[:length].numpy().tobytes()
            for gathered, length in zip(self.all_gather(padded), lengths, strict=True)
        ]

    # --- point to point ---------------------------------------------------------------------------

    def isend(self, tensor: torch.Tensor, target: int, tag: int) -> Any:
        """Start to send a CPU tensor; the target receives with the same tag. See `wait_all`."""
        with reporting_lost_peers():
            return self._gloo.world.send([tensor], target, tag)

    def irecv(self, tensor: torch.Tensor, source: int, tag: int) -> Any:
        """Start to receive into a CPU tensor; the source sends with the same tag."""
        with reporting_lost_peers():
            return self._gloo.world.recv([tensor], source, tag)

    def wait_all(self, transfers: Sequence[Any]) -> None:
        """Block until all these transfers, of `isend` and `irecv`, have completed.

        Raises PeerLost when the group was aborted or a peer is lost. It waits on a thread of
        its own: to stop waiting for a transfer would close every connection of the group.
        """
        results: list[Exception | None] = []

        def wait() -> None:
            result: Exception | None = None
            try:
                for transfer in transfers:
                    transfer.wait()
            except RuntimeError as error:
                result = error
            with self._changed:
                results.append(result)
                self._changed.notify_all()

        threading.Thread(target=wait, daemon=True, name="transfer-state").start()
        with self._changed:
            self._changed.wait_for(lambda: results or self._aborted)
        if self._aborted or results[0]:
            raise PeerLost(f"generation {self.generation} was aborted while state moved") from (
                results[0] if results else None
            )

    def send(self, tensors: Sequence[torch.Tensor], target: int) -> None:
        """Send these tensors; tensor i has tag i."""
        self.wait_all([self.isend(tensor, target, tag) for tag, tensor in enumerate(tensors)])

    def receive(self, tensors: Sequence[torch.Tensor], source: int, first_tag: int = 0) -> None:
        """Receive what `send` sends, from its tensor number `first_tag` on, into these tensors."""
        tagged = enumerate(tensors, first_tag)
        self.wait_all([self.irecv(tensor, source, tag) for tag, tensor in tagged])


def all_gather_object(group: Group | None, value: Any) -> list[Any]:
    """The values of all ranks, by rank; in a job of one (None) its own value."""
    return group.all_gather_object(value) if group else [value]
