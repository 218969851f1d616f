"""The rights of team members on a real API server; an adopted namespace keeps what it has."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.harness.local_cluster import Cluster
from tests.integration.admin import Admin, condition_of, governed, kubectl_list

pytestmark = pytest.mark.cluster

TEAM = "gov-members"
READ = ("get", "list", "watch")
WORK = ("get", "list", "watch", "create", "update", "patch", "delete")
ANN: Json = {"user": "ann"}
GROUP_MEMBER: Json = {"user": "bob", "groups": ["gov-group"]}
SERVICE_ACCOUNT: Json = {
    "user": f"system:serviceaccount:{TEAM}:trainer",
    "groups": ["system:serviceaccounts", f"system:serviceaccounts:{TEAM}"],
}
STRANGER: Json = {"user": "eve", "groups": ["system:authenticated"]}

Access = tuple[str, str, str, str]
"""(verb, resource.group, namespace, name)."""


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster, nodes=1) as admin:
        members = [
            {"kind": "User", "name": "ann"},
            {"kind": "Group", "name": "gov-group"},
            {"kind": "ServiceAccount", "name": "trainer"},
        ]
        admin.apply_team(TEAM, 4, members=members)
        yield admin
        admin.delete_teams(TEAM)


def access_review(subject: Json, access: Access) -> Json:
    verb, kind, namespace, name = access
    resource, _, group = kind.partition(".")
    resource, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**subject, "resourceAttributes": attributes},
    }


def allowed(admin: Admin, subject: Json, *accesses: Access) -> dict[Access, bool]:
    """Whether the API server allows each access, as `kubectl auth can-i --as` reports it."""
    reviews = kubectl_list(*(access_review(subject, access) for access in accesses))
    output = 'jsonpath={.status.allowed}{"\\n"}'
    answers = admin.cluster.kubectl("create", "-f", "-", "-o", output, stdin=reviews).split()
    return {access: answer == "true" for access, answer in zip(accesses, answers, strict=True)}


def assert_all_allowed(admin: Admin, subject: Json, *accesses: Access) -> None:
    answers = allowed(admin, subject, *accesses)
    assert all(answers.values()), [access for access, yes in answers.items() if not yes]


def assert_none_allowed(admin: Admin, subject: Json, *accesses: Access) -> None:
    answers = allowed(admin, subject, *accesses)
    assert not any(answers.values()), [access for access, yes in answers.items() if yes]


WORKED_WITH = (
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
VISIBLE = (
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
    "pods",
    "pods/log",
    "resourcequotas",
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
GOVERNING = (
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "resourcequotas",
    "limitranges",
)
FORBIDDEN: list[Access] = [
    *((verb, kind, "", "") for kind in SHARED for verb in ("create", "update", "delete")),
    *(("patch", "/status.".join(kind.split(".", 1)), "", "") for kind in SHARED),
    *(
        (verb, kind, TEAM, "")
        for kind in GOVERNING
        for verb in ("create", "update", "patch", "delete")
    ),
    *((verb, "secrets", TEAM, "cede-control") for verb in READ),
    ("create", "pods", TEAM, ""),
    ("patch", "namespaces", "", TEAM),
    ("delete", "namespaces", "", TEAM),
    ("get", "nodes", "", ""),
    ("create", "jobs.batch", "default", ""),
    ("get", "pods", "kube-system", ""),
    ("bind", "clusterroles.rbac.authorization.k8s.io", "", "cede-member"),
]


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(ANN, id="user"),
        pytest.param(GROUP_MEMBER, id="group"),
        pytest.param(SERVICE_ACCOUNT, id="service account"),
    ],
)
def test_members_work_in_their_namespace_and_see_the_queues(admin: Admin, subject: Json) -> None:
    assert_all_allowed(
        admin,
        subject,
        *((verb, kind, TEAM, "") for kind in WORKED_WITH for verb in WORK),
        *(("get", kind, TEAM, "") for kind in VISIBLE),
        *((verb, kind, "", "") for kind in SHARED for verb in READ),
    )
    assert_none_allowed(admin, subject, *FORBIDDEN)


def test_a_user_without_a_team_sees_nothing(admin: Admin) -> None:
    assert_none_allowed(
        admin,
        STRANGER,
        *(("get", kind, "", "") for kind in SHARED),
        ("create", "jobs.batch", TEAM, ""),
        ("get", "pods", TEAM, ""),
    )


def test_a_member_submits_sees_and_cancels_a_job(admin: Admin) -> None:
    cluster: Cluster = admin.cluster
    job = json.dumps(admin.job(TEAM, "one", 1))
    cluster.kubectl("create", "--as=ann", "-f", "-", stdin=job)
    admin.wait_for_admission(TEAM, "one")
    shared_kinds = "clusterqueues,computeallocations,clusterpolicies,cessions"
    assert "gov-members" in cluster.kubectl("get", "--as=ann", shared_kinds)
    team_kinds = "localqueues,workloads,pods"
    assert "default" in cluster.kubectl("get", "--as=ann", "-n", TEAM, team_kinds)
    cluster.kubectl("delete", "--as=ann", "-n", TEAM, "job", "one", "--wait=true")


def test_a_member_cannot_change_the_queue(admin: Admin) -> None:
    patch = ("--type=merge", "-p", '{"spec":{"stopPolicy":"Hold"}}')
    with pytest.raises(AssertionError, match="cannot patch resource"):
        admin.cluster.kubectl("patch", "--as=ann", "clusterqueue", TEAM, *patch)


def test_a_removed_member_loses_all_rights(admin: Admin) -> None:
    admin.apply_team(TEAM, 4, members=[{"kind": "User", "name": "ann"}])
    accesses: list[Access] = [
        ("create", "jobs.batch", TEAM, ""),
        ("get", "clusterqueues.kueue.x-k8s.io", "", ""),
    ]
    admin.cluster.until(
        lambda: not any(allowed(admin, GROUP_MEMBER, *accesses).values()),
        "the rights to be removed",
        120,
    )
    assert_all_allowed(admin, ANN, *accesses)


# --- adoption -------------------------------------------------------------------------------------
LAB = "gov-lab"
OBJECTS_OF_OPS: list[Json] = [
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
KINDS = (
    "configmaps,resourcequotas,limitranges,roles,rolebindings,services,secrets,localqueues,"
    "serviceaccounts"
)
CREATED_BY_KUBERNETES = ("ConfigMap kube-root-ca.crt", "ServiceAccount default")
CREATED_BY_CEDE = {
    "LocalQueue default",
    "Service cede-peers",
    "Secret cede-control",
    "RoleBinding cede-members",
}


def contents(admin: Admin) -> dict[str, Json]:
    """The namespace and everything in it, without what the API server sets."""
    objects = [
        admin.cluster.kubectl_json("get", "namespace", LAB),
        *admin.cluster.kubectl_json("get", KINDS, "-n", LAB)["items"],
    ]
    result = {}
    for obj in objects:
        fields = {k: v for k, v in obj.items() if k not in ("metadata", "status")}
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            fields[name] = obj["metadata"].get(name)
        result[f"{obj['kind']} {obj['metadata']['name']}"] = fields
    return result


def test_an_adopted_namespace_is_unchanged_after_the_allocation_is_deleted(admin: Admin) -> None:
    """While it is adopted, Cede adds its own labels and objects and changes no other."""
    members = [{"kind": "User", "name": "ann"}]
    admin.cluster.kubectl("create", "-f", "-", stdin=kubectl_list(*OBJECTS_OF_OPS))
    admin.cluster.until(
        lambda: contents(admin).keys() >= set(CREATED_BY_KUBERNETES),
        "the objects that Kubernetes creates",
        120,
    )
    before = contents(admin)

    admin.apply_team(LAB, 1, members=members)
    ready = condition_of(admin.allocation(LAB), "Ready")
    assert ready["reason"] == "NamespaceExists", "the admin has not allowed its adoption"
    assert contents(admin) == before

    admin.apply_team(LAB, 1, members=members, namespace={"name": LAB, "adopt": True})
    admin.wait_for_message(LAB, f"team {LAB} owns")
    during = contents(admin)
    namespace_before = before[f"Namespace {LAB}"]
    our_labels = {names.TEAM: LAB, names.ALLOCATION: LAB}
    assert during.pop(f"Namespace {LAB}")["labels"] == namespace_before["labels"] | our_labels
    assert during.keys() - before.keys() == CREATED_BY_CEDE
    assert before.keys() - during.keys() == {f"Namespace {LAB}"}
    for name, fields in during.items():
        assert name in CREATED_BY_CEDE or fields == before[name]

    admin.cluster.kubectl("delete", "computeallocation", LAB, "--wait=true")
    admin.cluster.until(lambda: contents(admin) == before, "the namespace as it was before", 120)
    admin.cluster.kubectl("delete", "namespace", LAB, "--wait=false")
