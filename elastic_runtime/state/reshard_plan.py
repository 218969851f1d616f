"""PURE. Plans which rows each rank sends to which other rank when the number of shards changes.

A tensor of n rows is split as torch.chunk splits it, which is also how FSDP2's `Shard(0)` does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Shard(NamedTuple):
    """Shard number `number` of `total`, of every tensor."""

    number: int
    total: int

    def rows(self, n: int) -> tuple[int, int]:
        """[first, last) of a tensor of `n` rows."""
        size = -(-n // self.total)
        return min(self.number * size, n), min((self.number + 1) * size, n)


class Move(NamedTuple):
    """Rows [first, last) of a tensor, copied between two ranks."""

    # Its number.
    tensor: int
    # The rank that sends, and the shard that it reads from.
    source: int
    source_shard: Shard
    # The rank that receives, and the shard that it fills.
    target: int
    target_shard: Shard
    first: int
    last: int


def shard_group_size(world: int, minimum: int) -> int:
    """Into how many shards `world` ranks split a model.

    It is the smallest divisor of `world` that is at least `minimum`, else `world`. So every rank
    has the same work, and none holds more than 1/minimum of the state unless the job has fewer
    ranks than that.
    """
    divisors = (size for size in range(max(1, minimum), world) if world % size == 0)
    return next(divisors, world)


def plan_moves(
    rows: Sequence[int],
    available: Mapping[int, Sequence[Shard]],
    needed: Mapping[int, Sequence[Shard]],
    row_bytes: Sequence[int],
) -> list[Move] | None:
    """How each rank of `needed` gets its shards from those that are `available`, both by rank.

    None when some rows are on no rank. `rows` and `row_bytes` are by tensor. A rank copies rows of
    its own shards itself, and receives others from the rank that sends least so far.
    """
    moves: list[Move] = []
    bytes_sent = dict.fromkeys(available, 0)
    for tensor, target, shard in _wanted(rows, needed):
        first, last = shard.rows(rows[tensor])
        while first < last:
            sources = [
                (source, source_shard)
                for source, shards in available.items()
                for source_shard in shards
                if _contains(source_shard.rows(rows[tensor]), first)
            ]
            if not sources:
                return None
            _, _, source, source_shard = min(
                (
                    candidate != target,
                    bytes_sent[candidate] if candidate != target else 0,
                    candidate,
                    candidate_shard,
                )
                for candidate, candidate_shard in sources
            )
            end = min(last, source_shard.rows(rows[tensor])[1])
            moves.append(Move(tensor, source, source_shard, target, shard, first, end))
            if source != target:
                bytes_sent[source] += (end - first) * row_bytes[tensor]
            first = end
    return moves


def _wanted(
    rows: Sequence[int], needed: Mapping[int, Sequence[Shard]]
) -> Iterator[tuple[int, int, Shard]]:
    """(tensor, target rank, shard) in the order in which moves are planned."""
    for tensor in range(len(rows)):
        for target, shards in sorted(needed.items()):
            for shard in shards:
                yield tensor, target, shard


def _contains(bounds: tuple[int, int], row: int) -> bool:
    return bounds[0] <= row < bounds[1]


def is_complete(rows: Sequence[int], available: Mapping[int, Sequence[Shard]]) -> bool:
    """Whether every row of every tensor is on some rank."""
    if not available:
        return False
    return plan_moves(rows, available, {-1: [Shard(0, 1)]}, [0] * len(rows)) is not None


def plan_handover(
    shards: Mapping[int, Shard], next_ranks: Sequence[int], next_total: int
) -> dict[int, list[Shard]]:
    """The shards that staying ranks copy before others leave, so that they hold the whole state.

    `shards`: by old rank. `next_ranks`: by old rank, its rank in the next generation, -1 if it
    leaves. `next_total`: of the next generation's shards. Each staying rank takes the shard that
    it will have. The shards of ranks that have not joined yet are dealt to the staying ranks in
    turn. Empty if the staying ranks hold every shard already.
    """
    staying = [old for old, new in enumerate(next_ranks) if new >= 0]
    if not staying:
        return {}
    old_total = shards[staying[0]].total
    if {shards[old].number for old in staying} == set(range(old_total)):
        return {}
    needed = {old: [Shard(next_ranks[old] % next_total, next_total)] for old in staying}
    covered = {shard.number for targets in needed.values() for shard in targets}
    for turn, number in enumerate(sorted(set(range(next_total)) - covered)):
        needed[staying[turn % len(staying)]].append(Shard(number, next_total))
    return needed
