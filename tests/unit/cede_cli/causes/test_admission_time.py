"""By when a job that lacks quota is admitted, or why nobody can tell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import Cohort, Workload
from cede.api.objects import Json, unix
from cede.api.wait_reasons import WaitReason
from cede.causes import admission_time
from cede.causes.facts import Cause
from tests.builders.causes import (
    FLAVOR,
    causes,
    cession,
    exceeds,
    lacks,
    policy,
    queue,
    running,
    time,
    workload,
)
from tests.builders.reports import NOW, allocation

GRACE_S = 60
BEGINS_S = admission_time.BEGINS_S
YOUNG = workload(lacks(4), age_s=10)
"""It lacks what its team has lent to research."""
OLD = running("old", "research", 7)
NEW = running("new", "research", 1, ago_s=20)
MEMBER: dict[str, Any] = {"workloads": (YOUNG,), "incomplete": frozenset({"workloads"})}


def when_of(item: Workload, **changed: Any) -> float | str:
    """The latest time as the command says it, or why there is none."""
    return _when(causes(item, **changed))


def _when(all_causes: Sequence[Cause]) -> float | str:
    for cause in all_causes:
        if cause.estimate:
            return unix(cause.estimate.latest)
    return next((cause.no_estimate for cause in all_causes if cause.no_estimate), "")


def limited(job: str, team: str, gpus: int, left_s: int) -> Workload:
    """It runs, and Kueue ends it in so many seconds."""
    item = running(job, team, gpus, ago_s=100)
    return replace(item, spec=replace(item.spec, maximumExecutionTimeSeconds=100 + left_s))


# --- what its team has lent -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("item", "changed", "expected"),
    [
        pytest.param(YOUNG, {}, NOW - 10 + BEGINS_S + GRACE_S, id="the grace after it came"),
        pytest.param(
            YOUNG,
            {"workloads": (YOUNG, OLD, NEW)},
            NOW + 40 + BEGINS_S + GRACE_S,
            id="the grace after all borrowers are old enough",
        ),
        pytest.param(
            YOUNG,
            MEMBER,
            NOW - 10 + 60 + BEGINS_S + GRACE_S,
            id="for a member the grace after its own wait",
        ),
        pytest.param(
            workload(lacks(4), age_s=600), {}, admission_time.NOT_BEGUN, id="none has begun"
        ),
        pytest.param(
            YOUNG,
            {"workloads": (workload(lacks(4), job="first", age_s=20), YOUNG)},
            admission_time.NOT_FIRST,
            id="behind another job",
        ),
        pytest.param(
            YOUNG,
            {"workloads": (workload(exceeds(99, 8), job="first", age_s=20), YOUNG, OLD)},
            NOW - 10 + BEGINS_S + GRACE_S,
            id="behind a job that is never admitted",
        ),
        pytest.param(
            YOUNG,
            {"policy": None, "leases": {}, "incomplete": frozenset({"clusterpolicies"})},
            admission_time.NOBODY_KNOWN,
            id="without the right to read who leads",
        ),
        pytest.param(YOUNG, {"policy": policy("Observe")}, "", id="not in mode Observe"),
        pytest.param(YOUNG, {"leases": {names.SCHEDULER_LEASE: None}}, "", id="nobody leads"),
        pytest.param(
            YOUNG,
            {"cessions": (cession(phase="Failed", completionTime=time(5)),)},
            0.0,
            id="after a failure only the end of the pause, which is no latest time",
        ),
    ],
)
def test_an_owner_gets_back_what_is_lent_within_the_grace_period(
    item: Workload, changed: dict[str, Any], expected: float | str
) -> None:
    assert when_of(item, **changed) == expected


@pytest.mark.parametrize(
    ("used_by_low", "expected"),
    [
        pytest.param(2, NOW - 10 + BEGINS_S + GRACE_S, id="enough"),
        pytest.param(1, admission_time.NO_LIMITS, id="too little"),
    ],
)
def test_jobs_of_the_own_team_with_lower_priority_give_within_the_grace_period(
    used_by_low: int, expected: float | str
) -> None:
    item = workload(lacks(2), gpus=2, priority=80, age_s=10)
    jobs = (
        running("low", "vision", used_by_low, priority=10),
        running("same", "vision", 4 - used_by_low, priority=80),
        item,
    )
    queues = (queue("vision", 4, 4), queue("research", 8, 8))
    own = (allocation("vision", spec={"preemptOwnTasks": "LowerPriority"}),)
    assert when_of(item, queues=queues, workloads=jobs, allocations=own) == expected


# --- what others use ------------------------------------------------------------------------------
BORROWER = workload(lacks(2), gpus=6)
"""Its team owns 4 and uses none of them; it has to borrow 2."""
FULL = (queue("vision", 4, 0), queue("research", 8, 8))


@pytest.mark.parametrize(
    ("jobs", "changed", "expected"),
    [
        pytest.param([limited("a", "research", 8, 300)], {}, NOW + 300, id="when the lender's end"),
        pytest.param(
            [limited("a", "research", 1, 300), limited("b", "research", 1, 500)],
            {},
            NOW + 500,
            id="the last that it takes",
        ),
        pytest.param([running("a", "research", 8)], {}, admission_time.NO_LIMITS, id="no limit"),
        pytest.param(
            [limited("a", "research", 1, 300)], {}, admission_time.NO_LIMITS, id="too little"
        ),
        pytest.param(
            [limited("a", "research", 8, 300)],
            {"incomplete": frozenset({"workloads"})},
            admission_time.NOT_READ,
            id="for a member",
        ),
        pytest.param(
            [
                limited("a", "research", 2, 300),
                limited("b", "research", 4, 500),
                workload(lacks(4), team="research", job="waits"),
            ],
            {},
            NOW + 500,
            id="with what other jobs ask for that wait",
        ),
        pytest.param(
            [
                limited("a", "research", 2, 300),
                workload(lacks(4), team="research", job="waits"),
            ],
            {},
            admission_time.OTHERS_WAIT,
            id="not if other jobs want it too",
        ),
        pytest.param(
            [
                limited("a", "research", 2, 300),
                limited("b", "research", 4, 500),
                workload(lacks(4), team="research", job="waits"),
            ],
            {"queues": (queue("vision", 4, 0, borrowing=2), queue("research", 8, 8))},
            NOW + 500,
            id="what others ask for is not what its team may borrow",
        ),
        pytest.param(
            [
                limited("a", "research", 2, 300),
                workload(exceeds(99, 8), team="research", job="never"),
            ],
            {},
            NOW + 300,
            id="a job that is never admitted takes nothing",
        ),
        pytest.param(
            [limited("a", "research", 2, 300)],
            {"queues": (queue("vision", 4, 0), queue("research", 8, 8, lending=1))},
            admission_time.NO_LIMITS,
            id="what its owner keeps does not count",
        ),
        pytest.param(
            [limited("a", "research", 8, 300)],
            {"queues": (queue("vision", 4, 0, borrowing=1), queue("research", 8, 8))},
            admission_time.NO_LIMITS,
            id="no more than its team may borrow",
        ),
    ],
)
def test_a_borrower_starts_when_jobs_whose_time_is_limited_have_freed_enough(
    jobs: list[Workload], changed: dict[str, Any], expected: float | str
) -> None:
    facts = {"queues": FULL, "workloads": [BORROWER, *jobs]} | changed
    assert when_of(BORROWER, **facts) == expected


def test_what_is_in_no_allocation_can_be_borrowed_too() -> None:
    group = {
        "coveredResources": [names.GPU],
        "flavors": [{"name": FLAVOR, "resources": [{"name": names.GPU, "nominalQuota": 1}]}],
    }
    body: Json = {"metadata": {"name": "cede"}, "spec": {"resourceGroups": [group]}}
    item = workload(lacks(1), gpus=6)
    jobs = [item, limited("a", "research", 1, 300)]
    cohorts = (msgspec.convert(body, Cohort),)
    assert when_of(item, queues=FULL, workloads=jobs, cohorts=cohorts) == NOW + 300
    assert when_of(item, queues=FULL, workloads=jobs) == admission_time.NO_LIMITS


def test_a_team_at_its_borrowing_limit_waits_for_its_own_jobs() -> None:
    item = workload(lacks(1), gpus=2)
    jobs = [item, limited("own", "vision", 3, 300), running("long", "vision", 4)]
    queues = (queue("vision", 4, 7, borrowing=4), queue("research", 4, 0))
    limit, *_ = causes(item, queues=queues, workloads=jobs)
    assert limit.reason is WaitReason.BORROWING_LIMIT
    assert _when([limit]) == NOW + 300
