"""PURE. The defaults of an elastic Job: its first size, desired size, and pod settings."""

import json

from cede.api import sizes
from cede.api.names import DESIRED_SIZE, ELASTIC_JOB, POD_JOB_UID, SHRUNK_AT, SIZES, SURPLUS_OF
from cede.api.objects import Json
from webhook.elastic_job import get_counts, get_desired_size, is_prepared
from webhook.failure_policy import count_delays_per_index
from webhook.gentle_stop import job_grace_s
from webhook.json_fields import copied, ensure_dict, get_annotation, get_dict, get_dicts
from webhook.runtime_pods import InjectedEnv, choose_env, of_surplus, prepare_pods, read_env
from webhook.team import Team

TOKEN = "automountServiceAccountToken"
PRESERVED_ANNOTATIONS = (ELASTIC_JOB, DESIRED_SIZE, SURPLUS_OF)
"""Annotations that the user's own file does not have, or that must stay as the pods have them.
`kubectl replace` must not remove them."""


def prepare_new(job: Json, team: Team) -> None:
    """Sets the Job to its smallest size, notes the desired one, and configures its pods."""
    desired_size = get_desired_size(job, None)
    smallest = sizes.parse(get_annotation(job, SIZES))[0]
    _set_size(job, (smallest, smallest), desired_size)
    count_delays_per_index(ensure_dict(job, "spec"))
    _prepare(job, _choose_env(job, team))
    _withhold_token(get_dict(job, "spec", "template", "spec"))


def prepare_updated(job: Json, old: Json) -> None:
    """Keeps the size of `old`, notes a changed number as the desired size, and restores what the
    user's file lacks."""
    env = read_env(old) if is_prepared(old) else None
    if env is None:
        return
    _restore_annotations(job, old)
    if get_counts(job) != get_counts(old):
        _set_size(job, get_counts(old), get_desired_size(job, old))
    _prepare(job, env)
    _restore_after_replace(job, old)


# --- the Job --------------------------------------------------------------------------------------
def _set_size(job: Json, counts: tuple[int | None, int | None], desired_size: int | None) -> None:
    """Writes the numbers that the job keeps (only the scheduler resizes) and the desired size."""
    spec = ensure_dict(job, "spec")
    spec["parallelism"] = counts[0]
    spec["completions"] = counts[1]
    ensure_dict(job, "metadata", "annotations")[DESIRED_SIZE] = str(desired_size)


def _restore_annotations(job: Json, old: Json) -> None:
    for name in PRESERVED_ANNOTATIONS:
        value = get_annotation(old, name)
        if value and not get_annotation(job, name):
            ensure_dict(job, "metadata", "annotations")[name] = value
    # only the scheduler writes it: without it a job would grow again at once
    annotations = ensure_dict(job, "metadata", "annotations")
    annotations.pop(SHRUNK_AT, None)
    if shrunk_at := get_annotation(old, SHRUNK_AT):
        annotations[SHRUNK_AT] = shrunk_at


def _restore_after_replace(job: Json, old: Json) -> None:
    """Restores what Kubernetes and Kueue added to the object that `kubectl replace` overwrites.

    A replacement is recognised by a missing pod label: the Job controller needs it, and no file has
    it. A template that the user changed stays changed, and the API server refuses it as immutable.
    """
    template = get_dict(job, "spec", "template")
    old_template = get_dict(old, "spec", "template")
    if not _lost_job_label(template, old_template):
        return
    template["metadata"] = _merge(
        get_dict(template, "metadata"), get_dict(old_template, "metadata")
    )
    for name in ("labels", "annotations"):
        _merge_field(template["metadata"], get_dict(old_template, "metadata"), name)
    pod = get_dict(template, "spec")
    old_pod = get_dict(old_template, "spec")
    _merge_field(pod, old_pod, "nodeSelector")
    if TOKEN in old_pod:
        pod.setdefault(TOKEN, old_pod[TOKEN])
    for name in ("tolerations", "schedulingGates"):
        if items := _merge_lists(get_dicts(pod, name), get_dicts(old_pod, name)):
            pod[name] = items
    spec = get_dict(job, "spec")
    old_spec = get_dict(old, "spec")
    for name in ("selector", "suspend", "backoffLimitPerIndex"):
        if name in old_spec:
            spec[name] = copied(old_spec[name])


def _withhold_token(pod: Json) -> None:
    """Training needs no access to the API server, unless its user says so."""
    if "serviceAccountName" not in pod:
        pod.setdefault(TOKEN, False)


def _lost_job_label(template: Json, old_template: Json) -> bool:
    labels = get_dict(template, "metadata", "labels")
    old_labels = get_dict(old_template, "metadata", "labels")
    return POD_JOB_UID in old_labels and POD_JOB_UID not in labels


def _merge(fields: Json, old_fields: Json) -> Json:
    """The old fields, overwritten by the new ones."""
    return copied(old_fields) | fields


def _merge_field(value: Json, old_value: Json, name: str) -> None:
    if merged := _merge(get_dict(value, name), get_dict(old_value, name)):
        value[name] = merged


def _merge_lists(items: list[Json], old_items: list[Json]) -> list[Json]:
    """The new items, then the old ones that are not among them."""
    known = {_as_text(item) for item in items}
    return items + [item for item in old_items if _as_text(item) not in known]


def _as_text(item: Json) -> str:
    return json.dumps(item, sort_keys=True)


# --- the settings of its pods ---------------------------------------------------------------------
def _choose_env(job: Json, team: Team) -> InjectedEnv:
    """The settings of a new job."""
    allowed = sizes.parse(get_annotation(job, SIZES))
    return choose_env(job, allowed, job_grace_s(job, team), team, of_surplus(job))


def _prepare(job: Json, env: InjectedEnv) -> None:
    """Adds everything that Kueue and the runtime need."""
    ensure_dict(job, "metadata", "annotations")[ELASTIC_JOB] = "true"
    prepare_pods(job, env)
