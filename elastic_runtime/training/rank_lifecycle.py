"""A rank's seat in the job: which generation it trains in, with whom, and how it gets from one to
the next."""

import logging
import time
from typing import Protocol

import torch

from elastic_runtime import messages, script_checks
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RankState, RecoveryPlan, plan_recovery
from elastic_runtime.messages import Record, WorkerMessage
from elastic_runtime.training.agent_link import AgentLink

log = logging.getLogger(__name__)
# between two tries to save the state of a job that is stopped
RETRY_S = 2.0


class Training(Protocol):
    """What a seat asks of the one who sits in it."""

    @property
    def device(self) -> torch.device: ...
    def stand(self) -> RankState: ...
    def newest_save(self) -> int: ...
    def shards(self, world: int) -> int: ...
    def hand_over(self, group: Group, places: tuple[int, ...], world: int) -> None: ...
    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None: ...
    def entered(
        self, record: Record, before: int, pause_s: float | None, *, left: bool
    ) -> None: ...
    def save_last(self) -> bool: ...


class Seat:
    """`group`: of this generation, None in a job of one and while parked."""

    def __init__(self, link: AgentLink | None, training: Training) -> None:
        self.link = link
        self._training = training
        self.group: Group | None = None
        self.rank = 0
        self.world = 1
        self.generation = 0
        # a pause counts from here
        self.committed_at = time.monotonic()
        self._members: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.link.index}-{self.link.local}" if self.link else "0-0"

    @property
    def place(self) -> tuple[int, int]:
        """This rank, and how many there are. Raises ValueError while nobody knows."""
        if self.link and not self.generation:
            script_checks.raise_mistakes([script_checks.RANK_UNKNOWN])
        return self.rank, self.world

    @property
    def ranks(self) -> int:
        """Of one pod."""
        return self.link.ranks if self.link else 1

    def take(self, newest: int = 0) -> None:
        """Join the job, of which generation `newest` is known to have been."""
        if self.link:
            self.link.send(messages.Ready(newest))
            self.move()
        else:
            self._training.enter(None, plan_recovery([self._training.stand()]))
            self._training.entered(Record(), 1, None, left=False)

    @property
    def asked(self) -> int:
        """How often somebody wished a save so far."""
        return self.link.saves if self.link else 0

    def wish(self, *, save: int) -> torch.Tensor:
        """(2,): the generation to move to after this step (0: stay), and where its state is to be
        saved; the leading rank's word.

        Afterwards our parent knows that whatever takes long now is the others'.
        """
        self.send(messages.Arrived())
        wish = torch.zeros(2)
        if self.rank == 0:
            wish[1] = float(save)
            if (
                self.link
                and (record := self.link.record).generation > self.generation
                and not record.abrupt
            ):
                wish[0] = record.generation if record.store or record.stop else 0
        return wish

    def agree(self, word: bool) -> bool:
        """The leading rank's word, with every rank. Raises RuntimeError if one is lost."""
        said = torch.tensor([float(word and self.rank == 0)])
        if self.group:
            self.group.all_reduce(said).wait()
        return bool(said[0])

    def called(self) -> bool:
        """Whether all are to move on, between two steps: the leading rank's word. Raises
        RuntimeError if somebody is lost."""
        return self.agree(self.link is not None and self.link.record.generation > self.generation)

    def recover(self) -> None:
        """The step in flight is lost; form the next generation with those who are left."""
        if not self.link or not self.group:
            raise RuntimeError("a step failed in a job of one: there is nobody to recover from")
        self._give_up(self.generation)
        self.move()

    def _give_up(self, generation: int) -> None:
        assert self.link
        if self.group:
            # errors reach ring neighbours only: pass it on
            self.group.abort()
        self.link.send(messages.Broken(generation))

    def move_on(self) -> None:
        """All ranks stopped after the same step because the leading one wished it: nothing is lost
        on the way."""
        assert self.link
        assert self.group
        record = self.link.newer_than(self.generation)
        if not record.abrupt and not record.stop:
            try:
                self._hand_over(self.group, record)
            except torch.OutOfMemoryError:
                # nobody was lost, and it would be no better the next time
                raise
            except RuntimeError as error:
                reason = {"generation": record.generation, "reason": str(error)}
                log.warning("somebody was lost while leaving ranks handed over", extra=reason)
                self.group.abort()
        self.move()

    def _hand_over(self, group: Group, record: Record) -> None:
        ranks = self.ranks
        place = {index: at for at, index in enumerate(record.members)}
        places = tuple(
            place[index] * ranks + local if index in place else -1
            for index in self._members
            for local in range(ranks)
        )
        self._training.hand_over(group, places, len(record.members) * ranks)

    def move(self) -> None:
        """Afterwards we train in the newest generation, with the state of the newest step anybody
        has."""
        link = self.link
        began = self.committed_at
        assert link
        tried = self.generation
        while True:
            record = link.newer_than(tried)
            tried = record.generation
            if self.group and self.group.is_aborted and not (record.abrupt or record.stop):
                # it was planned for a whole group: who leaves with it has handed nothing over
                self._give_up(tried)
                continue
            if record.stop or link.index not in record.members:
                try:
                    self._park(record)
                except RuntimeError:
                    self._give_up(record.generation)
                continue
            world = len(record.members) * link.ranks
            rank = record.members.index(link.index) * link.ranks + link.local
            group = Group(
                record.generation, rank, world, self._training.shards(world), self._training.device
            )
            link.guard(group)
            try:
                group.connect(record.store)
                self._enter(group, record, began)
            except RuntimeError as error:
                log.warning(
                    "generation given up",
                    extra={"generation": record.generation, "reason": str(error)},
                )
                group.abort()
                link.guard(None)
                group.close()
                link.send(messages.Broken(record.generation))
                continue
            return

    def _enter(self, group: Group, record: Record, began: float) -> None:
        said = self._training.stand()
        saved = -1 if self.group else self._training.newest_save()
        # (4,)
        mine = torch.tensor([said.step, int(said.gradients_reduced), int(said.has_state), saved])
        recovery = plan_recovery(
            [RankState(int(a), bool(b), bool(c), int(d)) for a, b, c, d in group.all_gather(mine)]
        )
        self._training.enter(group, recovery)
        before = self.group
        before_world = self.world if self.group else 0
        left = record.abrupt or not {*self._members} <= {*record.members}
        self.group = group
        self.rank = group.rank
        self.world = group.world
        self.generation = group.generation
        self._members = record.members
        if before:
            before.close()
        # who was parked was not training
        pause_s = time.monotonic() - began if before and said.has_state and recovery.step else None
        self._training.entered(record, before_world, pause_s, left=left)

    def _park(self, record: Record) -> None:
        """Hand over and wait: to be deleted, or to be asked back. Raises RuntimeError if somebody
        was lost before the state was saved."""
        assert self.link
        while record.stop and self.group and not self._training.save_last():
            # who stops us decides how long it may take
            time.sleep(RETRY_S)
            if self.agree(self.link.record.generation > record.generation):
                return
        group = self.group
        self.group = None
        self.generation = record.generation
        self.link.guard(None)
        if group:
            group.close()
        self.link.send(messages.Parked(self._training.stand().step, record.generation))

    def send(self, message: WorkerMessage) -> None:
        if self.link:
            self.link.send(message)
