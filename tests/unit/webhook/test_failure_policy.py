"""Pods that leave, are evicted or go down with their node are no failures; what the script does is
one."""

from copy import deepcopy

import pytest

from cede.api.names import IGNORED_FAILURES, INDEX_FAILURES, POD_INDEX, SHORT_BACK_OFF
from cede.api.objects import Json
from webhook.failure_policy import (
    NO_LIMIT,
    count_delays_per_index,
    keep_delays_per_index,
    make_failure_policy,
    read_exit_codes,
    with_short_delay,
)

OWN_RULE: Json = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}


def test_our_rules_precede_the_users() -> None:
    policy = make_failure_policy({"rules": [OWN_RULE]}, "train", [43, 255])
    ended, evicted, own = policy["rules"]
    assert ended == {
        "action": "Ignore",
        "onExitCodes": {"containerName": "train", "operator": "In", "values": [43, 255]},
    }
    assert evicted["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert own == OWN_RULE


def test_our_rules_are_recognised_with_the_empty_fields_of_the_api_server() -> None:
    policy = make_failure_policy({"rules": [OWN_RULE]}, "train", [43, 255])
    stored = {
        "rules": [
            {**rule, "onPodConditions": rule.get("onPodConditions")} for rule in policy["rules"]
        ]
    }
    assert make_failure_policy(stored, "train", [43, 255]) == policy


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([], [43, 255], id="a job without rules"),
        pytest.param([OWN_RULE], [43, 255], id="only the user's rules"),
        pytest.param(make_failure_policy({}, "train", [43])["rules"], [43], id="an older job"),
        pytest.param(
            [{"action": "Ignore", "onExitCodes": {"containerName": "train"}}],
            [43, 255],
            id="a broken rule",
        ),
    ],
)
def test_the_codes_that_a_job_ignores_since_it_was_created(
    rules: list[Json], expected: list[int]
) -> None:
    assert read_exit_codes({"spec": {"podFailurePolicy": {"rules": rules}}}, "train") == expected


SHORT = {SHORT_BACK_OFF: "true"}
WITH_DELAYS: Json = {
    "backoffLimitPerIndex": NO_LIMIT,
    "template": {"metadata": {"annotations": SHORT}},
}


def test_a_limit_per_index_of_the_user_stays_and_its_failures_are_counted() -> None:
    with_limit: Json = {"backoffLimitPerIndex": 1}
    count_delays_per_index(with_limit)
    assert with_limit == {"backoffLimitPerIndex": 1}


def test_no_user_s_annotation_lowers_a_count_that_the_user_s_own_limit_needs() -> None:
    spec: Json = {
        "backoffLimitPerIndex": 3,
        "template": {"metadata": {"annotations": {SHORT_BACK_OFF: "true", "mine": "x"}}},
    }
    count_delays_per_index(spec)
    assert spec["template"]["metadata"]["annotations"] == {"mine": "x"}


def test_without_one_the_pods_say_that_their_count_may_be_lowered() -> None:
    spec: Json = {}
    count_delays_per_index(spec)
    assert spec == WITH_DELAYS


@pytest.mark.parametrize(
    "old", [{}, {"backoffLimitPerIndex": NO_LIMIT}, {"backoffLimitPerIndex": 3}, WITH_DELAYS]
)
def test_an_update_gets_back_what_it_had_and_no_more(old: Json) -> None:
    """Also a job that an older version made: Kubernetes refuses to change either field."""
    replaced: Json = {}
    keep_delays_per_index(replaced, old)
    assert replaced == old


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({IGNORED_FAILURES: "6"}, {}, id="none that were ignored"),
        pytest.param(
            {IGNORED_FAILURES: "6", INDEX_FAILURES: "4", POD_INDEX: "0"},
            {INDEX_FAILURES: "4", POD_INDEX: "0"},
            id="pod 0 with a limit of the user: all others",
        ),
        pytest.param(
            SHORT | {IGNORED_FAILURES: "6", INDEX_FAILURES: "4", POD_INDEX: "0"},
            SHORT | {INDEX_FAILURES: "1", POD_INDEX: "0"},
            id="pod 0 without one: one of the others",
        ),
        pytest.param(
            SHORT | {IGNORED_FAILURES: "6", INDEX_FAILURES: "4", POD_INDEX: "1"},
            SHORT | {INDEX_FAILURES: "4", POD_INDEX: "1"},
            id="another pod: all others",
        ),
    ],
)
def test_what_a_pod_that_is_made_again_knows_of_failures(
    before: dict[str, str], after: dict[str, str]
) -> None:
    """The Job controller doubles its delay for each, up to 600 s."""
    again: Json = {"metadata": {"name": "gpt-0", "annotations": before}}
    asked = deepcopy(again)
    assert with_short_delay(again) == {"metadata": {"name": "gpt-0", "annotations": after}}
    assert again == asked, "the request is not modified"


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"a": "b"},
        {INDEX_FAILURES: "4"},
        SHORT,
        SHORT | {INDEX_FAILURES: "0", POD_INDEX: "0"},
        SHORT | {INDEX_FAILURES: "1", POD_INDEX: "0"},
        SHORT | {INDEX_FAILURES: "4", POD_INDEX: "3"},
    ],
)
def test_other_pods_stay_as_they_are(annotations: dict[str, str]) -> None:
    pod: Json = {"metadata": {"annotations": annotations}}
    assert with_short_delay(pod) is pod
    assert with_short_delay({}) == {}
