"""What an elastic Job must say: the grammar of sizes in a job, and what in its spec would not hold
at every size."""

from copy import deepcopy
from typing import Any

import pytest

from cede.api.objects import Json
from tests.unit.webhook.test_rules import TEAM, a_job, plain, running
from webhook.admission import Asked
from webhook.rules import complaints

SIZES = "metadata.annotations[cede.dev/sizes]"
DESIRED_SIZE = "metadata.annotations[cede.dev/desired-size]"
HOW = "write it like 2-8, 2-8/2 or 1,2,4,8"
RULE = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", f"'' is no list of sizes: {HOW}", id="nothing"),
        pytest.param("  ", f"'' is no list of sizes: {HOW}", id="blanks"),
        pytest.param("two", f"'two' is no list of sizes: {HOW}", id="words"),
        pytest.param("2 8", f"'2 8' is no list of sizes: {HOW}", id="a blank for a sign"),
        pytest.param("2..8", f"'2..8' is no list of sizes: {HOW}", id="dots"),
        pytest.param("[2, 8]", f"'[2,8]' is no list of sizes: {HOW}", id="JSON"),
        pytest.param("2-8,16", f"'2-8,16' is no list of sizes: {HOW}", id="a range in a list"),
        pytest.param("2-", f"'2-' is no list of sizes: {HOW}", id="no end"),
        pytest.param("-8", f"'-8' is no list of sizes: {HOW}", id="no start"),
        pytest.param("2-8/", f"'2-8/' is no list of sizes: {HOW}", id="no step"),
        pytest.param("2,,8", f"'2,,8' is no list of sizes: {HOW}", id="a hole"),
        pytest.param("2,8,", f"'2,8,' is no list of sizes: {HOW}", id="a comma too many"),
        pytest.param("2.5-8", f"'2.5-8' is no list of sizes: {HOW}", id="half a pod"),
        pytest.param("1e1", f"'1e1' is no list of sizes: {HOW}", id="an exponent"),
        pytest.param("2–8", f"'2–8' is no list of sizes: {HOW}", id="a dash that is none"),
        pytest.param("٢-٨", f"'٢-٨' is no list of sizes: {HOW}", id="digits of another script"),
        pytest.param(
            "8-2", "'8-2' runs from 8 down to 2: put the smaller size first", id="downward"
        ),
        pytest.param("2-8/0", f"'2-8/0' has step 0: {HOW}", id="no step at all"),
        pytest.param(
            "0-8",
            "'0-8' holds size 0, which would complete the job: the smallest size is 1",
            id="0 in a range",
        ),
        pytest.param(
            "0,8",
            "'0,8' holds size 0, which would complete the job: the smallest size is 1",
            id="0 in a list",
        ),
        pytest.param(
            "0",
            "'0' holds size 0, which would complete the job: the smallest size is 1",
            id="0 alone",
        ),
        pytest.param(
            "1-4097", "'1-4097' goes up to 4097: at most 4096 pods are supported", id="too many"
        ),
        pytest.param(
            "8,9999",
            "'8,9999' goes up to 9999: at most 4096 pods are supported",
            id="too many in a list",
        ),
        pytest.param(
            "9" * 500, f"'{'9' * 20}…' is no list of sizes: {HOW}", id="a number nobody means"
        ),
        pytest.param(
            "1" + " " * 200_000, f"'1{' ' * 19}…' is 200001 characters long: {HOW}", id="a book"
        ),
    ],
)
def test_each_way_to_get_the_sizes_wrong_is_said_at_once_and_in_the_users_words(
    text: str, said: str
) -> None:
    assert complaints(Asked(a_job(8, text), team=TEAM)) == [f"{SIZES}: {said}"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"maxFailedIndexes": 2}, [], id="as many as there are at the smallest size"),
        pytest.param(
            {"maxFailedIndexes": 3},
            ["spec.maxFailedIndexes is 3: a job with cede.dev/sizes 2 and more may say 2 at most"],
            id="more failed indexes than pods",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 2}]}},
            [],
            id="the first pods suffice",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededIndexes": "0,2-7"}]}},
            [
                (
                    "spec.successPolicy.rules[0].succeededIndexes names index 7: a job with "
                    "cede.dev/sizes 2 and more always has 0 to 1 only"
                )
            ],
            id="success by a pod that may not be there",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededCount": 1}, {"succeededCount": 5}]}},
            [
                (
                    "spec.successPolicy.rules[1].succeededCount is 5: a job with cede.dev/sizes 2 "
                    "and "
                    "more may say 2 at most"
                )
            ],
            id="success by more pods than there are",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [RULE] * 18}}, [], id="as many rules as fit beside ours"
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [RULE] * 19}},
            ["spec.podFailurePolicy.rules has 19 rules: a job with cede.dev/sizes may have 18"],
            id="a rule too many",
        ),
    ],
)
def test_what_would_not_hold_at_the_smallest_size_is_said_before_kubernetes_trips_over_it(
    spec: Json, said: list[str]
) -> None:
    assert complaints(Asked(a_job(8, "2-8", **spec), team=TEAM)) == said
    assert complaints(Asked(plain(**spec), team=TEAM)) == []


@pytest.mark.parametrize(
    ("desired_size", "said"),
    [
        pytest.param("6", [], id="a size of its own"),
        pytest.param(
            "many",
            [f"{DESIRED_SIZE} is 'many', which is no size: remove it, or write spec.parallelism"],
            id="a word",
        ),
        pytest.param(
            "٦",
            [f"{DESIRED_SIZE} is '٦', which is no size: remove it, or write spec.parallelism"],
            id="digits of another script",
        ),
        pytest.param(
            "9",
            [
                (
                    "cede.dev/desired-size is 9, which is not among its sizes 2, 3, 4, 5, 6, 7, 8: take "
                    "one "
                    "of them, or change cede.dev/sizes"
                )
            ],
            id="no size of its own",
        ),
    ],
)
def test_a_desired_size_written_by_hand_is_checked(desired_size: str, said: list[str]) -> None:
    old: Any = running(a_job(), 4)
    new = deepcopy(old)
    new["metadata"]["annotations"]["cede.dev/desired-size"] = desired_size
    assert complaints(Asked(new, old, "ada", TEAM)) == said
