"""PURE. Which rank computes which micro-batch, and which samples a micro-batch has.

All of it follows from the seed, the step and the world size. A step has `micro_batches`
micro-batches, numbered across all ranks, at every size of the job. So the global batch, the order
of the samples and every random draw are the same at any size: a resize moves work to other ranks,
and no sample is repeated or skipped.
"""

from collections.abc import Sequence
from hashlib import blake2b

ROUNDS = 4
MASK_64 = (1 << 64) - 1


def owned(rank: int, world: int, micro_batches: int) -> range:
    """The micro-batches of one rank.

    They are contiguous, and every micro-batch has exactly one owner. Ranks differ by at most one.
    """
    if not 0 <= rank < world:
        raise ValueError(f"rank is {rank}: it must be at least 0 and below the world size {world}")
    return range(rank * micro_batches // world, (rank + 1) * micro_batches // world)


def samples(
    seed: int, dataset: int, step: int, micro_batch: int, micro_batches: int, size: int
) -> list[int]:
    """The indices of one micro-batch of `size` samples into a dataset of `dataset` samples.

    `step` counts from 0. Every sample comes once in each epoch, in an order that differs by epoch.
    """
    first = (step * micro_batches + micro_batch) * size
    return [
        permute(seed, *divmod(position, dataset), dataset)
        for position in range(first, first + size)
    ]


def permute(seed: int, epoch: int, position: int, n: int) -> int:
    """Which of n samples is at `position` of [0, n) in the epoch's order.

    A Feistel network over the next even power of two, applied until the result is inside [0, n)
    (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). It needs no state.
    """
    if not 0 <= position < n:
        raise ValueError(f"position is {position}: it must be at least 0 and below {n}")
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half_bits) - 1
    keys = _round_keys(seed, epoch)
    value = position
    while True:
        left = value >> half_bits
        right = value & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        value = left << half_bits | right
        if value < n:
            return value


def random_seed(seed: int, step: int, micro_batch: int, purpose: str = "") -> int:
    """The seed of all randomness in one micro-batch, such as dropout, whichever rank computes it.

    Each `purpose` has its own draws: "data" is for those made while samples are read.
    """
    text = f"{seed}/{step}/{micro_batch}{purpose}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


_round_key_cache: dict[tuple[int, int], Sequence[int]] = {}


def _round_keys(seed: int, epoch: int) -> Sequence[int]:
    if (seed, epoch) not in _round_key_cache:
        # One epoch is in use at a time, two around its end.
        _round_key_cache.clear()
        digest = blake2b(f"{seed}/{epoch}".encode(), digest_size=8 * ROUNDS).digest()
        keys = [int.from_bytes(digest[i : i + 8]) for i in range(0, len(digest), 8)]
        _round_key_cache[seed, epoch] = keys
    return _round_key_cache[seed, epoch]


def _mix(value: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    value &= MASK_64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK_64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK_64
    return value ^ value >> 31
