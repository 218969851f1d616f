"""Random and hostile reviews of every kind: none crashes, and no patch is invalid."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cede.api.names import RUNTIME
from cede.api.objects import Json
from cede.api.resources import parse as parse_amounts
from tests.builders.hostile_values import HOSTILE_VALUES, TEXTS, hostile_objects, nest
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, pod_spec
from tests.builders.jobs import TEAM, elastic_job, make_review, running_job
from tests.fakes.patches import json_patch
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.kinds import get_pod_templates
from webhook.rules import complaints
from webhook.server import MalformedReview, mutate, parse_review, validate

pytestmark = pytest.mark.slow

GPU = "nvidia.com/gpu"
TEAM_WITH_NODES = replace(
    TEAM, nodes={"p5": parse_amounts({GPU: "8", "cpu": "190", "memory": "1Ti"})}
)
RUNNING = running_job(elastic_job(), 3)
JOBS_OF_EVERY_KIND = [job for job, _ in jobs_of_every_kind(pod_spec({GPU: "1"})).values()]
INJECTED = elastic_job(annotations={RUNTIME: "inject"})
ALL_JOBS = [*JOBS_OF_EVERY_KIND, elastic_job(), elastic_job(4, "1,2,4"), RUNNING, INJECTED]


@st.composite
def hostile_updates(draw: st.DrawFn) -> tuple[Json, Json | None]:
    """An object and its old version: none, another object, or the same before other edits."""
    match draw(st.integers(0, 2)):
        case 0:
            return draw(hostile_objects(ALL_JOBS)), None
        case 1:
            return draw(hostile_objects(ALL_JOBS)), draw(hostile_objects(ALL_JOBS))
    live = [RUNNING, running_job(INJECTED, 3)]
    return draw(hostile_objects([elastic_job(), INJECTED, *live])), draw(hostile_objects(live))


def parse(job: Any, old: Any, user: str) -> AdmissionRequest | None:
    """The request as the server sees it; None for a review that it refuses as malformed."""
    body = json.dumps(make_review(job, old, user)).encode()
    try:
        _, request = parse_review(body, lambda namespace: TEAM_WITH_NODES)
    except MalformedReview:
        return None
    return request


# --- any object -----------------------------------------------------------------------------------
@settings(deadline=None, max_examples=400)
@given(hostile_updates(), st.sampled_from(["ada", SCHEDULER_USER, ""]))
@example((elastic_job(8, "1" + " " * 100_000), None), "ada")
@example((nest(elastic_job(), 100), elastic_job()), "ada")
def test_any_review_is_answered_and_its_patch_is_idempotent(
    update: tuple[Json, Json | None], user: str
) -> None:
    job, old = update
    request = parse(job, old, user)
    if request is None:
        return
    answer = mutate(request)
    validate(request)
    if not answer["allowed"]:
        assert answer["status"]["message"]
        return
    operations = json.loads(base64.b64decode(answer.get("patch", "W10=")))
    after = json_patch(request.object, operations)
    # Kueue changes the object, and the API server asks us again
    again = replace(request, object=after)
    assert mutate(again) == validate(again) == {"allowed": True}
    assert after.get("apiVersion") == request.object.get("apiVersion")
    assert after.get("kind") == request.object.get("kind")
    if request.old is None:
        assert list(find_defects(request.object, after)) == []


def find_defects(before: Json, after: Json) -> Iterator[str]:
    """Additions of ours that the API would not accept, or that are there twice."""
    metadata = after.get("metadata", {})
    for name, value in metadata.get("labels", {}).items():
        if not isinstance(value, str):
            yield f"label {name} is {value!r}"
    is_elastic = "cede.dev/sizes" in (metadata.get("annotations") or {})
    if after.get("spec") == before.get("spec") or not is_elastic:
        return
    spec = after["spec"]
    counts = (spec["parallelism"], spec["completions"])
    if counts[0] != counts[1] or type(counts[0]) is not int:
        yield f"sizes {counts}"
    if "cede.dev/elastic" not in spec["template"].get("metadata", {}).get("labels", {}):
        return
    pod = spec["template"]["spec"]
    if {"cede-control", "cede-runtime"} & {*find_duplicates(pod.get("volumes"), "name")}:
        yield "our volume is there twice"
    for container in pod["containers"]:
        variables = container.get("env") if isinstance(container, dict) else None
        for name in find_duplicates(variables, "name"):
            if name.startswith("CEDE_"):
                yield f"variable {name} is there twice"


def find_duplicates(items: Any, key: str) -> list[str]:
    if not isinstance(items, list):
        return []
    counts = Counter(str(item.get(key)) for item in items if isinstance(item, dict))
    return [name for name, count in counts.items() if count > 1]


@settings(deadline=None, max_examples=200)
@given(HOSTILE_VALUES, HOSTILE_VALUES, TEXTS)
def test_any_value_instead_of_an_object_is_answered_or_malformed(
    job: Any, old: Any, user: str
) -> None:
    request = parse(job, old, user)
    if request is not None:
        mutate(request)
        validate(request)


# --- large objects --------------------------------------------------------------------------------
KINDS_WITH_TEMPLATES = [
    str(job["kind"]) for job in JOBS_OF_EVERY_KIND if list(get_pod_templates(job))
]


@pytest.mark.parametrize("kind", KINDS_WITH_TEMPLATES)
def test_containers_as_large_as_the_api_server_allows_are_read(kind: str) -> None:
    """One endless quantity is skipped, and 1.5 MB of small ones are added up."""
    endless = [{"name": "c", "resources": {"requests": {"cpu": "1" * 1_000_000 + "x"}}}]
    many = [{"name": "c", "resources": {"limits": {GPU: 1}}}] * 25_000
    for containers, is_refused in ((endless, False), (many, True)):
        job = job_of_kind(kind, pod_spec())
        _, template = next(iter(get_pod_templates(job)))
        template["spec"] = {"containers": containers}
        texts = complaints(AdmissionRequest(job, team=TEAM_WITH_NODES))
        assert any(f"requests 25000 {GPU}" in text for text in texts) == is_refused


def test_a_replaced_job_keeps_as_many_tolerations_as_fit() -> None:
    old_tolerations = [{"key": f"k{i}", "operator": "Exists"} for i in range(25_000)]
    new_tolerations = [{"key": f"n{i}", "operator": "Exists"} for i in range(25_000)]
    old = running_job(elastic_job(pod={"tolerations": old_tolerations}), 4)
    new = elastic_job(pod={"tolerations": new_tolerations})
    after = apply_defaults(AdmissionRequest(new, old, "ada", TEAM_WITH_NODES))
    assert len(after["spec"]["template"]["spec"]["tolerations"]) == 50_000


def test_very_many_complaints_are_one_short_answer() -> None:
    template = {"spec": {"template": {"spec": pod_spec({GPU: "9"})}}}
    job = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "it"},
        "spec": {"replicatedJobs": [{"template": template}] * 2000},
    }
    answer = mutate(AdmissionRequest(job, team=TEAM_WITH_NODES))
    assert answer["status"]["message"].endswith("; and 1950 more")
