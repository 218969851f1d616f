"""Takes one rank from a generation of the job to the next, with the state of the newest step."""

import logging
import time
from dataclasses import asdict

from elastic_runtime import messages, script_checks
from elastic_runtime.checkpointing.partition import Writer
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.meetings import evaluations_of
from elastic_runtime.distributed.recovery import RankState, RecoveryPlan, plan_recovery
from elastic_runtime.messages import Record
from elastic_runtime.training.journal import newest_generation
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.rank_lifecycle import Entered, Joined, LeftOut
from elastic_runtime.training.transaction import StepTransaction

log = logging.getLogger(__name__)
# Between two attempts to save the last state of a job.
SAVE_RETRY_DELAY_S = 2.0


class GenerationChange:
    """`RankLifecycle` learns which generation follows and joins it; this class acts on that.

    It hands over, restores and saves the state, and resumes training.
    """

    def __init__(self, parts: Parts, transaction: StepTransaction) -> None:
        self._parts = parts
        self._transaction = transaction
        self._has_idle_ranks = False

    # --- join, recover, resize --------------------------------------------------------------------

    def join_first(self) -> None:
        """Join the job. Without an agent it is a job of one."""
        lifecycle = self._parts.lifecycle
        newest = newest_generation(self._parts.journal.directory)
        if lifecycle.link:
            lifecycle.send(messages.Ready(newest))
            self._join_next()
        else:
            self._restore(None, plan_recovery([self._rank_state()]))
            self._announce(Entered(Record(), previous_world=1, some_left=False, pause_s=None))

    def recover(self) -> None:
        """The step in flight has failed: form the next generation with the ranks that are left.

        Raises RuntimeError in a job of one, and if the step failed without a loss.
        """
        self._parts.lifecycle.abandon_step()
        self._join_next()

    def resize(self) -> None:
        """All ranks have stopped after the same step, as the leading rank ordered."""
        lifecycle = self._parts.lifecycle
        record = lifecycle.wait_for_plan()
        if not record.abrupt and not record.stop:
            self._hand_over(record)
        self._join_next()

    def _hand_over(self, record: Record) -> None:
        lifecycle = self._parts.lifecycle
        assert lifecycle.group
        next_world = len(record.members) * lifecycle.ranks_per_pod
        try:
            self._parts.strategy.hand_over(
                lifecycle.group, lifecycle.next_ranks(record), next_world
            )
        except PeerLost as error:
            log.info(
                "a rank was lost while leaving ranks handed over their state",
                extra={"generation": record.generation, "reason": str(error)},
            )
            lifecycle.group.abort()

    # --- look, decide, act ------------------------------------------------------------------------

    def _join_next(self) -> None:
        """Afterwards this rank trains in the newest generation, with the state of the newest step
        that any rank has."""
        lifecycle = self._parts.lifecycle
        lifecycle.start_joining()
        while True:
            generation = lifecycle.next_generation(
                self._rank_state_with_save,
                self._parts.strategy.shard_group_size,
                self._parts.state.device,
            )
            match generation:
                case LeftOut(record):
                    self._park(record)
                case Joined():
                    if self._enter(generation):
                        return

    def _rank_state(self) -> RankState:
        state = self._parts.state
        # Sent in 64 bits.
        seed = (state.seed + (1 << 63)) % (1 << 64) - (1 << 63)
        return RankState(
            state.step,
            self._transaction.gradients_reduced,
            state.is_complete,
            stopped_loop=state.stopped_loop,
            layout=state.layout,
            samples_digest=state.samples_digest,
            **asdict(state.data) | {"seed": seed},
        )

    def _rank_state_with_save(self, is_new: bool) -> RankState:
        """A rank that was in no group also reports the newest checkpoint that it knows."""
        state = self._rank_state()
        return state._replace(newest_save=self._parts.saver.newest_step()) if is_new else state

    def _enter(self, joined: Joined) -> bool:
        """False if a rank was lost meanwhile."""
        lifecycle = self._parts.lifecycle
        try:
            self._restore(joined.group, joined.recovery)
            self._announce(lifecycle.enter(joined))
        except PeerLost as error:
            lifecycle.give_up_joining(joined.group, error)
            return False
        return True

    def _restore(self, group: Group | None, recovery: RecoveryPlan) -> None:
        """Bring this rank to the step of the plan. Raises PeerLost if a rank is lost."""
        transaction = self._transaction
        if (group.rank if group else 0) in recovery.committers:
            transaction.apply()
        if recovery.cold_start:
            transaction.gradients_reduced = False
        else:
            self._parts.state.stopped_loop = recovery.stopped_loop
        self._parts.strategy.enter(group, recovery)
        if recovery.cold_start and not self._parts.state.step:
            script_checks.raise_mistakes(self._parts.saver.refusal_mistakes())
        self._parts.state.mark_complete()
        transaction.gradients_reduced = False

    def _announce(self, entered: Entered) -> None:
        """Tell the saver, the journal and the agent of the generation that this rank trains in."""
        parts = self._parts
        lifecycle = parts.lifecycle
        record = entered.record
        self._transaction.pause_s = entered.pause_s
        parts.saver.enter_generation(self._writer(record), writer_left=entered.some_left)
        is_leading = lifecycle.rank == 0
        data = parts.state.data
        parts.journal.begin(lifecycle.name, asdict(data) if is_leading else None)
        samples = data.micro_batches * data.micro_batch_size
        lifecycle.send(
            messages.Formed(lifecycle.generation, record.members, parts.state.step, samples)
        )
        if lifecycle.world < entered.previous_world and not record.abrupt:
            parts.saver.request()
        if is_leading:
            self._report_idle_ranks()
        if entered.pause_s and is_leading:
            lifecycle.send(messages.Progress(pause_s=entered.pause_s))

    def _report_idle_ranks(self) -> None:
        world = self._parts.lifecycle.world
        micro_batches = self._parts.state.data.micro_batches
        if world > micro_batches:
            facts = (world, micro_batches, world - micro_batches)
            log.warning(script_checks.IDLE_RANKS, *facts)
            self._parts.lifecycle.send(
                messages.Progress(size_message=script_checks.IDLE_RANKS % facts)
            )
        elif self._has_idle_ranks:
            self._parts.lifecycle.send(messages.Progress(size_message=""))
        self._has_idle_ranks = world > micro_batches

    def _writer(self, record: Record) -> Writer:
        lifecycle = self._parts.lifecycle
        group = lifecycle.group
        port = record.store.rpartition(":")[2]
        return Writer(
            lifecycle.rank,
            lifecycle.world,
            self._parts.strategy.shard_group_size(lifecycle.world),
            f"{lifecycle.generation}-{port}",
            lambda: group is not None and group.is_aborted,
        )

    # --- the last checkpoint ----------------------------------------------------------------------

    def _park(self, record: Record) -> None:
        """Save the state if the job stops, then wait. Returns early if a rank is lost before the
        state is saved, or if a newer generation forms."""
        lifecycle = self._parts.lifecycle
        try:
            while record.stop and lifecycle.group and not self._save_last():
                # Whoever stops the job decides how long this may take.
                time.sleep(SAVE_RETRY_DELAY_S)
                if lifecycle.resize_pending(record.generation):
                    return
            lifecycle.park(record, self._parts.state.step)
        except PeerLost:
            lifecycle.give_up_parking(record)

    def finish(self) -> bool:
        """The job's last step is committed, and its state is durable; waits for a full disk.

        False if the ranks joined another generation first, because of a resize or a lost rank; then
        steps may have to be done again. Raises OSError if the state cannot be saved and there is no
        agent, which would report that this process waits.
        """
        lifecycle = self._parts.lifecycle
        # Others may evaluate the last state again, which this rank has done.
        self._transaction.answer_evaluations([evaluations_of(self._parts.state.step)])
        try:
            while not self._save_last():
                if not lifecycle.link:
                    raise OSError(
                        f"the state after the last step, {self._parts.state.step}, could not be "
                        "saved: the log says why"
                    )
                # To give up would lose the only copy of the last steps.
                time.sleep(SAVE_RETRY_DELAY_S)
                if lifecycle.resize_pending():
                    self.resize()
                    return False
            self._parts.saver.wait()
        except PeerLost:
            self.recover()
            return False
        lifecycle.send(messages.Finished())
        self._transaction.has_ended = True
        return True

    def _save_last(self) -> bool:
        """Called by every rank after the same step. True if the state is durable, or needs no save.

        Raises PeerLost if a rank is lost.
        """
        saver = self._parts.saver
        state = self._parts.state
        lifecycle = self._parts.lifecycle
        if not saver.directory:
            return True
        if not lifecycle.leader_decides(lifecycle.rank == 0 and saver.is_needed(state.step)):
            return True
        saver.save_and_wait(state.step, state.state_dict)
        return lifecycle.leader_decides(saver.durable_step == state.step)
