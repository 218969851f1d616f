"""Which process groups a generation has on a GPU, and how they end: torch's NCCL is a recorder."""

import datetime
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from elastic_runtime.distributed import gloo, nccl
from elastic_runtime.distributed.gloo import PeerLost, open_store
from elastic_runtime.distributed.group import Group

CPU = torch.device("cpu")
GPU = torch.device("cuda:0")
FAKE = FakeTensorMode()


def on_gpu(*shape: int) -> torch.Tensor:
    with FAKE:
        return torch.empty(shape, device=GPU)


class CompletedWork:
    def is_completed(self) -> bool:
        return True

    def wait(self) -> None:
        """It is completed."""


class Recorder:
    """Replaces torch's ProcessGroupNCCL.

    `aborted` is set by `abort`, which then waits until the abort of all `abort_after` has begun.
    """

    def __init__(self, rank: int, world: int) -> None:
        self.rank_and_world = (rank, world)
        self.calls: list[str] = []
        self.aborted = threading.Event()
        self.aborts = 0
        self.abort_after: list[Recorder] = []

    def abort(self) -> None:
        self.aborts += 1
        self.aborted.set()
        if not all(other.aborted.wait(10) for other in self.abort_after):
            raise RuntimeError("the other was not aborted meanwhile")

    def __getattr__(self, name: str) -> Callable[..., CompletedWork]:
        def call(*_: Any) -> CompletedWork:
            self.calls.append(name)
            return CompletedWork()

        return call


@pytest.fixture
def communicators(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """All communicators that are made; each connects at once."""
    recorders: list[Recorder] = []

    def make(store: Any, rank: int, world: int) -> Recorder:
        recorders.append(Recorder(rank, world))
        return recorders[-1]

    monkeypatch.setattr(nccl, "make", make)
    monkeypatch.setattr(nccl, "connect", lambda communicator, device, group: None)
    numbers: Iterator[int] = iter(range(100))
    monkeypatch.setattr(
        nccl,
        "device_uuid",
        lambda device: f"GPU-{next(numbers)}" if device.type == "cuda" else "",
    )
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    return recorders


def connect_ranks(
    world: int, shard_group_size: int = 0, devices: tuple[torch.device, ...] = ()
) -> list[Group | Exception]:
    """The groups of all ranks in this process, or the error of a rank."""
    store, port = open_store()
    results: list[Group | Exception] = [ValueError("not connected")] * world

    def connect(rank: int) -> None:
        group = Group(1, rank, world, shard_group_size, devices[rank] if devices else GPU)
        try:
            group.connect(f"127.0.0.1:{port}")
        except (RuntimeError, ValueError) as error:
            results[rank] = error
        else:
            results[rank] = group

    threads = [threading.Thread(target=connect, args=[rank]) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    del store
    return results


def make_groups(
    world: int, shard_group_size: int = 0, devices: tuple[torch.device, ...] = ()
) -> list[Group]:
    results = connect_ranks(world, shard_group_size, devices)
    groups = [result for result in results if isinstance(result, Group)]
    assert len(groups) == world, results
    return groups


def close(groups: list[Group]) -> None:
    for group in groups:
        group.close()


def test_the_device_of_a_tensor_decides_which_backend_sums_it(
    communicators: list[Recorder],
) -> None:
    groups = make_groups(2)
    votes = [torch.tensor([float(rank + 1)]) for rank in range(2)]
    works = [group.all_reduce(vote) for group, vote in zip(groups, votes, strict=True)]
    for work in works:
        work.wait()
    assert [float(vote) for vote in votes] == [3.0, 3.0]
    assert [recorder.calls for recorder in communicators] == [[], []]
    groups[0].all_reduce(on_gpu(3)).wait()
    assert sorted(recorder.calls for recorder in communicators) == [[], ["allreduce"]]
    close(groups)


def test_shards_and_replicas_have_communicators_of_their_own(
    communicators: list[Recorder],
) -> None:
    groups = make_groups(4, shard_group_size=2)
    assert sorted(recorder.rank_and_world for recorder in communicators) == sorted(
        [(0, 4), (1, 4), (2, 4), (3, 4), *[(0, 2), (1, 2)] * 4]
    )
    group = groups[3]
    group.all_gather_shards(on_gpu(4), on_gpu(2))
    group.reduce_scatter_shards(on_gpu(2), on_gpu(4))
    group.all_reduce_replicas(on_gpu(2))
    assert sorted(recorder.calls for recorder in communicators if recorder.calls) == [
        ["_allgather_base", "_reduce_scatter_base"],
        ["allreduce"],
    ]
    close(groups)


def test_a_group_on_the_cpu_makes_no_communicator(communicators: list[Recorder]) -> None:
    groups = make_groups(2, devices=(CPU, CPU))
    assert communicators == []
    close(groups)


def test_an_abort_aborts_all_communicators_at_once(communicators: list[Recorder]) -> None:
    """The abort of one may not end before that of the other has begun."""
    # A shard group of one rank needs no communicator.
    groups = make_groups(2, shard_group_size=1)
    first, second = groups[0]._communicators
    first.abort_after = [second]
    second.abort_after = [first]
    groups[0].abort()
    assert all(recorder.aborted.wait(10) for recorder in (first, second))
    groups[0].abort()
    close(groups)
    assert all(recorder.aborted.wait(10) for recorder in communicators)
    assert [recorder.aborts for recorder in communicators] == [1, 1, 1, 1]


def test_a_rank_waits_for_the_others_longer_than_for_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may evaluate first, for any time."""
    monkeypatch.setattr(gloo, "RENDEZVOUS_TIMEOUT", datetime.timedelta(seconds=1))
    store, port = open_store()
    groups = [Group(1, rank, 2) for rank in range(2)]
    joiner = threading.Thread(target=groups[0].connect, args=[f"127.0.0.1:{port}"], daemon=True)
    joiner.start()
    joiner.join(2)
    assert joiner.is_alive(), "it gave up"
    assert not groups[0].is_connected
    groups[1].connect(f"127.0.0.1:{port}")
    joiner.join(30)
    assert groups[0].is_connected
    close(groups)
    del store


def test_a_group_that_is_aborted_while_it_connects_stops_waiting(
    communicators: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = threading.Event()

    def connect_never(communicator: Recorder, device: torch.device, group: Group) -> None:
        connecting.set()
        threading.Event().wait()

    monkeypatch.setattr(nccl, "connect", connect_never)
    monkeypatch.setattr(nccl, "check_devices", lambda uuids: None)
    store, port = open_store()
    peer = Group(1, 1, 2)

    def connect_peer() -> None:
        with suppress(PeerLost):
            peer.connect(f"127.0.0.1:{port}")

    threading.Thread(target=connect_peer, daemon=True).start()
    group = Group(1, 0, 2, device=GPU)

    def abort_while_connecting() -> None:
        connecting.wait()
        group.abort()

    threading.Thread(target=abort_while_connecting, daemon=True).start()
    with pytest.raises(RuntimeError, match="aborted while it formed"):
        group.connect(f"127.0.0.1:{port}")
    assert communicators[0].aborted.wait(10)
    group.close()
    peer.abort()
    del store


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        pytest.param(
            (GPU, CPU),
            "the model is on the CPU in rank 1 and on a GPU in others",
            id="different kinds",
        ),
        pytest.param(
            (GPU, GPU),
            "ranks 0 and 1 have their model on the same GPU, GPU-x: give each rank its own GPU",
            id="the same GPU",
        ),
    ],
)
def test_devices_that_can_never_connect_end_the_job_with_a_message(
    communicators: list[Recorder],
    monkeypatch: pytest.MonkeyPatch,
    devices: tuple[torch.device, ...],
    message: str,
) -> None:
    monkeypatch.setattr(
        nccl, "device_uuid", lambda device: "GPU-x" if device.type == "cuda" else ""
    )
    first, _ = connect_ranks(2, devices=devices)
    assert isinstance(first, ValueError)
    assert message in str(first)
    assert communicators == []


def test_a_job_of_one_needs_no_communicator(communicators: list[Recorder]) -> None:
    alone = Group(0, 0, 1, 1, GPU).connect_alone()
    alone.all_reduce(on_gpu(2)).wait()
    alone.all_gather_shards(on_gpu(2), on_gpu(2))
    alone.reduce_scatter_shards(on_gpu(2), on_gpu(2))
    [at_a_store] = make_groups(1, shard_group_size=1)
    at_a_store.all_reduce(on_gpu(2)).wait()
    at_a_store.all_gather_shards(on_gpu(2), on_gpu(2))
    assert communicators == []
    close([alone, at_a_store])
