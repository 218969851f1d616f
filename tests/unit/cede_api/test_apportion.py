"""An amount that is too small for all is divided so that no claim harms a smaller one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.apportion import in_proportion, in_rising_order

CLAIMS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40) | st.integers(0, 10**15))
AVAILABLE = st.integers(0, 100) | st.integers(0, 10**15)


@pytest.mark.parametrize(
    ("claims", "available", "expected"),
    [
        pytest.param({"a": 4, "b": 4}, 9, {"a": 4, "b": 4}, id="all fit"),
        pytest.param({"a": 4, "b": 4}, 4, {"a": 2, "b": 2}, id="in proportion"),
        pytest.param({"a": 6, "b": 2}, 4, {"a": 3, "b": 1}, id="in proportion to the claim"),
        pytest.param({"a": 4, "b": 4}, 5, {"a": 3, "b": 2}, id="an odd unit goes by name"),
        pytest.param({"a": 4, "b": 4}, 3, {"a": 2, "b": 1}, id="a unit too much goes by name"),
        pytest.param(
            {"a": 10, "b": 1, "c": 1}, 9, {"a": 7, "b": 1, "c": 1}, id="small claims count"
        ),
        pytest.param({"a": 4}, 0, {"a": 0}, id="nothing available"),
        pytest.param({"a": 4}, -1, {"a": 0}, id="less than nothing available"),
        pytest.param({}, 4, {}, id="no claim"),
    ],
)
def test_in_proportion(claims: dict[str, int], available: int, expected: dict[str, int]) -> None:
    assert in_proportion(claims, available) == expected


def highest_quotients(claims: dict[str, int], available: int) -> dict[str, int]:
    """Sainte-Laguë unit by unit, in integers: claim / 1, claim / 3, claim / 5, ..."""
    shares = dict.fromkeys(sorted(claims), 0)
    for _ in range(min(available, sum(claims.values()))):
        best = ""
        for name in shares:
            other = claims.get(best, 0) * (2 * shares[name] + 1)
            if not best or claims[name] * (2 * shares[best] + 1) > other:
                best = name
        shares[best] += 1
    return shares


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40)), st.integers(0, 100))
def test_units_go_to_the_highest_quotients(claims: dict[str, int], available: int) -> None:
    assert in_proportion(claims, available) == highest_quotients(claims, available)


@given(CLAIMS, AVAILABLE)
def test_a_division_gives_all_that_is_available_and_no_more(
    claims: dict[str, int], available: int
) -> None:
    for shares in (
        in_proportion(claims, available),
        in_rising_order(claims, available, claims),
    ):
        assert sum(shares.values()) == min(available, sum(claims.values()))
        assert all(0 <= shares[name] <= claim for name, claim in claims.items())


@given(CLAIMS, AVAILABLE, st.sampled_from("abcdef"), st.integers(0, 10**15))
def test_a_claim_that_shrinks_lowers_no_other(
    claims: dict[str, int], available: int, name: str, smaller: int
) -> None:
    after = {**claims, name: min(smaller, claims.get(name, 0))}
    shares_before, shares_after = in_proportion(claims, available), in_proportion(after, available)
    for other in claims.keys() - {name}:
        assert shares_after[other] >= shares_before[other]


@given(CLAIMS, AVAILABLE, st.integers(0, 10**15))
def test_more_to_divide_lowers_nobody(claims: dict[str, int], available: int, more: int) -> None:
    before, after = in_proportion(claims, available), in_proportion(claims, available + more)
    assert all(after[name] >= share for name, share in before.items())


@given(CLAIMS, AVAILABLE, st.sets(st.sampled_from("abcdef")))
def test_a_part_of_the_owners_divides_its_part_in_the_same_way(
    claims: dict[str, int], available: int, part: set[str]
) -> None:
    shares = in_proportion(claims, available)
    of_part = {name: shares[name] for name in part & claims.keys()}
    claims_of_part = {name: claims[name] for name in of_part}
    assert in_proportion(claims_of_part, sum(of_part.values())) == of_part


@pytest.mark.parametrize(
    ("requests", "available", "expected"),
    [
        pytest.param({"a": 50, "b": 2, "c": 3}, 10, {"a": 5, "b": 2, "c": 3}, id="small first"),
        pytest.param({"a": 4, "b": 5}, 6, {"a": 4, "b": 2}, id="in full while they fit"),
        pytest.param({"a": 50, "b": 60, "c": 1}, 8, {"a": 7, "b": 0, "c": 1}, id="then one a part"),
        pytest.param({"a": 4, "b": 4}, 4, {"a": 4, "b": 0}, id="of the same size by name"),
        pytest.param({"a": 4}, -4, {"a": 0}, id="more is granted than there is"),
    ],
)
def test_in_rising_order(
    requests: dict[str, int], available: int, expected: dict[str, int]
) -> None:
    assert in_rising_order(requests, available, requests) == expected


def test_what_is_left_of_a_large_request_stays_behind_a_smaller_one() -> None:
    assert in_rising_order({"a": 2, "b": 3}, 3, {"a": 50, "b": 3}) == {"a": 0, "b": 3}
