"""What a training script sees: a session that hands out steps and the micro-batches of each.

    session = Session(model, optimizer, samples=len(data), micro_batches=16, micro_batch_size=4)
    for step in session.steps(1000):
        for batch in step:
            step.backward(loss_of(model, data, batch.indices))

A step is a transaction: gradients are reduced into buffers of their own, the wish to resize rides on the last reduction, and only then
the optimizer steps. So all ranks stop after the same step, and a fault costs the step in flight and no other.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from elastic_runtime import reshard, shares
from elastic_runtime.gradients import Buckets
from elastic_runtime.group import Group
from elastic_runtime.journal import Journal
from elastic_runtime.link import Link
from elastic_runtime.membership import Record
from elastic_runtime.saver import Saver
from elastic_runtime.startup import defer_compiler

defer_compiler()  # before the script makes its optimizer


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: its number in the step, and which samples of the dataset it holds."""

    number: int
    indices: list[int]


class Step:
    """The step in flight: iterate over it for this rank's micro-batches, and give each one's loss to `backward`."""

    def __init__(self, session: "Session", number: int) -> None:
        self._session, self.number = session, number
        self.loss = torch.zeros(1)  # (1,) this rank's part of the mean loss
        self.broken = False
        self._mine = shares.owned(session.rank, session.world, session.micro_batches)

    def __iter__(self) -> Iterator[Batch]:
        s = self._session
        for number in self._mine:
            if self.broken:
                return
            torch.manual_seed(seed := shares.random_seed(s.seed, self.number, number))
            random.seed(seed)
            indices = shares.samples(s.seed, s.samples, self.number, number, s.micro_batches, s.micro_batch_size)
            s.journal.sample(self.number + 1, number, indices, s.generation)
            s.buckets.expect_last = number == self._mine[-1]
            yield Batch(number, indices)

    def backward(self, loss: torch.Tensor) -> None:
        """Add this micro-batch's gradients. `loss` is its mean, a scalar; the step's loss is the mean over all micro-batches."""
        (loss / self._session.micro_batches).backward()  # type: ignore[no-untyped-call]
        self.loss += loss.detach() / self._session.micro_batches
        self.broken = self.broken or self._session.buckets.broken


class Session:
    """Joins the job, hands out steps, and moves with its membership.

    `samples`: size of the dataset. A step is `micro_batches` micro-batches of `micro_batch_size` samples, whatever the size of the job.
    `checkpoint`: a directory that all pods share; saved there every `save_every` steps (0: only when asked, at a shrink and before a stop).
    `also`: other things with a state_dict, as learning-rate schedulers (step these yourself, after the loop's body).
    `journal`: a directory for lines of every step and every sample used.
    Without a parent (plain `python train.py`) it is a job of one.
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, samples: int, micro_batches: int, micro_batch_size: int = 1,
        seed: int = 0, checkpoint: str | Path | None = None, save_every: int = 0, also: Sequence[Stateful] = (),
        journal: str | Path | None = None,
    ) -> None:  # fmt: skip
        self.model, self.optimizer, self.also = model, optimizer, list(also)
        self.samples, self.micro_batches, self.micro_batch_size, self.seed = samples, micro_batches, micro_batch_size, seed
        self.step, self.rank, self.world, self.generation = 0, 0, 1, 0
        self.buckets = Buckets(model)
        descriptor = os.environ.get("CEDE_PARENT_FD")
        local, ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self._link = Link(int(descriptor), local, ranks) if descriptor else None
        self._group: Group | None = None
        self._has_state, self._full = False, False
        self._step_began = self._committed_at = time.monotonic()
        self._pause: float | None = None
        self._saver = Saver(Path(checkpoint) if checkpoint else None, save_every, self._say_progress)
        self._journal_directory = Path(journal) if journal else None
        self.journal = Journal(None, "")

    def steps(self, until: int) -> Iterator[Step]:
        """The steps from where the job is to `until`, each once; the body computes, the session commits."""
        self._join()
        while self.step < until:
            step = Step(self, self.step)
            self._step_began, self._full = time.monotonic(), False
            self.buckets.start(self._group)
            yield step
            if not self._commit(step):
                self._recover()
        self._finish()

    # --- one step -----------------------------------------------------------------------------------------------------

    def _commit(self, step: Step) -> bool:
        """Reduce, learn the wish, step the optimizer, and move if asked. False when somebody was lost on the way."""
        wish = torch.tensor([float(self._next_generation()), float(self._link.saves if self._link else 0)])  # (2,)
        if step.broken or not self.buckets.reduce(step.loss):
            return False
        self._full = True  # every reduced gradient is here: if another rank commits, so can we
        if self._group:
            if self.rank:
                wish.zero_()
            try:
                self._group.all_reduce(wish).wait()
            except RuntimeError:
                return False
        self._apply()
        self._saver.after_step(self.step, int(wish[1]), self.rank == 0, self.state)
        if int(wish[0]) > self.generation:
            self._move()
        return True

    def _apply(self) -> None:
        """The commit: from here on the step is done."""
        loss = self.buckets.give_gradients()
        self.optimizer.step()
        self.step, self._full = self.step + 1, False
        now = time.monotonic()
        seconds, self._committed_at = now - self._step_began, now
        self.journal.step(self.step, loss, self.world // self._ranks, self.generation, self._pause)
        self._pause = None
        if self._link:
            self._link.say("step", step=self.step, loss=loss, seconds=seconds)

    @property
    def _ranks(self) -> int:
        return self._link.ranks if self._link else 1

    def _next_generation(self) -> int:
        """The generation to move to after this step, as the leading rank sees it; 0 to stay."""
        record = self._link.record if self._link else Record()
        ready = record.generation > self.generation and not record.abrupt and (record.store or record.stop)
        return record.generation if ready and self.rank == 0 else 0

    # --- membership ---------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        if self._link:
            self._link.say("ready")
            self._move()
        else:
            self._heal([(0, 0, 0)])
            self._open_journal("0-0")

    def _recover(self) -> None:
        """The step in flight is lost; form the next generation with those who are left."""
        if not self._link or not self._group:
            raise RuntimeError("a step failed in a job of one: there is nobody to recover from")
        self._group.cut()  # errors reach ring neighbours only: pass it on
        self._link.say("broken", generation=self.generation)
        self._move()

    def _move(self) -> None:
        """Afterwards we train in the newest generation, with the state of the newest step anybody has."""
        link, began = self._link, self._committed_at
        assert link
        tried = self.generation
        while True:
            record = link.newer_than(tried)
            tried = record.generation
            if record.stop or link.index not in record.members:
                self._park(record)
                continue
            world = len(record.members) * link.ranks
            group = Group(record.generation, record.members.index(link.index) * link.ranks + link.local, world)
            link.guard(group)
            try:
                group.form(record.store)
                self._enter(group, record)
            except RuntimeError:
                group.cut()
                link.guard(None)
                group.close()
                link.say("broken", generation=record.generation)
                continue
            self._pause = time.monotonic() - began if self._has_state and self.step else None
            if self._pause and self.rank == 0:
                self._say_progress(pause_s=self._pause)
            return

    def _enter(self, group: Group, record: Record) -> None:
        before, full = self._group, self._full
        mine = torch.tensor([self.step, int(full), int(self._has_state)])  # (3,)
        self._heal([(int(a), int(b), int(c)) for a, b, c in group.all_gather(mine)], group)
        grew = before is not None and group.world > self.world
        shrank = before is not None and group.world < self.world
        self._group, self.rank, self.world, self.generation = group, group.rank, group.world, group.generation
        self._has_state = True
        if before:
            before.close()
        assert self._link
        self._open_journal(f"{self._link.index}-{self._link.local}")
        self._link.say("formed", generation=self.generation, members=record.members, step=self.step)
        if shrank and not grew and not record.abrupt:
            self._saver.soon(self.step, self.rank == 0, self.state)

    def _heal(self, all_said: list[tuple[int, int, int]], group: Group | None = None) -> None:
        """Bring every rank to the newest committed step. `all_said`: by rank, (step, holds all reduced gradients, has a state)."""
        rank = group.rank if group else 0
        having = [r for r, (_, _, has) in enumerate(all_said) if has]
        if not having:  # the very first generation: one rank loads, or starts, and the others take its state
            if rank == 0 and (saved := self._saver.load()):
                self._set_state(saved)
            holders, behind = [0], list(range(1, len(all_said)))
        else:
            if all(all_said[r][1] for r in having):  # the one who was lost may have committed: then every rank holds all gradients
                all_said = [(step + has, 0, has) for step, _, has in all_said]
            top = max(all_said[r][0] for r in having)
            if self._has_state and self._full and self.step == top - 1:
                self._apply()
            level = [r for r in having if all_said[r][0] == top or (all_said[r][0] == top - 1 and all_said[r][1])]
            holders, behind = [r for r in level if all_said[r][0] == top], [r for r in range(len(all_said)) if r not in level]
        for place, to in enumerate(behind):
            source = holders[place % len(holders)]
            if group and rank == source:
                reshard.send(group, self.state(), to)
            elif group and rank == to:
                self._set_state(reshard.receive(group, source))
        self._has_state = True

    def _park(self, record: Record) -> None:
        """Hand over and wait: to be deleted, or to be asked back."""
        if record.stop:
            self._saver.now(self.step, self.rank == 0, self.state)
        assert self._link
        group, self._group, self.generation = self._group, None, record.generation
        self._link.guard(None)
        if group:
            group.close()
        self._link.say("parked", step=self.step, generation=record.generation)

    def _finish(self) -> None:
        self._saver.now(self.step, self.rank == 0, self.state)
        if self._link:
            self._link.say("finished")

    # --- state --------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything the next step depends on; tensors are the live ones."""
        also = [part.state_dict() for part in self.also]
        return {"step": self.step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "also": also}

    def _set_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for part, said in zip(self.also, state["also"], strict=True):
            part.load_state_dict(said)
        self.step = int(state["step"])

    def _say_progress(self, **facts: Any) -> None:
        if self._link:
            self._link.say("progress", facts=facts)

    def _open_journal(self, name: str) -> None:
        if self.journal.directory is None and self._journal_directory:
            self.journal = Journal(self._journal_directory, name)
            if self.rank == 0:
                self.journal.run(self.samples, self.micro_batches, self.micro_batch_size, self.seed)
