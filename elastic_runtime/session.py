"""What a training script sees: a session that hands out steps and the micro-batches of each.

    session = Session(model, optimizer, samples=len(data), micro_batches=16, micro_batch_size=4)
    for step in session.steps(1000):
        for batch in step:
            step.backward(loss_of(model, data, batch.indices))

A step is a transaction: gradients are summed over all ranks, the wish to resize rides on the last
reduction, and only then
the optimizer steps. So all ranks stop after the same step, and a fault costs the step in flight and
no other.
"""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from elastic_runtime import messages, script_checks
from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.partition import Writer
from elastic_runtime.checkpointing.saver import SaveOrder, Saver
from elastic_runtime.data.map_dataset import Indexed, Loader
from elastic_runtime.data.streams import Open, Streams
from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.distributed.recovery import RankState, RecoveryPlan
from elastic_runtime.json_logging import log_to
from elastic_runtime.messages import Record
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.module_buffers import Buffers
from elastic_runtime.strategies.replicated import Replicated
from elastic_runtime.training.agent_link import connect
from elastic_runtime.training.deferred_compiler import defer_compiler
from elastic_runtime.training.journal import Journal, newest_generation
from elastic_runtime.training.rank_lifecycle import RETRY_S, Seat
from elastic_runtime.training.stateful import Schedule, Stateful
from elastic_runtime.training.step import Step

log = logging.getLogger(__name__)
# before the script makes its optimizer
defer_compiler()


class Session:
    """Joins the job, hands out steps, and moves with its membership.

    A step is `micro_batches` micro-batches of `micro_batch_size` samples, whatever the size of the
    job.
    `samples`: size of the dataset, unless `loader` or `streams` is told where samples come from.
    `checkpoint`: a directory that all pods share; saved there every `save_every` steps (0: only
    when asked, at a shrink and before a stop).
    `local_checkpoint`: a directory of each pod's own; every `local_save_every` steps each writes
    its part there. See local_tier.py.
    `lr_schedulers`: each is stepped once when a step is committed, so do not step them yourself.
    `stateful`: other objects with a state_dict that are part of the state.
    `journal`: a directory for lines of every step and every sample used.
    `strategy`: how the model is spread over the ranks; Replicated when left out.
    Without a parent (plain `python train.py`) it is a job of one. Raises ValueError with all that
    is wrong with what it is given.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        micro_batches: int,
        micro_batch_size: int = 1,
        samples: int | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        save_every: int = 0,
        local_checkpoint: str | Path | None = None,
        local_save_every: int = 0,
        lr_schedulers: Sequence[Schedule] = (),
        stateful: Sequence[Stateful] = (),
        journal: str | Path | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        wrong = [
            *script_checks.session_mistakes(model, optimizer, samples, micro_batches, micro_batch_size),
            *script_checks.lr_scheduler_mistakes(lr_schedulers),
        ]
        script_checks.raise_mistakes(
            [
                *wrong,
                *script_checks.save_mistakes(checkpoint, save_every, local_checkpoint, local_save_every),
            ]
        )
        self._places: list[script_checks.ParameterPlace] | None = script_checks.parameter_places(model)
        # where the loss is added up
        self.device = next((p.device for p in model.parameters() if p.is_cuda), torch.device("cpu"))
        self.model = model
        self.optimizer = optimizer
        self.lr_schedulers = list(lr_schedulers)
        self.stateful = [*lr_schedulers, *stateful]
        self.samples = int(samples or 0)
        self.micro_batches = int(micro_batches)
        self.micro_batch_size = int(micro_batch_size)
        self.seed = int(seed)
        self.step = 0
        self._step_began = time.monotonic()
        # of the last step, over all its micro-batches
        self.loss: float | None = None
        # of the step in flight
        self.max_norm: float | None = None
        # of the last step's whole gradient, where it was asked to be clipped
        self.gradient_norm: float | None = None
        self.strategy = strategy or Replicated()
        link = connect()
        if link:
            log_to(sys.stdout)
        self._seat = Seat(link, self)
        self._has_state = False
        self._torn = False
        self._full = False
        self._pause: float | None = None
        local_tier = None
        if checkpoint and local_checkpoint:
            local_tier = LocalSaves(
                Path(local_checkpoint), Path(checkpoint), local_save_every, self._say_progress
            )
        self._saver = Saver(
            Path(checkpoint) if checkpoint else None, save_every, self._say_progress, local_tier
        )
        self.journal = Journal(Path(journal) if journal else None)
        self._streams: Streams | None = None
        self.buffers = Buffers(model)
        self.strategy.attach(self)
        script_checks.forbid_optimizer_step(optimizer, lambda: self._full)

    @property
    def rank(self) -> int:
        return self._seat.place[0]

    @property
    def world(self) -> int:
        return self._seat.place[1]

    @property
    def generation(self) -> int:
        return self._seat.generation

    def loader(self, dataset: Indexed, **options: Any) -> Loader:
        """Micro-batches of a map-style dataset; `options` are DataLoader's (num_workers,
        collate_fn, pin_memory, ...). See data.py."""
        loader = Loader(self, dataset, **options)
        self.samples = loader.samples
        return loader

    def streams(self, open_stream: Open, **options: Any) -> Streams:
        """Micro-batches of data that can be read in its own order only; `options`: `collate_fn`.
        See streams.py."""
        self._streams = Streams(self, open_stream, **options)
        self.stateful.append(self._streams)
        return self._streams

    def steps(self, until: int) -> Iterator[Step]:
        """The steps from where the job is to `until`, each once; the body computes, the session
        commits."""
        script_checks.raise_mistakes(
            script_checks.start_mistakes(
                self._places, script_checks.parameter_places(self.model), bool(self.samples or self._streams)
            )
        )
        # a strategy may put other parameters in their place
        self._places = None
        script_checks.raise_mistakes(script_checks.stateful_mistakes(self.stateful))
        self._seat.take(newest_generation(self.journal.directory))
        while True:
            while self.step < until:
                yield from self._step(until)
            if self._finish():
                return

    def _step(self, until: int) -> Iterator[Step]:
        step = Step(self, self.step)
        self._step_began = time.monotonic()
        self._full = False
        self.max_norm = None
        self.strategy.start(self._seat.group)
        self.buffers.start(self._seat.group)
        try:
            yield step
        except GeneratorExit:
            log.error(script_checks.LOOP_LEFT_EARLY, self.step, until)
            raise
        step.check()
        if not self._commit(step):
            self._seat.recover()

    def _finish(self) -> bool:
        """The job is over and its last state durable, however long a full disk takes. False if it
        moved first, or somebody was lost.

        Raises OSError in a job of one without a parent, where nobody would see it wait.
        """
        try:
            while not self.save_last():
                if not self._seat.link:
                    raise OSError(
                        f"the state after the last step, {self.step}, could not be saved: the "
                        f"log "
                        f"says why"
                    )
                # to give up would throw away what nobody else has
                time.sleep(RETRY_S)
                if self._seat.called():
                    self._seat.move_on()
                    return False
            self._saver.wait()
        except RuntimeError:
            self._seat.recover()
            return False
        self._seat.send(messages.Finished())
        return True

    # --- one step ---------------------------------------------------------------------------------

    def _commit(self, step: Step) -> bool:
        """Reduce, learn the wish, step the optimizer, and move if asked. False when somebody was
        lost on the way."""
        # (2,)
        wish = self._seat.wish(
            save=self._saver.order_for(self.step + 1, self._seat.asked) if self.rank == 0 else SaveOrder.NONE
        )
        if self._streams:
            wish = torch.cat([wish, self._streams.pack_states(self.step + 1)])
        if step.broken or not (
            self.strategy.reduce(step.loss, self.max_norm) and self.buffers.reduce()
        ):
            return False
        # every reduced gradient is here: if another rank commits, so can we
        self._full = True
        if self._seat.group:
            try:
                self._seat.group.all_reduce(wish).wait()
            except RuntimeError:
                return False
        self._apply()
        if self._streams:
            self._streams.unpack_states(wish[2:])
        if wish[1]:
            self._saver.save_in_background(self.step, self.state, SaveOrder(int(wish[1])))
        if int(wish[0]) > self.generation:
            self._seat.move_on()
        return True

    def _apply(self) -> None:
        """The commit: from here on the step is done."""
        self.loss, self.gradient_norm = self.strategy.give_gradients()
        self.buffers.give()
        self.optimizer.step()
        for scheduler in self.lr_schedulers:
            scheduler.step()
        self.step = self.step + 1
        self._full = False
        now = time.monotonic()
        seconds = now - self._step_began
        self._seat.committed_at = now
        self.journal.step(
            self.step, self.loss, self.world // self._seat.ranks, self.generation, self._pause
        )
        self._pause = None
        self._seat.send(messages.StepCommitted(self.step, self.loss, seconds))

    # --- what the seat asks -----------------------------------------------------------------------

    def stand(self) -> RankState:
        return RankState(self.step, self._full, self._has_state)

    def newest_save(self) -> int:
        return self._saver.newest_step()

    def shards(self, world: int) -> int:
        return self.strategy.shards(world)

    def hand_over(self, group: Group, places: tuple[int, ...], world: int) -> None:
        self.strategy.hand_over(group, places, world)

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        """Bring this rank to the newest step."""
        if (group.rank if group else 0) in recovery.committers:
            self._apply()
        self._full = self._full and not recovery.cold_start
        self.strategy.enter(group, recovery)
        self._has_state = True
        self._torn = False
        self._full = False

    def entered(self, record: Record, before: int, pause_s: float | None, *, left: bool) -> None:
        """`before`: the size of the generation left, 0 if there was none. `left`: some of its ranks
        are not in this one."""
        self._pause = pause_s
        group = self._seat.group
        shards = self.shards(self.world)
        name = f"{self.generation}-{record.store.rpartition(':')[2]}"
        self._saver.enter_generation(
            Writer(self.rank, self.world, shards, name, lambda: group is not None and group.is_aborted),
            writer_left=left,
        )
        self.journal.begin(self._seat.name, self._data() if self.rank == 0 else None)
        samples = self.micro_batches * self.micro_batch_size
        self._seat.send(
            messages.Formed(self.generation, record.members, self.step, samples)
        )
        if self.world < before and not record.abrupt:
            self._saver.request()
        if pause_s and self.rank == 0:
            self._say_progress(pause_s=pause_s)

    def save_last(self) -> bool:
        """By every rank, after the same step: whether the state is durable, if it is to be. Raises
        RuntimeError if a rank is lost."""
        if not self._saver.directory:
            return True
        if not self._seat.agree(self.rank == 0 and self._saver.is_needed(self.step)):
            return True
        self._saver.save_and_wait(self.step, self.state)
        return self._seat.agree(self._saver.durable_step == self.step)

    # --- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything the next step depends on; tensors are the live ones."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            **self.rest(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.set_rest(state)
        self._torn = False

    def rest(self) -> dict[str, Any]:
        """What is neither the model's nor the optimizer's."""
        done = {
            "step": self.step,
            "loss": self.loss,
            "gradient_norm": self.gradient_norm,
            "data": self._data(),
        }
        return {**done, "also": [part.state_dict() for part in self.stateful]}

    def set_rest(self, state: dict[str, Any]) -> None:
        script_checks.check_saved_state(state, self.stateful, self._data())
        for part, said in zip(self.stateful, state["also"], strict=True):
            part.load_state_dict(said)
        self.step = int(state["step"])
        self.loss = state["loss"]
        self.gradient_norm = state["gradient_norm"]

    def _data(self) -> dict[str, int]:
        """What decides on which samples a step takes."""
        return {
            name: getattr(self, name)
            for name in ("samples", "micro_batches", "micro_batch_size", "seed")
        }

    def load(self, group: Group | None) -> bool:
        """By every rank. The leading one's: whether there was a save; then its state is ours.

        Raises LookupError, on every rank, if there are saves and none can be taken.
        """
        found = None
        collected = self._saver.collect(group)
        wrong = ""
        if group is None or group.rank == 0:
            try:
                if found := self._saver.load(collected, self.state):
                    self.set_state(found)
                elif self._torn:
                    wrong = (
                        "the state was lost while it moved, and there is no save of it to go "
                        "back to: set save_every"
                    )
            except (LookupError, ValueError, OSError) as error:
                wrong = str(error)
            except RuntimeError as error:
                # elsewhere it says that a rank was lost
                wrong = f"the newest save is not of this model: {error}"
        if wrong := all_gather_object(group, wrong)[0]:
            raise LookupError(wrong)
        return bool(found)

    def receive(self, group: Group, source: int) -> None:
        """The state that rank `source` sends is ours. Raises RuntimeError if it is lost; then we
        have no state at all, not even our own."""
        # what a torn one was sent may still come
        live = None if self._torn else self.state()
        self._has_state = False
        self._torn = True
        self.set_state(state_transfer.receive(group, source, live))

    def _say_progress(self, **facts: Any) -> None:
        self._seat.send(messages.Progress(**facts))
