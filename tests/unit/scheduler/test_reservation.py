"""What keeps released capacity for a preemptor, and that it always ends."""

import pytest

from cede.api.cession import Cession
from scheduler.actions import SetQueueingStrategy
from scheduler.reservation import prepare, restore
from scheduler.snapshot import Snapshot
from tests.builders.scheduler import NOW, cession, cohort_quota, pending, queue, snapshot

STRICT = SetQueueingStrategy("vision", "StrictFIFO", "7")
BEST_EFFORT = SetQueueingStrategy("vision", "BestEffortFIFO", "7")


def waiting(strategy: str, *, active: bool = True) -> Snapshot:
    quota = cohort_quota(queue("vision", strategy=strategy), queue("research", used=8))
    return snapshot(quota, pending=[pending(active=active)])


@pytest.mark.parametrize(
    ("record", "strategy", "expected"),
    [
        pytest.param(cession(), "BestEffortFIFO", (STRICT,), id="kept for the first of the queue"),
        pytest.param(cession(), "StrictFIFO", (), id="once"),
        pytest.param(cession(reserved=False), "BestEffortFIFO", (), id="not for others"),
        pytest.param(cession("Admitted"), "BestEffortFIFO", (), id="not again after admission"),
    ],
)
def test_the_queue_is_strict_while_its_preemptor_waits(
    record: Cession, strategy: str, expected: tuple[SetQueueingStrategy, ...]
) -> None:
    assert prepare(record, waiting(strategy), NOW).actions == expected


def test_a_strict_queue_is_restored_unless_a_pending_preemptor_needs_it() -> None:
    strict = waiting("StrictFIFO")
    assert list(restore(strict, [cession()])) == []
    assert list(restore(strict, [])) == [BEST_EFFORT]
    assert list(restore(waiting("StrictFIFO", active=False), [cession()])) == [BEST_EFFORT]
