"""When the preemptor's queue gets private quota, and how much."""

from dataclasses import replace

from cede.api import private_quota
from cede.api.objects import rfc3339
from cede.api.private_quota import Original, PrivateQuota
from scheduler.actions import (
    RequeueWorkload,
    SetPrivateQuota,
    SetWorkloadActive,
)
from scheduler.cession import guard_plan
from scheduler.cession.reservation import HOLD_S, REQUEUE_S
from scheduler.snapshot.workloads import PendingWorkloads
from tests.builders.guards import KEEPS, LOW, past_own, record, step, written
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    NOW,
    admitted,
    gpus,
    pending,
)


def test_private_quota_comes_when_all_targets_have_released() -> None:
    assert step(past_own(KEEPS, target=LOW), record(released=True)).actions == ()
    (given,) = step(past_own(KEEPS), record(released=True)).actions
    assert isinstance(given, SetPrivateQuota)
    assert given.resource_groups[0]["flavors"][0]["resources"] == [
        {"name": GPU, "nominalQuota": "8", "lendingLimit": "4"}
    ]
    note = private_quota.parse(given.note)
    assert note
    assert (note.cession, note.originals) == ("c-1", (Original(FLAVOR, GPU, "4"),))


def test_private_quota_waits_until_kueue_has_tried_the_preemptor() -> None:
    """Seen on a real Kueue: a job of the same team that arrived before took it."""
    since = rfc3339(NOW - 0.1, micro=True)
    waits = past_own(KEEPS)
    requeued = replace(waits.pending[0], requeued_at=since)
    tried = replace(requeued, is_tried=True)
    kinds = []
    for pending_ in (waits.pending[0], requeued, tried):
        current = replace(waits, pending=PendingWorkloads([pending_]))
        kinds.append([type(action) for action in step(current, record(True, since)).actions])
    assert kinds == [[RequeueWorkload], [], [SetPrivateQuota]]


def test_private_quota_waits_for_kueue_no_longer_than_kueue_takes_by_itself() -> None:
    started = step(past_own(KEEPS, strategy="BestEffortFIFO"), record())
    assert (started.may_release, started.since) == (True, "")
    strict = step(past_own(KEEPS), record())
    assert strict.since == rfc3339(NOW, micro=True)
    for reserved, is_given in ((NOW - REQUEUE_S + 0.1, False), (NOW - REQUEUE_S, True)):
        kept = step(past_own(KEEPS), record(True, rfc3339(reserved, micro=True)))
        assert any(isinstance(action, SetPrivateQuota) for action in kept.actions) is is_given


def test_private_quota_waits_until_kueue_counts_the_smaller_job() -> None:
    """A shrink that is written frees nothing before Kueue follows."""
    shrunk = admitted("low", "vision", size=2)
    made = record(released=True)
    to_two = made.spec.targets[0].model_copy(update={"toSize": 2, "how": "Shrink"})
    made = made.model_copy(update={"spec": made.spec.model_copy(update={"targets": [to_two]})})
    for counted, is_free in ((gpus(4), False), (gpus(2), True)):
        job = replace(shrunk, counted=counted)
        current = replace(
            past_own(KEEPS, target=[job]), pending=PendingWorkloads([pending(pods=2)])
        )
        assert guard_plan.all_released(made, current) is is_free


def test_private_quota_is_put_off_once_by_those_who_come_before_the_preemptor() -> None:
    """Others could put it off for ever."""
    current = past_own(KEEPS)
    first = replace(
        current, pending=PendingWorkloads([pending("urgent", pods=1), *current.pending])
    )
    since = rfc3339(NOW - HOLD_S - 1, micro=True)
    early = step(first, record(True, rfc3339(NOW, micro=True))).actions
    assert [type(action) for action in early] == [SetWorkloadActive, RequeueWorkload]
    late = step(first, record(True, since)).actions
    assert [type(action) for action in late] == [SetWorkloadActive, SetPrivateQuota]


def test_private_quota_is_written_again_only_if_it_is_too_small() -> None:
    """The preemptor may request more than before."""
    kept = past_own(KEEPS)
    vision = replace(kept.quota.queues["vision"], private=PrivateQuota("c-1"))
    steps = []
    for nominal in (8, 7):
        given = replace(vision, written=written(nominal, 4))
        quota = replace(kept.quota, queues={**kept.quota.queues, "vision": given})
        steps.append(step(replace(kept, quota=quota), record(released=True)).actions)
    assert [len(actions) for actions in steps] == [0, 1]
    (again,) = steps[1]
    assert isinstance(again, SetPrivateQuota)
    assert again.resource_groups[0]["flavors"][0]["resources"][0]["nominalQuota"] == "8"


def test_private_quota_comes_as_soon_as_a_stopped_job_is_inactive() -> None:
    """Kueue does not count it any more; that its quota is gone shows a second or two later."""
    stopped = replace(LOW[0], active=False, usage=gpus(0))
    (given,) = step(past_own(KEEPS, target=[stopped]), record(released=True)).actions
    assert isinstance(given, SetPrivateQuota)


def test_no_private_quota_is_given_for_what_somebody_else_took() -> None:
    thief = admitted("thief", "vision", size=1, allowed_sizes=())
    assert step(past_own(KEEPS, target=[thief]), record(released=True)).actions == ()
