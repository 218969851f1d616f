"""What a group does with what is on a GPU, as far as that can be seen without one: torch's NCCL is
a recorder here."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from elastic_runtime.distributed import nccl
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group

GPU = torch.device("cuda:0")
FAKE = FakeTensorMode()


def on_gpu(*shape: int) -> torch.Tensor:
    with FAKE:
        return torch.empty(shape, device=GPU)


class Work:
    """Done at the third look; or never, as with a peer that is gone."""

    def __init__(self, *, never: bool = False) -> None:
        self.never = never
        self.looks = 0
        self.waited = 0

    def is_completed(self) -> bool:
        self.looks += 1
        return self.looks > 2 and not self.never

    def wait(self) -> None:
        self.waited += 1


class Recorder:
    """In the place of torch's ProcessGroupNCCL. `aborted`: set by the abort, which may have to
    `await_`."""

    def __init__(self, rank: int, world: int) -> None:
        self.place, self.called = (rank, world), list[str]()
        self.aborted, self.aborts, self.await_ = threading.Event(), 0, list[threading.Event]()

    def abort(self) -> None:
        self.aborts += 1
        self.aborted.set()
        if not all(other.wait(10) for other in self.await_):
            raise RuntimeError("the other was not aborted meanwhile")

    def __getattr__(self, name: str) -> Callable[..., Work]:
        def call(*_: Any) -> Work:
            self.called.append(name)
            return Work()

        return call


Made = list[Recorder]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """All communicators; each connects at once."""
    found: Made = []

    def make(store: Any, rank: int, world: int) -> Recorder:
        found.append(Recorder(rank, world))
        return found[-1]

    monkeypatch.setattr(nccl, "make", make)
    monkeypatch.setattr(nccl, "connect", lambda made, device, group: None)
    names: Iterator[int] = iter(range(100))
    monkeypatch.setattr(
        nccl, "device_uuid", lambda device: f"GPU-{next(names)}" if device.type == "cuda" else ""
    )
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    return found


def formed(
    world: int, shards: int = 0, devices: tuple[torch.device, ...] = ()
) -> list[Group | Exception]:
    """Ranks of this process, each on a thread."""
    store, port = open_store()
    groups: list[Any] = [
        Group(1, rank, world, shards, devices[rank] if devices else GPU) for rank in range(world)
    ]

    def form(rank: int) -> None:
        try:
            groups[rank].connect(f"127.0.0.1:{port}")
        except (RuntimeError, ValueError) as error:
            groups[rank] = error

    threads = [threading.Thread(target=form, args=[rank]) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    del store
    return groups


def pair() -> list[Group]:
    groups = formed(2)
    assert all(isinstance(group, Group) for group in groups), groups
    return groups  # type: ignore[return-value]


def test_where_a_tensor_is_decides_over_what_it_is_summed(made: Made) -> None:
    groups = pair()
    votes = [torch.tensor([float(rank + 1)]) for rank in range(2)]
    calls = [group.all_reduce(vote) for group, vote in zip(groups, votes, strict=True)]
    for call in calls:
        call.wait()
    assert [float(vote) for vote in votes] == [3.0, 3.0]
    assert [one.called for one in made] == [[], []]
    groups[0].all_reduce(on_gpu(3)).wait()
    assert sorted(one.called for one in made) == [[], ["allreduce"]]
    for group in groups:
        group.close()


def test_shards_and_copies_have_communicators_of_their_own(made: Made) -> None:
    groups: list[Any] = formed(4, shard_group_size=2)
    assert sorted(one.place for one in made) == sorted(
        [(0, 4), (1, 4), (2, 4), (3, 4), *[(0, 2), (1, 2)] * 4]
    )
    group = groups[3]
    group.all_gather_shards(on_gpu(4), on_gpu(2))
    group.reduce_scatter_shards(on_gpu(2), on_gpu(4))
    group.all_reduce_replicas(on_gpu(2))
    assert sorted(one.called for one in made if one.called) == [
        ["_allgather_base", "_reduce_scatter_base"],
        ["allreduce"],
    ]
    for one in groups:
        one.close()


def test_a_group_on_the_cpu_makes_no_communicator(made: Made) -> None:
    groups: list[Any] = formed(2, devices=(torch.device("cpu"), torch.device("cpu")))
    assert made == []
    for group in groups:
        group.close()


def test_a_cut_aborts_all_communicators_at_once(made: Made) -> None:
    """The abort of one may not end before that of the other has begun."""
    # a shard of one rank needs none
    groups: list[Any] = formed(2, shard_group_size=1)
    mine = groups[0]._communicators
    assert len(mine) == 2
    mine[0].await_ = [mine[1].aborted]
    mine[1].await_ = [mine[0].aborted]
    groups[0].abort()
    assert all(one.aborted.wait(10) for one in mine)
    groups[0].abort()
    for group in groups:
        group.close()
    assert all(one.aborted.wait(10) for one in made)
    assert [one.aborts for one in made] == [1, 1, 1, 1]


def test_a_group_that_is_cut_while_it_connects_is_left(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = threading.Event()

    def never(made: Recorder, device: torch.device, group: Group) -> None:
        connecting.set()
        threading.Event().wait()

    monkeypatch.setattr(nccl, "connect", never)
    store, port = open_store()
    there = Group(1, 1, 2)
    threading.Thread(target=lambda: there.connect(f"127.0.0.1:{port}"), daemon=True).start()
    group = Group(1, 0, 2, device=GPU)
    monkeypatch.setattr(nccl, "check_devices", lambda names: None)

    def cut() -> None:
        connecting.wait()
        group.abort()

    threading.Thread(target=cut, daemon=True).start()
    with pytest.raises(RuntimeError, match="aborted while it formed"):
        group.connect(f"127.0.0.1:{port}")
    assert made[0].aborted.wait(10)
    group.close()
    there.abort()
    del store


@pytest.mark.parametrize(
    ("devices", "complaint"),
    [
        pytest.param(
            (GPU, torch.device("cpu")),
            "the model is on the CPU in rank 1 and on a GPU in others",
            id="not on the same kind",
        ),
        pytest.param(
            (GPU, GPU),
            "ranks 0 and 1 have their model on the same GPU, GPU-x: give each rank its own GPU",
            id="on one GPU",
        ),
    ],
)
def test_devices_that_can_never_be_one_group_end_the_job_with_a_line(
    made: Made, monkeypatch: pytest.MonkeyPatch, devices: tuple[torch.device, ...], complaint: str
) -> None:
    monkeypatch.setattr(
        nccl, "device_uuid", lambda device: "GPU-x" if device.type == "cuda" else ""
    )
    groups = formed(2, devices=devices)
    assert isinstance(groups[0], ValueError)
    assert complaint in str(groups[0])
    assert made == []


def test_a_torch_without_nccl_is_told_before_anything_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(
        ValueError, match="has no NCCL: use a build that has it, or train on the CPU"
    ):
        nccl.check_devices(["GPU-0", "GPU-1"])


def test_a_sum_is_waited_for_on_the_host_and_then_on_the_stream() -> None:
    work = Work()
    nccl.Work(Group(1, 0, 2), work).wait()
    assert (work.looks, work.waited) == (3, 1)


def test_whoever_waits_for_a_sum_that_never_comes_is_free_once_the_group_is_cut() -> None:
    group = Group(1, 0, 2)
    work = Work(never=True)
    threading.Timer(0.05, group.abort).start()
    with pytest.raises(RuntimeError, match="was aborted"):
        nccl.Work(group, work).wait()
    assert work.waited == 0


def test_after_a_cut_a_sum_that_looks_done_is_none_and_is_not_even_asked() -> None:
    group = Group(1, 0, 2)
    work = Work()
    work.looks = 2
    group.abort()
    for ask in (nccl.Work(group, work).wait, nccl.Work(group, work).block_current_stream):
        with pytest.raises(RuntimeError, match="was aborted"):
            ask()
    assert (work.looks, work.waited) == (2, 0)


def test_what_follows_a_gather_is_ordered_after_it_and_nobody_waits_here() -> None:
    work = Work(never=True)
    nccl.Work(Group(1, 0, 2), work).block_current_stream()
    assert (work.looks, work.waited) == (0, 1)


def test_alone_what_is_gathered_or_scattered_is_what_was_given() -> None:
    alone = nccl.SingleRankGroup()
    given = torch.tensor([1.0, 2.0])
    outputs = [torch.zeros(2) for _ in range(4)]
    alone._allgather_base(outputs[0], given).wait()
    alone._reduce_scatter_base(outputs[1], given).wait()
    alone.alltoall_base(outputs[2], given, [], []).wait()
    alone.allgather([[outputs[3]]], [given]).wait()
    assert all(torch.equal(output, given) for output in outputs)
    assert alone.allreduce([given]).is_completed()
    assert given.tolist() == [1.0, 2.0]


def test_a_job_of_one_needs_no_communicator(made: Made) -> None:
    group = Group(0, 0, 1, 1, GPU).connect_alone()
    group.all_reduce(on_gpu(2)).wait()
    group.all_gather_shards(on_gpu(2), on_gpu(2))
    group.reduce_scatter_shards(on_gpu(2), on_gpu(2))
    [grown] = formed(1, shard_group_size=1)
    assert isinstance(grown, Group)
    grown.all_reduce(on_gpu(2)).wait()
    grown.all_gather_shards(on_gpu(2), on_gpu(2))
    assert made == []
    group.close()
    grown.close()
