"""What we add to an elastic Job: its first size, its desired size, and what its pods need."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

from cede.api import sizes
from cede.api.names import (
    CONTROL_SECRET,
    DESIRED_SIZE,
    ELASTIC_JOB,
    ELASTIC_POD,
    GRACE,
    PEERS_SERVICE,
    POD_JOB_NAME,
    POD_JOB_UID,
    SHRUNK_AT,
    SIZES,
)
from cede.api.objects import Json
from elastic_runtime import contract
from webhook.admission import Team, annotation, entries, inside, is_accelerator, table
from webhook.elastic_rules import desired_size_of, grace_seconds, is_prepared, numbers

VOLUME = "cede-control"
KEPT = (ELASTIC_JOB, DESIRED_SIZE, SHRUNK_AT)
"""Annotations that a file of the user's own does not have, and that must outlive `kubectl replace`
of it."""


@dataclass(frozen=True)
class Settings:
    """What the pods of one job are told. Fixed when it is created: a Job's template cannot
    change."""

    container: str
    # ascending, comma-separated
    sizes: str
    # per pod
    ranks: str
    grace_s: str


def prepare_new(job: Json, team: Team) -> None:
    """The Job starts at its smallest size, and its pods are told all that the runtime needs."""
    _note_desired_size(
        job, desired_size_of(job, None), (sizes.parse(annotation(job, SIZES))[0],) * 2
    )
    _prepare(job, _first_settings(job, team))


def prepare_again(job: Json, old: Json) -> None:
    """The Job has what it had: a number that a person has changed is a desired size, and what their file
    lacks is put back."""
    if settings := _settings_of(old):
        _keep_annotations(job, old)
        if numbers(job) != numbers(old):
            _note_desired_size(job, desired_size_of(job, old), numbers(old))
        _prepare(job, settings)
        _put_back(job, old)


# --- the object -----------------------------------------------------------------------------------
def _note_desired_size(
    job: Json, desired_size: int | None, now: tuple[int | None, int | None]
) -> None:
    """What the user wants becomes the desired size; what the job has now stays: only the scheduler
    resizes."""
    spec = inside(job, "spec")
    for name, value in zip(("parallelism", "completions"), now, strict=True):
        spec[name] = value
    inside(job, "metadata", "annotations")[DESIRED_SIZE] = str(desired_size)


def _keep_annotations(job: Json, old: Json) -> None:
    for name in KEPT:
        if annotation(old, name) and not annotation(job, name):
            inside(job, "metadata", "annotations")[name] = annotation(old, name)


def _put_back(job: Json, old: Json) -> None:
    """After `kubectl replace`, the user's own file in place of the object: what Kubernetes and
    Kueue had added to it.

    Told from every other change by the label the Job controller needs, which no file has. What the
    user did change in
    the template stays changed, and the API server says that it is immutable.
    """
    template = table(job, "spec", "template")
    before = table(old, "spec", "template")
    if POD_JOB_UID in table(template, "metadata", "labels") or POD_JOB_UID not in table(
        before, "metadata", "labels"
    ):
        return
    spec = table(job, "spec")
    pod = table(template, "spec")
    pod_before = table(before, "spec")
    template["metadata"] = _filled(table(template, "metadata"), table(before, "metadata"))
    for name in ("labels", "annotations"):
        if filled := _filled(table(template, "metadata", name), table(before, "metadata", name)):
            template["metadata"][name] = filled
    if filled := _filled(table(pod, "nodeSelector"), table(pod_before, "nodeSelector")):
        pod["nodeSelector"] = filled
    for name in ("tolerations", "schedulingGates"):
        mine = entries(pod, name)
        known = {_as_text(item) for item in mine}
        if merged := mine + [
            item for item in entries(pod_before, name) if _as_text(item) not in known
        ]:
            pod[name] = merged
    for name in ("selector", "suspend"):
        if name in table(old, "spec"):
            spec[name] = deepcopy(old["spec"][name])


def _as_text(item: Json) -> str:
    return json.dumps(item, sort_keys=True)


def _filled(mine: Json, before: Json) -> Json:
    return deepcopy(before) | mine


# --- its pods -------------------------------------------------------------------------------------
def _first_settings(job: Json, team: Team) -> Settings:
    containers = entries(table(job, "spec", "template", "spec"), "containers")
    chosen = next((each for each in containers if _accelerators(each, team)), containers[0])
    grace_s = (
        min(grace_seconds(text), team.max_grace_s)
        if (text := annotation(job, GRACE))
        else team.grace_s
    )
    return Settings(
        container=str(chosen.get("name", "")),
        sizes=",".join(map(str, sizes.parse(annotation(job, SIZES)))),
        ranks=str(_accelerators(chosen, team) or 1),
        grace_s=str(grace_s),
    )


def _settings_of(old: Json) -> Settings | None:
    """What the pods were told when the job was created. The policy may say something else by now;
    the template cannot."""
    if not is_prepared(old):
        return None
    for container in entries(table(old, "spec", "template", "spec"), "containers"):
        told = {
            str(each.get("name")): str(each.get("value", "")) for each in entries(container, "env")
        }
        if contract.SIZES_ENV in told:
            ranks, grace_s = (
                told.get(name, "") for name in (contract.RANKS_ENV, contract.GRACE_ENV)
            )
            name = str(container.get("name", ""))
            allowed = told[contract.SIZES_ENV]
            return Settings(
                name,
                allowed,
                ranks if _is_count(ranks) else "1",
                grace_s if _is_count(grace_s) else "0",
            )
    return None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 9


def _accelerators(container: Json, team: Team) -> int:
    """How many accelerators, or partitions of one, the container asks for."""
    resources = table(container, "resources")
    asked: Mapping[str, object] = table(resources, "requests") | table(resources, "limits")
    ours = (n for name, n in asked.items() if is_accelerator(name, team))
    return sum(int(text) for n in ours if (text := str(n)).isdecimal() and len(text) < 6)


def _prepare(job: Json, settings: Settings) -> None:
    """Everything Kueue and the runtime need, and nothing of the user's but the names that are
    ours."""
    inside(job, "metadata", "annotations")[ELASTIC_JOB] = "true"
    spec = inside(job, "spec")
    spec["podFailurePolicy"] = _failure_policy(table(spec, "podFailurePolicy"), settings.container)
    # the only one Kubernetes allows beside a podFailurePolicy
    spec["podReplacementPolicy"] = "Failed"
    inside(spec, "template", "metadata", "labels")[ELASTIC_POD] = "true"
    pod = inside(spec, "template", "spec")
    pod["subdomain"] = PEERS_SERVICE
    own_grace = pod.get("terminationGracePeriodSeconds", 30)
    pod["terminationGracePeriodSeconds"] = max(
        own_grace if isinstance(own_grace, int) else 30, int(settings.grace_s)
    )
    # readable by whoever the image runs as
    secret = {"secretName": CONTROL_SECRET, "defaultMode": 0o444}
    pod["volumes"] = [
        *_but(entries(pod, "volumes"), "name", {VOLUME}),
        {"name": VOLUME, "secret": secret},
    ]
    for container in entries(pod, "containers"):
        if container.get("name", "") == settings.container:
            mount = {"name": VOLUME, "mountPath": contract.KEY_MOUNT, "readOnly": True}
            mounts = _but(entries(container, "volumeMounts"), "mountPath", {contract.KEY_MOUNT})
            container["volumeMounts"] = [*_but(mounts, "name", {VOLUME}), mount]
            # ours first: the user's own variables may refer to them
            env = environment(settings)
            container["env"] = env + _but(
                entries(container, "env"), "name", {each["name"] for each in env}
            )


def environment(settings: Settings) -> list[Json]:
    """The runtime's settings; what differs from pod to pod comes through the downward API."""
    fields = {
        contract.JOB_ENV: f"metadata.labels['{POD_JOB_NAME}']",
        contract.JOB_UID_ENV: f"metadata.labels['{POD_JOB_UID}']",
        contract.NAMESPACE_ENV: "metadata.namespace",
        contract.POD_IP_ENV: "status.podIP",
    }
    values = {
        contract.PEERS_ENV: PEERS_SERVICE,
        contract.SIZES_ENV: settings.sizes,
        contract.RANKS_ENV: settings.ranks,
        contract.GRACE_ENV: settings.grace_s,
        contract.PORT_ENV: str(contract.PORT),
        contract.KEY_FILE_ENV: contract.KEY_FILE,
    }
    return [
        *(
            {"name": n, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
            for n, path in fields.items()
        ),
        *({"name": name, "value": value} for name, value in values.items()),
    ]


def _failure_policy(own: Json, container: str) -> Json:
    """The user's rules after ours: a rank that left on request, or a pod that was moved, is no
    failure."""
    left = {"containerName": container, "operator": "In", "values": [contract.LEFT]}
    ours: list[Json] = [
        {"action": "Ignore", "onExitCodes": left},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    theirs = (
        {name: value for name, value in rule.items() if value} for rule in entries(own, "rules")
    )
    return {**own, "rules": ours + [rule for rule in theirs if rule not in ours]}


def _but(items: list[Json], name: str, taken: set[str]) -> list[Json]:
    return [item for item in items if str(item.get(name)) not in taken]
