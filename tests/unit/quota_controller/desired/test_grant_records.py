"""What a status keeps of a grant, and which edits lower it."""

from typing import Any

import pytest

from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import AllocationStatus, QuotaStatus
from cede.api.names import GPU
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import Capacity, capacities
from quota_controller.desired.grant_records import (
    GrantedAmount,
    GrantRecord,
    after_edit,
    asks_for,
    recorded,
)
from tests.builders.quotas import MIG, ONE_SLICE, P5, P5_GPU, allocation, node

MEASURED = capacities([P5], [node()])
WITHOUT_DEVICES = capacities([P5], [node(gpus=0)])
UNKNOWN: dict[str, Capacity] = {}


def entry(**amounts: Any) -> TypeQuota:
    return TypeQuota.model_validate({"instanceType": "p5", **amounts})


def edited(
    old: TypeQuota, granted: GrantedAmount, new: TypeQuota, capacity_of: dict[str, Capacity]
) -> GrantedAmount | None:
    """The accelerators of a record after its entry was edited."""
    record = GrantRecord([old], {P5_GPU: granted})
    return after_edit(record, [new], capacity_of).amounts.get(P5_GPU)


@pytest.mark.parametrize(
    ("old", "granted", "new", "expected"),
    [
        pytest.param({"count": 4}, (32, 32), {"count": 2}, (16, 16), id="less"),
        pytest.param({"count": 4}, (32, 32), {"count": 50}, (32, 400), id="more"),
        pytest.param({"count": 50}, (8, 400), {"count": 2}, (8, 16), id="still more than granted"),
        pytest.param({"count": 50}, (24, 400), {"count": 1}, (8, 8), id="less than granted"),
        pytest.param({"count": 4}, (32, 32), {"count": 0}, None, id="nothing"),
        pytest.param({"accelerators": 4}, (4, 4), {"accelerators": 9}, (4, 9), id="in amounts"),
        pytest.param({"count": 1}, (8, 8), {"accelerators": 8}, (8, 8), id="the same otherwise"),
        pytest.param({"count": 1}, (8, 8), {"cpu": "4"}, None, id="no accelerators any more"),
        pytest.param({"count": 4}, (28, 28), {"count": 2}, (14, 14), id="at the worth of then"),
    ],
)
def test_only_an_entry_that_asks_for_less_lowers_a_grant(
    old: dict[str, Any],
    granted: tuple[int, int],
    new: dict[str, Any],
    expected: tuple[int, int] | None,
) -> None:
    after = edited(entry(**old), GrantedAmount(*granted), entry(**new), MEASURED)
    assert after == (GrantedAmount(*expected) if expected else None)


@pytest.mark.parametrize("capacity_of", [WITHOUT_DEVICES, UNKNOWN], ids=["no devices", "no type"])
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param({"count": 2}, (16, 16), id="less"),
        pytest.param({"count": 50}, (32, 400), id="more"),
        pytest.param({"count": 0}, None, id="nothing"),
        pytest.param({"accelerators": 8}, (32, None), id="cannot be compared yet"),
    ],
)
def test_an_edit_counts_while_nothing_can_be_counted(
    new: dict[str, Any],
    expected: tuple[int, int | None] | None,
    capacity_of: dict[str, Capacity],
) -> None:
    after = edited(entry(count=4), GrantedAmount(32, 32), entry(**new), capacity_of)
    assert after == (GrantedAmount(*expected) if expected else None)


@pytest.mark.parametrize("capacity_of", [MEASURED, WITHOUT_DEVICES, UNKNOWN])
def test_another_edit_changes_nothing(capacity_of: dict[str, Capacity]) -> None:
    """Also of an entry of another type."""
    old = GrantRecord([entry(count=4)], {P5_GPU: GrantedAmount(30, 32)})
    other = TypeQuota(instanceType="g6", count=1)
    assert after_edit(old, [other, entry(count=4)], capacity_of).amounts == old.amounts


def test_a_removed_entry_loses_what_it_was_granted() -> None:
    record = GrantRecord([entry(count=4)], {P5_GPU: GrantedAmount(32, 32)})
    assert not after_edit(record, [], UNKNOWN).amounts


def test_a_node_that_is_worth_less_has_the_same_part() -> None:
    full, part = GrantedAmount(32, 32), GrantedAmount(12, 400)
    assert (full.part_of(28), full.reserved(28)) == (28, 28)
    assert (part.part_of(350), part.reserved(350)) == (10, 11), "what is reserved is rounded up"
    assert (part.part_of(0), part.reserved(0)) == (0, 12), "nobody gets it while devices are gone"
    unknown = GrantedAmount(32, None)
    assert (unknown.part_of(16), unknown.reserved(16), unknown.part_of(40)) == (16, 16, 32)


@pytest.mark.parametrize(
    ("amounts", "resource", "expected"),
    [
        pytest.param({"count": 1}, GPU, True, id="whole nodes"),
        pytest.param({"count": 0}, GPU, False, id="no node"),
        pytest.param({"accelerators": 2}, "nvidia.com/gpu", True, id="accelerators"),
        pytest.param({"accelerators": 2}, ONE_SLICE, False, id="no partitions"),
        pytest.param({"accelerators": 2}, "cpu", True, id="cpu follows"),
        pytest.param({"accelerators": 2, "cpu": "0"}, "cpu", False, id="no cpu"),
        pytest.param({"accelerators": 0, "cpu": "1"}, "memory", False, id="follows nothing"),
        pytest.param({"cpu": "1"}, "memory", True, id="memory follows cpu"),
        pytest.param({"cpu": "0"}, "memory", False, id="memory follows no cpu"),
        pytest.param({"partitions": {ONE_SLICE: 1}}, ONE_SLICE, True, id="partitions"),
        pytest.param({"partitions": {ONE_SLICE: 1}}, GPU, False, id="no accelerators"),
    ],
)
def test_asks_for(amounts: dict[str, Any], resource: str, expected: bool) -> None:
    capacity = capacities([MIG], [])["a100"]
    assert asks_for(entry(**amounts), resource, capacity) == expected


# --- the status -----------------------------------------------------------------------------------
def with_status(generation: int = 1, **fields: Any) -> ComputeAllocation:
    quotas = [QuotaStatus.model_validate({"instanceType": "p5", **fields})]
    status = AllocationStatus(observedGeneration=generation, quotas=quotas)
    return allocation().model_copy(update={"status": status})


ONE_NODE = entry(count=1).model_dump_json(exclude_none=True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {"granted": {GPU: "4"}, "grantedOf": {GPU: "8"}, "grantedFor": ONE_NODE},
            GrantedAmount(4, 8),
            id="as written",
        ),
        pytest.param(
            {"granted": {GPU: "4"}, "grantedFor": ONE_NODE}, GrantedAmount(4, None), id="absolute"
        ),
        pytest.param({"granted": {GPU: "x"}, "grantedFor": ONE_NODE}, None, id="no amount"),
        pytest.param({"granted": {GPU: "-4"}, "grantedFor": ONE_NODE}, None, id="below zero"),
        pytest.param({"granted": {GPU: "0"}, "grantedFor": ONE_NODE}, None, id="nothing"),
        pytest.param(
            {"granted": {GPU: "4"}, "grantedOf": {GPU: "x"}, "grantedFor": ONE_NODE},
            None,
            id="of an unreadable amount",
        ),
        pytest.param(
            {"granted": {GPU: "9"}, "grantedOf": {GPU: "8"}, "grantedFor": ONE_NODE},
            None,
            id="more than was asked for",
        ),
        pytest.param(
            {"granted": {GPU: "4"}, "grantedOf": {GPU: "8"}, "grantedFor": "{"},
            None,
            id="an unreadable entry",
        ),
        pytest.param(
            {
                "granted": {GPU: "4"},
                "grantedOf": {GPU: "8"},
                "grantedFor": '{"instanceType": "g6", "count": 1}',
            },
            None,
            id="an entry of another type",
        ),
    ],
)
def test_an_amount_that_cannot_be_read_is_not_granted(
    fields: dict[str, Any], expected: GrantedAmount | None
) -> None:
    record = recorded(with_status(**fields))
    assert record.amounts == ({P5_GPU: expected} if expected else {})
    assert not record.undecided


def test_a_status_of_an_older_version_leaves_the_grants_undecided() -> None:
    assert recorded(with_status(nominal={GPU: "8"}, healthy={GPU: "8"})).undecided
    assert not recorded(allocation()).undecided, "a new allocation has no status"
