"""PURE. The kinds that Kueue queues, their pod templates, and which objects the rules apply to."""

from collections.abc import Iterator

from cede.api.names import PRIORITY_CLASS
from cede.api.objects import Json
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.json_fields import get_dict, get_dicts, get_group_kind, get_label, get_list

KUBEFLOW = "kubeflow.org"
JOB = ("batch", "Job")
POD = ("", "Pod")
JOB_SET = ("jobset.x-k8s.io", "JobSet")
TRAIN_JOB = ("trainer.kubeflow.org", "TrainJob")
DEPLOYMENT = ("apps", "Deployment")
STATEFUL_SET = ("apps", "StatefulSet")
LEADER_WORKER_SET = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
APP_WRAPPER = ("workload.codeflare.dev", "AppWrapper")
SPARK_APPLICATION = ("sparkoperator.k8s.io", "SparkApplication")
JOBS = frozenset(
    {
        JOB,
        JOB_SET,
        TRAIN_JOB,
        (KUBEFLOW, "PyTorchJob"),
        (KUBEFLOW, "JAXJob"),
        (KUBEFLOW, "TFJob"),
        (KUBEFLOW, "XGBoostJob"),
        (KUBEFLOW, "PaddleJob"),
        (KUBEFLOW, "MPIJob"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayService"),
        APP_WRAPPER,
        SPARK_APPLICATION,
    }
)
"""(group, kind) of objects that Kueue queues as a whole. An object that one of these owns is queued
with its owner, and the rules do not apply to it."""

SERVING = frozenset(
    {
        DEPLOYMENT,
        STATEFUL_SET,
        LEADER_WORKER_SET,
    }
)
"""(group, kind) of objects whose pods Kueue queues. Kueue copies the object's queue and priority to
its pods (Kueue, pkg/controller/jobs/deployment, statefulset, leaderworkerset)."""

REPLICA_SET = ("apps", "ReplicaSet")
KNOWN_OWNERS = JOBS | SERVING | {POD, REPLICA_SET}
"""(group, kind) of owners for which Kueue does not queue an object by itself."""
CONTROLLER_MANAGER = "system:kube-controller-manager"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

PodTemplate = tuple[str, Json]
"""The field path of a pod template, such as `spec.template`, and its value: a mapping with
`metadata` and `spec`."""


def get_pod_templates(job: Json) -> Iterator[PodTemplate]:
    """Every pod template of an object of any kind; none for a kind without templates."""
    spec = get_dict(job, "spec")
    if get_group_kind(job) == POD:
        yield "", job
    elif get_group_kind(job) == APP_WRAPPER:
        yield from _wrapped_templates(spec)
    else:
        yield from _spec_templates(spec)


def _wrapped_templates(spec: Json) -> Iterator[PodTemplate]:
    for path, wrapped in get_wrapped_objects(spec):
        for inner_path, template in get_pod_templates(wrapped):
            yield f"{path}.{inner_path}", template


def get_wrapped_objects(spec: Json) -> Iterator[tuple[str, Json]]:
    """(field path, object) of an AppWrapper's components; one inside another is ignored."""
    for i, component in enumerate(get_list(spec, "components")):
        wrapped = get_dict(component, "template")
        if get_group_kind(wrapped) != APP_WRAPPER:
            yield f"spec.components[{i}].template", wrapped


def _spec_templates(spec: Json) -> Iterator[PodTemplate]:
    """The templates of all other kinds, found by field: no two kinds use one field differently."""
    # Job, Deployment, StatefulSet
    yield from _template_at("spec", spec, "template")
    # JobSet
    for i, job in enumerate(get_list(spec, "replicatedJobs")):
        yield from _template_at(f"spec.replicatedJobs[{i}]", job, "template", "spec", "template")
    # the jobs of kubeflow.org: pytorchReplicaSpecs and similar fields
    for name, roles in spec.items():
        if name.endswith("ReplicaSpecs") and isinstance(roles, dict):
            for role, replicas in roles.items():
                yield from _template_at(f"spec.{name}.{role}", replicas, "template")
    # LeaderWorkerSet
    for name in ("leaderTemplate", "workerTemplate"):
        yield from _template_at("spec", spec, "leaderWorkerTemplate", name)
    # RayCluster
    yield from _ray_templates("spec", spec)
    # RayJob, RayService
    for name in ("rayClusterSpec", "rayClusterConfig"):
        yield from _ray_templates(f"spec.{name}", get_dict(spec, name))
    # RayJob
    yield from _template_at("spec", spec, "submitterPodTemplate")


def _ray_templates(path: str, cluster: Json) -> Iterator[PodTemplate]:
    yield from _template_at(path, cluster, "headGroupSpec", "template")
    for i, group in enumerate(get_list(cluster, "workerGroupSpecs")):
        yield from _template_at(f"{path}.workerGroupSpecs[{i}]", group, "template")


def _template_at(path: str, value: object, *keys: str) -> Iterator[PodTemplate]:
    if template := get_dict(value, *keys):
        yield ".".join((path, *keys)), template


def get_pod_specs(job: Json) -> Iterator[PodTemplate]:
    """(field path, value) of each place where the object has fields of a pod spec: in its pod
    templates, and beside those of a SparkApplication, which are no whole ones."""
    spec = get_dict(job, "spec")
    if get_group_kind(job) == APP_WRAPPER:
        for path, wrapped in get_wrapped_objects(spec):
            for inner, pod in get_pod_specs(wrapped):
                yield f"{path}.{inner}", pod
        return
    for path, template in get_pod_templates(job):
        yield f"{path}.spec".removeprefix("."), get_dict(template, "spec")
    if get_group_kind(job) == SPARK_APPLICATION:
        for role in ("driver", "executor"):
            yield f"spec.{role}", get_dict(spec, role)
            yield f"spec.{role}.template.spec", get_dict(spec, role, "template", "spec")


# --- PriorityClasses ------------------------------------------------------------------------------
def get_pod_classes(job: Json) -> Iterator[tuple[str, str]]:
    """(field path, name) of each PriorityClass that the object names for its pods."""
    for path, pod in get_pod_specs(job):
        yield from _class_at(path, pod)
    yield from _classes_beside_pods(job)


def _classes_beside_pods(job: Json) -> Iterator[tuple[str, str]]:
    spec = get_dict(job, "spec")
    group, _ = get_group_kind(job)
    if group == KUBEFLOW:
        # Kueue reads it before those of the pods (mpijob_controller.go, kubeflowjob_controller.go)
        keys = ("runPolicy", "schedulingPolicy")
        yield from _class_at("spec.runPolicy.schedulingPolicy", spec, *keys, field="priorityClass")
    if get_group_kind(job) == SPARK_APPLICATION:
        yield from _class_at("spec.batchSchedulerOptions", spec, "batchSchedulerOptions")
    if get_group_kind(job) == APP_WRAPPER:
        for path, wrapped in get_wrapped_objects(spec):
            for inner, name in _classes_beside_pods(wrapped):
                yield f"{path}.{inner}", name


def _class_at(
    path: str, value: Json, *keys: str, field: str = "priorityClassName"
) -> Iterator[tuple[str, str]]:
    if name := get_dict(value, *keys).get(field):
        yield f"{path}.{field}", str(name)


# --- labels ---------------------------------------------------------------------------------------
def get_label_by_path(job: Json, name: str) -> Iterator[tuple[str, str]]:
    """(field path, value) of each place where the label `name` is set and not empty.

    A serving object may also have it on its pods: Kueue reads the object only, and overwrites the
    pods' labels.
    """
    if value := get_label(job, name):
        yield f"metadata.labels[{name}]", value
    if get_group_kind(job) in SERVING:
        for path, template in get_pod_templates(job):
            if value := get_label(template, name):
                yield f"{path}.metadata.labels[{name}]", value


def get_effective_label(job: Json, name: str) -> str:
    """The label `name` of the object, otherwise of its pods; empty when neither has it."""
    return next((value for _, value in get_label_by_path(job, name)), "")


# --- which objects the rules apply to -------------------------------------------------------------
def get_controller(job: Json) -> tuple[str, str] | None:
    """(group, kind) of the controller among the object's owners."""
    for owner in get_dicts(get_dict(job, "metadata"), "ownerReferences"):
        if owner.get("controller") is True:
            return get_group_kind(owner)
    return None


def is_running(job: Json) -> bool:
    """True for an object that Kueue queues as a whole and has admitted: it is not suspended."""
    spec = get_dict(job, "spec")
    suspend = get_dict(spec, "runPolicy").get("suspend", spec.get("suspend"))
    return get_group_kind(job) in JOBS and suspend is False


def is_controlled_pod(job: Json) -> bool:
    """True for a pod that a controller created and configures."""
    return get_group_kind(job) == POD and get_controller(job) is not None


def is_child_of_train_job(request: AdmissionRequest) -> bool:
    """True for the JobSet that Trainer makes of a TrainJob, which has no pod template itself."""
    job = request.object
    return get_group_kind(job) == JOB_SET and get_controller(job) == TRAIN_JOB


def is_controller_forged(request: AdmissionRequest) -> bool:
    """True when somebody other than a controller names an owner of a kind that Kueue knows.

    Kueue would not queue such an object: it expects that the owner is queued, and looks through a
    pod to the job that owns it (pkg/controller/jobframework, FindAncestorJobManagedByKueue).
    """
    job = request.object
    owner = get_controller(job)
    if owner not in KNOWN_OWNERS:
        return False
    if request.old is not None and get_controller(request.old) == owner:
        return False
    own_accounts = f"{SERVICE_ACCOUNT_PREFIX}{get_dict(job, 'metadata').get('namespace', '')}:"
    # Spark's driver makes its executors; members cannot create pods
    if get_group_kind(job) == owner == POD and request.user.startswith(own_accounts):
        return False
    return not is_controller_account(request.user, request.team.controller_namespaces)


def is_controller_account(user: str, namespaces: frozenset[str]) -> bool:
    """True for the controllers of Kubernetes, and for service accounts of these namespaces."""
    if user == CONTROLLER_MANAGER:
        return True
    prefix, _, account = user.partition(SERVICE_ACCOUNT_PREFIX)
    return not prefix and account.partition(":")[0] in namespaces


def is_in_scope(request: AdmissionRequest) -> bool:
    """True when rules and defaults apply to the object.

    They do not apply to objects with a queued owner, to objects that are being deleted, and to the
    scheduler's own resizes. A pod of any other controller is checked only when it names a priority:
    a ReplicaSet must not bypass the team's highest class.
    """
    job = request.object
    owner = get_controller(job)
    if request.user == SCHEDULER_USER or get_dict(job, "metadata").get("deletionTimestamp"):
        return False
    if is_controlled_pod(job) and owner not in JOBS:
        return bool(get_label(job, PRIORITY_CLASS))
    return owner not in JOBS | SERVING
