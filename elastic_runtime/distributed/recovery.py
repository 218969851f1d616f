"""PURE. Decides which ranks have the newest state and which receive it when a generation forms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class RankState(NamedTuple):
    """What a rank reports about itself when a generation forms."""

    # The last step that it committed.
    step: int
    # It has every reduced gradient of the step after `step`, so it can commit that step.
    gradients_reduced: bool
    has_state: bool
    # The step of the newest checkpoint, or -1. Only a rank that enters from outside reports it:
    # the others took part in every save.
    newest_save: int = -1
    # See `TrainingState.stopped_loop`.
    stopped_loop: int = 0
    # See `TrainingState`.
    layout: int = 0
    # 0: not known.
    samples_digest: int = 0
    # See `DataOptions`; of the seed as many bits as fit into an int64.
    samples: int = 0
    micro_batches: int = 0
    micro_batch_size: int = 0
    seed: int = 0


# What decides on the samples of a step.
DATA_OPTIONS = ("samples", "micro_batches", "micro_batch_size", "seed")


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    # The step of every rank afterwards.
    step: int
    # Ranks that first commit the step in flight, from their own gradients.
    committers: tuple[int, ...]
    # Ranks that have the state of `step` before any rank commits.
    holders: tuple[int, ...]
    # Ranks that receive the state from a holder or committer.
    receivers: tuple[int, ...]
    # Of a rank at that step: a committer may not know that the step was to be the last.
    stopped_loop: int = 0

    @property
    def cold_start(self) -> bool:
        """No rank has a usable state: all start from the newest checkpoint or from rank 0."""
        return not self.holders and not self.committers


def misfits(ranks: Sequence[RankState], rank: int) -> Iterator[str]:
    """If `rank` has another model, other data or another batch than the job. `ranks`: by rank."""
    with_state = [state for state in ranks if state.has_state]
    # Without any state, all receive that of rank 0.
    source = max(with_state, key=lambda state: state.step) if with_state else ranks[0]
    own = ranks[rank]
    if own.layout != source.layout:
        yield (
            "the model of this worker has other parameters than that of the job, by their names, "
            "shapes or types: start all pods from one image, with the same script and arguments"
        )
    if differences := [
        f"{name} is {getattr(own, name)} on this worker and {getattr(source, name)} in the job"
        for name in DATA_OPTIONS
        if getattr(own, name) != getattr(source, name)
    ]:
        yield (
            f"{', '.join(differences)}, so samples would be used twice or never: start all pods "
            "with the same script, arguments and data"
        )
    digests = {own.samples_digest, source.samples_digest}
    if len(digests) > 1 and 0 not in digests:
        yield (
            "the dataset of this worker has other samples than that of the job, or the same in "
            "another order: give train_test_split, shuffle and the like a seed, and read the same "
            "files in all pods"
        )


def plan_recovery(ranks: Sequence[RankState]) -> RecoveryPlan:
    """Bring every rank to the newest step that any rank may have committed. `ranks`: by rank.

    If all ranks at the newest step have the reduced gradients of the next one, a lost rank may
    have committed that step, so it counts as committed. If a checkpoint is newer than every state,
    the states are dropped and the plan is a cold start.
    """
    with_state = [rank for rank, state in enumerate(ranks) if state.has_state]
    cold_start = RecoveryPlan(0, (), (), tuple(range(len(ranks))))
    if not with_state:
        return cold_start
    newest = max(ranks[rank].step for rank in with_state)
    if all(ranks[rank].gradients_reduced for rank in with_state if ranks[rank].step == newest):
        newest += 1
    if max(state.newest_save for state in ranks) > newest:
        return cold_start
    committers = tuple(
        rank
        for rank in with_state
        if ranks[rank].gradients_reduced and ranks[rank].step == newest - 1
    )
    holders = tuple(rank for rank in with_state if ranks[rank].step == newest)
    up_to_date = {*committers, *holders}
    receivers = tuple(rank for rank in range(len(ranks)) if rank not in up_to_date)
    stopped_loop = max(ranks[rank].stopped_loop for rank in up_to_date)
    return RecoveryPlan(newest, committers, holders, receivers, stopped_loop)
