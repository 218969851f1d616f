"""Servers that have ceded replicas get them back: into idle quota, or as claims of their team."""

from dataclasses import replace

import pytest

from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec, Preemption
from cede.api.resources import Quota
from cede.api.sizes import MAX_SIZE
from scheduler.quota.cohort import CohortQuota
from scheduler.resizing.servers import give_back, grow_servers
from scheduler.server_actions import ScaleServer
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import FLAVOR, NOW, admitted, cohort_quota, pending, queue
from tests.builders.servers import deployment, groups, leader_worker_set, pod, pods, serving

POLICY = PolicySpec(preemption=Preemption(growCooldownSeconds=60))
CEDED = deployment(2, desired=4)
LATELY = rfc3339(NOW - 30)


def quota(current: Snapshot, vision: int, research: int, own: int = 2) -> Snapshot:
    """What the teams use, and what research owns."""
    teams = (queue("vision", used=vision), queue("research", own, used=research))
    return replace(current, quota=cohort_quota(*teams))


def grown(current: Snapshot, **options: set[str]) -> list[int]:
    return [action.replicas for action in grow_servers(current, POLICY, NOW, **options)]


def test_replicas_come_back_into_idle_quota() -> None:
    assert grown(quota(serving(CEDED, pods(2)), vision=2, research=2)) == [4]
    assert grown(quota(serving(CEDED, pods(2)), vision=3, research=2)) == [3]
    assert grown(quota(serving(CEDED, pods(2)), vision=4, research=2)) == []


def test_a_group_comes_back_as_a_whole() -> None:
    ceded = serving(leader_worker_set(1, "1-2", desired=2), groups(1))
    assert grown(quota(ceded, vision=3, research=2)) == [], "one of its two pods would fit"
    assert grown(quota(ceded, vision=2, research=2)) == [2]
    assert grown(quota(ceded, vision=4, research=2, own=3)) == [], "nor does its team own both"
    assert grown(quota(ceded, vision=4, research=2, own=4)) == [2]


def test_a_server_claims_what_its_team_owns_and_others_borrow() -> None:
    borrowed = quota(serving(CEDED, pods(2)), vision=5, research=2, own=3)
    assert grown(borrowed) == [3]
    assert grown(borrowed, busy_queues={"research"}) == [], "one claim of a team at a time"


def test_what_a_team_owns_of_many_replicas_is_found_in_few_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = 0
    owns_with = CohortQuota.owns_with

    def count(quota: CohortQuota, name: str, request: Quota) -> bool:
        nonlocal calls
        calls += 1
        return owns_with(quota, name, request)

    monkeypatch.setattr(CohortQuota, "owns_with", count)
    many = serving(deployment(2, f"2-{MAX_SIZE}", desired=MAX_SIZE), pods(2))
    for own, expected in ((3000, 3000), (5000, MAX_SIZE), (2, 2)):
        calls = 0
        borrowed = quota(many, vision=5000 + own, research=2, own=own)
        assert grown(borrowed) == ([expected] if expected > 2 else [])
        assert 0 < calls <= MAX_SIZE.bit_length()


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(serving(deployment(2), pods(2)), id="it has ceded nothing"),
        pytest.param(serving(deployment(2, desired=4, shrunk_at=LATELY), pods(2)), id="cooldown"),
        pytest.param(serving(CEDED, pods(1)), id="a pod of it waits"),
        pytest.param(serving(CEDED, [pod(0), pod(1, ready=False)]), id="a pod is not ready"),
        pytest.param(serving(CEDED, []), id="no pod has quota"),
        pytest.param(
            serving(CEDED, pods(2), pending=[pending(pods=2)]), id="another is about to start"
        ),
    ],
)
def test_a_server_does_not_grow(current: Snapshot) -> None:
    assert grown(quota(current, vision=0, research=2)) == []


def test_nothing_grows_into_what_is_promised_or_into_the_growth_of_a_job() -> None:
    current = quota(serving(CEDED, pods(2)), vision=0, research=2)
    assert grown(current, promised={FLAVOR}) == []
    other = serving(CEDED, pods(2), others=[admitted(size=2)])
    assert grown(quota(other, vision=0, research=4), growing={"job-uid-gpt"}) == []


@pytest.mark.parametrize(
    ("replicas", "desired"),
    [pytest.param(4, 4, id="all are back"), pytest.param(0, 4, id="its user switched it off")],
)
def test_a_server_that_needs_nothing_back_is_whole(replicas: int, desired: int) -> None:
    current = serving(deployment(replicas, desired=desired), pods(replicas))
    [action] = grow_servers(current, POLICY, NOW)
    assert (action.replicas, action.desired_size) == (replicas, replicas)


def test_in_mode_observe_all_replicas_are_given_back() -> None:
    whole, ceded = serving(deployment(2), []).servers, serving(CEDED, []).servers
    [action] = give_back([*whole, *ceded])
    assert isinstance(action, ScaleServer)
    assert (action.replicas, action.desired_size) == (4, 4)
