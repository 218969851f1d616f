"""Who leads, by the leases or by the policy's status."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.kueue import Lease, LeaseSpec
from cede.api.objects import rfc3339
from cede.causes.snapshot import is_current, leader
from tests.builders.reports import LEASE, NOW, policy, snapshot


def renewed(seconds_ago: float) -> Lease:
    return replace(LEASE, spec=replace(LEASE.spec, renewTime=rfc3339(NOW - seconds_ago)))


@pytest.mark.parametrize(
    ("lease", "current"),
    [
        pytest.param(LEASE, True, id="just renewed"),
        pytest.param(renewed(29), True, id="within twice its duration, for clocks differ"),
        pytest.param(renewed(30), False, id="not renewed"),
        pytest.param(Lease(spec=LeaseSpec(holderIdentity="")), False, id="released"),
    ],
)
def test_a_lease_counts_while_its_holder_renews_it(lease: Lease, current: bool) -> None:
    assert is_current(lease, NOW) is current


def test_the_holder_of_the_lease_leads() -> None:
    assert leader(snapshot(policy=policy(leader="s-2")), NOW) == "s-1"


@pytest.mark.parametrize("lease", [None, renewed(300)])
def test_without_a_current_lease_nobody_leads(lease: Lease | None) -> None:
    assert leader(snapshot(leases={names.SCHEDULER_LEASE: lease}), NOW) == ""


def test_without_a_readable_lease_the_policy_names_the_leader() -> None:
    assert leader(snapshot(leases={}, policy=policy(leader="s-2")), NOW) == "s-2"
    assert leader(snapshot(leases={}, policy=None), NOW) == ""
