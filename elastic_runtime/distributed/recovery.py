"""Who stands where when a generation meets: who commits the step in flight, who holds the newest
state, who needs it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Said(NamedTuple):
    """What a rank says of itself when a generation meets."""

    # the last it committed
    step: int
    # it holds all reduced gradients of the step after that
    full: bool
    has_state: bool
    # the step of the newest save, as far as one who comes from outside knows: others were there
    # when it was made
    saved: int = -1


@dataclass(frozen=True, slots=True)
class Standing:
    # where everybody is afterwards
    step: int
    # ranks that commit the step in flight first, from their own gradients
    commit: tuple[int, ...]
    # ranks that have the state of `step` before anybody commits
    holders: tuple[int, ...]
    # ranks that need it from others; empty holders and commits: from the newest save, or from rank
    # 0's start
    behind: tuple[int, ...]

    @property
    def fresh(self) -> bool:
        """Nobody has a state: this is the job's beginning, or its beginning again."""
        return not self.holders and not self.commit


def compare(all_said: Sequence[Said]) -> Standing:
    """`all_said` by rank. The newest step that anybody may have committed is everybody's, unless a
    save is newer: then nobody has a state.

    If every rank that is left holds all reduced gradients, one that was lost may have committed:
    then the step counts as done.
    """
    having = [rank for rank, said in enumerate(all_said) if said.has_state]
    nobody = Standing(0, (), (), tuple(range(len(all_said))))
    if not having:
        return nobody
    top = max(all_said[rank].step for rank in having)
    if all(all_said[rank].full for rank in having if all_said[rank].step == top):
        top += 1
    if max(said.saved for said in all_said) > top:
        return nobody
    commit = tuple(
        rank for rank in having if all_said[rank].full and all_said[rank].step == top - 1
    )
    holders = tuple(rank for rank in having if all_said[rank].step == top)
    level = {*commit, *holders}
    return Standing(
        top, commit, holders, tuple(rank for rank in range(len(all_said)) if rank not in level)
    )
