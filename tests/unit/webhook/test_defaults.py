"""Queue and priority of every object, and the invariants of all defaults."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.names import IGNORED_FAILURES
from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE, TEAM, elastic_job, plain_job, running_job
from tests.builders.random_jobs import random_jobs
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints
from webhook.team import Team


def create(job: Json, team: Team = TEAM) -> Json:
    return apply_defaults(AdmissionRequest(job, team=team))


def update(old: Json, new: Json, user: str = "ada") -> Json:
    return apply_defaults(AdmissionRequest(new, old, user, TEAM))


def test_the_pod_of_a_controller_only_forgets_ignored_failures_and_only_when_it_is_made() -> None:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "gpt", "uid": "1", "controller": True}
    metadata = {"name": "gpt-0", "ownerReferences": [owner], "annotations": {IGNORED_FAILURES: "6"}}
    again: Json = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}}
    assert create(again) == {**again, "metadata": {**metadata, "annotations": {}}}
    assert update(again, again, "system:kube-controller-manager") == again


def test_the_users_own_labels_stay() -> None:
    labels = {QUEUE: "night", PRIORITY: "sweep"}
    assert create(plain_job(labels=labels))["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("team", "label"),
    [
        pytest.param(
            replace(TEAM, max_class="sweep"),
            "sweep",
            id="the default is above the highest class allowed: that class",
        ),
        pytest.param(
            replace(TEAM, default_class=""),
            "sweep",
            id="no default: the lowest, so that the priority of its pods never counts",
        ),
        pytest.param(Team(name="vision"), None, id="no policy yet"),
    ],
)
def test_the_default_class(team: Team, label: str | None) -> None:
    assert create(plain_job(), team)["metadata"]["labels"].get(PRIORITY) == label


def test_a_running_job_gets_no_label_that_it_did_not_have() -> None:
    """Kueue refuses to add a priority to a running job, and to change its queue."""
    assert update(plain_job(), plain_job()) == plain_job()
    old = plain_job(labels={QUEUE: "night", PRIORITY: "sweep"})
    assert update(old, plain_job())["metadata"]["labels"] == old["metadata"]["labels"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, ["foregroundDeletion"], id="none"),
        pytest.param(["x/y"], ["x/y", "foregroundDeletion"], id="those of others stay"),
        pytest.param(["foregroundDeletion"], ["foregroundDeletion"], id="its own"),
        pytest.param(["orphan"], ["orphan"], id="both at once are no valid object"),
    ],
)
def test_a_new_job_is_deleted_with_its_pods_by_clients_that_say_nothing(
    before: list[str] | None, after: list[str]
) -> None:
    job = plain_job()
    if before is not None:
        job["metadata"]["finalizers"] = before
    assert create(job)["metadata"]["finalizers"] == after


def test_an_update_with_the_users_file_keeps_the_finalizer() -> None:
    assert update(running_job(elastic_job(), 4), elastic_job())["metadata"]["finalizers"] == [
        "foregroundDeletion"
    ]


def test_the_garbage_collector_takes_the_finalizer_of_a_job_that_is_deleted() -> None:
    """Otherwise the Job would never go."""
    old = create(plain_job())
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    new = deepcopy(old)
    new["metadata"]["finalizers"] = []
    assert update(old, new) == new


def test_a_job_that_exists_and_another_kind_get_no_finalizer() -> None:
    """The API server deletes the pods of every other kind."""
    assert "finalizers" not in update(plain_job(), plain_job())["metadata"]
    assert "finalizers" not in create(job_of_kind("JobSet", pod_spec()))["metadata"]
    owner = {"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2", "name": "o", "uid": "1"}
    owned = plain_job()
    owned["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    assert create(owned) == owned


def test_the_scheduler_may_resize() -> None:
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["spec"] |= {"parallelism": 2, "completions": 2}
    assert update(old, new, SCHEDULER_USER) == new


@settings(deadline=None)
@given(random_jobs(), st.none() | random_jobs())
def test_defaults_are_idempotent_and_do_not_modify_the_request(job: Json, old: Json | None) -> None:
    request = AdmissionRequest(job, old, "ada", TEAM)
    before = json.dumps(job)
    if complaints(request):
        return
    once = apply_defaults(request)
    assert json.dumps(job) == before
    assert complaints(replace(request, object=once)) == []
    assert apply_defaults(replace(request, object=once)) == once


@given(
    st.fixed_dictionaries(
        {"size": st.sampled_from([2, 4, 8]), "sizes": st.sampled_from(["1-8", "2,4,8", "2-8/2"])}
    ),
    st.sampled_from([1, 2, 3, 5, 8]),
    st.sampled_from([1, 2, 4, 6, 8, 9]),
)
def test_only_the_scheduler_resizes(file: dict[str, Any], size: int, requested: int) -> None:
    old = running_job(elastic_job(**file), size)
    new = deepcopy(old)
    new["spec"] |= {"parallelism": requested, "completions": requested}
    if not complaints(AdmissionRequest(new, old, "ada", TEAM)):
        after = update(old, new)
        assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (size, size)
        assert update(old, after) == after
