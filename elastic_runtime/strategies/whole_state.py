"""Gives the whole state to the ranks that do not have it. Who has received it sends it on."""

import logging
from collections.abc import Iterator, Sequence

from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies.base import StateAccess

log = logging.getLogger(__name__)


def transfers(sources: Sequence[int], receivers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(source, receiver), in the order in which each rank does those that it takes part in.

    All that have the state send it to one rank each, then these send it too: a source and n
    receivers need log2(n + 1) rounds.
    """
    having = list(sources)
    waiting = list(receivers)
    while waiting:
        pairs = list(zip(having, waiting, strict=False))
        yield from pairs
        having += waiting[: len(pairs)]
        del waiting[: len(pairs)]


def spread(
    group: Group, state: StateAccess, sources: Sequence[int], receivers: Sequence[int]
) -> None:
    """Afterwards the receivers have the state of the sources. Called by every rank.

    Raises PeerLost if a peer is lost.
    """
    for source, receiver in transfers(sources, receivers):
        if group.rank == source:
            state_transfer.send(group, state.state_dict(), receiver)
        elif group.rank == receiver:
            state.receive(group, source)


def spread_from_first(group: Group, state: StateAccess, *, is_loaded: bool) -> None:
    """Afterwards every rank has the state of rank 0. Called by every rank when a job starts.

    `is_loaded`: rank 0 has loaded a checkpoint. Otherwise each rank has what its script built.
    Usually that is the same everywhere, because of a common seed; then nothing is sent. Raises
    PeerLost if a peer is lost.
    """
    receivers = list(range(1, group.world))
    if not is_loaded:
        digests = group.all_gather_bytes(state.digest())
        receivers = [rank for rank in receivers if not digests[rank] or digests[rank] != digests[0]]
        if receivers and group.rank == 0:
            log.info(
                "some ranks have built another state and receive that of rank 0: they have no "
                "common seed",
                extra={"ranks": receivers},
            )
    spread(group, state, [0], receivers)
