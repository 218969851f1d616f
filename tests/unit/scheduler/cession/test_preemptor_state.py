"""Where the preemptor of a Cession is."""

import pytest

from scheduler.cession.preemptor_state import find_preemptor
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import admitted, cession, pending, snapshot


@pytest.mark.parametrize(
    ("current", "state"),
    [
        pytest.param(snapshot(pending=[pending()]), (True, False, False), id="pending"),
        pytest.param(
            snapshot(admitted=[admitted("claim", "vision", 4)]), (False, True, False), id="admitted"
        ),
        pytest.param(
            snapshot(finished=frozenset({"uid-claim"})), (False, False, True), id="finished"
        ),
        pytest.param(snapshot(pending=[pending("other")]), (False, False, False), id="deleted"),
    ],
)
def test_the_preemptor_is_in_one_state(current: Snapshot, state: tuple[bool, ...]) -> None:
    state_now = find_preemptor(cession(), current)
    flags = (bool(state_now.pending), bool(state_now.admitted), state_now.finished)
    assert flags == state
