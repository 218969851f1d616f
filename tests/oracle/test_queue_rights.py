"""A scheduler that somebody took over gives nobody quota, and opens no queue."""

import json

import pytest

from cede.api import names
from cede.api.objects import Json
from scheduler.cession import guard_objects
from tests.builders.requests import GPU_FLAVOR, SCHEDULER, groups, guard, private, queue
from tests.harness.admission import Judge

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "spec",
    [
        {"preemption": {"withinClusterQueue": "LowerPriority"}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"cohortName": "other"},
        {"stopPolicy": "Hold"},
        {"fairSharing": {"weight": "9"}},
        {"flavorFungibility": {"whenCanBorrow": "Borrow"}},
        {"admissionChecksStrategy": {}},
        {"resourceGroups": groups("9")},
    ],
    ids=json.dumps,
)
def test_the_scheduler_opens_no_queue_to_others(judge: Judge, spec: Json) -> None:
    """Nor does it give one quota without a note of what that was."""
    assert judge(queue(**spec), SCHEDULER, old=queue())
    theirs = queue(queueingStrategy="StrictFIFO")
    assert judge(theirs, SCHEDULER, old=queue()) == []
    del theirs["metadata"]["labels"]
    assert judge(theirs, SCHEDULER, old=theirs), "not of Cede"


def test_private_quota_is_nominal_quota_that_is_lent_to_nobody(judge: Judge) -> None:
    assert judge(private(), SCHEDULER, old=queue()) == []
    for changed in (
        groups("6", borrowingLimit="9"),
        groups("6", name="cpu"),
        [*groups("6"), {"coveredResources": ["cpu"], "flavors": []}],
    ):
        lying = private()
        lying["spec"]["resourceGroups"] = changed
        assert judge(lying, SCHEDULER, old=queue())


@pytest.mark.parametrize(
    "spec",
    [
        {"cohortName": names.COHORT},
        guard_objects.joined([GPU_FLAVOR]) | {"cohortName": "other"},
        {"resourceGroups": groups("9")},
        {"namespaceSelector": {}},
        {"queueingStrategy": "StrictFIFO"},
    ],
    ids=["with its quota", "another Cohort", "more quota", "for all", "strict"],
)
def test_a_guard_brings_no_quota_into_the_cohort(judge: Judge, spec: Json) -> None:
    changed = guard()
    changed["spec"] |= spec
    assert judge(changed, SCHEDULER, old=guard())


@pytest.mark.parametrize(
    "spec",
    [{"cohortName": names.COHORT}, {"cohort": names.COHORT}, {"namespaceSelector": {}}],
    ids=json.dumps,
)
def test_a_guard_is_made_outside_of_the_cohort(judge: Judge, spec: Json) -> None:
    changed = guard()
    changed["spec"] |= spec
    assert judge(changed, SCHEDULER)
    other = guard()
    other["metadata"]["name"] = "vision"
    assert judge(other, SCHEDULER)
