"""The admission policies of deploy/, judged by the API server's own packages: who is refused."""

from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from cede.api.team_security import CONTROLLER_NAMESPACES
from tests.builders.job_kinds import OWNERS, job_of_kind, pod_spec, with_uid
from tests.builders.jobs import PRIORITY, elastic_job, plain_job
from tests.harness.admission import Judge

pytestmark = pytest.mark.slow
GPU = "nvidia.com/gpu"
PERSON = "ada"
DEPLOYER = "system:serviceaccount:ci:deployer"
OWN_ACCOUNT = "system:serviceaccount:vision:default"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
JOBSET_CONTROLLER = "system:serviceaccount:jobset-system:jobset-controller-manager"


# --- owners ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: str(owner[1]))
@pytest.mark.parametrize("user", [PERSON, DEPLOYER, OWN_ACCOUNT])
def test_nobody_escapes_a_queue_by_naming_an_owner(
    judge: Judge, owner: tuple[str, str], user: str
) -> None:
    """A Job of 100 accelerators that a pod of an own small Job owns ran past every quota. A service
    account of another namespace was believed, also as a member."""
    [message] = judge(with_uid(plain_job(), *owner), user)
    assert "ownerReferences" in message


@pytest.mark.parametrize(
    ("job", "owner", "user"),
    [
        pytest.param(
            plain_job(), ("jobset.x-k8s.io/v1alpha2", "JobSet"), JOBSET_CONTROLLER, id="of a JobSet"
        ),
        pytest.param(plain_job(), ("batch/v1", "CronJob"), JOB_CONTROLLER, id="of a CronJob"),
        pytest.param(
            plain_job(),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            "system:kube-controller-manager",
            id="without an account for each controller",
        ),
        pytest.param(
            plain_job(),
            ("serving.example/v1", "Model"),
            OWN_ACCOUNT,
            id="of a kind that Kueue does not know, and queues by itself",
        ),
    ],
)
def test_controllers_create_what_they_own(
    judge: Judge, job: Json, owner: tuple[str, str], user: str
) -> None:
    assert judge(with_uid(job, *owner), user) == []


def test_who_updates_an_owned_job_keeps_its_owner(judge: Judge) -> None:
    job = with_uid(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert judge(job, old=job) == []
    [message] = judge(with_uid(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet", "2"), old=job)
    assert "ownerReferences" in message


def test_a_reference_to_another_kind_does_not_become_one_to_a_controller(judge: Judge) -> None:
    """Kueue queues a Job of a ConfigMap by itself, and one of a JobSet not at all. Without the
    webhook only the uid was compared."""
    old = with_uid(plain_job(), "v1", "ConfigMap")
    assert judge(old) == []
    [message] = judge(with_uid(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet"), old=old)
    assert "ownerReferences" in message


@pytest.mark.parametrize("listed", ["ci", "kube-system,ci", "other", ""])
def test_a_list_of_the_admin_only_adds_controllers(judge: Judge, listed: str) -> None:
    """One without kube-system stopped the pods of every Job with accelerators."""
    annotations = {names.CONTROLLERS: listed}
    job = with_uid(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet")
    pod = with_uid(gpu_pod(), "batch/v1", "Job")
    orphan = {"propagationPolicy": "Orphan"}
    assert judge(job, JOBSET_CONTROLLER, annotations=annotations) == []
    assert judge(pod, JOB_CONTROLLER, annotations=annotations) == []
    assert judge(job, JOB_CONTROLLER, annotations=annotations, deletion=orphan) == []
    for answer in (
        judge(job, DEPLOYER, annotations=annotations),
        judge(pod, DEPLOYER, annotations=annotations),
        judge(job, DEPLOYER, annotations=annotations, deletion=orphan),
    ):
        assert bool(answer) is ("ci" not in listed)


def test_the_policies_have_the_default_of_the_cluster_policy(judge: Judge) -> None:
    for namespace in CONTROLLER_NAMESPACES:
        user = f"system:serviceaccount:{namespace}:c"
        assert judge(with_uid(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet"), user) == []


# --- pods with accelerators -----------------------------------------------------------------------
def gpu_pod(**metadata: Any) -> Json:
    pod = job_of_kind("Pod", pod_spec({GPU: "1"}))
    return pod | {"metadata": {"name": "it", "namespace": "vision"} | metadata}


@pytest.mark.parametrize("user", [PERSON, DEPLOYER, OWN_ACCOUNT])
def test_a_pod_with_accelerators_is_of_a_controller(judge: Judge, user: str) -> None:
    owned = with_uid(gpu_pod(), "batch/v1", "Job")
    assert judge(gpu_pod(), user)
    assert judge(owned, user)
    assert judge(owned, JOB_CONTROLLER) == []


# --- the Workload of another job ------------------------------------------------------------------
@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("kind", ["Job", "JobSet", "Deployment", "StatefulSet", "RayCluster"])
def test_nobody_names_the_workload_of_another_job(judge: Judge, kind: str, place: str) -> None:
    """Kueue would end it where they differ, and its pods would run on without quota."""
    plain = job_of_kind(kind, pod_spec())
    naming = job_of_kind(kind, pod_spec())
    naming["metadata"].setdefault(place, {})[names.PREBUILT_WORKLOAD] = "of-another"
    [message] = judge(naming)
    assert "names the Workload of another job" in message
    assert judge(naming, old=plain)
    assert judge(naming, old=naming) == judge(plain) == []
    assert judge(plain, old=naming) == [], "the cure that the message names"


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_no_pod_of_a_server_names_the_workload_of_another(judge: Judge, place: str) -> None:
    server = job_of_kind("Deployment", pod_spec())
    metadata = server["spec"]["template"]["metadata"]
    metadata[place] = metadata.get(place, {}) | {names.PREBUILT_WORKLOAD: "of-another"}
    [message] = judge(server)
    assert "names the Workload of another job" in message


# --- pods that Kueue would count by another Workload ----------------------------------------------
REPLICA_SET_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
IN_GROUP = {names.POD_GROUP: "of-small-pods"}


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_no_template_puts_its_pods_into_a_group(judge: Judge, place: str) -> None:
    """Kueue reserved for each pod of a group what the first of its role asked for: one pod without
    accelerators, and any number with them, ran without quota."""
    gated = gpu_pod(**{place: IN_GROUP})
    gated["spec"] |= {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    server = with_uid(gated, "apps/v1", "ReplicaSet")
    [message] = judge(server, REPLICA_SET_CONTROLLER)
    assert "pod-group-name" in message
    assert judge(with_uid(gated, "batch/v1", "Job"), JOB_CONTROLLER) == []
    assert judge(gated) == [], "who may create pods; members may not"
    server["metadata"].pop(place)
    assert judge(server, REPLICA_SET_CONTROLLER) == []


def stateful_set(parent: str) -> Json:
    made = job_of_kind("StatefulSet", pod_spec())
    made["spec"]["template"]["metadata"] = {"annotations": {names.SUSPENDING_PARENT: parent}}
    return made


def test_nobody_takes_a_stateful_set_from_kueue(judge: Judge) -> None:
    """Kueue accepted other pods in it, and counted them as those before."""
    ours, other = stateful_set("statefulset"), stateful_set("deployment")
    for old in (None, ours, other):
        for parent in ("deployment", ""):
            [message] = judge(stateful_set(parent), old=old)
            assert "pod-suspending-parent" in message
        assert judge(ours, old=old) == []
    assert judge(job_of_kind("StatefulSet", pod_spec()), old=other) == [], "the cure"
    of_group = with_uid(other, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    assert judge(of_group, "system:serviceaccount:lws-system:lws-controller-manager") == []
    assert judge(of_group, old=of_group) == []


@pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet", "Job"])
def test_nobody_says_that_multikueue_made_an_object(judge: Judge, kind: str) -> None:
    """Kueue counted the pods of a StatefulSet by the Workload of a smaller one of before."""
    plain, labelled = job_of_kind(kind, pod_spec()), job_of_kind(kind, pod_spec())
    labelled["metadata"]["labels"] = {names.MULTIKUEUE_ORIGIN: "elsewhere"}
    for old in (None, plain):
        [message] = judge(labelled, old=old)
        assert "multikueue-origin" in message
    assert judge(labelled, old=labelled) == judge(plain, old=labelled) == []
    kueue = "system:serviceaccount:kueue-system:kueue-controller-manager"
    assert judge(labelled, kueue) == []


@pytest.mark.parametrize(
    ("gates", "is_refused"),
    [
        pytest.param(["kueue.x-k8s.io/admission"], False, id="of a queued pod"),
        pytest.param(["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"], False, id="both"),
        pytest.param(["kueue.x-k8s.io/topology"], True, id="no pod is queued by it"),
        pytest.param(["kueue.x-k8s.io/elastic-job"], True, id="nor by that of elastic jobs"),
        pytest.param(["kueue.x-k8s.io/x"], True, id="invented"),
    ],
)
def test_a_pod_with_accelerators_has_the_gate_by_which_kueue_queues_it(
    judge: Judge, gates: list[str], is_refused: bool
) -> None:
    """Who may create and patch pods removes every other one."""
    gated = gpu_pod()
    gated["spec"] |= {"schedulingGates": [{"name": name} for name in gates]}
    assert bool(judge(gated)) is is_refused


# --- elastic jobs that Cede does not know ---------------------------------------------------------
def test_a_raw_elastic_job_is_refused(judge: Judge) -> None:
    raw = plain_job(annotations={names.ELASTIC_JOB: "true"})
    [message] = judge(raw)
    assert "cede.dev/sizes" in message
    prepared = elastic_job(annotations={names.ELASTIC_JOB: "true"})
    prepared["spec"]["template"]["metadata"]["labels"] = {names.ELASTIC_POD: "true"}
    assert judge(prepared) == []
    # what was there before this policy is not stuck, and adds no pods
    assert judge(raw, old=raw) == []
    more = raw | {"spec": raw["spec"] | {"parallelism": raw["spec"].get("parallelism", 1) + 1}}
    assert "cede.dev/sizes" in judge(more, old=raw)[0]
    assert judge(raw, old=more) == []


@pytest.mark.parametrize("kind", ["RayCluster", "JobSet"])
def test_a_raw_elastic_object_of_another_kind_is_refused_whatever_its_sizes(
    judge: Judge, kind: str
) -> None:
    """While the webhook does not answer, its sizes were taken for those of a Job."""
    plain = job_of_kind(kind, pod_spec({GPU: "1"}))
    plain["metadata"] |= {"name": "it", "namespace": "vision"}
    notes = {names.ELASTIC_JOB: "true", names.SIZES: "1-4"}
    raw = plain | {"metadata": plain["metadata"] | {"annotations": notes}}
    assert "cede.dev/sizes" in judge(raw)[0]
    assert judge(raw, old=raw) == [], "what was there is not stuck"
    more = raw | {"spec": raw["spec"] | {"suspend": True}}
    assert "cede.dev/sizes" in judge(more, old=raw)[0]
    assert judge(plain, old=raw) == []


# --- priority classes -----------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["Job", "JobSet", "Deployment", "RayJob"])
def test_a_class_above_the_teams_highest_is_refused(judge: Judge, kind: str) -> None:
    job = job_of_kind(kind, pod_spec({GPU: "1"}), **{PRIORITY: "inference"})
    job["metadata"] |= {"name": "it", "namespace": "vision"}
    allowed = {names.PRIORITY_CLASSES: "training,sweep"}
    [message] = judge(job, annotations=allowed)
    assert "may not use" in message
    assert judge(job, annotations={names.PRIORITY_CLASSES: "inference,training"}) == []
    assert judge(job) == [], "the policy has no classes yet"
    assert judge(job, old=job, annotations=allowed) == [], "the policy became stricter"


# --- elsewhere ------------------------------------------------------------------------------------
@pytest.mark.parametrize("obj", [gpu_pod(), with_uid(plain_job(), "v1", "Pod")], ids=["pod", "job"])
def test_nothing_is_refused_where_no_team_is(judge: Judge, obj: Json) -> None:
    assert judge(obj, labels={}) == []
