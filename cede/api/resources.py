"""PURE. Amounts of resources as integers, and their texts for the API server and for people."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from decimal import Decimal, localcontext
from functools import lru_cache
from math import ceil
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

FlavorResource = tuple[str, str]
"""(flavor, resource): Kueue counts quota by it."""

Resources = Counter[str]
"""Amounts by resource in Kueue's units (resource_node.go): milli CPUs, and else base units."""
Quota = Counter[FlavorResource]
"""Amounts by (flavor, resource) in the same units.

`need` fits into `free` if `need <= free`; `need - free` is what is missing.
"""

NOT_ACCELERATORS = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})

_SUFFIX = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,4})|(|[numkMGTPE]|[KMGTPE]i))"
)
MAX_AMOUNT = 2**63 - 1
"""The API server takes larger amounts as this one."""


def amount(resource: str, quantity: str | int | float) -> int:
    """A quantity in Kueue's units, rounded up: `2` CPUs are 2000, `1Gi` memory is 1073741824.

    Raises ValueError for a text that is not a quantity (apimachinery, resource/quantity.go).
    """
    return _amount(resource, str(quantity).strip())


# the objects of a cluster repeat a few quantities
@lru_cache(maxsize=4096)
def _amount(resource: str, text: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(
            f"{resource} is {text!r}, which is no quantity: write it like 500m, 2, 16Gi"
        )
    number, exponent, suffix = match.groups()
    units = 1000 if resource == "cpu" else 1
    with localcontext() as context:
        context.prec = 100
        value = Decimal(number + (exponent or "")) * _SUFFIX[suffix or ""] * units
    return ceil(min(max(value, Decimal(-MAX_AMOUNT)), Decimal(MAX_AMOUNT)))


# without the cache, this is a tenth of a pass over 1,000 teams, which own the same few amounts
@lru_cache(maxsize=4096)
def quantity(resource: str, value: int) -> str:
    """The shortest exact text for the API server: `2500m` CPUs, `1Gi` for 1073741824 bytes."""
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if _is_bytes(resource):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if value and value % int(_SUFFIX[suffix]) == 0:
                return f"{value // int(_SUFFIX[suffix])}{suffix}"
    return str(value)


def parse(quantities: Mapping[str, str | int]) -> Resources:
    """The amounts of a resource list such as `{"cpu": "500m"}`. Raises ValueError like `amount`."""
    return Counter({name: amount(name, text) for name, text in quantities.items()})


def total(counters: Iterable[Counter[K]]) -> Counter[K]:
    """The sum of all counters; `sum` would copy the result at every step."""
    result = Counter[K]()
    for counter in counters:
        for key, value in counter.items():
            result[key] += value
    return result


def describe_amount(resource: str, value: int) -> str:
    """One amount in a unit that people read: `48 GiB memory`, `1.5 cpu`, `4 nvidia.com/gpu`.

    CPU is exact. Bytes are rounded to two decimals of the unit.
    """
    if resource == "cpu":
        return f"{Decimal(value) / 1000:f} cpu"
    if not _is_bytes(resource):
        return f"{value} {resource}"
    unit = "B"
    for name in ("Ki", "Mi", "Gi"):
        if value >= _SUFFIX[name]:
            unit = name + "B"
    if value and value % _SUFFIX["Ti"] == 0:
        unit = "TiB"
    count = round(Decimal(value) / _SUFFIX[unit[:-1]], 2)
    return f"{count.normalize():f} {unit} {resource}"


def describe_amounts(amounts: Mapping[FlavorResource, int] | Mapping[str, int]) -> str:
    """All amounts in one phrase for people: `4 nvidia.com/gpu, 16 GiB memory`.

    Accelerators come first, amounts of one resource in several flavors are added up, and zeros are
    left out. `nothing` when no amount is left.
    """
    by_resource = Counter[str]()
    for key, value in amounts.items():
        by_resource[key if isinstance(key, str) else key[1]] += value
    order = sorted(by_resource, key=lambda name: ("/" not in name, name))
    phrases = [describe_amount(name, by_resource[name]) for name in order if by_resource[name]]
    return ", ".join(phrases) or "nothing"


def _is_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
