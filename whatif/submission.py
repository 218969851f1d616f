"""PURE. A Job as its user writes it → the Job and the Workload that the cluster would have."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from cede.api import names
from cede.api.kueue import Job, PodSet, PriorityClassRef, Workload, WorkloadSpec
from cede.api.objects import JOBS, Json, Key, Meta, OwnerReference, rfc3339
from cede.api.pod_templates import PodTemplate
from cede.api.policy import ClusterPolicy
from scheduler.snapshot.snapshot import RawObjects
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.json_fields import get_dict, get_dicts, get_label
from webhook.rules import complaints
from webhook.team import build_team

UID = "whatif-job"
WORKLOAD_UID = "whatif-workload"


class BadQuestion(ValueError):
    """What was asked cannot be answered: a line for the user, with the cure."""


@dataclass(frozen=True)
class Submission:
    """A Job and its Workload; or why the webhook refuses the Job."""

    key: Key
    job: Job = Job()  # noqa: RUF009
    workload: Workload = Workload()  # noqa: RUF009
    complaints: tuple[str, ...] = ()


def submission(
    manifest: Json, namespace: str, objects: RawObjects, policy: ClusterPolicy, now: float
) -> Submission:
    """`namespace` is that of the manifest if the user names none. Raises BadQuestion."""
    key = _key(manifest, namespace)
    stored = manifest | {"metadata": get_dict(manifest, "metadata") | {"namespace": key[0]}}
    team = build_team(key[0], policy, objects.allocations, objects.local_queues)
    _check_place(key, objects)
    _check_pods(manifest)
    request = AdmissionRequest(stored, team=team)
    problems = complaints(request)
    if problems:
        return Submission(key, complaints=tuple(problems))
    body = apply_defaults(request)
    queue = get_label(body, names.QUEUE_NAME)
    _check_queue(key, queue, objects)
    job, template = _read(body)
    class_name = get_label(body, names.PRIORITY_CLASS)
    metadata = replace(job.metadata, uid=UID, creationTimestamp=rfc3339(now))
    spec = replace(job.spec, suspend=True)
    return Submission(
        key,
        replace(job, metadata=metadata, spec=spec),
        Workload(
            Meta(
                name=f"job-{key[1]}",
                namespace=key[0],
                uid=WORKLOAD_UID,
                generation=1,
                creationTimestamp=rfc3339(now),
                ownerReferences=(OwnerReference(JOBS.kind, key[1], UID, controller=True),),
            ),
            WorkloadSpec(
                queueName=queue,
                priorityClassRef=PriorityClassRef(class_name) if class_name else None,
                podSets=(PodSet("main", _pods(job), template),),
            ),
        ),
    )


def with_priority(workload: Workload, priorities: Mapping[str, int]) -> Workload:
    """`priorities`: by class, as the quota_controller makes them."""
    reference = workload.spec.priorityClassRef
    priority = priorities.get(reference.name, 0) if reference else 0
    return replace(workload, spec=replace(workload.spec, priority=priority))


def _pods(job: Job) -> int:
    """Kueue: pkg/controller/jobs/job/job_controller.go, podsCount."""
    completions = job.spec.completions
    parallelism = job.spec.parallelism
    return parallelism if completions is None else min(parallelism, completions)


# --- what the user wrote --------------------------------------------------------------------------
def _key(manifest: Json, namespace: str) -> Key:
    kind = (manifest.get("apiVersion"), manifest.get("kind"))
    if kind != (JOBS.api_version, JOBS.kind):
        raise BadQuestion(
            f"the file has a {kind[1] or 'text without kind'} of {kind[0] or 'no apiVersion'}: it "
            f"must have a {JOBS.kind} of {JOBS.api_version}; other kinds cannot be asked for yet"
        )
    metadata = get_dict(manifest, "metadata")
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    if not name:
        raise BadQuestion("the Job has no metadata.name: give it one")
    own = str(metadata.get("namespace") or "")
    if own and namespace and own != namespace:
        raise BadQuestion(
            f"the Job is of namespace {own}, and --namespace is {namespace}: leave one out"
        )
    if not own and not namespace:
        raise BadQuestion("the Job names no namespace: add --namespace")
    return own or namespace, name


def _check_place(key: Key, objects: RawObjects) -> None:
    namespace, name = key
    teams = sorted(allocation.namespace for allocation in objects.allocations)
    if namespace not in teams:
        known = ", ".join(teams) or "none yet"
        raise BadQuestion(
            f"namespace {namespace} is of no ComputeAllocation: name one of a team ({known})"
        )
    if any(job.metadata.key == key for job in objects.jobs):
        raise BadQuestion(
            f"there is a Job {name} in namespace {namespace} already: give this one another name"
        )


def _check_queue(key: Key, queue: str, objects: RawObjects) -> None:
    """Without its LocalQueue, a Workload waits in none."""
    if not any(item.metadata.key == (key[0], queue) for item in objects.local_queues):
        raise BadQuestion(
            f"namespace {key[0]} has no LocalQueue {queue}: see the status of its ComputeAllocation"
        )


def _read(body: Json) -> tuple[Job, PodTemplate]:
    template = get_dict(body, "spec", "template")
    # counts that a user left out are 1, and a null is left out too
    spec = {name: value for name, value in get_dict(body, "spec").items() if value is not None}
    try:
        job = msgspec.convert(body | {"spec": spec, "status": {}}, Job, strict=False)
        return job, msgspec.convert(template, PodTemplate, strict=False)
    except msgspec.ValidationError as error:
        raise BadQuestion(f"the Job cannot be read ({error}): correct this field") from error


def _check_pods(body: Json) -> None:
    """What the API server would refuse, and what nothing could be predicted of."""
    if not get_dicts(get_dict(body, "spec", "template", "spec"), "containers"):
        raise BadQuestion("the Job has no spec.template.spec.containers: give it one")
