"""PURE. How an amount that is too small for all is divided, in whole units."""

from collections.abc import Mapping
from fractions import Fraction
from heapq import heapify, heappop, heapreplace


def in_proportion(claims: Mapping[str, int], available: int) -> dict[str, int]:
    """Every claim in full if all fit, else in proportion by Sainte-Laguë, ties by name.

    When one claim shrinks, no other gets less. Those who get something divide it in the same way
    among themselves. Nobody gets more than the claim.
    """
    claimed = sum(claims.values())
    if claimed <= available:
        return dict(claims)
    available = max(0, available)
    # claim * available / claimed, rounded; the sum may then be a few units off
    shares = {
        name: (2 * claim * available + claimed) // (2 * claimed) for name, claim in claims.items()
    }
    left_over = available - sum(shares.values())
    if left_over > 0:
        _add_units(shares, claims, left_over)
    elif left_over < 0:
        _remove_units(shares, claims, -left_over)
    return shares


def _add_units(shares: dict[str, int], claims: Mapping[str, int], units: int) -> None:
    """The units go to the highest quotients, one by one: claim / 1, claim / 3, claim / 5, ..."""
    heap = [(-Fraction(claim, 2 * shares[name] + 1), name) for name, claim in claims.items()]
    heapify(heap)
    for _ in range(units):
        _, name = heap[0]
        shares[name] += 1
        heapreplace(heap, (-Fraction(claims[name], 2 * shares[name] + 1), name))


def _remove_units(shares: dict[str, int], claims: Mapping[str, int], units: int) -> None:
    """The units with the lowest quotients are taken back, among equal ones the last by name."""
    names = sorted(name for name, share in shares.items() if share)
    heap = [
        (Fraction(claims[name], 2 * shares[name] - 1), -index) for index, name in enumerate(names)
    ]
    heapify(heap)
    for _ in range(units):
        _, negative_index = heap[0]
        name = names[-negative_index]
        shares[name] -= 1
        if shares[name]:
            quotient = Fraction(claims[name], 2 * shares[name] - 1)
            heapreplace(heap, (quotient, negative_index))
        else:
            heappop(heap)


def in_rising_order(
    requests: Mapping[str, int], available: int, sizes: Mapping[str, int]
) -> dict[str, int]:
    """One request after the other, each in full while that is left, in the order of `sizes`.

    Of the same size by name. So of many that do not fit at most one gets a part.
    """
    shares = {}
    left = max(0, available)
    for name in sorted(requests, key=lambda name: (sizes[name], name)):
        shares[name] = min(requests[name], left)
        left -= shares[name]
    return shares
