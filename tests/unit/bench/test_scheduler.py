"""The clusters that the benchmark of the scheduler measures are what they are said to be."""

import pytest

from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec
from scheduler.actions import OpenCession, ResizeJob
from scheduler.plan import Plan, plan
from scheduler.snapshot import snapshot
from scheduler.snapshot.snapshot import RawObjects
from tests.bench.scheduler import pictures
from tests.bench.scheduler.passes import decoded
from tests.bench.scheduler.pictures import NOW, SIZES, Scenario, Size
from tests.bench.scheduler.time_to_owner import stage_seconds

SMALL = SIZES[0]
STATUS = {
    "targets": [
        {"askedTime": rfc3339(101, micro=True), "cededTime": rfc3339(103, micro=True)},
        {"askedTime": rfc3339(102, micro=True), "releasedTime": rfc3339(104, micro=True)},
    ],
    "admittedTime": rfc3339(106, micro=True),
}


def plan_of(scenario: Scenario) -> Plan:
    statuses = pictures.statuses(SMALL, scenario)
    objects = RawObjects(**decoded(SMALL, scenario), statuses=statuses)
    return plan(snapshot.take(objects), PolicySpec(), NOW)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.workloads))
def test_a_cluster_has_the_number_of_workloads_and_fifty_pods_a_node(size: Size) -> None:
    names = [name for name, _ in pictures.objects(size, "full")]
    assert names.count("workloads") == size.workloads
    assert names.count("pods") == 50 * size.nodes


def test_nobody_who_waits_in_a_full_cluster_may_take_anything() -> None:
    assert plan_of("full").actions == ()


def test_a_claim_opens_a_cession() -> None:
    [opened] = plan_of("claim").actions
    assert isinstance(opened, OpenCession)
    assert opened.cession.spec.preemptor.queue == "team-0"
    assert {target.queue for target in opened.cession.spec.targets} == {"team-2"}


def test_idle_quota_grows_a_job_past_those_that_never_fit() -> None:
    grown = [action for action in plan_of("growth").actions if isinstance(action, ResizeJob)]
    assert grown
    assert not any(action.shrinks for action in grown)


def test_the_stages_of_a_claim_add_up_to_its_wait() -> None:
    stages = stage_seconds(STATUS, created=100, running=109)
    assert stages == {"ask": 2, "cede": 1, "release": 1, "admit": 2, "start pods": 3}


def test_a_stage_that_was_not_recorded_takes_no_time() -> None:
    stages = stage_seconds({"targets": [{}]}, created=100, running=109)
    assert stages == {"ask": 0, "cede": 0, "release": 0, "admit": 0, "start pods": 9}
