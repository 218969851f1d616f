"""What a job must say: every way to be wrong, in the words of the user's own YAML."""

from copy import deepcopy
from typing import Any

import pytest

from cede.api.objects import Json
from webhook.admission import SCHEDULER_USER, Asked, Team
from webhook.defaults import defaulted
from webhook.elastic_rules import grace_seconds
from webhook.kinds import concerns_us
from webhook.rules import complaints

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
TEAM = Team(
    name="vision",
    classes={"inference": 100, "training": 50, "sweep": 10},
    default_class="training",
    ceiling="training",
    queues=frozenset({"default", "night"}),
)


def a_job(
    size: int | None = 8,
    sizes: str | None = "2-8",
    *,
    completions: int | None = -1,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    pod: Json | None = None,
    **spec: Any,
) -> Json:
    """An elastic Job as its user writes it, after the API server's own defaults."""
    numbers = {"parallelism": size, "completions": size if completions == -1 else completions}
    container = {
        "name": "train",
        "image": "train",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
    } | (pod or {})
    notes = ({"cede.dev/sizes": sizes} if sizes is not None else {}) | (annotations or {})
    meta = {"name": "gpt", "namespace": "vision", "labels": labels or {}, "annotations": notes}
    numbers = {name: value for name, value in numbers.items() if value is not None}
    body = {
        "completionMode": "Indexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": {"metadata": {}, "spec": pod},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": body | numbers | spec,
    }


def plain(**more: Any) -> Json:
    return a_job(sizes=None, **more)


def running(job: Json, size: int) -> Json:
    """The same job as the cluster has it after our defaults and the scheduler's growth to
    `size`."""
    live = deepcopy(defaulted(Asked(job, team=TEAM)))
    live["spec"] |= {"parallelism": size, "completions": size}
    live["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "1234"
    return live


@pytest.mark.parametrize(
    ("job", "said"),
    [
        pytest.param(
            a_job(labels={PRIORITY: "urgent"}),
            (
                f"metadata.labels[{PRIORITY}] is 'urgent', which is no priority class here: use "
                f"training or sweep"
            ),
            id="unknown class: the list of those it may use",
        ),
        pytest.param(
            plain(labels={PRIORITY: "inference"}),
            (
                f"metadata.labels[{PRIORITY}] is 'inference', above what team vision may use: use "
                f"training or sweep"
            ),
            id="above the team's ceiling",
        ),
        pytest.param(
            plain(labels={QUEUE: "research"}),
            (
                f"metadata.labels[{QUEUE}] is 'research', which is no queue of team vision: use "
                f"default or night, or remove the label"
            ),
            id="another team's queue",
        ),
        pytest.param(
            a_job(sizes="8-2"),
            (
                "metadata.annotations[cede.dev/sizes]: '8-2' runs from 8 down to 2: put the "
                "smaller "
                "size first"
            ),
            id="sizes backwards",
        ),
        pytest.param(
            a_job(sizes=""),
            (
                "metadata.annotations[cede.dev/sizes]: '' is no list of sizes: write it like 2-8, "
                "2-8/2 or 1,2,4,8"
            ),
            id="no sizes",
        ),
        pytest.param(
            a_job(sizes="0-8"),
            (
                "metadata.annotations[cede.dev/sizes]: '0-8' holds size 0, which would complete "
                "the "
                "job: the smallest size is 1"
            ),
            id="size zero",
        ),
        pytest.param(
            a_job(completionMode="NonIndexed"),
            "spec.completionMode is NonIndexed: a job with cede.dev/sizes needs Indexed",
            id="not Indexed",
        ),
        pytest.param(
            a_job(completions=4),
            (
                "spec.parallelism is 8 but spec.completions is 4: a job with cede.dev/sizes needs "
                "both alike"
            ),
            id="two numbers",
        ),
        pytest.param(
            a_job(completions=None),
            (
                "spec.parallelism is 8 but spec.completions is not set: a job with cede.dev/sizes "
                "needs both alike"
            ),
            id="no completions",
        ),
        pytest.param(
            plain(completions=0),
            (
                "spec.completions is 0, which is a job that is complete before it starts: write at "
                "least 1"
            ),
            id="nothing to complete",
        ),
        pytest.param(
            a_job(7, "2-8/2"),
            (
                "spec.parallelism is 7, which is not among its sizes 2, 4, 6, 8: take one of "
                "them, or "
                "change cede.dev/sizes"
            ),
            id="a size outside the list",
        ),
        pytest.param(
            a_job(40, "2-32"),
            (
                "spec.parallelism is 40, which is not among its sizes 2, 3, 4 … 32: take one of "
                "them, "
                "or change cede.dev/sizes"
            ),
            id="a long list is cut short",
        ),
        pytest.param(
            a_job(annotations={"cede.dev/grace": "soon"}),
            (
                "metadata.annotations[cede.dev/grace]: 'soon' is no length of time: write it like "
                "90s, 5m or 1h"
            ),
            id="grace",
        ),
        pytest.param(
            a_job(pod={"restartPolicy": "OnFailure"}),
            "spec.template.spec.restartPolicy is OnFailure: a job with cede.dev/sizes needs Never",
            id="restart policy",
        ),
        pytest.param(
            a_job(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}),
            (
                "metadata.annotations[kueue.x-k8s.io/job-min-parallelism] does not go with "
                "cede.dev/sizes: remove it, the sizes say as much"
            ),
            id="partial admission",
        ),
        pytest.param(
            plain(annotations={"cede.dev/sizes": "1,2"})
            | {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"},
            (
                "metadata.annotations[cede.dev/sizes] is for a batch/v1 Job: remove it from this "
                "JobSet"
            ),
            id="no other kind is elastic",
        ),
    ],
)
def test_each_way_to_be_wrong_is_said_with_its_cure(job: Json, said: str) -> None:
    assert complaints(Asked(job, team=TEAM)) == [said]


def test_all_complaints_come_at_once() -> None:
    job = a_job(
        7,
        "2-8/2",
        completions=6,
        completionMode="NonIndexed",
        labels={PRIORITY: "urgent", QUEUE: "research"},
        annotations={"cede.dev/grace": "1 minute"},
        pod={"restartPolicy": "OnFailure"},
    )
    found = complaints(Asked(job, team=TEAM))
    for word in (
        "urgent",
        "research",
        "NonIndexed",
        "OnFailure",
        "1 minute",
        "both alike",
        "parallelism is 7",
    ):
        assert sum(word in complaint for complaint in found) >= 1, word
    assert len(found) == len(set(found)) == 7


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_job(), id="elastic"),
        pytest.param(
            a_job(pod={"containers": [{"name": "cpu"}]}), id="elastic without an accelerator"
        ),
        pytest.param(
            a_job(8, "1,2,4,8", labels={PRIORITY: "sweep", QUEUE: "night"}),
            id="own queue, lower class",
        ),
        pytest.param(plain(completionMode="NonIndexed", completions=40), id="plain"),
        pytest.param(
            {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}},
            id="another kind",
        ),
    ],
)
def test_a_right_job_has_no_complaints_before_and_after_our_defaults(job: Json) -> None:
    assert complaints(Asked(job, team=TEAM)) == []
    assert complaints(Asked(defaulted(Asked(job, team=TEAM)), team=TEAM)) == []


def test_what_the_admin_has_not_said_is_not_checked() -> None:
    assert complaints(Asked(plain(labels={PRIORITY: "anything"}), team=Team(name="vision"))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"parallelism": 6}, [], id="parallelism alone is understood"),
        pytest.param({"parallelism": 6, "completions": 6}, [], id="both"),
        pytest.param(
            {"parallelism": 6, "completions": 7},
            [
                (
                    "spec.parallelism is 6 but spec.completions is 7: a job with cede.dev/sizes "
                    "needs "
                    "both alike"
                )
            ],
            id="contradiction",
        ),
        pytest.param(
            {"parallelism": 9},
            [
                (
                    "spec.parallelism is 9, which is not among its sizes 2, 3, 4, 5, 6, 7, 8: take "
                    "one of them, or change cede.dev/sizes"
                )
            ],
            id="not among the sizes",
        ),
        pytest.param(
            {"completions": 0},
            [
                (
                    "spec.completions is 0, which is a job that is complete before it starts: "
                    "write "
                    "at least 1"
                )
            ],
            id="completions 0 would complete a running job for ever",
        ),
    ],
)
def test_a_wish_is_checked_when_it_is_changed(change: Json, said: list[str]) -> None:
    old = running(a_job(), 4)
    new = deepcopy(old)
    new["spec"] |= change
    assert complaints(Asked(new, old, "ada", TEAM)) == said


def test_a_policy_that_has_changed_since_does_not_hold_up_a_job() -> None:
    old = running(a_job(labels={PRIORITY: "training", QUEUE: "night"}), 4)
    new = deepcopy(old)
    new["spec"]["suspend"] = False
    stricter = Team(name="vision", classes={"new": 1}, queues=frozenset())
    assert complaints(Asked(new, old, "ada", stricter)) == []


def test_a_job_becomes_neither_elastic_nor_plain_later() -> None:
    elastic = running(a_job(), 4)
    rigid = plain()
    added = deepcopy(rigid)
    removed = deepcopy(elastic)
    added["metadata"]["annotations"]["cede.dev/sizes"] = "2-8"
    del removed["metadata"]["annotations"]["cede.dev/sizes"]
    assert [
        "cannot be added later" in each for each in complaints(Asked(added, rigid, "ada", TEAM))
    ] == [True]
    assert [
        "cannot be removed" in each for each in complaints(Asked(removed, elastic, "ada", TEAM))
    ] == [True]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        pytest.param("2-9", [], id="wider"),
        pytest.param("1-8", ["told that 2 is the smallest"], id="smaller than its pods were told"),
        pytest.param("2,4,8", [], id="fewer, with the present one among them"),
        pytest.param("6-8", ["leaves out 4"], id="without the present size"),
        pytest.param("2-4", ["cede.dev/desired-size is 8"], id="without the desired size"),
        pytest.param("many", ["no list of sizes"], id="not a list"),
    ],
)
def test_the_sizes_may_change_within_reason(sizes: str, said: list[str]) -> None:
    old = running(a_job(), 4)
    new = deepcopy(old)
    new["metadata"]["annotations"]["cede.dev/sizes"] = sizes
    found = complaints(Asked(new, old, "ada", TEAM))
    assert len(found) == len(said)
    assert all(word in complaint for word, complaint in zip(said, found, strict=True))


def test_what_is_queued_with_its_owner_or_leaving_or_the_schedulers_own_is_left_alone() -> None:
    wrong = a_job(labels={PRIORITY: "urgent"})
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "s",
        "uid": "1",
        "controller": True,
    }
    owned = deepcopy(wrong)
    leaving = deepcopy(wrong)
    owned["metadata"]["ownerReferences"] = [owner]
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for asked in (
        Asked(owned, user="system:serviceaccount:jobset-system:jobset"),
        Asked(leaving),
        Asked(wrong, user=SCHEDULER_USER),
    ):
        assert not concerns_us(asked)
        assert complaints(asked) == []
    owned["metadata"]["ownerReferences"] = [owner | {"apiVersion": "batch/v1", "kind": "CronJob"}]
    assert concerns_us(Asked(owned))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1h", 3600), (" 7s ", 7)])
def test_a_grace_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert grace_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "90", "-5s", "1.5h", "1h30m", "٣s" * 3, "9" * 40 + "s"])
def test_anything_else_is_no_grace(text: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        grace_seconds(text)
