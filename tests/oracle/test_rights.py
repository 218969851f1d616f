"""A component of Cede that somebody took over cannot become an admin of the cluster."""

from typing import Any

import pytest

from cede.api import names
from cede.api.objects import DEPLOYMENTS, LEADER_WORKER_SETS, Json, Kind
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY
from tests.builders.requests import QUOTA_CONTROLLER, SCHEDULER, WEBHOOK, obj
from tests.harness.admission import Judge

pytestmark = pytest.mark.slow
TOKEN = "kubernetes.io/service-account-token"
TLS = "kubernetes.io/tls"
CERTIFICATE = WEBHOOK_SECRET_KEY[1]


# --- Secrets --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("user", "name", "where", "type_", "refused"),
    [
        pytest.param(QUOTA_CONTROLLER, "cede-control", "vision", "Opaque", False, id="a key"),
        pytest.param(QUOTA_CONTROLLER, "cede-root", "cede-system", "Opaque", False, id="root key"),
        pytest.param(QUOTA_CONTROLLER, CERTIFICATE, "cede-system", TLS, False, id="certificate"),
        pytest.param(QUOTA_CONTROLLER, "cede-control", "vision", TOKEN, True, id="token of any"),
        pytest.param(QUOTA_CONTROLLER, "cede-control", "kube-system", "Opaque", True, id="system"),
        pytest.param(QUOTA_CONTROLLER, CERTIFICATE, "cede-system", TOKEN, True, id="own token"),
        pytest.param(QUOTA_CONTROLLER, CERTIFICATE, "vision", TLS, True, id="not in a team's"),
        pytest.param(WEBHOOK, CERTIFICATE, "cede-system", TLS, True, id="the webhook's own"),
        pytest.param(WEBHOOK, CERTIFICATE, "cede-system", TOKEN, True, id="webhook: token"),
        pytest.param(WEBHOOK, "cede-root", "cede-system", "Opaque", True, id="another's Secret"),
        pytest.param("ada", "mine", "vision", TOKEN, False, id="others are not looked at"),
    ],
)
def test_components_write_keys_and_certificates_only(
    judge: Judge, user: str, name: str, where: str, type_: str, refused: bool
) -> None:
    """The quota_controller could apply a Secret that the token of any account is written to."""
    assert bool(judge(obj("v1", "Secret", name, where, type=type_), user)) is refused


# --- objects of teams, and namespaces -------------------------------------------------------------
RESERVED = [
    *("kube-system", "default", "kueue-system", "cede-system", "argocd", "openshift-etcd"),
    "kubeflow",
]


def test_the_quota_controller_writes_nothing_but_two_secrets_in_its_namespace(
    judge: Judge,
) -> None:
    """The root key and the webhook's certificates."""

    def secret(name: str) -> Json:
        return obj("v1", "Secret", name, "cede-system", type="Opaque")

    assert judge(secret("cede-control"), QUOTA_CONTROLLER)
    for name in ("cede-root", CERTIFICATE):
        assert judge(secret(name), QUOTA_CONTROLLER) == []
        policy = obj("networking.k8s.io/v1", "NetworkPolicy", name, "cede-system")
        assert judge(policy, QUOTA_CONTROLLER)


@pytest.mark.parametrize("where", RESERVED)
def test_the_quota_controller_limits_no_objects_in_namespaces_of_the_cluster(
    judge: Judge, where: str
) -> None:
    def quota(namespace: str) -> Json:
        return obj("v1", "ResourceQuota", "cede-objects", namespace, spec={"hard": {"pods": "0"}})

    assert judge(quota(where), QUOTA_CONTROLLER)
    assert judge(quota("vision"), QUOTA_CONTROLLER) == []


def test_the_quota_controller_changes_no_allocation(judge: Judge) -> None:
    old = obj("cede.dev/v1alpha1", "ComputeAllocation", "vision", spec={"members": []})
    finalized = obj("cede.dev/v1alpha1", "ComputeAllocation", "vision", spec={"members": []})
    finalized["metadata"]["finalizers"] = [names.ALLOCATION_FINALIZER]
    assert judge(finalized, QUOTA_CONTROLLER, old=old) == []
    greedy = obj("cede.dev/v1alpha1", "ComputeAllocation", "vision", spec={"members": [{}]})
    assert judge(greedy, QUOTA_CONTROLLER, old=old)


# --- the scheduler --------------------------------------------------------------------------------
DEPLOYMENT = ("apps/v1", "Deployment", "chat", "vision")


def server(replicas: int, image: str = "chat", **metadata: Any) -> Json:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "chat"}},
        "template": {"spec": {"containers": [{"name": "main", "image": image}]}},
    }
    made = obj(*DEPLOYMENT, spec=spec)
    made["metadata"]["labels"] = {names.SERVER: names.WHOLE}
    made["metadata"]["annotations"] = {names.SIZES: "2-4"}
    made["metadata"] |= metadata
    return made


def test_the_scheduler_scales_servers_of_teams_and_changes_nothing_else_of_them(
    judge: Judge,
) -> None:
    old = server(4)
    notes = {names.SIZES: "2-4", names.DESIRED_SIZE: "4", names.SHRUNK_AT: "now"}
    ceded = server(2, labels={names.SERVER: names.CEDED}, annotations=notes)
    assert judge(ceded, SCHEDULER, old=old) == []
    assert judge(ceded, SCHEDULER, old=old, labels={}), "not in a namespace of no team"
    assert judge(server(2, annotations={}), SCHEDULER, old=server(4, annotations={}))
    assert judge(server(2, labels={}), SCHEDULER, old=server(4, labels={}))
    assert judge(server(2, image="other"), SCHEDULER, old=old)
    assert judge(server(2, ownerReferences=[{"uid": "1"}]), SCHEDULER, old=old)
    assert judge(server(2, finalizers=["x/y"]), SCHEDULER, old=old)
    queue = {names.SERVER: names.CEDED, "kueue.x-k8s.io/queue-name": "other"}
    assert judge(server(2, labels=queue), SCHEDULER, old=old)
    assert judge(server(2, annotations={names.SIZES: "1-9"}), SCHEDULER, old=old)
    paused = server(2)
    paused["spec"]["paused"] = True
    assert judge(paused, SCHEDULER, old=old)


def group_server(replicas: int, image: str = "chat", **metadata: Any) -> Json:
    worker = {"spec": {"containers": [{"name": "main", "image": image}]}}
    template = {"size": 2, "workerTemplate": worker}
    spec = {"replicas": replicas, "leaderWorkerTemplate": template}
    made = obj("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat", "vision", spec=spec)
    made["metadata"]["labels"] = {names.SERVER: names.WHOLE}
    made["metadata"]["annotations"] = {names.SIZES: "2-4"}
    made["metadata"] |= metadata
    return made


@pytest.mark.parametrize("field", ["rolloutStrategy", "networkConfig", "startupPolicy"])
def test_the_scheduler_scales_leader_worker_sets_and_changes_nothing_else_of_them(
    judge: Judge, field: str
) -> None:
    old = group_server(4)
    notes = {names.SIZES: "2-4", names.DESIRED_SIZE: "4", names.SHRUNK_AT: "now"}
    ceded = group_server(2, labels={names.SERVER: names.CEDED}, annotations=notes)
    assert judge(ceded, SCHEDULER, old=old) == []
    assert judge(ceded, SCHEDULER, old=old, labels={}), "not in a namespace of no team"
    assert judge(group_server(2, image="other"), SCHEDULER, old=old)
    assert judge(group_server(2, labels={}), SCHEDULER, old=group_server(4, labels={}))
    changed = group_server(2)
    changed["spec"][field] = "other"
    assert judge(changed, SCHEDULER, old=old)
    old["spec"][field] = "other"
    assert judge(changed, SCHEDULER, old=old) == []
    changed["spec"][field] = "another"
    assert judge(changed, SCHEDULER, old=old)


def test_the_scheduler_marks_which_pod_a_server_loses_and_changes_nothing_else_of_it(
    judge: Judge,
) -> None:
    def pod(image: str = "chat", **metadata: Any) -> Json:
        made = obj("v1", "Pod", "chat-1", "vision", spec={"containers": [{"image": image}]})
        made["metadata"] |= metadata
        return made

    mark = {names.POD_DELETION_COST: "-1"}
    old = pod(annotations={"a": "b"})
    assert judge(pod(annotations={"a": "b"} | mark), SCHEDULER, old=old) == []
    assert judge(pod(annotations=mark), SCHEDULER, old=pod()) == []
    assert judge(pod(annotations=mark), SCHEDULER, old=pod(), labels={})
    for changed in (
        pod(annotations=mark),
        pod(annotations={"a": "c"} | mark),
        pod(annotations={"a": "b", "c": "d"}),
        pod(image="other", annotations={"a": "b"}),
        pod(labels={"a": "b"}, annotations={"a": "b"}),
        pod(finalizers=["x/y"], annotations={"a": "b"}),
    ):
        assert judge(changed, SCHEDULER, old=old)


# --- autoscalers ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "before", "after", "refused"),
    [
        pytest.param("chat", 2, 4, True, id="up"),
        pytest.param("chat", 2, 1, False, id="down"),
        pytest.param("chat", 2, 2, False, id="as it is"),
        pytest.param("other", 2, 4, False, id="another, which has ceded nothing"),
    ],
)
@pytest.mark.parametrize("kind", [DEPLOYMENTS, LEADER_WORKER_SETS], ids=lambda kind: kind.kind)
def test_nobody_scales_up_a_server_that_has_ceded(
    judge: Judge, kind: Kind, name: str, before: int, after: int, refused: bool
) -> None:
    def scale(replicas: int) -> Json:
        return obj("autoscaling/v1", "Scale", name, "vision", spec={"replicas": replicas})

    autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
    ceded = server(2, labels={names.SERVER: names.CEDED})

    def messages(**options: Any) -> list[str]:
        return judge(scale(after), autoscaler, old=scale(before), scaled=kind, **options)

    assert (f"this {kind.kind} has ceded" in "".join(messages(params=[ceded]))) is refused
    assert messages() == [], "nothing has ceded"
    assert messages(labels={}, params=[ceded]) == []
