"""The kinds Kueue queues, where each keeps its pods, and whose business an object is."""

from collections.abc import Iterator

from cede.api.names import PRIORITY_CLASS
from cede.api.objects import Json
from webhook.admission import SCHEDULER_USER, Asked, entries, kind_of, label, table

JOB = ("batch", "Job")
POD = ("", "Pod")
TRAIN_JOB = ("trainer.kubeflow.org", "TrainJob")
APP_WRAPPER = ("workload.codeflare.dev", "AppWrapper")
JOBS = frozenset(
    {
        JOB,
        ("jobset.x-k8s.io", "JobSet"),
        TRAIN_JOB,
        ("kubeflow.org", "PyTorchJob"),
        ("kubeflow.org", "JAXJob"),
        ("kubeflow.org", "TFJob"),
        ("kubeflow.org", "XGBoostJob"),
        ("kubeflow.org", "PaddleJob"),
        ("kubeflow.org", "MPIJob"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayService"),
        APP_WRAPPER,
        ("sparkoperator.k8s.io", "SparkApplication"),
    }
)
"""(group, kind) that Kueue queues as a whole. What one of these owns is queued with its owner and
left alone."""

SERVING = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    }
)
"""Kueue queues their pods, and hands on to them the queue and the priority that the object names
(jobs/deployment and its like)."""

Pods = tuple[str, Json]
"""Where a pod template stands in the user's YAML, as in `spec.template`; and what stands there,
with `metadata` and `spec`."""


def templates(job: Json) -> Iterator[Pods]:
    """Every pod template of an object of any kind and shape; none where the kind keeps none."""
    spec = table(job, "spec")
    if kind_of(job) == POD:
        yield "", job
    elif kind_of(job) == APP_WRAPPER:
        for i, component in enumerate(_listed(spec, "components")):
            wrapped = table(component, "template")
            if kind_of(wrapped) != APP_WRAPPER:
                yield from (
                    (f"spec.components[{i}].template.{where}", pods)
                    for where, pods in templates(wrapped)
                )
    else:
        yield from _in_spec(spec)


def _in_spec(spec: Json) -> Iterator[Pods]:
    """All other kinds are told by their fields: no two of them use one name for two things."""
    # Job, Deployment, StatefulSet
    yield from _at("spec", spec, "template")
    # JobSet
    for i, job in enumerate(_listed(spec, "replicatedJobs")):
        yield from _at(f"spec.replicatedJobs[{i}]", job, "template", "spec", "template")
    # the jobs of kubeflow.org: pytorchReplicaSpecs and its like
    for name, roles in spec.items():
        if name.endswith("ReplicaSpecs") and isinstance(roles, dict):
            for role, replicas in roles.items():
                yield from _at(f"spec.{name}.{role}", replicas, "template")
    # LeaderWorkerSet
    for each in ("leaderTemplate", "workerTemplate"):
        yield from _at("spec", spec, "leaderWorkerTemplate", each)
    # RayCluster
    yield from _of_ray("spec", spec)
    # RayJob, RayService
    for each in ("rayClusterSpec", "rayClusterConfig"):
        yield from _of_ray(f"spec.{each}", table(spec, each))
    # RayJob
    yield from _at("spec", spec, "submitterPodTemplate")


def _of_ray(where: str, cluster: Json) -> Iterator[Pods]:
    yield from _at(where, cluster, "headGroupSpec", "template")
    for i, group in enumerate(_listed(cluster, "workerGroupSpecs")):
        yield from _at(f"{where}.workerGroupSpecs[{i}]", group, "template")


def _at(where: str, value: object, *path: str) -> Iterator[Pods]:
    if found := table(value, *path):
        yield ".".join((where, *path)), found


def _listed(value: Json, name: str) -> list[object]:
    """The whole list, so that a place in it is the one the user counts."""
    found = value.get(name)
    return found if isinstance(found, list) else []


# --- labels ---------------------------------------------------------------------------------------
def places_of(job: Json, name: str) -> Iterator[tuple[str, str]]:
    """(where, value) of each place in which the label called `name` is said; what is empty says
    nothing.

    For what serves, its pods may say it too: Kueue reads the object, and writes over what the pods
    say.
    """
    if value := label(job, name):
        yield f"metadata.labels[{name}]", value
    if kind_of(job) in SERVING:
        for where, pods in templates(job):
            if value := label(pods, name):
                yield f"{where}.metadata.labels[{name}]", value


def said(job: Json | None, name: str) -> str:
    """The label as the user has said it: on the object, or on its pods. Empty where nowhere."""
    return next((value for _, value in places_of(job, name)), "") if job else ""


# --- whose business -------------------------------------------------------------------------------
def controller_of(job: Json) -> tuple[str, str] | None:
    """(group, kind) of what made the object."""
    owners = entries(table(job, "metadata"), "ownerReferences")
    return next((kind_of(owner) for owner in owners if owner.get("controller") is True), None)


def is_anothers_pod(job: Json) -> bool:
    """Whether the pod was made by a controller, which decides what is in it."""
    return kind_of(job) == POD and controller_of(job) is not None


def claims_a_controller(asked: Asked) -> bool:
    """Whether a person says that a controller made the object, of a kind that Kueue queues as a
    whole: it would be queued by nobody."""
    job = asked.object
    owner = controller_of(asked.object)
    if owner not in JOBS | SERVING or (asked.old is not None and controller_of(asked.old) == owner):
        return False
    own = f"system:serviceaccount:{table(job, 'metadata').get('namespace', '')}:"
    return not asked.user.startswith("system:") or asked.user.startswith(own)


def concerns_us(asked: Asked) -> bool:
    """Not what a queued object owns, not what is on its way out, and not the scheduler's own
    resizes.

    A pod that a controller made is looked at when it names a priority: a ReplicaSet is no way past
    the ceiling.
    """
    job = asked.object
    owner = controller_of(asked.object)
    if asked.user == SCHEDULER_USER or table(job, "metadata").get("deletionTimestamp"):
        return False
    if is_anothers_pod(job) and owner not in JOBS:
        return bool(label(job, PRIORITY_CLASS))
    return owner not in JOBS | SERVING
