"""Which generation a rank trains in, with which other ranks, and how it joins the next one."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from elastic_runtime import messages, script_checks
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RankState, RecoveryPlan, misfits, plan_recovery
from elastic_runtime.messages import Record, WorkerMessage
from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.repeated_failures import RepeatedFailures

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Joined:
    """The ranks of a generation are connected and know how to bring all to the newest step."""

    record: Record
    group: Group
    recovery: RecoveryPlan
    # This rank had a state when it joined.
    had_state: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """This rank does not train in a generation: it is no member, or the job stops."""

    record: Record


@dataclass(frozen=True, slots=True)
class Entered:
    """How a generation differs from the one that this rank trained in before."""

    record: Record
    # Ranks of the generation before; 0 if this rank was in none.
    previous_world: int
    # Some ranks of the generation before are not in this one.
    some_left: bool
    # Since the last committed step; None if this rank was not training.
    pause_s: float | None


class RankLifecycle:
    """`group`: of this generation; None in a job of one and while this rank is parked.

    `link`: None if the script runs without an agent, as a job of one.
    `committed_at`, `evaluated_at`: when this rank last did so, by the monotonic clock.
    """

    def __init__(self, link: AgentLink | None) -> None:
        self.link = link
        self.group: Group | None = None
        self.rank = 0
        self.world = 1
        self.generation = 0
        self.committed_at = time.monotonic()
        self.evaluated_at = self.committed_at
        self._members: tuple[int, ...] = ()
        # Of the newest generation that this rank tried to join.
        self.processes: tuple[tuple[object, ...], ...] = ((), ())
        self._failures = RepeatedFailures()
        # The newest generation that this rank tried to join.
        self._tried = 0
        self._pause_began = self.committed_at

    @property
    def name(self) -> str:
        return f"{self.link.pod_index}-{self.link.local_rank}" if self.link else "0-0"

    @property
    def rank_and_world(self) -> tuple[int, int]:
        """Raises ValueError before this rank has joined a generation."""
        if self.link and not self.generation:
            script_checks.raise_mistakes([script_checks.RANK_UNKNOWN])
        return self.rank, self.world

    @property
    def ranks_per_pod(self) -> int:
        return self.link.ranks_per_pod if self.link else 1

    @property
    def save_requests(self) -> int:
        """How many saves were requested so far."""
        return self.link.save_requests if self.link else 0

    def send(self, message: WorkerMessage) -> None:
        """To the agent, if there is one."""
        if self.link:
            self.link.send(message)

    # --- what the ranks agree on ------------------------------------------------------------------

    def next_orders(self, *, save: int, stop: bool) -> torch.Tensor:
        """(3,): the generation to join after this step (0: stay), where to save its state, and
        whether it is the last one.

        The sum over all ranks is what all do. Only the leading rank's first two are not 0; any
        rank's script may stop the job. The agent learns that this rank now waits for the others.
        """
        self.send(messages.Arrived())
        orders = torch.zeros(3)
        orders[2] = float(stop)
        if self.rank == 0:
            orders[0] = self.planned_generation()
            orders[1] = float(save)
        return orders

    def planned_generation(self) -> int:
        """The newer generation that forms after this step; 0 if there is none yet."""
        if not self.link:
            return 0
        record = self.link.record
        if record.generation <= self.generation or record.abrupt:
            return 0
        return record.generation if record.store or record.stop else 0

    def leader_decides(self, flag: bool) -> bool:
        """The leading rank's flag, on every rank. Raises PeerLost if a rank is lost."""
        flags = torch.tensor([float(flag and self.rank == 0)])
        if self.group:
            self.group.all_reduce(flags).wait()
        return bool(flags[0])

    def resize_pending(self, generation: int | None = None) -> bool:
        """Whether all ranks leave `generation` (by default theirs) now, between two steps.

        Raises PeerLost if a rank is lost.
        """
        current = self.generation if generation is None else generation
        return self.leader_decides(self.link is not None and self.link.record.generation > current)

    # --- leave a generation -----------------------------------------------------------------------

    def abandon_step(self) -> None:
        """A peer is lost: this generation and its step in flight are given up.

        Raises RuntimeError in a job of one, which has no peers, and if the step has failed several
        times among the same processes, and the agent told of no loss: then no peer was lost.
        """
        if not self.link or not self.group:
            raise RuntimeError("a step failed in a job of one: there is no rank to recover from")
        attempt = (self.processes, self.committed_at)
        if not self.group.is_aborted and self._failures.add_step(attempt):
            raise RuntimeError(
                f"a step failed {self._failures.steps} times in a row, though no rank was lost: "
                f"{self.group.failure}"
            )
        self._give_up(self.generation)

    def _give_up(self, generation: int) -> None:
        if self.group:
            # A lost connection shows only at neighbours in the ring; abort to tell the others.
            self.group.abort()
        self.send(messages.Broken(generation))

    def wait_for_plan(self) -> Record:
        """The generation that follows this one."""
        assert self.link
        return self.link.wait_for_newer(self.generation)

    def next_ranks(self, record: Record) -> tuple[int, ...]:
        """By rank of this generation: its rank in the next one, -1 if it leaves."""
        count = self.ranks_per_pod
        position = {pod_index: number for number, pod_index in enumerate(record.members)}
        return tuple(
            position[pod_index] * count + local_rank if pod_index in position else -1
            for pod_index in self._members
            for local_rank in range(count)
        )

    # --- join the next one ------------------------------------------------------------------------

    def start_joining(self) -> None:
        """Before `next_generation`; a pause counts from the last step or evaluation."""
        # At a planned resize nothing else tells the agent that this rank waits.
        self.send(messages.Joining())
        self._tried = self.generation
        self._pause_began = max(self.committed_at, self.evaluated_at)

    def next_generation(
        self,
        rank_state: Callable[[bool], RankState],
        shard_group_size: Callable[[int], int],
        device: torch.device,
    ) -> Joined | LeftOut:
        """Joins the newest generation that forms, or learns that this rank is left out of it.

        `rank_state(is_new)`: this rank's state; `is_new`: it was in no group before.
        `shard_group_size(world)`: as `Strategy.shard_group_size`. `device`: where the model is.
        """
        assert self.link
        while True:
            record = self.link.wait_for_newer(self._tried)
            self._tried = record.generation
            self.processes = (record.members, record.incarnations)
            is_planned = not (record.abrupt or record.stop)
            if self.group and self.group.is_aborted and is_planned:
                # It was planned before a rank was lost: leaving ranks have handed nothing over.
                self._give_up(record.generation)
            elif record.stop or self.link.pod_index not in record.members:
                return LeftOut(record)
            elif joined := self._join(self.link, record, rank_state, shard_group_size, device):
                return joined

    def _join(
        self,
        link: AgentLink,
        record: Record,
        rank_state: Callable[[bool], RankState],
        shard_group_size: Callable[[int], int],
        device: torch.device,
    ) -> Joined | None:
        """None if the generation did not form; then it is given up."""
        world = len(record.members) * link.ranks_per_pod
        rank = record.members.index(link.pod_index) * link.ranks_per_pod + link.local_rank
        group = Group(record.generation, rank, world, shard_group_size(world), device)
        link.abort_on_loss(group)
        try:
            group.connect(record.store)
            own = rank_state(self.group is None)
            # (11,)
            encoded = torch.tensor([int(value) for value in own])
            gathered = [
                RankState(step, bool(reduced), bool(has_state), *others)
                for step, reduced, has_state, *others in map(
                    torch.Tensor.tolist, group.all_gather(encoded)
                )
            ]
        except PeerLost as error:
            self.give_up_joining(group, error)
            return None
        script_checks.raise_mistakes(misfits(gathered, rank))
        return Joined(record, group, plan_recovery(gathered), own.has_state)

    def give_up_joining(self, group: Group, error: PeerLost) -> None:
        """A generation did not form: a rank was lost meanwhile.

        Raises ConnectionError on a rank without a state that fails again and again: it may itself
        be the cause, and its agent counts how often it ends. Not so if the agent told of a loss.
        """
        assert self.link
        loss_is_known = group.is_aborted
        log.info(
            "generation given up", extra={"generation": group.generation, "reason": str(error)}
        )
        group.abort()
        self.link.abort_on_loss(None)
        group.close()
        self.send(messages.Broken(group.generation))
        if not loss_is_known and self._failures.add_join(self.processes):
            message = f"{self._failures.joins} generations in a row did not form: {error}"
            if not self.group:
                raise ConnectionError(message)
            self.send(messages.Progress(message=message))

    def enter(self, joined: Joined) -> Entered:
        """From now on this rank trains in the generation that it joined, with its state."""
        previous = self.group
        previous_world = self.world if previous else 0
        record = joined.record
        some_left = record.abrupt or not {*self._members} <= {*record.members}
        self.group = joined.group
        self.rank = joined.group.rank
        self.world = joined.group.world
        self.generation = joined.group.generation
        self._members = record.members
        if self._failures.formed():
            self.send(messages.Progress(message=""))
        if previous:
            previous.close()
        was_training = previous and joined.had_state and joined.recovery.step
        pause_s = time.monotonic() - self._pause_began if was_training else None
        return Entered(record, previous_world, some_left, pause_s)

    def park(self, record: Record, step: int) -> None:
        """Leave the group, and wait to be deleted or to join again. `step`: committed steps."""
        assert self.link
        group = self.group
        self.group = None
        self.generation = record.generation
        self.link.abort_on_loss(None)
        if group:
            group.close()
        self.send(messages.Parked(step, record.generation))

    def give_up_parking(self, record: Record) -> None:
        """A rank was lost before the state was saved."""
        self._give_up(record.generation)
