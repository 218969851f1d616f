"""What all workers find alike is logged once in the whole job."""

import pytest

from tests.builders.sessions import small_session


def test_the_leading_rank_warns_of_what_all_find_once(caplog: pytest.LogCaptureFixture) -> None:
    leading = small_session()._parts
    other = small_session()._parts
    other.lifecycle.rank = 1
    for parts in (leading, other):
        parts.warn_once("the loss is divided by 8")
        parts.warn_once("the loss is divided by 8")
    leading.warn_once("another")
    assert caplog.messages == ["the loss is divided by 8", "another"]
