"""While the quota_controller lets Kueue preempt, the scheduler takes nothing new."""

from dataclasses import replace

import pytest

from cede.api.private_quota import PrivateQuota
from scheduler.actions import (
    Action,
    AmendCession,
    CreateGuard,
    DeleteGuard,
    JoinGuard,
    SetPrivateQuota,
)
from scheduler.plan import plan
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.guards import ADMITTED, KEEPS, LOW, past_own, record
from tests.builders.plans import POLICY, planned, resizes, robbed_after
from tests.builders.scheduler import NOW, admitted, cession, pending, runtime_status, snapshot


def test_while_kueue_preempts_nothing_new_is_taken_and_the_reason_is_recorded() -> None:
    claim = snapshot(admitted=[admitted()], pending=[pending()], kueue_preempts=True)
    decision = plan(claim, POLICY, NOW)
    assert decision.actions == ()
    (notice,) = decision.notices
    assert notice.note == decision.why[0]
    assert notice.note.startswith("Kueue preempts by its own rules until")


def test_while_kueue_preempts_an_open_cession_goes_on_without_more_targets() -> None:
    ceded = admitted(runtime=runtime_status(4, wanted=4, cession="c-1"))
    current = snapshot(admitted=[ceded], pending=[pending()], cessions=[cession("Asked")])
    actions = planned(replace(current, kueue_preempts=True))
    assert [action.size for action in resizes(actions)] == [4]
    robbed = robbed_after(11)
    assert any(isinstance(action, AmendCession) for action in planned(robbed))
    actions = planned(replace(robbed, kueue_preempts=True))
    assert not any(isinstance(action, AmendCession) for action in actions)


def test_while_kueue_preempts_no_job_grows() -> None:
    """A growth that is under way is withdrawn."""
    idle = snapshot(admitted=[admitted(size=4, runtime=runtime_status(4))])
    assert resizes(planned(idle))
    assert not resizes(planned(replace(idle, kueue_preempts=True)))
    growing = admitted(size=4, parallelism=8)
    piece = pending("gpt-2", "research", job_uid="job-uid-gpt", is_scale_up=True)
    late = snapshot(admitted=[growing], pending=[piece], kueue_preempts=True)
    assert [action.size for action in resizes(planned(late, NOW + 6))] == [4]


def guard_steps(current: Snapshot) -> list[Action]:
    kinds = (CreateGuard, JoinGuard, DeleteGuard, SetPrivateQuota)
    return [action for action in planned(current) if isinstance(action, kinds)]


WAITING = replace(past_own(target=LOW), cessions=(record(released=True),))
RELEASED = replace(past_own(KEEPS), cessions=(record(released=True),))
"""The guard keeps what `low` had."""


@pytest.mark.parametrize(
    ("current", "step", "instead"),
    [
        pytest.param(WAITING, CreateGuard, [], id="a guard is not made"),
        pytest.param(
            replace(WAITING, guards=(ADMITTED,)), JoinGuard, [DeleteGuard("c-1")], id="nor joins"
        ),
        pytest.param(RELEASED, SetPrivateQuota, [DeleteGuard("c-1")], id="nor is quota private"),
    ],
)
def test_while_kueue_preempts_no_step_with_a_guard_is_new(
    current: Snapshot, step: type[Action], instead: list[Action]
) -> None:
    assert [type(action) for action in guard_steps(current)] == [step]
    assert guard_steps(replace(current, kueue_preempts=True)) == instead


def test_while_kueue_preempts_private_quota_is_given_back() -> None:
    private = PrivateQuota("c-1")
    vision = replace(RELEASED.quota.queues["vision"], private=private)
    quota = replace(RELEASED.quota, queues={**RELEASED.quota.queues, "vision": vision})
    (back,) = guard_steps(replace(RELEASED, quota=quota, kueue_preempts=True))
    assert isinstance(back, SetPrivateQuota)
    assert back.note == ""
