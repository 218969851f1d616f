"""Amounts: from the quantities of the API server, back, and for people."""

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.resources import (
    MAX_AMOUNT,
    amount,
    describe_amount,
    describe_amounts,
    parse,
    quantity,
)

RESOURCES = st.sampled_from(
    ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "pods"]
)
SUFFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        pytest.param("cpu", "2", 2000, id="cpu counts in milli"),
        pytest.param("cpu", "500m", 500, id="a half"),
        pytest.param("cpu", "1.5", 1500, id="a fraction"),
        pytest.param("cpu", "100n", 1, id="rounded up, as a request must be"),
        pytest.param("cpu", 4, 4000, id="an integer on the wire"),
        pytest.param("memory", "1Gi", 2**30, id="binary"),
        pytest.param("memory", "1G", 10**9, id="decimal"),
        pytest.param("memory", "1.5Gi", 3 * 2**29, id="a fraction of a binary"),
        pytest.param("memory", "128974848", 128974848, id="bytes"),
        pytest.param("memory", "129e6", 129_000_000, id="an exponent"),
        pytest.param("memory", "129E6", 129_000_000, id="a capital exponent is no exa"),
        pytest.param("memory", "2E", 2 * 10**18, id="exa"),
        pytest.param("memory", "1m", 1, id="a thousandth of a byte is one"),
        pytest.param("memory", 1e16, 10**16, id="a float on the wire"),
        pytest.param("nvidia.com/gpu", "8", 8, id="accelerators"),
        pytest.param("pods", "110", 110, id="pods"),
        pytest.param("memory", "+1Ki", 1024, id="a sign"),
        pytest.param("memory", ".5Ki", 512, id="no leading digit"),
        pytest.param(
            "memory", "100E", MAX_AMOUNT, id="more than the server counts is the most it counts"
        ),
        pytest.param("memory", "1e9999", MAX_AMOUNT, id="an absurd exponent costs nothing"),
        pytest.param("memory", "1e-9999", 1, id="nor does a tiny one"),
    ],
)
def test_amount(resource: str, text: str | int | float, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "x",
        "1x",
        "1 Gi",
        "1KiKi",
        "1e3Ki",
        "1_000",
        "NaN",
        "Infinity",
        "--1",
        "1..2",
        ".",
        "Gi",
        "٣",
        "1e",
        "0x10",
        "1,5",
    ],
)
def test_other_texts_are_refused_with_the_cure(text: str) -> None:
    with pytest.raises(ValueError, match=r"memory is .* no quantity: write it like"):
        amount("memory", text)


@given(RESOURCES, st.integers(min_value=0, max_value=2**62))
def test_a_quantity_reads_back_as_its_amount(resource: str, value: int) -> None:
    assert amount(resource, quantity(resource, value)) == value


@given(st.decimals(min_value=0, max_value=10**6, places=3), st.sampled_from(sorted(SUFFIXES)))
def test_an_amount_is_the_quantity_rounded_up(number: Decimal, suffix: str) -> None:
    assert amount("memory", f"{number}{suffix}") == min(ceil(number * SUFFIXES[suffix]), MAX_AMOUNT)


@given(RESOURCES, st.text(max_size=12))
def test_any_text_is_an_amount_or_a_value_error(resource: str, text: str) -> None:
    with suppress(ValueError):
        assert abs(amount(resource, text)) <= MAX_AMOUNT


@pytest.mark.parametrize(
    ("resource", "value", "expected"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 2500, "2500m"),
        ("cpu", 0, "0"),
        ("memory", 2**30, "1Gi"),
        ("memory", 3 * 2**20, "3Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("hugepages-1Gi", 2**31, "2Gi"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_a_quantity_is_the_shortest_exact_text(resource: str, value: int, expected: str) -> None:
    assert quantity(resource, value) == expected


def test_resource_lists_can_be_compared_and_subtracted() -> None:
    need = parse({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 2})
    assert need == Counter({"cpu": 1000, "memory": 2**30, "nvidia.com/gpu": 2})
    assert need <= need + parse({"cpu": "1"})
    assert need - parse({"cpu": "3", "memory": "1Gi"}) == parse({"nvidia.com/gpu": 2})


@pytest.mark.parametrize(
    ("resource", "value", "expected"),
    [
        ("cpu", 2000, "2 cpu"),
        ("cpu", 1500, "1.5 cpu"),
        ("cpu", 1, "0.001 cpu"),
        ("cpu", 192_000, "192 cpu"),
        ("cpu", 0, "0 cpu"),
        ("memory", 48 * 2**30, "48 GiB memory"),
        pytest.param("memory", 1900 * 2**30, "1900 GiB memory", id="no fraction of a TiB"),
        ("memory", 2 * 2**40, "2 TiB memory"),
        ("memory", 3 * 2**29, "1.5 GiB memory"),
        pytest.param("memory", 49163368 * 2**10, "46.89 GiB memory", id="a node's Ki are rounded"),
        ("memory", 100 * 2**30 + 1, "100 GiB memory"),
        ("memory", 1210175212308, "1127.06 GiB memory"),
        ("memory", 512 * 2**20, "512 MiB memory"),
        ("memory", 1000, "1000 B memory"),
        ("memory", 0, "0 B memory"),
        ("hugepages-1Gi", 2**31, "2 GiB hugepages-1Gi"),
        ("ephemeral-storage", 5 * 2**30, "5 GiB ephemeral-storage"),
        ("nvidia.com/gpu", 4, "4 nvidia.com/gpu"),
        ("pods", 110, "110 pods"),
    ],
)
def test_people_read_an_amount_in_its_unit(resource: str, value: int, expected: str) -> None:
    assert describe_amount(resource, value) == expected


@given(st.integers(min_value=0, max_value=2**62))
def test_bytes_for_people_are_right_to_a_hundredth_of_the_unit(value: int) -> None:
    number, unit, _ = describe_amount("memory", value).split()
    size = {"B": 1} | {f"{name}B": size for name, size in SUFFIXES.items()}
    assert abs(Decimal(number) * size[unit] - value) <= Decimal(size[unit]) / 200


def test_several_amounts_name_accelerators_first_without_flavors_and_zeros() -> None:
    holds = {("a", "nvidia.com/gpu"): 4, ("b", "nvidia.com/gpu"): 2, ("a", "memory"): 2**34}
    assert describe_amounts(holds) == "6 nvidia.com/gpu, 16 GiB memory"
    assert describe_amounts({"cpu": 500, "memory": 0}) == "0.5 cpu"
    assert describe_amounts({}) == "nothing"
