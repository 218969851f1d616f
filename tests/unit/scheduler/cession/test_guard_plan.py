"""The next step with a guard, from what is in the cluster: whoever made the last step."""

from dataclasses import replace

import pytest

from cede.api import guards
from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.objects import rfc3339
from cede.api.resources import Resources
from scheduler.actions import (
    CreateGuard,
    DeleteGuard,
    JoinGuard,
)
from scheduler.cession import guard_plan
from scheduler.cession.reservation import prepare
from scheduler.quota.cohort import STRICT_FIFO, ResourceGroup, ResourceQuota
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkloads
from tests.builders.guards import ADMITTED, KEEPS, LOW, RELAXED, past_own, record, step
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    KEY,
    NOW,
    admitted,
    cession,
    cohort_quota,
    gpus,
    pending,
    queue,
    snapshot,
)

ONE = Resources({GPU: 1})
OTHER_KEY = ("h100", GPU)


# --- who needs one --------------------------------------------------------------------------------
def test_a_claim_within_its_own_needs_none() -> None:
    current = snapshot(pending=[pending()], admitted=[admitted()])
    assert not guard_plan.needs_guard(cession(), current, NOW)


def test_a_claim_past_its_own_needs_one() -> None:
    assert guard_plan.needs_guard(record(), past_own(target=LOW), NOW)


def test_a_growth_needs_none() -> None:
    """Its job keeps the quota that it has."""
    grows = replace(
        past_own(target=LOW), pending=PendingWorkloads([replace(pending(), is_scale_up=True)])
    )
    assert not guard_plan.needs_guard(record(), grows, NOW)


def test_a_claim_for_one_resource_on_two_flavors_can_have_none() -> None:
    """The guard is one pod, and Kueue gives it each resource from one flavor."""
    claim = pending(pod_sets=(PodSetRequest("a", 3, ONE), PodSetRequest("b", 3, ONE)))
    on_two = replace(
        queue("vision"),
        quotas={KEY: ResourceQuota(4), OTHER_KEY: ResourceQuota(4)},
        groups=(ResourceGroup((GPU,), (FLAVOR, "h100")),),
    )
    made = cession("Asked")
    needs = [made.spec.need[0], made.spec.need[0].model_copy(update={"flavor": "h100"})]
    made = made.model_copy(update={"spec": made.spec.model_copy(update={"need": needs})})
    current = snapshot(cohort_quota(on_two, queue("research", 8)), pending=[claim])
    assert guard_plan.needed_quota(made, current) == {KEY: 3, OTHER_KEY: 3}
    assert not guard_plan.needs_guard(made, replace(current, guards=(KEEPS,)), NOW)


def test_a_claim_that_borrows_needs_one() -> None:
    current = snapshot(pending=[pending(pods=6)], admitted=[admitted()])
    assert guard_plan.needs_guard(cession(), current, NOW)


def claims_of_two_teams() -> tuple[Cession, Cession]:
    """The first is within its own, the second borrows."""
    first = cession("Asked")
    preemptor = first.spec.preemptor.model_copy(update={"uid": "uid-asr", "queue": "speech"})
    second = first.model_copy(
        update={
            "metadata": replace(first.metadata, name="c-2"),
            "spec": first.spec.model_copy(update={"preemptor": preemptor}),
        }
    )
    return first, second


def of_two_teams(*guards: Guard, released: bool = False) -> tuple[Snapshot, Cession, Cession]:
    first, second = claims_of_two_teams()
    if released:
        done = [TargetStatus(uid="job-uid-gpt", releasedTime=rfc3339(NOW))]
        first = first.model_copy(
            update={"status": first.status.model_copy(update={"targets": done})}
        )
    vision = queue("vision", strategy="StrictFIFO")
    quota = cohort_quota(vision, queue("speech", 2), queue("research", used=12))
    waiting = [pending(), pending("asr", "speech", pods=4)]
    current = snapshot(quota, pending=waiting, cessions=[first, second])
    return replace(current, guards=guards), first, second


def test_a_guard_waits_for_what_another_preemptor_is_owed() -> None:
    current, first, second = of_two_teams()
    assert not guard_plan.ends_first(first, current, NOW)
    assert not guard_plan.ends_first(second, current, NOW)
    current, first, second = of_two_teams(released=True)
    assert guard_plan.ends_first(second, current, NOW) == "c-1"


def test_nobody_releases_while_another_preemptor_has_a_guard() -> None:
    """Also if that Cession has ended, until its guard is gone."""
    current, first, _ = of_two_teams(replace(KEEPS, cession="c-2"))
    assert not step(current, first).may_release
    current, first, _ = of_two_teams(replace(KEEPS, cession="c-0"))
    assert not step(current, first).may_release


def test_a_queue_is_not_strict_while_another_preemptor_has_a_guard() -> None:
    """Kueue would reserve for the queue in every cycle, and never admit the other preemptor."""
    current, first, _ = of_two_teams(replace(KEEPS, cession="c-2"))
    strict = current.quota.queues["vision"]
    assert strict.strategy == STRICT_FIFO
    assert step(current, first).actions == (replace(RELAXED, version=strict.version),)
    # also for the growth of a job, which keeps its own quota
    grows = replace(current, pending=PendingWorkloads([replace(pending(), is_scale_up=True)]))
    assert step(grows, first).actions == (replace(RELAXED, version=strict.version),)


def test_of_two_guards_at_once_the_older_cession_keeps_its_own() -> None:
    current, first, second = of_two_teams(ADMITTED, replace(ADMITTED, cession="c-2"))
    assert not guard_plan.ends_first(first, current, NOW)
    assert step(current, second).actions == (DeleteGuard("c-2"),)


def test_after_the_release_a_guard_is_not_made_again_when_its_time_is_over() -> None:
    reserved = rfc3339(NOW - guards.LIMIT_S - 1)
    assert not guard_plan.needs_guard(record(True, reserved), past_own(target=LOW), NOW)


def test_where_kueue_places_pods_by_topology_there_is_no_guard() -> None:
    """Kueue would look for nodes for its pod, which are free only after the release."""
    current = replace(past_own(target=LOW), placed_flavors=frozenset({FLAVOR}))
    assert not guard_plan.needs_guard(record(), current, NOW)


# --- step by step ---------------------------------------------------------------------------------
def test_nothing_is_kept_before_all_targets_can_release() -> None:
    """Other teams would have to wait for their own quota meanwhile."""
    kept = step(past_own(target=LOW), record(), all_ready=False)
    assert (kept.actions, kept.may_release) == ((RELAXED,), False)


def test_a_guard_goes_when_a_target_saves_again() -> None:
    """The Cession got another target, or one grows again."""
    kept = step(past_own(KEEPS, target=LOW), record(released=True), all_ready=False)
    assert (kept.actions, kept.may_release) == ((DeleteGuard("c-1"), RELAXED), False)


def test_nothing_is_released_behind_a_guard_that_is_deleted() -> None:
    kept = step(past_own(replace(KEEPS, is_deleted=True), target=LOW), record())
    assert (kept.actions, kept.may_release) == ((), False)


def test_the_guard_is_as_large_as_the_preemptor() -> None:
    made = step(past_own(target=LOW), record())
    assert made.actions == (CreateGuard("c-1", {KEY: 4}, guards.LIMIT_S),)
    assert not made.may_release


def test_a_guard_that_the_preemptor_has_outgrown_is_made_again_before_the_release() -> None:
    current = past_own(KEEPS, target=LOW)
    idle = cohort_quota(current.quota.queues["vision"], queue("research", 8, 4))
    more = replace(current, pending=PendingWorkloads([pending(pods=5)]), quota=idle)
    kept = step(more, record())
    assert (kept.actions, kept.may_release) == ((DeleteGuard("c-1"),), False)
    assert DeleteGuard("c-1") not in step(more, record(released=True)).actions
    less = replace(current, pending=PendingWorkloads([pending(pods=3)]))
    assert step(less, record()).may_release


def test_the_guard_covers_what_the_team_exceeds_its_own_quota_by() -> None:
    other = admitted("other", "vision", size=2, allowed_sizes=())
    current = past_own(target=(*LOW, other))
    small = replace(current, pending=PendingWorkloads([pending(pods=2)]))
    (made,) = step(small, record()).actions
    # 4 are owned, 6 are in use, 2 are wanted
    assert isinstance(made, CreateGuard)
    assert made.amounts == {KEY: 4}


def test_no_guard_is_made_for_what_another_cession_releases() -> None:
    """It would keep the other preemptor out, and nobody would release anything."""
    current = past_own(target=LOW)
    larger = replace(current, pending=PendingWorkloads([pending(pods=5)]))
    assert step(larger, record()).actions == (RELAXED,)
    not_needed = prepare(record(), current, NOW, {})
    assert not_needed.actions == (RELAXED,)
    taken_meanwhile = replace(larger, guards=(KEEPS,))
    assert step(taken_meanwhile, record()).actions == (DeleteGuard("c-1"), RELAXED)


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        pytest.param(replace(KEEPS, is_admitted=False), None, id="Kueue has ended it"),
        pytest.param(ADMITTED, JoinGuard("c-1", "9", (KEY,)), id="admitted, it joins the Cohort"),
        pytest.param(replace(KEEPS, is_observed=False), None, id="Kueue has not read it"),
    ],
)
def test_nothing_is_released_before_the_guard_keeps_it(
    guard: Guard, expected: JoinGuard | None
) -> None:
    kept = step(past_own(guard, target=LOW), record())
    assert kept.actions == ((expected,) if expected else ())
    assert not kept.may_release


def test_a_guard_of_which_only_a_part_was_made_is_completed() -> None:
    part = Guard("c-1", "9", is_observed=True, nominal=gpus(4))
    [made] = step(past_own(part, target=LOW), record()).actions
    assert isinstance(made, CreateGuard)


def test_the_queue_becomes_strict_only_behind_the_guard() -> None:
    """Before, a StrictFIFO queue would keep the guard out."""
    early = step(past_own(ADMITTED, target=LOW, strategy="BestEffortFIFO"), record())
    assert [type(action).__name__ for action in early.actions] == ["JoinGuard"]
    behind = step(past_own(KEEPS, target=LOW, strategy="BestEffortFIFO"), record())
    assert [type(action).__name__ for action in behind.actions] == ["SetQueueingStrategy"]
    assert behind.may_release
