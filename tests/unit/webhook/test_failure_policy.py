"""Pods that leave, are evicted or go down with their node are no failures; what the script does is
one."""

import pytest

from cede.api.names import IGNORED_FAILURES, POD_INDEX
from cede.api.objects import Json
from webhook.failure_policy import (
    NO_LIMIT,
    count_delays_per_index,
    make_failure_policy,
    read_exit_codes,
    without_ignored_failures,
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


def test_a_limit_per_index_of_the_user_stays() -> None:
    with_limit: Json = {"backoffLimitPerIndex": 1}
    without: Json = {}
    count_delays_per_index(with_limit)
    count_delays_per_index(without)
    assert (with_limit["backoffLimitPerIndex"], without["backoffLimitPerIndex"]) == (1, NO_LIMIT)


def test_a_pod_that_is_made_again_knows_nothing_of_ignored_failures() -> None:
    """The Job controller doubles its delay for each, up to 600 s."""
    counted = {"batch.kubernetes.io/job-index-failure-count": "2", POD_INDEX: "0"}
    again: Json = {"metadata": {"name": "gpt-0", "annotations": counted | {IGNORED_FAILURES: "6"}}}
    assert without_ignored_failures(again) == {
        "metadata": {"name": "gpt-0", "annotations": counted}
    }
    assert again["metadata"]["annotations"][IGNORED_FAILURES] == "6", "the request is not modified"


@pytest.mark.parametrize("pod", [{}, {"metadata": {}}, {"metadata": {"annotations": {"a": "b"}}}])
def test_the_first_pod_of_an_index_stays_as_it_is(pod: Json) -> None:
    assert without_ignored_failures(pod) == pod
