"""Makes torch's process groups of one generation, for the ranks that meet at a store."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from elastic_runtime.distributed import gloo, nccl

Work = gloo.Work | nccl.Work
# (store, rank, world) -> a process group
MakeGroup = Callable[[Any, int, int], Any]


@dataclass(frozen=True, slots=True)
class ProcessGroups:
    """The process groups of one generation, over one backend."""

    work_type: Callable[[gloo.Abortable, Any], Work]
    world: Any
    # The ranks that hold one copy of a sharded model together.
    shard: Any = None
    # The ranks that hold the same shard, if there are several copies.
    replicate: Any = None


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The fields of `Group` that decide which process groups it has."""

    generation: int
    rank: int
    world: int
    shard_group_size: int
    device: torch.device

    def meet(
        self, address: str, listeners: set[gloo.Address], make_nccl: MakeGroup
    ) -> tuple[Any, ProcessGroups, ProcessGroups]:
        """The store at `address`, and the connected groups over gloo and over NCCL.

        For a model on the CPU the latter are those over gloo. `listeners`: gets the addresses that
        tell the group's connections from others. It waits until all ranks have come. Raises
        PeerLost if a rank is lost then, ValueError if NCCL could never connect the ranks' devices,
        OSError if this one cannot listen.
        """
        host, _, port = address.rpartition(":")
        store = gloo.TCPStore(
            host, int(port), None, False, gloo.RENDEZVOUS_TIMEOUT, wait_for_workers=False
        )
        prefixed = gloo.PrefixStore(f"generation-{self.generation}", store)
        keys = [f"here-{rank}" for rank in range(self.world)]
        device, own_listener = gloo.open_device()
        prefixed.set(keys[self.rank], json.dumps([nccl.device_uuid(self.device), *own_listener]))
        prefixed.wait(keys, gloo.MEETING_TIMEOUT)
        ranks = [json.loads(rank) for rank in prefixed.multi_get(keys)]
        listeners.update((host, port) for _, host, port in ranks)
        over_gloo = self._make_groups(gloo.Work, prefixed, partial(gloo.make, device))
        if self.device.type != "cuda":
            return store, over_gloo, over_gloo
        if self.world > 1:
            nccl.check_devices([uuid for uuid, *_ in ranks])
        nccl_store = gloo.PrefixStore("nccl", prefixed)
        return store, over_gloo, self._make_groups(nccl.Work, nccl_store, make_nccl)

    def _make_groups(
        self, work_type: Callable[[gloo.Abortable, Any], Work], store: Any, make: MakeGroup
    ) -> ProcessGroups:
        world = make(store, self.rank, self.world)
        size = self.shard_group_size
        if size in (0, self.world):
            return ProcessGroups(work_type, world, world if size else None)
        copy, shard = divmod(self.rank, size)
        return ProcessGroups(
            work_type,
            world,
            shard=make(gloo.PrefixStore(f"copy-{copy}", store), shard, size),
            replicate=make(gloo.PrefixStore(f"shard-{shard}", store), copy, self.world // size),
        )


def single_rank() -> tuple[Any, ProcessGroups, ProcessGroups]:
    """The store and the groups of a job of one: they need no connection."""
    store = gloo.HashStore()
    over_gloo = gloo.ProcessGroupGloo(store, 0, 1, gloo.CONNECT_TIMEOUT)
    over_nccl = nccl.SingleRankGroup()
    return (
        store,
        ProcessGroups(gloo.Work, over_gloo, over_gloo),
        ProcessGroups(nccl.Work, over_nccl, over_nccl),
    )
