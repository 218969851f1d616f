"""PURE. The rules for all kinds: returns complaints that name the field and the cure."""

from collections.abc import Iterator, Sequence

from cede.api.names import (
    ELASTIC_JOB,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    SIZES,
)
from cede.api.objects import Json
from webhook.admission import AdmissionRequest
from webhook.elastic_job import is_elastic, is_prepared
from webhook.elastic_rules import change_complaints, job_complaints
from webhook.finalizers import finalizer_complaints
from webhook.gentle_stop import after_preemption_complaints, long_grace_complaints, time_complaints
from webhook.job_sets import job_set_complaints, sizes_complaints
from webhook.json_fields import get_dict, get_group_kind, get_label
from webhook.kinds import (
    JOB,
    JOB_SET,
    KNOWN_OWNERS,
    TRAIN_JOB,
    get_controller,
    get_label_by_path,
    get_pod_classes,
    is_controlled_pod,
    is_controller_forged,
    is_in_scope,
    is_running,
)
from webhook.kueue_marks import mark_complaints
from webhook.node_fit import pod_size_complaints
from webhook.runtime_injection import runtime_complaints
from webhook.servers import is_server, server_complaints
from webhook.team import Team


def complaints(request: AdmissionRequest) -> list[str]:
    """Everything that is wrong, at once; empty for an object that is accepted.

    An update is refused only for what it makes wrong. What was wrong before passes: a change of the
    policy must not keep Kueue from starting a job.
    """
    if is_controller_forged(request):
        return [
            "metadata.ownerReferences names a controller, which only a controller may do: "
            "remove the reference"
        ]
    if not is_in_scope(request):
        return []
    current = [
        *_object_complaints(request.object, request.old, request.team),
        *mark_complaints(request.object, request.user, request.team),
        *finalizer_complaints(request),
    ]
    if request.old is None:
        return current
    previous = {
        *_object_complaints(request.old, None, request.team),
        *mark_complaints(request.old, request.user, request.team),
    }
    return [
        *(complaint for complaint in current if complaint not in previous),
        *change_complaints(request.object, request.old),
        *_raised_class_complaints(request.object, request.old, request.team),
    ]


def _object_complaints(job: Json, old: Json | None, team: Team) -> Iterator[str]:
    yield from _priority_complaints(job, team)
    yield from _queue_complaints(job, team)
    yield from _pod_priority_complaints(job, team)
    # for an elastic Job of ours, which lost its sizes, change_complaints says more
    if not is_prepared(old or {}):
        yield from _raw_elastic_complaints(job)
    if is_controlled_pod(job):
        # its controller decides everything else
        return
    yield from pod_size_complaints(job, team)
    yield from time_complaints(job, team)
    yield from long_grace_complaints(job, old, team)
    yield from after_preemption_complaints(job, old)
    yield from runtime_complaints(job, old, team)
    if get_group_kind(job) == JOB_SET:
        yield from job_set_complaints(job)
    if get_group_kind(job) == JOB:
        yield from job_complaints(job, old)
    elif is_server(job):
        yield from server_complaints(job)
    elif SIZES in get_dict(job, "metadata", "annotations"):
        if get_group_kind(job) in (JOB_SET, TRAIN_JOB):
            yield from sizes_complaints(job)
        else:
            yield (
                f"metadata.annotations[{SIZES}] is supported on a Job, JobSet, TrainJob, "
                f"Deployment or LeaderWorkerSet only: remove it from this {get_group_kind(job)[1]}"
            )


def _priority_complaints(job: Json, team: Team) -> Iterator[str]:
    """Kueue accepts a job with an unknown class, and never admits it."""
    if not team.classes:
        return
    allowed = team.allowed_classes
    # its controller would run with fewer pods for ever
    replaced = team.removed_classes if get_controller(job) in KNOWN_OWNERS else frozenset()
    for path, name in get_label_by_path(job, PRIORITY_CLASS):
        if name in replaced:
            continue
        if name not in team.classes:
            yield (
                f"{path} is {name!r}, which is not a priority class of this cluster: use "
                f"{_join_with_or(allowed)}"
            )
        elif name not in allowed:
            yield (
                f"{path} is {name!r}, which is above what team {team.name} may use: use "
                f"{_join_with_or(allowed)}"
            )


def _raised_class_complaints(job: Json, old: Json, team: Team) -> Iterator[str]:
    """A job that runs keeps at most the class with which it was admitted: jobs of the lowest class
    give way first, and Kueue would follow the label at once."""
    before = get_label(old, PRIORITY_CLASS)
    after = get_label(job, PRIORITY_CLASS)
    if not is_running(old) or team.classes.get(after, 0) <= team.classes.get(before, 0):
        return
    yield (
        f"metadata.labels[{PRIORITY_CLASS}] is {after!r}, which is above {before!r}, with which "
        f"the job was admitted: keep {before!r} while it runs, or delete the job and create it "
        f"again"
    )


def _pod_priority_complaints(job: Json, team: Team) -> Iterator[str]:
    """The Kubernetes scheduler preempts pods of other teams by these classes, past every quota."""
    for field_path, name in get_pod_classes(job):
        if name in team.pod_classes:
            continue
        allowed = sorted(team.pod_classes)
        cure = f"use {_join_with_or(allowed)}, or remove it" if allowed else "remove it"
        yield (
            f"{field_path} is {name!r}, which pods of teams may not use: {cure}; the label "
            f"{PRIORITY_CLASS} sets the priority of a job"
        )


def _raw_elastic_complaints(job: Json) -> Iterator[str]:
    """Kueue runs the pods of such a job on without quota when its scale-up slice is evicted. Of no
    other kind than Job does Cede withdraw a slice."""
    annotations = get_dict(job, "metadata", "annotations")
    if ELASTIC_JOB in annotations and not is_elastic(job):
        yield (
            f"metadata.annotations[{ELASTIC_JOB}] is not supported without Cede: remove it, and "
            f"name the sizes of a batch/v1 Job in {SIZES}"
        )


def _queue_complaints(job: Json, team: Team) -> Iterator[str]:
    queues = team.queues | {LOCAL_QUEUE}
    for path, name in get_label_by_path(job, QUEUE_NAME):
        if name not in queues:
            yield (
                f"{path} is {name!r}, which is not a queue of team {team.name}: use "
                f"{_join_with_or(sorted(queues))}, or remove the label"
            )


def _join_with_or(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} or {names[-1]}"
