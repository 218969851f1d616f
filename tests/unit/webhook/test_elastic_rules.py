"""The rules for Jobs: sizes, graces, and fields that would not hold at every size."""

from copy import deepcopy
from typing import Any

import pytest

from cede.api.objects import Json
from tests.builders.jobs import TEAM, elastic_job, plain_job, running_job
from webhook.admission import AdmissionRequest
from webhook.rules import complaints

SIZES = "metadata.annotations[cede.dev/sizes]"
DESIRED_SIZE = "metadata.annotations[cede.dev/desired-size]"
FAILURE_RULE = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}


def complaints_of_new(job: Json) -> list[str]:
    return complaints(AdmissionRequest(job, team=TEAM))


def complaints_of_update(old: Json, new: Json) -> list[str]:
    return complaints(AdmissionRequest(new, old, "ada", TEAM))


# --- a new job ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blanks"),
        pytest.param("two", id="a word"),
        pytest.param("2 8", id="a blank as a separator"),
        pytest.param("2..8", id="dots"),
        pytest.param("[2,8]", id="JSON"),
        pytest.param("2-8,16", id="a range in a list"),
        pytest.param("2-", id="no end"),
        pytest.param("-8", id="no start"),
        pytest.param("2-8/", id="an empty step"),
        pytest.param("2-8/0", id="step 0"),
        pytest.param("2,,8", id="an empty item"),
        pytest.param("2,8,", id="a comma at the end"),
        pytest.param("2.5-8", id="a fraction"),
        pytest.param("1e1", id="an exponent"),
        pytest.param("2–8", id="another dash"),
        pytest.param("٢-٨", id="digits of another script"),
        pytest.param("9" * 500, id="a number that is too long"),
        pytest.param("1" + " " * 200_000, id="a text that is too long"),
    ],
)
def test_a_text_that_is_not_sizes_is_refused_with_the_grammar(text: str) -> None:
    (complaint,) = complaints_of_new(elastic_job(8, text))
    shown = text.strip() if len(text) <= 60 else text[:20] + "…"
    assert complaint.startswith(f"{SIZES}: {shown!r} ")
    assert complaint.endswith(": write it like 2-8, 2-8/2 or 1,2,4,8")


@pytest.mark.parametrize(
    ("text", "reason", "cure"),
    [
        pytest.param("8-2", "runs from 8 down to 2", "put the smaller size first", id="downward"),
        pytest.param("0-8", "size 0", "the smallest size is 1", id="0 in a range"),
        pytest.param("0,8", "size 0", "the smallest size is 1", id="0 in a list"),
        pytest.param("0", "size 0", "the smallest size is 1", id="0 alone"),
        pytest.param("1-4097", "goes up to 4097", "at most 4096 pods", id="a range too large"),
        pytest.param("8,9999", "goes up to 9999", "at most 4096 pods", id="a size too large"),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_the_cure(text: str, reason: str, cure: str) -> None:
    (complaint,) = complaints_of_new(elastic_job(8, text))
    assert complaint.startswith(f"{SIZES}: {text!r} ")
    assert complaint.index(reason) < complaint.index(cure)


@pytest.mark.parametrize(
    ("job", "complaint"),
    [
        pytest.param(
            elastic_job(completions=4),
            "spec.parallelism is 8 but spec.completions is 4: a job with cede.dev/sizes needs both "
            "to be equal",
            id="two numbers",
        ),
        pytest.param(
            elastic_job(completions=None),
            "spec.parallelism is 8 but spec.completions is not set: a job with cede.dev/sizes "
            "needs both to be equal",
            id="no completions",
        ),
        pytest.param(
            elastic_job(7, "2-8/2"),
            "spec.parallelism is 7, which is not one of the job's sizes 2, 4, 6, 8: use one of "
            "them, or change cede.dev/sizes",
            id="a size outside the list",
        ),
        pytest.param(
            elastic_job(40, "2-32"),
            "spec.parallelism is 40, which is not one of the job's sizes 2, 3, 4 … 32: use one of "
            "them, or change cede.dev/sizes",
            id="a long list is shortened",
        ),
        pytest.param(
            elastic_job(pod={"restartPolicy": "OnFailure"}),
            "spec.template.spec.restartPolicy is OnFailure: a job with cede.dev/sizes needs Never",
            id="restart policy",
        ),
        pytest.param(
            elastic_job(pod={"containers": []}),
            "spec.template.spec.containers is empty: a job with cede.dev/sizes needs a container "
            "to train in",
            id="no container",
        ),
        pytest.param(
            elastic_job(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}),
            "metadata.annotations[kueue.x-k8s.io/job-min-parallelism] cannot be combined with "
            "cede.dev/sizes: remove it, the smallest size takes its place",
            id="partial admission",
        ),
    ],
)
def test_a_complaint_names_the_field_and_the_cure(job: Json, complaint: str) -> None:
    assert complaints_of_new(job) == [complaint]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, []),
        pytest.param(
            {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 8}}}},
            [
                "spec.scheduling.schedulingPolicy.gang.minCount is 8: a job whose smallest size "
                "is 2 may have at most 2"
            ],
            id="a larger gang",
        ),
        pytest.param({"maxFailedIndexes": 2}, [], id="as many failed indexes as pods"),
        pytest.param(
            {"maxFailedIndexes": 3},
            ["spec.maxFailedIndexes is 3: a job whose smallest size is 2 may have at most 2"],
            id="more failed indexes than pods",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 2}]}},
            [],
            id="success of the first pods",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededIndexes": "0,2-7"}]}},
            [
                "spec.successPolicy.rules[0].succeededIndexes contains 7: a job whose smallest "
                "size is 2 may use only indexes 0 to 1"
            ],
            id="success of pods that may not exist",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededCount": 1}, {"succeededCount": 5}]}},
            [
                "spec.successPolicy.rules[1].succeededCount is 5: a job whose smallest size is 2 "
                "may have at most 2"
            ],
            id="success of more pods than may exist",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [FAILURE_RULE] * 18}}, [], id="as many rules as fit"
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [FAILURE_RULE] * 19}},
            [
                "spec.podFailurePolicy.rules has 19 rules: a job with cede.dev/sizes may have at "
                "most 18, remove 1"
            ],
            id="a rule too many",
        ),
    ],
)
def test_fields_must_hold_at_the_smallest_size(spec: Json, expected: list[str]) -> None:
    assert complaints_of_new(elastic_job(8, "2-8", **spec)) == expected
    assert complaints_of_new(plain_job(**spec)) == []


# --- an update ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"parallelism": 6}, [], id="parallelism alone"),
        pytest.param({"parallelism": 6, "completions": 6}, [], id="both"),
        pytest.param(
            {"parallelism": 6, "completions": 7},
            [
                "spec.parallelism is 6 but spec.completions is 7: a job with cede.dev/sizes needs "
                "both to be equal"
            ],
            id="contradiction",
        ),
        pytest.param(
            {"parallelism": 9},
            [
                "spec.parallelism is 9, which is not one of the job's sizes 2, 3, 4, 5, 6, 7, 8: "
                "use one of them, or change cede.dev/sizes"
            ],
            id="not one of the sizes",
        ),
        pytest.param(
            {"completions": 0},
            ["spec.completions is 0, so the job would complete before it starts: set at least 1"],
            id="completions 0 would complete a running job",
        ),
    ],
)
def test_a_changed_desired_size_is_checked(change: Json, expected: list[str]) -> None:
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["spec"] |= change
    assert complaints_of_update(old, new) == expected


@pytest.mark.parametrize(
    ("desired_size", "expected"),
    [
        pytest.param("6", [], id="one of the sizes"),
        pytest.param(
            "many",
            [
                f"{DESIRED_SIZE} is 'many', which is not a number: remove it and set "
                f"spec.parallelism instead"
            ],
            id="a word",
        ),
        pytest.param(
            "٦",
            [
                f"{DESIRED_SIZE} is '٦', which is not a number: remove it and set "
                f"spec.parallelism instead"
            ],
            id="digits of another script",
        ),
        pytest.param(
            "9",
            [
                f"{DESIRED_SIZE} is 9, which is not one of the job's sizes 2, 3, 4, 5, 6, 7, 8: "
                f"use one of them, or change cede.dev/sizes"
            ],
            id="not one of the sizes",
        ),
    ],
)
def test_an_annotated_desired_size_is_checked(desired_size: str, expected: list[str]) -> None:
    old: Any = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["metadata"]["annotations"]["cede.dev/desired-size"] = desired_size
    assert complaints_of_update(old, new) == expected


def test_a_job_cannot_become_elastic_or_plain_later() -> None:
    elastic = running_job(elastic_job(), 4)
    plain = plain_job()
    with_sizes = deepcopy(plain)
    with_sizes["metadata"]["annotations"]["cede.dev/sizes"] = "2-8"
    without_sizes = deepcopy(elastic)
    del without_sizes["metadata"]["annotations"]["cede.dev/sizes"]
    (added,) = complaints_of_update(plain, with_sizes)
    assert added.startswith(f"{SIZES} cannot be added to an existing job: delete the job")
    (removed,) = complaints_of_update(elastic, without_sizes)
    assert removed.startswith(f"{SIZES} cannot be removed from an elastic job: delete the job")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param("2-9", [], id="wider"),
        pytest.param("1-8", ["allows 1, but the job's pods were created"], id="a smaller smallest"),
        pytest.param("2,3,4,8", [], id="fewer, all of them above the present one"),
        pytest.param("2,4,8", ["does not contain 3: a job keeps"], id="coarser below"),
        pytest.param("4-8", ["does not contain 2, 3: a job keeps"], id="a larger smallest"),
        pytest.param(
            "6-8",
            ["does not contain 4", "does not contain 2, 3: a job keeps"],
            id="without the present size",
        ),
        pytest.param("2-4", [f"{DESIRED_SIZE} is 8"], id="without the desired size"),
        pytest.param("many", [f"{SIZES}: 'many' is "], id="not a list"),
    ],
)
def test_the_sizes_may_change_within_limits(sizes: str, expected: list[str]) -> None:
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["metadata"]["annotations"]["cede.dev/sizes"] = sizes
    actual = complaints_of_update(old, new)
    assert len(actual) == len(expected)
    assert all(part in text for part, text in zip(expected, actual, strict=True))


def test_broken_sizes_of_a_running_job_can_be_repaired() -> None:
    """They were changed while the webhook did not answer."""
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    old["metadata"]["annotations"]["cede.dev/sizes"] = "many"
    assert complaints_of_update(old, new) == []
