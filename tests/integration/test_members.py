"""What members of a team may do on a real API server, and that an adopted namespace keeps what is
its own."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.conftest import Cluster
from tests.integration.admin import Admin, condition, governed

pytestmark = pytest.mark.cluster

TEAM = "gov-members"
READ = ("get", "list", "watch")
WORK = ("get", "list", "watch", "create", "update", "patch", "delete")
ANN: Json = {"user": "ann"}
OF_GROUP: Json = {"user": "bob", "groups": ["gov-group"]}
ACCOUNT: Json = {
    "user": f"system:serviceaccount:{TEAM}:trainer",
    "groups": ["system:serviceaccounts", f"system:serviceaccounts:{TEAM}"],
}
STRANGER: Json = {"user": "eve", "groups": ["system:authenticated"]}


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster, nodes=1) as found:
        members = [
            {"kind": "User", "name": "ann"},
            {"kind": "Group", "name": "gov-group"},
            {"kind": "ServiceAccount", "name": "trainer"},
        ]
        found.team(TEAM, 4, members=members)
        yield found
        found.remove(TEAM)


def may(
    admin: Admin, who: Json, *asked: tuple[str, str, str, str]
) -> dict[tuple[str, str, str, str], bool]:
    """(verb, resource.group, namespace, name) → what the API server's own authorizer answers, as
    `kubectl auth can-i --as` asks it."""

    def review(verb: str, kind: str, namespace: str, name: str) -> Json:
        resource, _, group = kind.partition(".")
        resource, _, sub = resource.partition("/")
        wanted = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": sub,
            "namespace": namespace,
            "name": name,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**who, "resourceAttributes": wanted},
        }

    items = {"apiVersion": "v1", "kind": "List", "items": [review(*one) for one in asked]}
    answers = admin.cluster.kubectl(
        "create", "-f", "-", "-o", 'jsonpath={.status.allowed}{"\\n"}', stdin=json.dumps(items)
    ).split()
    return {one: answer == "true" for one, answer in zip(asked, answers, strict=True)}


SUBMITTED = (
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "trainjobs.trainer.kubeflow.org",
    "pytorchjobs.kubeflow.org",
    "mpijobs.kubeflow.org",
    "rayjobs.ray.io",
    "rayclusters.ray.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "deployments.apps",
    "statefulsets.apps",
)
SEEN = (
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
    "pods",
    "pods/log",
    "events",
    "events.events.k8s.io",
)
SHARED = (
    "clusterqueues.kueue.x-k8s.io",
    "cohorts.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "workloadpriorityclasses.kueue.x-k8s.io",
    "computeallocations.cede.dev",
    "clusterpolicies.cede.dev",
    "cessions.cede.dev",
)
CLUSTERS = [(verb, kind, "", "") for kind in SHARED for verb in ("create", "update", "delete")]
STATUSES = [("patch", "/status.".join(kind.split(".", 1)), "", "") for kind in SHARED]
GOVERNING = (
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "resourcequotas",
    "limitranges",
)
TEAMS = [
    (verb, kind, TEAM, "") for kind in GOVERNING for verb in ("create", "update", "patch", "delete")
]
FORBIDDEN = [
    *CLUSTERS,
    *STATUSES,
    *TEAMS,
    *((verb, "secrets", TEAM, "cede-control") for verb in READ),
    ("create", "pods", TEAM, ""),
    ("patch", "namespaces", "", TEAM),
    ("delete", "namespaces", "", TEAM),
    ("get", "nodes", "", ""),
    ("create", "jobs.batch", "default", ""),
    ("get", "pods", "kube-system", ""),
    ("bind", "clusterroles.rbac.authorization.k8s.io", "", "cede-member"),
]


@pytest.mark.parametrize("who", [ANN, OF_GROUP, ACCOUNT], ids=["user", "group", "service account"])
def test_members_submit_see_cancel_and_see_the_queues_and_no_more(admin: Admin, who: Json) -> None:
    wanted = [(verb, kind, TEAM, "") for kind in SUBMITTED for verb in WORK]
    wanted += [(verb, kind, TEAM, "") for kind in SEEN for verb in ("get",)]
    wanted += [(verb, kind, "", "") for kind in SHARED for verb in READ]
    answers = may(admin, who, *wanted)
    assert all(answers.values()), [one for one, allowed in answers.items() if not allowed]
    answers = may(admin, who, *FORBIDDEN)
    assert not any(answers.values()), [one for one, allowed in answers.items() if allowed]


def test_who_is_in_no_team_sees_nothing(admin: Admin) -> None:
    answers = may(
        admin,
        STRANGER,
        *(("get", kind, "", "") for kind in SHARED),
        ("create", "jobs.batch", TEAM, ""),
        ("get", "pods", TEAM, ""),
    )
    assert not any(answers.values()), [one for one, allowed in answers.items() if allowed]


def test_a_member_submits_a_job_sees_it_admitted_and_cancels_it(admin: Admin) -> None:
    cluster: Cluster = admin.cluster
    cluster.kubectl("create", "--as=ann", "-f", "-", stdin=json.dumps(admin.job(TEAM, "one", 1)))
    admin.runs(TEAM, "one")
    assert "gov-members" in cluster.kubectl(
        "get", "--as=ann", "clusterqueues,computeallocations,clusterpolicies,cessions"
    )
    assert "default" in cluster.kubectl("get", "--as=ann", "-n", TEAM, "localqueues,workloads,pods")
    cluster.kubectl("delete", "--as=ann", "-n", TEAM, "job", "one", "--wait=true")
    with pytest.raises(AssertionError, match="cannot patch resource"):
        cluster.kubectl(
            "patch",
            "--as=ann",
            "clusterqueue",
            TEAM,
            "--type=merge",
            "-p",
            '{"spec":{"stopPolicy":"Hold"}}',
        )


def test_who_is_a_member_no_more_may_nothing_more(admin: Admin) -> None:
    admin.team(TEAM, 4, members=[{"kind": "User", "name": "ann"}])
    asked = [("create", "jobs.batch", TEAM, ""), ("get", "clusterqueues.kueue.x-k8s.io", "", "")]
    admin.cluster.until(
        lambda: not any(may(admin, OF_GROUP, *asked).values()), "the rights to go", 120
    )
    assert all(may(admin, ANN, *asked).values())


# --- adoption -------------------------------------------------------------------------------------
LAB = "gov-lab"
OWN: list[Json] = [
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": LAB,
            "labels": {"owner": "ops", "app.kubernetes.io/managed-by": "helm"},
            "annotations": {"cost-center": "7"},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": LAB},
        "data": {"a": "1"},
    },
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "theirs", "namespace": LAB},
        "spec": {"hard": {"pods": "50"}},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "theirs", "namespace": LAB},
        "rules": [],
    },
]
KINDS = "configmaps,resourcequotas,limitranges,roles,rolebindings,services,secrets,localqueues,serviceaccounts"


def inside(admin: Admin) -> dict[str, Any]:
    """What is in the namespace, and it itself, without what the server keeps for itself."""
    found = [
        admin.cluster.kubectl_json("get", "namespace", LAB),
        *admin.cluster.kubectl_json("get", KINDS, "-n", LAB)["items"],
    ]
    return {
        f"{one['kind']} {one['metadata']['name']}": {
            **{k: v for k, v in one.items() if k not in ("metadata", "status")},
            **{
                k: one["metadata"].get(k)
                for k in ("labels", "annotations", "finalizers", "ownerReferences")
            },
        }
        for one in found
    }


def test_an_adopted_namespace_keeps_what_is_its_own_and_given_up_is_as_it_was(admin: Admin) -> None:
    admin.cluster.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": OWN})
    )
    settled = ("ConfigMap kube-root-ca.crt", "ServiceAccount default")
    admin.cluster.until(
        lambda: all(one in inside(admin) for one in settled), "the namespace's own objects", 120
    )
    before = inside(admin)
    admin.team(LAB, 1, members=[{"kind": "User", "name": "ann"}])
    assert condition(admin.allocation(LAB), "Ready")["reason"] == "NamespaceExists", (
        "not without being asked"
    )
    assert inside(admin) == before
    admin.team(
        LAB, 1, members=[{"kind": "User", "name": "ann"}], namespace={"name": LAB, "adopt": True}
    )
    admin.says(LAB, f"team {LAB} owns")
    during = inside(admin)
    ours = {names.TEAM: LAB, names.ALLOCATION: LAB}
    assert during.pop(f"Namespace {LAB}")["labels"] == before[f"Namespace {LAB}"]["labels"] | ours
    added = {
        "LocalQueue default",
        "Service cede-peers",
        "Secret cede-control",
        "RoleBinding cede-members",
    }
    assert {name for name in during if name not in before} == added
    assert {name: one for name, one in during.items() if name not in added} == {
        name: one for name, one in before.items() if not name.startswith("Namespace")
    }
    admin.cluster.kubectl("delete", "computeallocation", LAB, "--wait=true")
    admin.cluster.until(lambda: inside(admin) == before, "the namespace to be as it was", 120)
    admin.cluster.kubectl("delete", "namespace", LAB, "--wait=false")
