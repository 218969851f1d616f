"""PURE. Which pods of a job a call tries first: any of them passes it on to the coordinator."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tries:
    """How the last calls to the pods of one job ended, by their addresses."""

    # empty if none has answered since it failed
    answered: str = ""
    # those that did not answer when they were tried last, the earliest first
    failed: tuple[str, ...] = ()


NO_TRIES = Tries()


def in_order(addresses: Collection[str], tries: Tries) -> list[str]:
    """The one that answered last comes first. Those that failed come last, the earliest of them
    first, so that every pod has its turn."""
    failures = {address: number for number, address in enumerate(tries.failed, start=1)}
    return sorted(
        addresses, key=lambda address: (address != tries.answered, failures.get(address, 0))
    )


def note(tries: Tries, address: str, addresses: Collection[str], *, answered: bool) -> Tries:
    """After one more try. Pods that are not among `addresses` any more are forgotten."""
    others = tuple(failed for failed in tries.failed if failed != address and failed in addresses)
    if answered:
        return Tries(address, others)
    return Tries("" if tries.answered == address else tries.answered, (*others, address))
