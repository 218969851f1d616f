"""Who computes which micro-batch, and which samples are in it: functions of (seed, step, world) and
nothing else. Pure.

A step is `micro_batches` micro-batches with global numbers, whatever the size of the job; so the
global batch, the order of
samples and every random draw are the same at any size, and a resize moves work without repeating or
dropping any.
"""

from collections.abc import Sequence
from hashlib import blake2b

ROUNDS = 4


def owned(rank: int, world: int, micro_batches: int) -> range:
    """The micro-batches of one rank: contiguous, sizes differing by at most one, together all of
    them exactly once."""
    if not 0 <= rank < world:
        raise ValueError(f"rank is {rank}: it must be at least 0 and below the world size {world}")
    return range(rank * micro_batches // world, (rank + 1) * micro_batches // world)


def samples(
    seed: int, dataset: int, step: int, micro_batch: int, micro_batches: int, size: int
) -> list[int]:
    """Indices into a dataset of `dataset` samples for one micro-batch of `size`; `step` counts from
    0.

    Epoch after epoch each sample comes once, in an order of its own each epoch.
    """
    first = (step * micro_batches + micro_batch) * size
    return [
        permute(seed, *divmod(position, dataset), dataset)
        for position in range(first, first + size)
    ]


def permute(seed: int, epoch: int, position: int, n: int) -> int:
    """Where `position` of [0, n) goes in the epoch's order: a Feistel network over the next even
    power of two, walked until it
    falls inside [0, n) (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). No
    state, no history."""
    if not 0 <= position < n:
        raise ValueError(f"position is {position}: it must be at least 0 and below {n}")
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    value = position
    keys = _round_keys(seed, epoch)
    while True:
        left = value >> half
        right = value & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        value = left << half | right
        if value < n:
            return value


def random_seed(seed: int, step: int, micro_batch: int, purpose: str = "") -> int:
    """The seed of everything random in one micro-batch, so that dropout does not depend on who
    computes it.

    Another `purpose`, other draws: "data" for what is drawn while samples are read.
    """
    return (
        int.from_bytes(
            blake2b(f"{seed}/{step}/{micro_batch}{purpose}".encode(), digest_size=8).digest()
        )
        >> 1
    )


_cache: dict[tuple[int, int], Sequence[int]] = {}


def _round_keys(seed: int, epoch: int) -> Sequence[int]:
    if (seed, epoch) not in _cache:
        # one epoch is in use at a time, or two around its end
        _cache.clear()
        digest = blake2b(f"{seed}/{epoch}".encode(), digest_size=8 * ROUNDS).digest()
        _cache[seed, epoch] = [int.from_bytes(digest[i : i + 8]) for i in range(0, len(digest), 8)]
    return _cache[seed, epoch]


def _mix(value: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    value &= (1 << 64) - 1
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    value = (value ^ value >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return value ^ value >> 31
