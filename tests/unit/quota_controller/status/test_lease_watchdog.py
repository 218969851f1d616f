"""Whether a scheduler leads and makes progress, by the local clock."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api import names
from cede.api.kueue import Lease, LeaseSpec
from cede.api.objects import Meta, rfc3339
from quota_controller.status import lease_watchdog
from quota_controller.status.lease_watchdog import RETURN_INTERVAL, Leadership

NOW = 1_800_000_000.0
WATCHDOG_S = 120
RETURN_INTERVAL_S = RETURN_INTERVAL * WATCHDOG_S


def lease(last_pass: float | None, holder: str | None = "s-0") -> Lease:
    """A lease that was renewed a moment ago, with the time of the last whole pass."""
    annotations = {} if last_pass is None else {names.LAST_PASS: rfc3339(last_pass, micro=True)}
    renewed = rfc3339(NOW + 10_000, micro=True)
    return Lease(Meta(annotations=annotations), LeaseSpec(holderIdentity=holder, renewTime=renewed))


def look(leadership: Leadership | None, observed: Lease | None, now: float) -> Leadership | None:
    return lease_watchdog.observe(leadership, observed, WATCHDOG_S, now)


@pytest.mark.parametrize(
    ("looks", "seconds", "expected"),
    [
        pytest.param([], 0, "", id="no lease"),
        pytest.param([(0, lease(None))], 0, "", id="a lease without a pass"),
        pytest.param([(0, lease(NOW))], 119, "s-0", id="a pass in time"),
        pytest.param([(0, lease(NOW))], 120, "", id="too late"),
        pytest.param([(0, lease(NOW - 200))], 0, "", id="the first look uses the lease's time"),
        pytest.param([(0, lease(NOW + 900))], 120, "", id="but not one in the future"),
        pytest.param(
            [(0, lease(NOW - 200)), (1, lease(NOW - 199))],
            2,
            "s-0",
            id="a pass by a slow clock is a pass",
        ),
        pytest.param([(0, lease(NOW)), (90, lease(NOW))], 121, "", id="renewed without a pass"),
        pytest.param(
            [(0, lease(NOW)), (9, lease(NOW + 9, None))],
            20,
            "s-0",
            id="a released lease: the next leader has its time",
        ),
        pytest.param([(0, lease(NOW, None))], 1, "nobody yet", id="never held"),
        pytest.param(
            [(0, lease(NOW)), (130, lease(NOW + 130))], 131, "s-0", id="the first return is at once"
        ),
        pytest.param(
            [(0, lease(NOW)), (130, lease(NOW + 130)), (300, lease(NOW + 300))],
            301,
            "",
            id="the next one waits",
        ),
        pytest.param(
            [
                (0, lease(NOW)),
                (130, lease(NOW + 130)),
                (300, lease(NOW + 300)),
                (130 + RETURN_INTERVAL_S, lease(NOW + 900)),
            ],
            131 + RETURN_INTERVAL_S,
            "s-0",
            id="until the interval has passed",
        ),
    ],
)
def test_who_leads(looks: list[tuple[float, Lease]], seconds: float, expected: str) -> None:
    leadership = None
    for after, observed in looks:
        leadership = look(leadership, observed, NOW + after)
    now = NOW + seconds
    assert lease_watchdog.leader(leadership, WATCHDOG_S, now) == expected
    returning = lease_watchdog.returning(leadership, WATCHDOG_S, now)
    assert not (expected and returning)
    # of a scheduler that is back, too: what it did is undone when it is gone
    left = lease_watchdog.seconds_left(leadership, WATCHDOG_S, now)
    assert (left is None) == (not expected and not returning)


def test_who_comes_back_a_second_time_is_returning_while_it_finishes_passes() -> None:
    leadership = None
    for after in (0, 130, 300):
        leadership = look(leadership, lease(NOW + after), NOW + after)
    assert lease_watchdog.leader(leadership, WATCHDOG_S, NOW + 301) == ""
    assert lease_watchdog.returning(leadership, WATCHDOG_S, NOW + 301) == "s-0"
    assert lease_watchdog.returning(leadership, WATCHDOG_S, NOW + 420) == ""
    assert lease_watchdog.returning(None, WATCHDOG_S, NOW) == ""


@given(st.lists(st.floats(min_value=1, max_value=400), min_size=1, max_size=60))
def test_preemption_returns_to_cede_at_most_once_in_ten_minutes(pauses: list[float]) -> None:
    """Whenever passes end; and Kueue has its preemption whenever none ended in time."""
    leadership = look(None, lease(NOW), NOW)
    now = NOW
    returns = list[float]()
    for pause in pauses:
        before = lease_watchdog.leader(leadership, WATCHDOG_S, now + pause)
        assert not (before and pause >= WATCHDOG_S)
        now += pause
        leadership = look(leadership, lease(now), now)
        if lease_watchdog.leader(leadership, WATCHDOG_S, now) and not before:
            returns.append(now)
    gaps = [later - earlier for earlier, later in pairwise(returns)]
    assert all(gap >= RETURN_INTERVAL_S for gap in gaps)
