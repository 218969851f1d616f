"""The audit records what admins and take-backs change, once, in order, and nothing else."""

from typing import Any

import pytest

from cede.api.audit_chain import complaint
from ledger.changes import DELETED, ContentReader, changes, forgotten
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, Ledger, allocation, cession, policy, seen_at


def looks(ledger: Ledger, start: int, end: int, **picture: Any) -> None:
    for second in range(start, end + 1, 10):
        ledger.look(seen_at(NOW + second * SECOND, **picture))


def kinds(ledger: Ledger) -> list[tuple[str, str]]:
    return [(record.kind, record.name) for record in ledger.audit]


def test_quotas_the_policy_and_take_backs_are_recorded_once_and_when_they_change() -> None:
    ledger = Ledger()
    looks(ledger, 0, 20)
    assert kinds(ledger) == [
        ("ClusterPolicy", "default"),
        ("ComputeAllocation", "research"),
        ("ComputeAllocation", "vision"),
    ]
    ledger.restart(NOW + 30 * SECOND)
    asked, ended = cession(("gpt", 8, 4)), cession(("gpt", 8, 4), phase="Completed", released=True)
    looks(ledger, 30, 40, cessions=[asked])
    looks(ledger, 50, 60, cessions=[ended])
    looks(ledger, 70, 80)
    looks(ledger, 90, 100, allocations=[allocation("research", 16)])
    assert kinds(ledger)[3:] == [
        ("Cession", "c"),
        ("Cession", "c"),
        ("ComputeAllocation", "research"),
        ("ComputeAllocation", "vision"),
    ]
    assert ledger.audit[-1].content == '{"deleted":true}'
    assert complaint(ledger.audit, ledger.books.head) == ""


def test_what_nodes_and_jobs_change_in_a_status_is_no_change_of_quota() -> None:
    ledger = Ledger()
    looks(ledger, 0, 20)
    before = len(ledger.audit)
    looks(
        ledger,
        30,
        40,
        allocations=[allocation("research", 8, 4), allocation("vision")],
        cluster_policy=policy(12),
    )
    assert len(ledger.audit) == before


def test_records_that_could_not_be_written_follow_in_order() -> None:
    ledger = Ledger()
    ledger.look(seen_at(NOW), refuses=True)
    ledger.look(seen_at(NOW + SECOND, allocations=[allocation("research", 16)]), refuses=True)
    looks(ledger, 2, 2, allocations=[allocation("research", 4)])
    names = [name for _, name in kinds(ledger)]
    assert names == ["default", "research", "vision", "research", "vision", "research"]
    assert complaint(ledger.audit, ledger.books.head) == ""


ENDED = cession(("gpt", 8, 4), phase="Completed", released=True)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param([], [policy()], {"default": True}, id="new"),
        pytest.param([policy()], [policy()], {}, id="the same"),
        pytest.param([policy()], [policy(ordering="FirstCome")], {"default": True}, id="changed"),
        pytest.param([allocation("a")], [], {"a": False}, id="deleted"),
        pytest.param([cession(("gpt", 8, 4))], [], {"c": False}, id="deleted before its end"),
        pytest.param([ENDED], [], {}, id="deleted after its end"),
    ],
)
def test_what_is_recorded(before: list[Any], after: list[Any], expected: dict[str, bool]) -> None:
    """By the name of the object: whether it is there."""
    recorded = changes(ContentReader().read(before), ContentReader().read(after))
    assert {name: text != DELETED for (_, name), text in recorded.items()} == expected


def test_an_allocation_that_was_deleted_is_recorded_once() -> None:
    recorded = {("ComputeAllocation", "a"): DELETED}
    assert changes(recorded, {}) == {}


def test_what_ended_and_is_gone_is_forgotten() -> None:
    """Or a ledger that runs for long would need more and more memory."""
    recorded = ContentReader().read([ENDED, allocation("a"), cession(("gpt", 8, 4), name="open")])
    assert forgotten(recorded, {}) == [("Cession", "c")]
    assert forgotten(recorded, recorded) == []


def test_a_take_back_is_recorded_with_whom_it_took_from_and_how_it_ended() -> None:
    [text] = ContentReader().read([ENDED]).values()
    for part in (
        '"claimant":"vision"',
        '"phase":"Completed"',
        '"targets":[{"from":8,"how":"Shrink","job":"research/gpt","lostSteps":null,',
        '"team":"research","to":4,"uid":"job-gpt"}]',
        '"reason":"ReclaimOwnQuota"',
    ):
        assert part in text
