"""Random and hostile reviews of every kind: no crash, no 500, no patch that an API server would
reject."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cede.api.objects import Json
from cede.api.resources import parse as amounts
from tests.builders.job_kinds import jobs_of_every_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE, TEAM, elastic_job, running_job
from tests.fakes.patches import json_patch
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.kinds import get_pod_templates
from webhook.rules import complaints
from webhook.server import MalformedReview, mutate, parse_review, validate

THEIRS = replace(
    TEAM, nodes={"p5": amounts({"nvidia.com/gpu": "8", "cpu": "190", "memory": "1Ti"})}
)
Path = tuple[str | int, ...]


# --- what may be anywhere -------------------------------------------------------------------------
def nested(depth: int, inside: Any) -> Any:
    for _ in range(depth):
        inside = {"spec": {"template": [inside]}}
    return inside


TEXT = st.sampled_from(
    [
        "",
        " ",
        "0",
        "-1",
        "1e999",
        "9" * 400,
        "٣",
        "é",
        "\u202e",
        "\x00",
        "\ud800",
        "💥" * 50,
        "a/b~1",
        "__proto__",
        "kueue.x-k8s.io/x",
        "2-8",
        "0-0",
        "1" + " " * 5000 + "2",
        "cede-control",
        "CEDE_SIZES",
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "Indexed",
        "Never",
    ]
) | st.text(max_size=5)
NUMBER = st.sampled_from(
    [0, -1, 1, 8, True, False, 2**31, 2**63, -(2**63), 10**300, 0.5, 1e308, -0.0]
)
ODD = st.recursive(
    st.none() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
HOSTILE = ODD | st.builds(nested, st.integers(1, 60), ODD)
META = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(
            st.sampled_from([QUEUE, PRIORITY, "cede.dev/elastic"]), TEXT, max_size=3
        ),
        "annotations": st.dictionaries(
            st.sampled_from(["cede.dev/sizes", "cede.dev/grace", "cede.dev/desired-size"]),
            TEXT,
            max_size=3,
        ),
        "ownerReferences": ODD,
        "deletionTimestamp": ODD,
    },
)


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in the value, itself included."""
    yield at
    for step, inner in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from paths(inner, (*at, step))


def changed(value: Any, path: Path, new: Any, how: str) -> Any:
    """A copy of the value with that place replaced, gone, or there twice."""
    value = json.loads(json.dumps(value))
    at = value
    for step in path[:-1]:
        at = at[step]
    if how == "twice" and isinstance(at, list):
        at.append(at[int(path[-1])])
    elif how == "gone":
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return value


KINDS = [found for found, _ in jobs_of_every_kind(pod_spec({"nvidia.com/gpu": "1"})).values()]
WHOLE = [*KINDS, elastic_job(), elastic_job(4, "1,2,4"), running_job(elastic_job(), 3)]


@st.composite
def reviewed(draw: st.DrawFn, of: Json | None = None) -> Json:
    """An object of a kind we are asked about, or this one, of which anything may be anything."""
    found: Json = of or draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(0, 4))):
        places = [path for path in paths(found) if len(path) > 1 and path[0] == "spec"]
        if places:
            found = changed(
                found,
                draw(st.sampled_from(places)),
                draw(HOSTILE),
                draw(st.sampled_from(["replaced", "gone", "twice"])),
            )
    if draw(st.booleans()):
        found = found | {"metadata": found["metadata"] | draw(META)}
    if draw(st.integers(0, 9)) == 0:
        found = found | draw(
            st.dictionaries(st.sampled_from(["apiVersion", "kind", "spec"]), HOSTILE, max_size=2)
        )
    return found


@st.composite
def updated(draw: st.DrawFn) -> tuple[Json, Json | None]:
    """An object and what it was: something else, the same with other things odd in it, or
    nothing."""
    match draw(st.integers(0, 2)):
        case 0:
            return draw(reviewed()), None
        case 1:
            return draw(reviewed()), draw(reviewed())
    prepared = running_job(elastic_job(), 3)
    return draw(reviewed(of=draw(st.sampled_from([elastic_job(), prepared])))), draw(
        reviewed(of=prepared)
    )


def asked(found: Any, old: Any = None, user: str = "ada") -> bytes:
    request = {
        "uid": "u",
        "namespace": "vision",
        "object": found,
        "oldObject": old,
        "userInfo": {"username": user},
    }
    return json.dumps({"request": request}).encode()


# --- what must hold -------------------------------------------------------------------------------
@settings(deadline=None, max_examples=400)
@given(updated(), st.sampled_from(["ada", SCHEDULER_USER, ""]))
@example((elastic_job(8, "1" + " " * 100_000), None), "ada")
@example((nested(100, elastic_job()), elastic_job()), "ada")
def test_any_review_is_answered_and_its_patch_applies_twice_changing_nothing(
    review: tuple[Json, Json | None], user: str
) -> None:
    found, old = review
    try:
        _, each = parse_review(asked(found, old, user), lambda namespace: THEIRS)
    except MalformedReview:
        return
    answer = mutate(each)
    validate(each)
    if not answer["allowed"]:
        assert answer["status"]["message"]
        return
    after = json_patch(each.object, json.loads(base64.b64decode(answer.get("patch", "W10="))))
    again = replace(each, object=after)
    assert mutate(again) == validate(again) == {"allowed": True}, (
        "Kueue changes something, and we are asked again"
    )
    assert (after.get("apiVersion"), after.get("kind")) == (
        each.object.get("apiVersion"),
        each.object.get("kind"),
    )
    assert each.old is not None or sane(each.object, after) == []


def sane(before: Json, after: Json) -> list[str]:
    """What in our additions would not decode into the API's types, or would be there twice."""
    wrong = [
        f"{name}: {value!r}"
        for name, value in after.get("metadata", {}).get("labels", {}).items()
        if not isinstance(value, str)
    ]
    if after.get("spec") == before.get("spec") or "cede.dev/sizes" not in (
        after.get("metadata", {}).get("annotations") or {}
    ):
        return wrong
    spec = after["spec"]
    numbers = (spec["parallelism"], spec["completions"])
    wrong += [] if numbers[0] == numbers[1] and type(numbers[0]) is int else [f"sizes {numbers}"]
    pod = spec["template"]["spec"]
    if "cede.dev/elastic" in spec["template"].get("metadata", {}).get("labels", {}):
        wrong += [
            f"volume {name!r} twice"
            for name in twice(pod.get("volumes"), "name")
            if name == "cede-control"
        ]
        for container in pod["containers"]:
            names = twice(container.get("env") if isinstance(container, dict) else None, "name")
            wrong += [f"{name} twice" for name in names if str(name).startswith("CEDE_")]
    return wrong


def twice(items: Any, key: str) -> list[Any]:
    found = (
        [item.get(key) for item in items or [] if isinstance(item, dict)]
        if isinstance(items, list)
        else []
    )
    return [value for value in found if found.count(value) > 1]


@settings(deadline=None, max_examples=200)
@given(HOSTILE, HOSTILE, TEXT)
def test_what_is_no_object_is_answered_or_refused_as_malformed(
    found: Any, old: Any, user: str
) -> None:
    try:
        _, each = parse_review(asked(found, old, user), lambda namespace: THEIRS)
    except MalformedReview:
        return
    mutate(each)
    validate(each)


@pytest.mark.parametrize(
    "name", [str(each["kind"]) for each in KINDS if list(get_pod_templates(each))]
)
def test_as_much_of_anything_as_the_api_server_takes_is_read_to_its_end(name: str) -> None:
    """In the place where the kind has its containers: one endless quantity, and 1.5 MB of small
    ones."""
    long = [{"name": "c", "resources": {"requests": {"cpu": "1" * 1_000_000 + "x"}}}]
    many = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}] * 25_000
    for containers, complained in ((long, False), (many, True)):
        found = json.loads(json.dumps(jobs_of_every_kind(pod_spec())[name][0]))
        _, pods = next(iter(get_pod_templates(found)))
        pods["spec"] = {"containers": containers}
        assert (
            any(
                "asks for 25000 nvidia.com/gpu" in said
                for said in complaints(AdmissionRequest(found, team=THEIRS))
            )
            == complained
        )


def test_the_written_over_job_with_as_many_tolerations_as_fit_gets_all_of_them() -> None:
    old = running_job(
        elastic_job(
            pod={"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(25_000)]}
        ),
        4,
    )
    new = elastic_job(
        pod={"tolerations": [{"key": f"n{i}", "operator": "Exists"} for i in range(25_000)]}
    )
    assert (
        len(
            apply_defaults(AdmissionRequest(new, old, "ada", THEIRS))["spec"]["template"]["spec"][
                "tolerations"
            ]
        )
        == 50_000
    )


def test_many_complaints_are_one_answer_that_ends() -> None:
    jobs = [
        {"template": {"spec": {"template": {"spec": pod_spec({"nvidia.com/gpu": "9"})}}}}
    ] * 2000
    found = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "it"},
        "spec": {"replicatedJobs": jobs},
    }
    said = mutate(AdmissionRequest(found, team=THEIRS))["status"]["message"]
    assert said.endswith("; and 1950 more")
