"""Whether all replicas of the model are still equal, bit by bit.

Every rank may be the one whose state a joining rank receives, and whose state is saved. So a script
that writes parameters on one rank only, or a processor that computes wrongly, must not go unseen.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import torch

# Steps between two checks.
CHECK_INTERVAL = 50
# Of a digest: numbers of 24 bits, which float32 holds exactly.
DIGEST_SIZE = 2


def is_due(step: int) -> bool:
    return step % CHECK_INTERVAL == 0


def own_digest(parameters: Iterable[torch.Tensor], rank: int, world: int) -> torch.Tensor:
    """(2 * world,): zeros but for this rank's digest, so the sum over the ranks has all of them.

    `parameters`: of this rank; of a sharded one its own rows count. Raises whatever a subclass of
    Tensor raises.
    """
    sums = defaultdict[torch.device, list[torch.Tensor]](list)
    for parameter in parameters:
        sums[parameter.device].append(_sum_of_bits(_local(parameter.detach())))
    # One transfer from each GPU.
    totals = [torch.stack(on_device).tolist() for on_device in sums.values()]
    digest = hashlib.sha256(str(totals).encode()).digest()
    digests = torch.zeros(world, DIGEST_SIZE)
    digests[rank] = torch.tensor([int.from_bytes(digest[:3]), int.from_bytes(digest[3:6])])
    return digests.view(-1)


def no_digest(world: int) -> torch.Tensor:
    """Of a rank that cannot compute its own; it is not compared with the others."""
    return torch.zeros(DIGEST_SIZE * world)


def _local(parameter: torch.Tensor) -> torch.Tensor:
    to_local = getattr(parameter, "to_local", None)
    local: torch.Tensor = to_local() if to_local else parameter
    return local.contiguous().view(-1)


def _sum_of_bits(flat: torch.Tensor) -> torch.Tensor:
    """(): the sum of its 64-bit words and of the bytes that are left, modulo 2**64."""
    data = flat.view(torch.uint8)
    if data.storage_offset() % 8:
        # As after `vector_to_parameters`; words must be aligned.
        data = data.clone()
    whole = data.numel() // 8 * 8
    return data[:whole].view(torch.int64).sum() + data[whole:].sum(dtype=torch.int64)


def differing_ranks(digests: torch.Tensor, shard_group_size: int) -> list[int]:
    """Ranks whose parameters are not those of most ranks; all of them if there is no majority.

    `digests`: (2 * world,). `shard_group_size`: as `Strategy.shard_group_size`; ranks with the same
    shard are compared.
    """
    by_rank = [tuple(pair) for pair in digests.view(-1, DIGEST_SIZE).tolist()]
    size = shard_group_size or 1
    shards = [range(shard, len(by_rank), size) for shard in range(size)]
    return sorted(rank for ranks in shards for rank in _differing(by_rank, ranks))


def _differing(digests: Sequence[tuple[float, ...]], shard: range) -> list[int]:
    # The others have no digest.
    ranks = [rank for rank in shard if any(digests[rank])]
    for most, count in Counter(digests[rank] for rank in ranks).most_common(1):
        if 2 * count > len(ranks):
            return [rank for rank in ranks if digests[rank] != most]
    return ranks
