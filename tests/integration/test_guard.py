"""No accelerator beside the queues: what the ValidatingAdmissionPolicy lets into a team's
namespace, and what it says of the rest."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import TYPE, Admin, governed, kubectl_list

pytestmark = pytest.mark.cluster
TEAM = "gov-guard"
PARTITION = "example.com/slice-1"
CONTROLLER = ("--as=system:serviceaccount:kube-system:job-controller", "--as-group=system:masters")
PERSON = ("--as=somebody", "--as-group=system:masters")


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.apply_policy(
            instanceTypes=[
                {
                    "name": TYPE,
                    "accelerators": 8,
                    "partitions": {PARTITION: 4},
                    "cpu": "192",
                    "memory": "2Ti",
                }
            ]
        )
        admin.apply_team(TEAM, 8)
        admin.submit(admin.job(TEAM, "owner", 1))
        yield admin
        admin.delete_teams(TEAM)


def pod(admin: Admin, asks: Json, owned: bool, namespace: str = TEAM) -> Json:
    """A pod. Of an owned one Kueue believes that its Job is queued, and holds it by no gate."""
    meta: Json = {"name": "bare", "namespace": namespace}
    if owned:
        uid = admin.cluster.kubectl(
            "get", "job", "-n", TEAM, "owner", "-o", "jsonpath={.metadata.uid}"
        )
        meta["ownerReferences"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "owner",
                "uid": uid,
                "controller": True,
            }
        ]
    container = {"name": "c", "image": "none", "resources": {"limits": asks}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container]},
    }


def answer(admin: Admin, found: Json, who: tuple[str, ...]) -> str:
    """What the API server says, of a pod that is not really made."""
    try:
        return admin.cluster.kubectl(
            "create", "--dry-run=server", "-o", "yaml", *who, "-f", "-", stdin=kubectl_list(found)
        )
    except AssertionError as error:
        return str(error)


ONE = {names.GPU: "1"}
CURE = "label the pod kueue.x-k8s.io/queue-name: default so that Kueue queues it"


@pytest.mark.parametrize(
    "asks",
    [ONE, {PARTITION: "1"}, {"nvidia.com/mig-1g.10gb": "1"}],
    ids=lambda asks: next(iter(asks)),
)
def test_a_person_cannot_write_a_pod_past_the_queues_by_naming_an_owner(
    admin: Admin, asks: Json
) -> None:
    assert CURE in answer(admin, pod(admin, asks, owned=True), PERSON)


def test_a_bare_pod_with_an_accelerator_is_held_by_kueue_until_its_turn(admin: Admin) -> None:
    said = answer(admin, pod(admin, ONE, owned=False), PERSON)
    assert "kueue.x-k8s.io/queue-name: default" in said
    assert "kueue.x-k8s.io/admission" in said, "the scheduling gate"


@pytest.mark.parametrize(
    ("asks", "owned", "namespace", "who"),
    [
        pytest.param({"cpu": "1"}, True, TEAM, PERSON, id="no accelerator"),
        pytest.param(ONE, True, TEAM, CONTROLLER, id="of a Job, by its controller"),
        pytest.param(ONE, False, "default", PERSON, id="in a namespace of no team"),
    ],
)
def test_all_else_is_let_in(
    admin: Admin, asks: Json, owned: bool, namespace: str, who: tuple[str, ...]
) -> None:
    assert "schedulingGates" not in answer(admin, pod(admin, asks, owned, namespace), who)
    assert "kind: Pod" in answer(admin, pod(admin, asks, owned, namespace), who)
