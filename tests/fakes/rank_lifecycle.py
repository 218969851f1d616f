"""A rank's lifecycle whose agent and peers the test plays."""

from typing import Any, cast

import torch

from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RankState
from elastic_runtime.messages import Record, WorkerMessage
from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.rank_lifecycle import Joined, LeftOut, RankLifecycle


class RecordingLink:
    """Of the only rank of pod 0, in pods of `ranks_per_pod` ranks.

    `newer`: the records that the agent sends, one after the other.
    """

    def __init__(
        self, record: Record | None = None, ranks_per_pod: int = 1, newer: tuple[Record, ...] = ()
    ) -> None:
        self.record = record or Record()
        self.newer = list(newer)
        # The group that is aborted if a member is lost.
        self.guarded: Group | None = None
        self.ranks_per_pod = ranks_per_pod
        self.pod_index = 0
        self.local_rank = 0
        self.save_requests = 0
        self.sent: list[WorkerMessage] = []

    def send(self, message: WorkerMessage) -> None:
        self.sent.append(message)

    def abort_on_loss(self, group: Group | None) -> None:
        self.guarded = group

    def wait_for_newer(self, generation: int) -> Record:
        record = self.newer.pop(0)
        assert record.generation > generation
        return record


class FakeGroup:
    """Of one rank. Its peers are lost while it connects if the store is `LOST_STORE`, and its agent
    tells of it first if it is `ABORTED_STORE`."""

    LOST_STORE = "lost:1"
    ABORTED_STORE = "aborted:1"
    failure = "a connection ended"

    def __init__(self, generation: int, rank: int, world: int, *_: Any) -> None:
        self.generation = generation
        self.rank = rank
        self.world = world
        self.is_aborted = False
        self.is_closed = False

    def connect(self, store: str) -> None:
        self.is_aborted = store == self.ABORTED_STORE
        if store in (self.LOST_STORE, self.ABORTED_STORE):
            raise PeerLost("a peer is lost")

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor]

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True


def lifecycle(link: RecordingLink, generation: int = 1, **more: Any) -> RankLifecycle:
    made = RankLifecycle(cast(AgentLink, link))
    made.generation = generation
    for name, value in more.items():
        setattr(made, name, value)
    return made


def fake_group(generation: int = 1) -> FakeGroup:
    return FakeGroup(generation, rank=0, world=1)


def next_generation(joining: RankLifecycle) -> Joined | LeftOut:
    """`joining` has committed 7 steps; the newest checkpoint is of step 5."""
    joining.start_joining()
    return joining.next_generation(
        lambda is_new: RankState(7, False, True, 5 if is_new else -1),
        lambda world: 0,
        torch.device("cpu"),
    )
