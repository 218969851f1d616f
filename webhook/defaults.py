"""PURE. The defaults: returns the object as the API server should store it."""

from cede.api.names import LOCAL_QUEUE, PRIORITY_CLASS, QUEUE_NAME
from cede.api.objects import Json
from webhook.admission import AdmissionRequest
from webhook.elastic_defaults import prepare_new, prepare_updated
from webhook.elastic_job import is_elastic
from webhook.failure_policy import with_short_delay
from webhook.finalizers import delete_with_pods
from webhook.gentle_stop import give_time_to_save
from webhook.job_sets import prepare_job_set
from webhook.json_fields import copied, ensure_dict, get_dict, get_group_kind, get_label
from webhook.kinds import (
    JOB_SET,
    SERVING,
    get_effective_label,
    is_child_of_train_job,
    is_controlled_pod,
    is_in_scope,
)
from webhook.runtime_injection import inject_runtime
from webhook.servers import is_server, note_replicas
from webhook.team import Team


def apply_defaults(request: AdmissionRequest) -> Json:
    """The object with our defaults; equal to the requested one when nothing is missing.

    The request must have no complaints. Idempotent, and the request's object is not modified.
    """
    is_child = is_child_of_train_job(request)
    if is_controlled_pod(request.object):
        is_new = request.old is None
        return with_short_delay(request.object) if is_new else request.object
    if not is_child and not is_in_scope(request):
        return request.object
    job = copied(request.object)
    if not is_child:
        _set_labels(job, request)
        delete_with_pods(job, request.old)
    inject_runtime(job, request.old, request.team)
    if is_elastic(job):
        if request.old is None:
            prepare_new(job, request.team)
        else:
            prepare_updated(job, request.old)
    if is_server(job) or is_server(request.old):
        note_replicas(job, request.old)
    if get_group_kind(job) == JOB_SET:
        prepare_job_set(job, request.old, request.team)
    give_time_to_save(job, request.old, request.team)
    return job


def _set_labels(job: Json, request: AdmissionRequest) -> None:
    """Sets queue and priority of a new object. An update only gets back the labels it had: Kueue
    refuses to add either to a running job."""
    defaults = {QUEUE_NAME: LOCAL_QUEUE, PRIORITY_CLASS: _default_class(request.team)}
    for name, default in defaults.items():
        if request.old is None or _will_be_queued(request.old):
            fallback = default
        else:
            fallback = get_label(request.old, name)
        value = get_effective_label(job, name) or fallback
        if value and not get_label(job, name):
            ensure_dict(job, "metadata", "labels")[name] = value


def _will_be_queued(old: Json) -> bool:
    """True for a serving object without queue and without ready pods: Kueue accepts both labels."""
    return (
        get_group_kind(old) in SERVING
        and not get_label(old, QUEUE_NAME)
        and not get_dict(old, "status").get("readyReplicas")
    )


def _default_class(team: Team) -> str:
    """The policy's default class, or the highest class below it that the team may use.

    The lowest class if the policy has no default: without a class Kueue takes the priority of the
    job's pods, which is no class of the policy.
    """
    allowed = team.allowed_classes
    if not team.default_class:
        return allowed[-1] if allowed else ""
    if team.default_class in allowed:
        return team.default_class
    weight = team.classes.get(team.default_class, 0)
    return next((name for name in allowed if team.classes[name] <= weight), "")
