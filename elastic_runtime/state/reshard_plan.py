"""Which rows move from whom to whom when a sharded model changes its number of shards. Pure.

A tensor of n rows in `of` shards: shard `at` holds the rows that torch.chunk gives it, as
`Shard(0)` does.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """One shard of every tensor: number `at` of `of`."""

    at: int
    of: int

    def rows(self, n: int) -> tuple[int, int]:
        """[first, last) of a tensor of `n` rows."""
        each = -(-n // self.of)
        return min(self.at * each, n), min((self.at + 1) * each, n)


class Move(NamedTuple):
    """Rows [first, last) of tensor number `tensor`, of what `source` holds as `held`, to what rank
    `to` makes of `part`."""

    tensor: int
    source: int
    held: Part
    to: int
    part: Part
    first: int
    last: int


def shards(world: int, at_least: int) -> int:
    """Into how many shards `world` ranks split a model: the smallest divisor of `world` that is at
    least `at_least`, else `world`.

    So a rank never holds more than 1/at_least of the state unless the job has fewer ranks than
    that, and every rank has work.
    """
    return next((of for of in range(max(1, at_least), world) if world % of == 0), world)


def plan(
    rows: Sequence[int],
    held: Mapping[int, Sequence[Part]],
    needed: Mapping[int, Sequence[Part]],
    row_bytes: Sequence[int],
) -> list[Move] | None:
    """How each rank of `needed` gets its parts from those of `held`; None when some rows are with
    nobody.

    `rows`, `row_bytes`: by tensor. A rank takes from itself what it has, and from the least loaded
    of the others what it has not.
    """
    moves: list[Move] = []
    # bytes that each rank sends
    load = dict.fromkeys(held, 0)
    for tensor, n in enumerate(rows):
        for to, parts in sorted(needed.items()):
            for part in parts:
                first, last = part.rows(n)
                while first < last:
                    found = [
                        (
                            source != to,
                            load[source] if source != to else 0,
                            source,
                            of,
                            min(last, of.rows(n)[1]),
                        )
                        for source, all_of in held.items()
                        for of in all_of
                        if of.rows(n)[0] <= first < of.rows(n)[1]
                    ]
                    if not found:
                        return None
                    away, _, source, of, until = min(found)
                    moves.append(Move(tensor, source, of, to, part, first, until))
                    load[source] += (until - first) * row_bytes[tensor] * away
                    first = until
    return moves


def whole(rows: Sequence[int], held: Mapping[int, Sequence[Part]]) -> bool:
    """Whether every row of every tensor is with somebody."""
    return bool(held) and plan(rows, held, {-1: [Part(0, 1)]}, [0] * len(rows)) is not None


def staging(held: Mapping[int, Part], places: Sequence[int], of: int) -> dict[int, list[Part]]:
    """What old ranks that stay should hold before others leave, so that they alone hold everything.

    `held`: by old rank. `places`: by old rank, its rank in the next generation, which has `of`
    shards, -1 if it leaves. Each
    takes the part it will have; the parts of ranks that are not here yet go round among those who
    stay, unless enough copies stay anyway.
    """
    stay = [old for old, new in enumerate(places) if new >= 0]
    if not stay or {held[old] for old in stay} == {
        Part(at, held[stay[0]].of) for at in range(held[stay[0]].of)
    }:
        return {}
    needed = {old: [Part(places[old] % of, of)] for old in stay}
    covered = {part for parts in needed.values() for part in parts}
    for number, at in enumerate(sorted(set(range(of)) - {part.at for part in covered})):
        needed[stay[number % len(stay)]].append(Part(at, of))
    return needed
