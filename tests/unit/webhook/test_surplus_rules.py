"""The base of a surplus, which its pods have known since they were made, never changes, nor does
the runtime that the pods of both have."""

from copy import deepcopy
from dataclasses import replace

import pytest

from cede.api.names import RUNTIME
from cede.api.objects import Json
from tests.builders.jobs import TEAM, elastic_job, plain_job, running_job
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints

SURPLUS_OF = "cede.dev/surplus-of"
FIELD = f"metadata.annotations[{SURPLUS_OF}]"
BASE = "js/gpt-node-0/child/2"


def job_of(base: str) -> Json:
    job = elastic_job()
    if base:
        job["metadata"]["annotations"][SURPLUS_OF] = base
    return job


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(BASE, BASE, [], id="the same"),
        pytest.param(BASE, "", [], id="left out, so it is restored"),
        pytest.param("", "", [], id="no surplus"),
        pytest.param(
            BASE,
            "other/node/child/4",
            [
                f"{FIELD} is 'other/node/child/4', but the pods belong to '{BASE}': keep that, or "
                f"delete the job and make another with `cede surplus`"
            ],
            id="another base",
        ),
        pytest.param(
            "",
            BASE,
            [
                f"{FIELD} is '{BASE}', but a job cannot become a surplus: remove the annotation, "
                f"and make a surplus with `cede surplus`"
            ],
            id="added",
        ),
    ],
)
def test_the_base_of_a_surplus_cannot_be_changed(
    before: str, after: str, expected: list[str]
) -> None:
    old = running_job(job_of(before), 4)
    new = deepcopy(old)
    annotations = new["metadata"]["annotations"]
    annotations.pop(SURPLUS_OF, None)
    if after:
        annotations[SURPLUS_OF] = after
    assert complaints(AdmissionRequest(new, old, "ada", TEAM)) == expected


def test_a_long_base_is_shortened_in_the_message() -> None:
    old = running_job(job_of(BASE), 4)
    new = deepcopy(old)
    new["metadata"]["annotations"][SURPLUS_OF] = "x" * 9999
    (complaint,) = complaints(AdmissionRequest(new, old, "ada", TEAM))
    assert len(complaint) < 400


def test_a_new_job_may_be_a_surplus() -> None:
    assert complaints(AdmissionRequest(job_of(BASE), team=TEAM)) == []


@pytest.mark.parametrize("annotations", [{}, {RUNTIME: "inject"}], ids=["its image", "injected"])
def test_a_surplus_has_the_runtime_of_its_base_also_after_an_upgrade(annotations: Json) -> None:
    """The agents of both are one job, and another version of Cede may have made the base."""
    older = replace(TEAM, runtime_image="registry.example/cede@sha256:older")
    present = replace(TEAM, runtime_image="registry.example/cede@sha256:new", injects_runtime=True)
    base = apply_defaults(AdmissionRequest(plain_job(annotations=annotations), team=older))
    surplus = job_of(BASE)
    surplus["spec"]["template"] = deepcopy(base["spec"]["template"])
    pods = apply_defaults(AdmissionRequest(surplus, team=present))["spec"]["template"]["spec"]
    assert pods.get("initContainers") == base["spec"]["template"]["spec"].get("initContainers")
    assert "cede@sha256:new" not in str(pods)
