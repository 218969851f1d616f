"""Texts are cut to what a field may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.short_text import cut, listed


def test_a_text_that_fits_is_kept() -> None:
    assert cut("four", 4) == "four"
    assert listed(["a", "b"], 4) == "a, b"


def test_a_list_says_how_many_items_it_leaves_out() -> None:
    names = [f"job-{i}" for i in range(100)]
    assert listed(names, 30) == "job-0, job-1 and 98 more"


@given(items=st.lists(st.text(max_size=80), max_size=60), limit=st.integers(20, 300))
def test_no_text_is_longer_than_its_limit(items: list[str], limit: int) -> None:
    assert len(listed(items, limit)) <= limit
    assert len(cut("".join(items), limit)) <= limit


@pytest.mark.parametrize("count", [1, 40, 257, 1000])
def test_every_item_is_counted(count: int) -> None:
    text = listed(["n" * 63] * count, 1024)
    shown = text.count("n" * 63)
    assert shown == count or text.endswith(f" and {count - shown} more")
