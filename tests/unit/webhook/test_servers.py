"""Deployments with sizes: what is refused, and whose word counts on their replicas."""

from collections.abc import Mapping
from copy import deepcopy

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.jobs import TEAM
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints
from webhook.servers import get_replicas, is_server

SHRUNK = "2026-01-01T00:00:00Z"
Notes = Mapping[str, str]
NONE: Notes = {}


def server(replicas: int | None = 4, sizes: str | None = "2-4", notes: Notes = NONE) -> Json:
    """As its user writes it."""
    annotations = {**notes} | ({names.SIZES: sizes} if sizes is not None else {})
    spec: Json = {"template": {"spec": {"containers": [{"name": "main", "image": "chat"}]}}}
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": "chat", "namespace": "vision", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def create(job: Json) -> Json:
    return apply_defaults(AdmissionRequest(job, team=TEAM))


def update(old: Json, new: Json, user: str = "ada") -> Json:
    return apply_defaults(AdmissionRequest(new, old, user, TEAM))


def ceded(replicas: int = 2, desired: int = 4) -> Json:
    """As the scheduler left it."""
    made = create(server())
    made["spec"]["replicas"] = replicas
    made["metadata"]["labels"][names.SERVER] = names.CEDED
    notes = {names.DESIRED_SIZE: str(desired), names.SHRUNK_AT: SHRUNK}
    made["metadata"]["annotations"] |= notes
    return made


def changed(old: Json, replicas: int | None = None, notes: Notes = NONE) -> Json:
    new = deepcopy(old)
    if replicas is not None:
        new["spec"]["replicas"] = replicas
    new["metadata"]["annotations"] |= notes
    return new


def state(job: Json) -> tuple[int, str | None, str | None]:
    """Replicas, label and desired number."""
    metadata = job["metadata"]
    labels = metadata.get("labels", {})
    notes = metadata["annotations"]
    assert (names.SHRUNK_AT in notes) == (labels.get(names.SERVER) == names.CEDED)
    return get_replicas(job), labels.get(names.SERVER), notes.get(names.DESIRED_SIZE)


WHOLE_4 = (4, names.WHOLE, None)


@pytest.mark.parametrize(
    ("job", "complaint"),
    [
        pytest.param(server(), "", id="a range"),
        pytest.param(server(0), "", id="switched off"),
        pytest.param(server(2, "2"), "", id="one size"),
        pytest.param(server(sizes="1,2,4"), "has gaps", id="a list with gaps"),
        pytest.param(server(sizes="2-8/2"), "write 2-8", id="steps"),
        pytest.param(server(8), "spec.replicas is 8", id="more than its sizes"),
        pytest.param(server(None), "spec.replicas is 1", id="by default one"),
        pytest.param(server(sizes="few"), "is no list of sizes", id="no sizes"),
        pytest.param(
            server() | {"kind": "StatefulSet"}, "or LeaderWorkerSet only", id="another kind"
        ),
    ],
)
def test_what_is_refused(job: Json, complaint: str) -> None:
    texts = complaints(AdmissionRequest(job, team=TEAM))
    assert complaint in "; ".join(texts) if complaint else texts == []


def test_a_server_is_labelled_and_starts_with_all_its_replicas() -> None:
    forged = server(notes={names.DESIRED_SIZE: "9", names.SHRUNK_AT: SHRUNK})
    assert state(create(forged)) == WHOLE_4
    assert state(update(server(), server())) == WHOLE_4
    plain = server(sizes=None)
    assert names.SERVER not in create(plain)["metadata"]["labels"]
    assert not is_server(plain)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(ceded(), (2, names.CEDED, "4"), id="nothing"),
        pytest.param(server(), (2, names.CEDED, "4"), id="the user's file, as it is"),
        pytest.param(changed(ceded(), 3), (2, names.CEDED, "3"), id="more than it has"),
        pytest.param(changed(ceded(), 1), (1, names.WHOLE, None), id="fewer than it has"),
        pytest.param(changed(ceded(), 0), (0, names.WHOLE, None), id="switched off"),
        pytest.param(
            changed(ceded(), notes={names.DESIRED_SIZE: "3"}), (2, names.CEDED, "3"), id="the note"
        ),
        pytest.param(
            changed(ceded(), notes={names.DESIRED_SIZE: "2"}),
            (2, names.WHOLE, None),
            id="as it has",
        ),
        pytest.param(
            changed(ceded(), notes={names.SHRUNK_AT: "x"}), (2, names.CEDED, "4"), id="the time"
        ),
    ],
)
def test_a_server_that_has_ceded_keeps_its_replicas_and_the_wish_is_noted(
    new: Json, expected: tuple[int, str, str | None]
) -> None:
    once = update(ceded(), new)
    assert state(once) == expected
    assert update(ceded(), once) == once
    if expected[1] == names.CEDED:
        assert once["metadata"]["annotations"][names.SHRUNK_AT] == SHRUNK


@pytest.mark.parametrize(
    ("new", "complaint"),
    [
        pytest.param(changed(ceded(), 9), "is 9, which is not one of the sizes 2 to 4", id="more"),
        pytest.param(
            changed(ceded(), notes={names.DESIRED_SIZE: "9"}),
            "the desired number of replicas (metadata.annotations[cede.dev/desired-size]) is 9",
            id="the note",
        ),
        pytest.param(
            changed(ceded(), notes={names.SIZES: "2-3"}),
            "is 4, which is not one of the sizes 2 to 3",
            id="fewer sizes",
        ),
        pytest.param(changed(ceded(), 3), "", id="one of the sizes"),
        pytest.param(changed(ceded(), notes={names.SIZES: "2-9"}), "", id="more sizes"),
    ],
)
def test_a_server_that_has_ceded_gets_back_no_more_than_its_sizes_allow(
    new: Json, complaint: str
) -> None:
    """As a whole one may have no more. What was wrong before is no reason."""
    made = update(ceded(), new)
    texts = complaints(AdmissionRequest(made, ceded(), "ada", TEAM))
    assert complaint in "; ".join(texts) if complaint else texts == []
    assert complaints(AdmissionRequest(deepcopy(made), made, "ada", TEAM)) == []


@pytest.mark.parametrize("file", [ceded(), server()], ids=["of the server", "of its user"])
def test_sizes_that_begin_above_what_a_server_kept_are_refused_by_what_it_ceded(file: Json) -> None:
    raised = {names.SIZES: "3-4"}
    made = update(ceded(), changed(file, notes=raised))
    assert complaints(AdmissionRequest(made, ceded(), "ada", TEAM)) == [
        "metadata.annotations[cede.dev/sizes] begins at 3, but the Deployment has ceded all but 2 "
        "of its replicas: let it begin at 2 until it has them back, or first set the label "
        "cede.dev/server: whole, with which it asks for all of them at once"
    ]
    released = ceded()
    released["metadata"]["labels"][names.SERVER] = names.WHOLE
    whole = update(ceded(), released)
    assert complaints(AdmissionRequest(changed(whole, notes=raised), whole, "ada", TEAM)) == []


def test_whoever_says_that_it_is_whole_gives_it_all_back() -> None:
    """`cede release` does, while the webhook runs."""
    released = changed(ceded(), 4)
    released["metadata"]["labels"][names.SERVER] = names.WHOLE
    assert state(update(ceded(), released)) == WHOLE_4
    released = changed(ceded())
    released["metadata"]["labels"][names.SERVER] = names.WHOLE
    assert state(update(ceded(), released)) == WHOLE_4
    without_sizes = changed(ceded())
    del without_sizes["metadata"]["annotations"][names.SIZES]
    made = update(ceded(), without_sizes)
    assert (get_replicas(made), names.SERVER in made["metadata"]["labels"]) == (4, False)


def test_the_scheduler_may_scale() -> None:
    assert update(ceded(), changed(ceded(), 4), SCHEDULER_USER) == changed(ceded(), 4)


# --- a LeaderWorkerSet ----------------------------------------------------------------------------
def leader_worker_set(replicas: int = 4, sizes: str = "2-4") -> Json:
    made = server(replicas, sizes)
    worker = {"workerTemplate": made["spec"].pop("template"), "size": 2}
    made |= {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    made["spec"]["leaderWorkerTemplate"] = worker
    return made


def test_a_leader_worker_set_is_a_server_of_groups() -> None:
    live = create(leader_worker_set())
    assert state(live) == WHOLE_4
    live["metadata"]["labels"][names.SERVER] = names.CEDED
    live["metadata"]["annotations"] |= {names.DESIRED_SIZE: "4", names.SHRUNK_AT: SHRUNK}
    live["spec"]["replicas"] = 2
    assert state(update(live, leader_worker_set())) == (2, names.CEDED, "4")
    assert state(update(live, changed(live, 3))) == (2, names.CEDED, "3")
    assert state(update(live, changed(live, 1))) == (1, names.WHOLE, None)


def test_the_sizes_of_a_leader_worker_set_have_no_gaps() -> None:
    texts = complaints(AdmissionRequest(leader_worker_set(sizes="2,4"), team=TEAM))
    assert "a LeaderWorkerSet gives replicas one by one: write 2-4" in "; ".join(texts)
