"""When private quota and guards go."""

from dataclasses import replace

import pytest

from cede.api import private_quota
from cede.api.private_quota import Original, PrivateQuota
from scheduler.actions import (
    Action,
    CreateGuard,
    DeleteGuard,
    SetPrivateQuota,
)
from scheduler.cession import guard_plan
from scheduler.cession.advance import advance
from scheduler.cession.reservation import restore
from scheduler.quota.cohort import CohortQuota
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.guards import ADMITTED, KEEPS, LOW, past_own, record, written
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    NOW,
    admitted,
    gpus,
    snapshot,
)

PRIVATE = PrivateQuota("c-1", (Original(FLAVOR, GPU, "4"),))


def with_private(current: Snapshot, *, is_observed: bool = True) -> Snapshot:
    vision = replace(
        current.quota.queues["vision"],
        private=PRIVATE,
        written=written(8, 4),
        is_observed=is_observed,
    )
    return replace(current, quota=replace(current.quota, queues={"vision": vision}))


def after_admission(*guards: Guard, **changes: object) -> Snapshot:
    job = admitted("claim", "vision", size=4, allowed_sizes=())
    current = snapshot(admitted=[job], cessions=[record()])
    vision = replace(current.quota.queues["vision"], strategy="BestEffortFIFO", **changes)  # type: ignore[arg-type]
    return replace(current, guards=guards, quota=CohortQuota({"vision": vision}))


def test_the_quota_is_changed_back_before_the_guard_is_deleted() -> None:
    private = with_private(after_admission(KEEPS))
    (back,) = restore(private, [])
    assert isinstance(back, SetPrivateQuota)
    assert (back.queue, back.note) == ("vision", "")
    assert back.resource_groups == tuple(private_quota.as_json(written(4)))
    assert list(restore(after_admission(KEEPS, is_observed=False), [])) == []
    assert list(restore(after_admission(KEEPS), [])) == [DeleteGuard("c-1")]


def test_private_quota_ends_with_its_guard_while_the_preemptor_waits() -> None:
    """Without the guard, what is promised would be more than there is."""
    waiting = with_private(past_own(target=LOW, records=[record()]))
    ended = replace(waiting, guards=(replace(KEEPS, is_admitted=False),))
    for current in (waiting, ended):
        backs = [a for a in restore(current, [record()]) if isinstance(a, SetPrivateQuota)]
        assert [back.note for back in backs] == [""]
    kept = replace(waiting, guards=(KEEPS,))
    assert not [a for a in restore(kept, [record()]) if isinstance(a, SetPrivateQuota)]


@pytest.mark.parametrize(
    "guard", [Guard("c-1"), ADMITTED, KEEPS], ids=["made", "admitted", "joined"]
)
def test_a_guard_without_a_cession_is_deleted_at_every_step(guard: Guard) -> None:
    """The Cession was cancelled or deleted."""
    assert list(restore(replace(snapshot(), guards=(guard,)), [])) == [DeleteGuard("c-1")]


def test_a_deleted_guard_is_waited_for_only_while_it_keeps_something() -> None:
    deleted = replace(KEEPS, cession="c-0", is_deleted=True)
    # its Job too, which somebody who deletes a queue by hand leaves
    assert list(restore(replace(snapshot(), guards=(deleted,)), [])) == [DeleteGuard("c-0")]
    assert guard_plan.ends_first(record(), past_own(deleted, target=LOW), NOW) == "c-0"
    gone = replace(deleted, is_admitted=False)
    assert list(restore(replace(snapshot(), guards=(gone,)), [])) == []
    assert not guard_plan.ends_first(record(), past_own(gone, target=LOW), NOW)


def test_a_guard_whose_time_is_over_is_deleted_while_the_preemptor_waits() -> None:
    ended = replace(KEEPS, is_admitted=False)
    current = past_own(ended, target=LOW, records=[record()])
    assert DeleteGuard("c-1") in list(restore(current, [record()]))


@pytest.mark.parametrize(
    ("made_for", "expected"),
    [
        pytest.param(3, DeleteGuard, id="another size"),
        pytest.param(4, CreateGuard, id="the same size"),
    ],
)
def test_what_a_dead_leader_made_of_a_guard_is_completed_only_at_the_same_size(
    made_for: int, expected: type[Action]
) -> None:
    """Kueue would never admit the Job of 4 into a queue of 3."""
    part = Guard("c-1", "9", is_observed=True, nominal=gpus(made_for))
    actions = advance(record(), past_own(part, target=LOW), NOW).actions
    assert [type(a) for a in actions if isinstance(a, CreateGuard | DeleteGuard)] == [expected]


def test_a_guard_that_kueue_stopped_before_it_joined_goes_and_is_made_again() -> None:
    stopped = Guard("c-1", "9", is_observed=True, is_stopped=True, nominal=gpus(4))
    current = past_own(stopped, target=LOW, records=[record()])
    assert DeleteGuard("c-1") in list(restore(current, [record()]))
    gone = replace(current, guards=())
    assert any(isinstance(a, CreateGuard) for a in advance(record(), gone, NOW).actions)
