"""A guard, and private quota, when the scheduler dies at any step, and when it does not come back.

With CEDE_LONG_FAULTS, as in `make test-long`, the scheduler stays away for minutes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import POLICY, Admin
from tests.integration.claims import (
    CLASSES,
    OWNER,
    PAST_ITS_OWN,
    TEAMS,
    Case,
    allocate,
    arrivals,
    cession_of_claim,
    claims,
    fill,
    governed_teams,
    left_over,
    robbed_by,
    wait_for_cessions,
    waiting,
)
from tests.marks import LONG_FAULTS, in_long

pytestmark = pytest.mark.cluster
NAMESPACE = ("-n", names.SYSTEM_NAMESPACE)
PODS = (*NAMESPACE, "pod", "-l", f"app.kubernetes.io/name={names.SCHEDULER}")
AT_ONCE = ("--force", "--grace-period=0")
# The next leader comes before the quota_controller's watchdog undoes what the last one left.
PATIENT = POLICY["preemption"] | {"watchdogSeconds": 60}
# Kueue ends a guard after 120 s; then the quota_controller changes back what is left.
ENDED_S = 240
# A scheduler that came back twice within 10 minutes takes nothing for 5 × watchdogSeconds.
TRUSTED_AGAIN_S = 5 * PATIENT["watchdogSeconds"] + 30


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed_teams(cluster) as admin:
        yield admin


@pytest.fixture
def case(admin: Admin) -> Iterator[Case]:
    """All accelerators are in use, and a claim is there past its team's own quota."""
    admin.apply_policy(priorityClasses=CLASSES, preemption=PATIENT)
    admin.wait_until_cede_preempts(TRUSTED_AGAIN_S)
    allocate(admin, PAST_ITS_OWN)
    fill(admin, PAST_ITS_OWN)
    admin.submit(*claims(admin, PAST_ITS_OWN))
    wait_for_cessions(admin, PAST_ITS_OWN)
    yield PAST_ITS_OWN
    admin.delete_jobs(*TEAMS)


def guard_is_made(admin: Admin) -> bool:
    return bool(guard_queues(admin))


def guard_is_in_the_cohort(admin: Admin) -> bool:
    return any(queue["spec"].get("cohortName") for queue in guard_queues(admin))


def targets_release(admin: Admin) -> bool:
    return bool(cession_of_claim(admin, OWNER)["status"].get("released"))


def quota_is_private(admin: Admin) -> bool:
    queue = admin.cluster_queue(OWNER)
    return names.PRIVATE_QUOTA in queue["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    "step",
    [guard_is_in_the_cohort, *in_long(guard_is_made, targets_release, quota_is_private)],
    ids=lambda step: step.__name__,
)
def test_a_scheduler_that_dies_at_any_step_leaves_the_claim_what_was_released(
    admin: Admin, case: Case, step: Callable[[Admin], bool]
) -> None:
    wait_for_step(admin, step)
    admin.cluster.kubectl("delete", *PODS, *AT_ONCE)
    with arrivals(admin, case.arrives):
        admin.submit(*waiting(admin, OWNER))
        admin.wait_for_admission(OWNER, "claim")
    assert robbed_by(admin) == set()
    admin.cluster.until(lambda: left_over(admin) == [], "nothing to be left over", 30)


@LONG_FAULTS
@pytest.mark.parametrize(
    "step",
    [guard_is_made, guard_is_in_the_cohort, targets_release],
    ids=lambda step: step.__name__,
)
def test_without_a_scheduler_a_guard_ends_and_kueue_preempts_by_itself(
    admin: Admin, case: Case, step: Callable[[Admin], bool]
) -> None:
    wait_for_step(admin, step)
    assert guard_is_made(admin), "the claim was admitted before the scheduler was off"
    with admin.cluster.switched_off(names.SCHEDULER):
        admin.cluster.until(lambda: left_over(admin) == [], "nothing to be left over", ENDED_S)
        admin.cluster.until(lambda: is_admitted(admin), "Kueue to admit the claim", ENDED_S)


def test_cede_release_takes_a_guard_and_private_quota_away(admin: Admin, case: Case) -> None:
    wait_for_step(admin, guard_is_in_the_cohort)
    admin.release()
    admin.cluster.until(lambda: left_over(admin) == [], "nothing to be left over", 30)


def wait_for_step(admin: Admin, step: Callable[[Admin], bool]) -> None:
    """Until the step is made; at the end the claim may be admitted before it is seen."""
    admin.cluster.until(lambda: step(admin) or is_admitted(admin), step.__name__, 60)


def is_admitted(admin: Admin) -> bool:
    return "claim" in admin.admitted_jobs(OWNER)


def guard_queues(admin: Admin) -> list[Json]:
    listing = admin.cluster.kubectl_json("get", "clusterqueues", "-l", names.GUARD)
    return list(listing["items"])
