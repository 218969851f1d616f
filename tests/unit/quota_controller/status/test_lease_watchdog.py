"""Whether a scheduler leads, by the local clock."""

import pytest

from cede.api.kueue import Lease, LeaseSpec
from cede.api.objects import rfc3339
from quota_controller.status import lease_watchdog

NOW = 1_800_000_000.0
WATCHDOG_S = 120


def lease(renewed: float, holder: str | None = "s-0") -> Lease:
    return Lease(spec=LeaseSpec(holderIdentity=holder, renewTime=rfc3339(renewed, micro=True)))


@pytest.mark.parametrize(
    ("looks", "seconds", "expected"),
    [
        pytest.param([], 0, "", id="no lease"),
        pytest.param([(0, lease(NOW))], 119, "s-0", id="renewed in time"),
        pytest.param([(0, lease(NOW))], 120, "", id="too late"),
        pytest.param([(0, lease(NOW - 200))], 0, "", id="the first look uses the lease's time"),
        pytest.param([(0, lease(NOW + 900))], 120, "", id="but not one in the future"),
        pytest.param(
            [(0, lease(NOW - 200)), (1, lease(NOW - 199))],
            2,
            "s-0",
            id="a renewal by a slow clock is a renewal",
        ),
        pytest.param([(0, lease(NOW)), (90, lease(NOW))], 121, "", id="the same renewal again"),
        pytest.param(
            [(0, lease(NOW)), (9, lease(NOW + 9, None))],
            20,
            "s-0",
            id="a released lease: the next leader has its time",
        ),
        pytest.param([(0, lease(NOW, None))], 1, "nobody yet", id="never held"),
    ],
)
def test_who_leads(looks: list[tuple[float, Lease]], seconds: float, expected: str) -> None:
    renewal = None
    for after, observed in looks:
        renewal = lease_watchdog.observe(renewal, observed, NOW + after)
    now = NOW + seconds
    assert lease_watchdog.leader(renewal, WATCHDOG_S, now) == expected
    left = lease_watchdog.seconds_left(renewal, WATCHDOG_S, now)
    assert (left is None) == (expected == "")
