"""PURE. Which job a pod belongs to, as far as the pod says it."""

from typing import NamedTuple

from cede.api import names
from cede.api.objects import Key, Meta, Projection
from cede.api.workload_identity import controller

END_TIMEOUT_S = 30.0
"""Beyond their grace period, pods that do not end are not waited for any longer: their node is
gone, or does not answer."""


class Owner(NamedTuple):
    """Whose a pod is: an object's by the uid of its controller, or a Workload's by the Workload's
    name. A name never counts as a uid."""

    namespace: str
    uid: str = ""
    workload: str = ""


def pod_owner(pod: Projection) -> Owner:
    """Anybody may write the labels and annotations of a pod. They take no pod away from the Job
    that made it, unless that says that a JobSet made it. The Workload of a group of pods has the
    group's name. A pod alone, or of a Deployment, has a Workload for itself.
    """
    metadata = pod.metadata
    reference = controller(pod)
    kind = reference.kind if reference else ""
    group = _group(metadata)
    if group and kind != "Job":
        return Owner(metadata.namespace, workload=group)
    if reference is None or kind == "ReplicaSet":
        return Owner(metadata.namespace, uid=metadata.uid)
    workload = _workload(metadata)
    if workload and (kind != "Job" or names.JOB_SET_NAME in metadata.labels):
        return Owner(metadata.namespace, workload=workload)
    return Owner(metadata.namespace, uid=reference.uid)


def job_owners(workload: Key, identity: str) -> tuple[Owner, Owner]:
    """As what the pods of a job are found: by the `identity` of the job (workload_identity.py), and
    by its Workload, which pods name whose controller is not the job itself, such as those of a
    TrainJob."""
    namespace, name = workload
    return Owner(namespace, uid=identity), Owner(namespace, workload=name)


def _group(pod: Meta) -> str:
    """Kueue names it in an annotation, or in a label as its users do (Kueue: pkg/util/pod/pod.go,
    GetPodGroupName)."""
    return pod.annotations.get(names.POD_GROUP) or pod.labels.get(names.POD_GROUP, "")


def _workload(pod: Meta) -> str:
    """Kueue writes it into the pod templates of every kind, and starts no job whose templates name
    another one (Kueue: pkg/controller/jobframework/reconciler.go, getPodSetsInfoFromStatus;
    pkg/podset/podset.go, Merge). Pods of an elastic job name a Workload that may be replaced."""
    if names.POD_SLICE in pod.annotations:
        return ""
    return pod.annotations.get(names.POD_WORKLOAD, "")
