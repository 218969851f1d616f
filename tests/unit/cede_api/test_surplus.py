"""The surplus of a JobSet: what it is made of, and whose it is."""

from typing import Any

import pytest

from cede.api.objects import Json
from cede.api.surplus import OF_BASE, Base, Request, manifest
from elastic_runtime import contract
from tests.builders.jobs import TEAM
from tests.unit.webhook.test_job_sets import create, job_of, job_set
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints
from webhook.runtime_pods import JOB_SET_ENV

OWNER = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "gpt", "uid": "js"}
BASE = Base("js", "gpt-node-0", "child", 2)


def child() -> Json:
    """The Job that JobSet makes, when it runs."""
    sizes = {"cede.dev/sizes": "2,4,8"}
    spec = job_of(create(job_set(annotations=sizes)))["spec"]
    template = spec["template"]
    template["metadata"]["labels"] |= {
        "jobset.sigs.k8s.io/jobset-name": "gpt",
        "batch.kubernetes.io/controller-uid": "child",
        "controller-uid": "child",
        "job-name": "gpt-node-0",
        "app": "gpt",
    }
    template["spec"]["nodeSelector"] = {"type": "a100"}
    spec |= {"suspend": False, "selector": {"matchLabels": {"controller-uid": "child"}}}
    metadata = {"name": "gpt-node-0", "namespace": "vision", "uid": "child"}
    return {"metadata": metadata, "spec": spec}


def made(**more: Any) -> Json:
    facts: dict[str, Any] = {
        "name": "gpt",
        "owner": OWNER,
        "sizes": (2, 4, 8),
        "job": child(),
        "queue": "default",
        "priority_class": "sweep",
    }
    return manifest(Request(**(facts | more)))


def env_of(job: Json) -> dict[str, str]:
    [container] = job["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: str(variable.get("value", "")) for variable in container["env"]}


def test_it_has_the_sizes_above_the_base() -> None:
    job = made()
    assert job["metadata"]["name"] == "gpt-surplus"
    assert job["metadata"]["annotations"]["cede.dev/sizes"] == "2,6"
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 6


def test_kueue_queues_it_by_itself_and_it_is_deleted_with_its_base() -> None:
    """Kueue follows references that name a controller."""
    [owner] = made()["metadata"]["ownerReferences"]
    assert owner == OWNER


def test_its_pods_are_those_of_the_base_without_what_controllers_added() -> None:
    template = made()["spec"]["template"]
    assert template["metadata"] == {"labels": {"app": "gpt"}}
    assert template["spec"]["nodeSelector"] == {"type": "a100"}
    assert template["spec"]["restartPolicy"] == "Never"
    assert "selector" not in made()["spec"]


def test_the_webhook_accepts_it_and_its_pods_count_on_from_the_base() -> None:
    request = AdmissionRequest(made(grace="90s"), user="ada", team=TEAM)
    assert complaints(request) == []
    stored = apply_defaults(request)
    assert stored["spec"]["parallelism"] == 2
    env = env_of(stored)
    assert env[contract.BASE_JOB_ENV] == "gpt-node-0"
    assert env[contract.BASE_UID_ENV] == "child"
    assert env[contract.BASE_SIZE_ENV] == "2"
    assert env[contract.SIZES_ENV] == "2,6"
    assert env[contract.GRACE_ENV] == "90"
    assert not env.keys() & {*OF_BASE}
    assert {*OF_BASE} == {JOB_SET_ENV, contract.SURPLUS_ENV}
    again = apply_defaults(AdmissionRequest(stored, stored, "ada", TEAM))
    assert again == stored


def test_whose_surplus_it_is_stands_in_its_annotation() -> None:
    assert Base.parse(made()["metadata"]["annotations"]["cede.dev/surplus-of"]) == BASE


@pytest.mark.parametrize(
    "text", ["", "js", "js/gpt/child", "js/gpt/child/", "js/gpt/child/x", "js/gpt/child/0"]
)
def test_another_text_is_no_base(text: str) -> None:
    assert Base.parse(text) is None
