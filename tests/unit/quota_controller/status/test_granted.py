"""What the status keeps of a grant is read back as it was."""

from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation_status import AllocationStatus, QuotaStatus
from cede.api.names import GPU
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import capacities
from quota_controller.desired.grant_records import GrantedAmount, GrantRecord, recorded
from quota_controller.status.granted import (
    NOTHING,
    by_type,
    granted_amounts,
    granted_for,
    granted_of,
    unknown_types,
)
from tests.builders.quotas import P5, P5_GPU, allocation

AMOUNTS = st.integers(1, 2**60)
GRANTED = st.one_of(
    st.builds(GrantedAmount, AMOUNTS, st.none()),
    st.builds(lambda amount, more: GrantedAmount(amount, amount + more), AMOUNTS, AMOUNTS),
)
ENTRY = TypeQuota(instanceType="p5", count=4)


@given(st.dictionaries(st.sampled_from([GPU, "cpu", "memory"]), GRANTED, min_size=1))
def test_a_record_is_read_back_as_it_was(amounts: dict[str, GrantedAmount]) -> None:
    record = GrantRecord([ENTRY], {("p5", resource): a for resource, a in amounts.items()})
    granted = by_type(record)["p5"]
    entry = QuotaStatus(
        instanceType="p5",
        granted=granted_amounts(granted, [GPU, "cpu", "memory"]),
        grantedOf=granted_of(granted),
        grantedFor=granted_for(granted, [ENTRY], "p5"),
    )
    status = AllocationStatus(observedGeneration=1, quotas=[entry])
    assert recorded(allocation().model_copy(update={"status": status})) == record


def test_types_that_the_policy_lacks_are_kept() -> None:
    record = GrantRecord([ENTRY], {P5_GPU: GrantedAmount(8, 32)})
    [kept] = unknown_types(record, {})
    assert (kept.granted, kept.grantedOf) == ({GPU: "8"}, {GPU: "32"})
    assert unknown_types(record, capacities([P5], [])) == []


def test_nothing_granted_is_reported_as_zero() -> None:
    """So that it is not taken for a status of a version that recorded no grants."""
    assert granted_amounts(NOTHING, [GPU]) == {GPU: "0"}
    assert granted_for(NOTHING, [ENTRY], "p5") == ""
