"""A quota_controller that somebody took over lowers the pod security of no namespace."""

from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from quota_controller.apply import TEAM_ANNOTATIONS, TEAM_LABELS
from tests.builders.requests import QUOTA_CONTROLLER, obj
from tests.harness.admission import Judge
from tests.oracle.test_rights import RESERVED

pytestmark = pytest.mark.slow


def namespace(name: str, **labels: str) -> Json:
    made = obj("v1", "Namespace", name)
    made["metadata"]["labels"] = {"kubernetes.io/metadata.name": name} | labels
    return made


OURS = {names.TEAM: "vision", names.ALLOCATION: "vision"}
MARK = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
CREATED = OURS | MARK
ENFORCE = names.POD_SECURITY_ENFORCE


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param(None, CREATED | {ENFORCE: "baseline"}, False, id="created"),
        pytest.param({"a": "b"}, {"a": "b"} | OURS, False, id="adopted"),
        pytest.param(CREATED, {names.MANAGED_BY: "cede"}, False, id="abandoned"),
        pytest.param(
            CREATED | {ENFORCE: "baseline"},
            CREATED | {ENFORCE: "privileged"},
            False,
            id="the policy's level",
        ),
        pytest.param({"a": "b"}, {"a": "b"} | MARK, True, id="marked as created by Cede"),
        pytest.param(OURS, CREATED, True, id="marked so after its adoption"),
        pytest.param(OURS, OURS | {ENFORCE: "baseline"}, True, id="set in one of somebody else"),
        pytest.param(
            OURS, OURS | {ENFORCE: "privileged"}, True, id="below the default of the cluster"
        ),
        pytest.param(
            OURS | {ENFORCE: "restricted"},
            OURS | {ENFORCE: "baseline"},
            True,
            id="lowered to the level of the policy",
        ),
        pytest.param({names.MANAGED_BY: "helm"}, MARK, True, id="taken from another manager"),
        pytest.param({names.MANAGED_BY: "helm"}, {}, True, id="the mark of another removed"),
        pytest.param({ENFORCE: "restricted"}, OURS | {ENFORCE: "privileged"}, True, id="lowered"),
        pytest.param({ENFORCE: "restricted"}, OURS, True, id="its pod security removed"),
        pytest.param({"a": "b"}, {"a": "c"}, True, id="a foreign label changed"),
        pytest.param({"a": "b"}, {}, True, id="a foreign label removed"),
        pytest.param({}, OURS | {"a": "b"}, False, id="a webhook of another adds a label"),
        pytest.param({}, {"cede.dev/x": "b"}, True, id="a label of Cede that is not its own"),
        pytest.param(
            {}, {"pod-security.kubernetes.io/enforce-version": "v1.0"}, True, id="an old standard"
        ),
    ],
)
def test_the_quota_controller_changes_its_own_labels_of_namespaces_only(
    judge: Judge, before: dict[str, str] | None, after: dict[str, str], refused: bool
) -> None:
    old = None if before is None else namespace("vision", **before)
    assert bool(judge(namespace("vision", **after), QUOTA_CONTROLLER, old=old)) is refused


CREATED_FOR = {names.CREATED_FOR: "vision"}


@pytest.mark.parametrize(
    ("labels", "annotations", "refused"),
    [
        pytest.param({}, {}, True, id="of somebody else"),
        pytest.param(OURS, {}, True, id="adopted"),
        pytest.param(MARK, {}, False, id="the label is there"),
        pytest.param({}, CREATED_FOR, False, id="the annotation is there"),
    ],
)
def test_the_quota_controller_marks_no_namespace_of_somebody_else_as_its_own(
    judge: Judge, labels: dict[str, str], annotations: dict[str, str], refused: bool
) -> None:
    """In those that it created it may lower pod security."""
    old, labelled, annotated = (namespace("vision", **labels) for _ in range(3))
    old["metadata"]["annotations"] = labelled["metadata"]["annotations"] = annotations
    labelled["metadata"]["labels"] |= MARK
    annotated["metadata"]["annotations"] = CREATED_FOR
    for changed in (labelled, annotated):
        if changed != old:
            assert bool(judge(changed, QUOTA_CONTROLLER, old=old)) is refused
    assert judge(annotated, QUOTA_CONTROLLER) == [], "it creates one"


@pytest.mark.parametrize("name", RESERVED)
def test_a_namespace_of_the_cluster_never_becomes_a_teams(judge: Judge, name: str) -> None:
    assert judge(namespace(name, **OURS), QUOTA_CONTROLLER, old=namespace(name))


FOREIGN = {"a": "b", ENFORCE: "privileged"}
NOTES = {names.ACCELERATORS: names.GPU, names.CONTROLLERS: "", names.PRIORITY_CLASSES: "high"}


def marked(name: str, labels: dict[str, str], annotations: dict[str, str], **more: Any) -> Json:
    made = namespace(name, **labels)
    made["spec"] = {"finalizers": ["kubernetes"]}
    made["metadata"] |= {"annotations": annotations, "finalizers": ["a/b"]} | more
    return made


@pytest.mark.parametrize("name", RESERVED)
def test_the_quota_controller_takes_its_marks_from_a_namespace_of_the_cluster(
    judge: Judge, name: str
) -> None:
    """A team had it before it was reserved, or somebody marked it."""
    old = marked(name, FOREIGN | OURS, NOTES | {"c": "d"} | CREATED_FOR)
    assert judge(marked(name, FOREIGN, {"c": "d"} | CREATED_FOR), QUOTA_CONTROLLER, old=old) == []
    without_notes = marked(name, OURS, {})
    assert judge(marked(name, {}, {}), QUOTA_CONTROLLER, old=without_notes) == []


@pytest.mark.parametrize(
    ("labels", "annotations", "more"),
    [
        pytest.param(FOREIGN | OURS | {names.TEAM: "speech"}, NOTES, {}, id="another team"),
        pytest.param(FOREIGN | {"c": "d"}, NOTES, {}, id="a label added"),
        pytest.param({ENFORCE: "privileged"}, NOTES, {}, id="a foreign label removed"),
        pytest.param(FOREIGN | {"a": "c"}, NOTES, {}, id="a foreign label changed"),
        pytest.param({"a": "b"}, NOTES, {}, id="its pod security removed"),
        pytest.param(FOREIGN | {ENFORCE: "restricted"}, NOTES, {}, id="its pod security changed"),
        pytest.param(FOREIGN, NOTES | {"c": "d"}, {}, id="an annotation added"),
        pytest.param(FOREIGN, NOTES | {names.CONTROLLERS: "x"}, {}, id="an annotation changed"),
        pytest.param(FOREIGN, NOTES | CREATED_FOR, {}, id="marked as created by Cede"),
        pytest.param(FOREIGN, NOTES, {"finalizers": []}, id="a finalizer removed"),
        pytest.param(FOREIGN, NOTES, {"finalizers": ["a/b", "c/d"]}, id="a finalizer added"),
        pytest.param(
            FOREIGN,
            NOTES,
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]},
            id="an owner, with which it is deleted",
        ),
    ],
)
def test_the_quota_controller_changes_nothing_else_in_a_namespace_of_the_cluster(
    judge: Judge, labels: dict[str, str], annotations: dict[str, str], more: Json
) -> None:
    """Whoever has its token would move what the cluster needs out of protection."""
    old = marked("kube-system", FOREIGN | OURS, NOTES)
    assert judge(marked("kube-system", labels, annotations, **more), QUOTA_CONTROLLER, old=old)


def test_a_foreign_annotation_stays_in_a_namespace_of_the_cluster(judge: Judge) -> None:
    old = marked("monitoring", OURS, NOTES | {"c": "d"})
    assert judge(marked("monitoring", {}, {}), QUOTA_CONTROLLER, old=old)


def test_what_the_quota_controller_takes_away_is_what_the_policy_allows() -> None:
    policy = Path("deploy/base/rights.yaml").read_text()
    for marks in (TEAM_LABELS, TEAM_ANNOTATIONS):
        assert f"|| k in {list(marks)}" in policy
