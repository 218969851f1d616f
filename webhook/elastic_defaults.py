"""PURE. The defaults of an elastic Job: its first size, desired size, and pod settings."""

import json
from copy import deepcopy
from dataclasses import dataclass

from cede.api import sizes
from cede.api.names import (
    CONTROL_SECRET,
    DESIRED_SIZE,
    ELASTIC_JOB,
    ELASTIC_POD,
    PEERS_SERVICE,
    POD_JOB_NAME,
    POD_JOB_UID,
    SHRUNK_AT,
    SIZES,
)
from cede.api.objects import Json
from elastic_runtime import contract
from webhook.elastic_job import get_counts, get_desired_size, is_prepared
from webhook.failure_policy import count_delays_per_index, make_failure_policy, read_exit_codes
from webhook.gentle_stop import job_grace_s
from webhook.json_fields import ensure_dict, get_annotation, get_dict, get_dicts
from webhook.team import Team
from webhook.training_container import count_accelerators, find_training_container

VOLUME = "cede-control"
TOKEN = "automountServiceAccountToken"
PRESERVED_ANNOTATIONS = (ELASTIC_JOB, DESIRED_SIZE)
"""Annotations that the user's own file does not have. `kubectl replace` must not remove them."""


@dataclass(frozen=True)
class InjectedEnv:
    """The settings in the environment of a job's pods, and the exit codes that it ignores. They
    never change, because Kubernetes does not let a Job's template change."""

    # the name of the container that trains
    container: str
    # ascending, comma-separated
    sizes: str
    # per pod
    ranks: str
    grace_s: str
    ignored_exit_codes: tuple[int, ...] = contract.IGNORED_EXIT_CODES


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
    env = _read_env(old)
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
            spec[name] = deepcopy(old_spec[name])


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
    return deepcopy(old_fields) | fields


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
    container = find_training_container(get_dict(job, "spec", "template", "spec"), team)
    return InjectedEnv(
        container=str(container.get("name", "")),
        sizes=",".join(map(str, sizes.parse(get_annotation(job, SIZES)))),
        ranks=str(count_accelerators(container, team) or 1),
        grace_s=str(job_grace_s(job, team)),
    )


def _read_env(old: Json) -> InjectedEnv | None:
    """The settings that the pods got when the job was created; None for a job without ours.

    The policy may have changed since, but the template cannot.
    """
    if not is_prepared(old):
        return None
    for container in get_dicts(get_dict(old, "spec", "template", "spec"), "containers"):
        variables = {
            str(variable.get("name")): str(variable.get("value", ""))
            for variable in get_dicts(container, "env")
        }
        if contract.SIZES_ENV in variables:
            return InjectedEnv(
                container=str(container.get("name", "")),
                sizes=variables[contract.SIZES_ENV],
                ranks=_number_or(variables.get(contract.RANKS_ENV, ""), "1"),
                grace_s=_number_or(variables.get(contract.GRACE_ENV, ""), "0"),
                ignored_exit_codes=tuple(read_exit_codes(old, str(container.get("name", "")))),
            )
    return None


def _number_or(text: str, default: str) -> str:
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return text if is_number else default


# --- its pods -------------------------------------------------------------------------------------
def _prepare(job: Json, env: InjectedEnv) -> None:
    """Adds everything that Kueue and the runtime need. Of the user's own fields only those with our
    names are overwritten."""
    ensure_dict(job, "metadata", "annotations")[ELASTIC_JOB] = "true"
    spec = ensure_dict(job, "spec")
    own_policy = get_dict(spec, "podFailurePolicy")
    spec["podFailurePolicy"] = make_failure_policy(
        own_policy, env.container, list(env.ignored_exit_codes)
    )
    # the only value that Kubernetes allows together with a podFailurePolicy
    spec["podReplacementPolicy"] = "Failed"
    ensure_dict(spec, "template", "metadata", "labels")[ELASTIC_POD] = "true"
    pod = ensure_dict(spec, "template", "spec")
    pod["subdomain"] = PEERS_SERVICE
    own_grace_s = pod.get("terminationGracePeriodSeconds", 30)
    pod["terminationGracePeriodSeconds"] = max(
        own_grace_s if isinstance(own_grace_s, int) else 30, int(env.grace_s)
    )
    # readable for every user that the image may run as
    secret = {"secretName": CONTROL_SECRET, "defaultMode": 0o444}
    own_volumes = _without(get_dicts(pod, "volumes"), "name", {VOLUME})
    pod["volumes"] = [*own_volumes, {"name": VOLUME, "secret": secret}]
    for container in get_dicts(pod, "containers"):
        if container.get("name", "") == env.container:
            _prepare_container(container, env)


def _prepare_container(container: Json, env: InjectedEnv) -> None:
    mount = {"name": VOLUME, "mountPath": contract.KEY_MOUNT, "readOnly": True}
    own_mounts = get_dicts(container, "volumeMounts")
    own_mounts = _without(own_mounts, "mountPath", {contract.KEY_MOUNT})
    own_mounts = _without(own_mounts, "name", {VOLUME})
    container["volumeMounts"] = [*own_mounts, mount]
    # our variables come first, so that the user's can refer to them
    variables = make_variables(env)
    our_names = {variable["name"] for variable in variables}
    container["env"] = variables + _without(get_dicts(container, "env"), "name", our_names)


def make_variables(env: InjectedEnv) -> list[Json]:
    """The environment variables for the runtime. Those that differ between pods come from the
    downward API."""
    fields = {
        contract.JOB_ENV: f"metadata.labels['{POD_JOB_NAME}']",
        contract.JOB_UID_ENV: f"metadata.labels['{POD_JOB_UID}']",
        contract.NAMESPACE_ENV: "metadata.namespace",
        contract.POD_IP_ENV: "status.podIP",
    }
    values = {
        contract.PEERS_ENV: PEERS_SERVICE,
        contract.SIZES_ENV: env.sizes,
        contract.RANKS_ENV: env.ranks,
        contract.GRACE_ENV: env.grace_s,
        contract.PORT_ENV: str(contract.PORT),
        contract.KEY_FILE_ENV: contract.KEY_FILE,
    }
    variables: list[Json] = []
    for name, path in fields.items():
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
        variables.append({"name": name, "valueFrom": source})
    for name, value in values.items():
        variables.append({"name": name, "value": value})
    return variables


def _without(items: list[Json], key: str, taken: set[str]) -> list[Json]:
    """The items whose `key` is not one of the `taken` names."""
    return [item for item in items if str(item.get(key)) not in taken]
