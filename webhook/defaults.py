"""What we add for a job: object → object as it should be → JSON patch."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

from cede.api import sizes
from cede.api.names import (
    CONTROL_SECRET,
    ELASTIC_JOB,
    ELASTIC_POD,
    GRACE,
    LOCAL_QUEUE,
    PEERS_SERVICE,
    POD_JOB_NAME,
    POD_JOB_UID,
    PRIORITY_CLASS,
    QUEUE_NAME,
    SHRUNK_AT,
    SIZES,
    WISH,
)
from cede.api.objects import Json
from elastic_runtime import contract
from webhook.rules import (
    Asked,
    Team,
    annotation,
    concerns_us,
    entries,
    grace_seconds,
    is_elastic,
    is_prepared,
    label,
    numbers,
    table,
    wish_of,
)

VOLUME = "cede-control"
KEPT = (ELASTIC_JOB, WISH, SHRUNK_AT)
"""Annotations that a file of the user's own does not have, and that must outlive `kubectl replace` of it."""


@dataclass(frozen=True)
class Settings:
    """What the pods of one job are told. Fixed when it is created: a Job's template cannot change."""

    container: str
    sizes: str  # ascending, comma-separated
    ranks: str  # per pod
    grace_s: str


def defaulted(asked: Asked) -> Json:
    """The object as it should be; equal to what was asked where nothing is to be added. Doing it twice changes nothing.

    Only for what has no complaints.
    """
    if not concerns_us(asked):
        return asked.object
    job = deepcopy(asked.object)
    _give_labels(job, asked)
    if is_elastic(job) and asked.old is None:
        _note_wish(job, wish_of(job, None), (sizes.parse(annotation(job, SIZES))[0],) * 2)
        _prepare(job, _first_settings(job, asked.team))
    elif is_elastic(job) and asked.old is not None and (settings := _settings_of(asked.old)):
        _keep_annotations(job, asked.old)
        if numbers(job) != numbers(asked.old):
            _note_wish(job, wish_of(job, asked.old), numbers(asked.old))
        _prepare(job, settings)
        _put_back(job, asked.old)
    return job


def patch(before: object, after: object, path: str = "") -> list[Json]:
    """The JSON patch (RFC 6902) that turns one into the other."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[Json] = []
        for name in before.keys() | after.keys():
            inner = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
            if name not in after:
                found.append({"op": "remove", "path": inner})
            elif name not in before:
                found.append({"op": "add", "path": inner, "value": after[name]})
            else:
                found += patch(before[name], after[name], inner)
        return sorted(found, key=lambda operation: str(operation["path"]))
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [op for i, pair in enumerate(zip(before, after, strict=True)) for op in patch(*pair, f"{path}/{i}")]
    return [] if before == after and type(before) is type(after) else [{"op": "replace", "path": path, "value": after}]


# --- every kind -------------------------------------------------------------------------------------------------------
def _give_labels(job: Json, asked: Asked) -> None:
    """Queue and priority. Later only what the job had is put back: Kueue allows neither to be added to a running one."""
    new = {QUEUE_NAME: LOCAL_QUEUE, PRIORITY_CLASS: _default_class(asked.team)}
    for name, default in new.items():
        value = default if asked.old is None else label(asked.old, name)
        if value and not label(job, name):
            _inside(job, "metadata", "labels")[name] = value


def _default_class(team: Team) -> str:
    """The policy's default, or the highest below it that the team may use."""
    allowed, weight = team.allowed, team.classes.get(team.default_class, 0)
    if not team.default_class or team.default_class in allowed:
        return team.default_class
    return next((name for name in allowed if team.classes[name] <= weight), "")


# --- elastic Jobs: the object -----------------------------------------------------------------------------------------
def _note_wish(job: Json, wish: int | None, now: tuple[int | None, int | None]) -> None:
    """What the user wants becomes the wish; what the job has now stays: only the scheduler resizes."""
    spec = _inside(job, "spec")
    for name, value in zip(("parallelism", "completions"), now, strict=True):
        spec[name] = value
    _inside(job, "metadata", "annotations")[WISH] = str(wish)


def _keep_annotations(job: Json, old: Json) -> None:
    for name in KEPT:
        if annotation(old, name) and not annotation(job, name):
            _inside(job, "metadata", "annotations")[name] = annotation(old, name)


def _put_back(job: Json, old: Json) -> None:
    """After `kubectl replace`, the user's own file in place of the object: what Kubernetes and Kueue had added to it.

    Told from every other change by the label the Job controller needs, which no file has. What the user did change in
    the template stays changed, and the API server says that it is immutable.
    """
    template, before = table(job, "spec", "template"), table(old, "spec", "template")
    if POD_JOB_UID in table(template, "metadata", "labels") or POD_JOB_UID not in table(before, "metadata", "labels"):
        return
    spec, pod, pod_before = table(job, "spec"), table(template, "spec"), table(before, "spec")
    template["metadata"] = _filled(table(template, "metadata"), table(before, "metadata"))
    for name in ("labels", "annotations"):
        if filled := _filled(table(template, "metadata", name), table(before, "metadata", name)):
            template["metadata"][name] = filled
    if filled := _filled(table(pod, "nodeSelector"), table(pod_before, "nodeSelector")):
        pod["nodeSelector"] = filled
    for name in ("tolerations", "schedulingGates"):
        mine = entries(pod, name)
        if merged := mine + [item for item in entries(pod_before, name) if item not in mine]:
            pod[name] = merged
    for name in ("selector", "suspend"):
        if name in table(old, "spec"):
            spec[name] = deepcopy(old["spec"][name])


def _filled(mine: Json, before: Json) -> Json:
    return deepcopy(before) | mine


# --- elastic Jobs: the pods -------------------------------------------------------------------------------------------
def _first_settings(job: Json, team: Team) -> Settings:
    containers = entries(table(job, "spec", "template", "spec"), "containers")
    chosen = next((each for each in containers if _accelerators(each, team)), containers[0])
    grace_s = min(grace_seconds(text), team.max_grace_s) if (text := annotation(job, GRACE)) else team.grace_s
    return Settings(
        container=str(chosen.get("name", "")),
        sizes=",".join(map(str, sizes.parse(annotation(job, SIZES)))),
        ranks=str(_accelerators(chosen, team) or 1),
        grace_s=str(grace_s),
    )


def _settings_of(old: Json) -> Settings | None:
    """What the pods were told when the job was created. The policy may say something else by now; the template cannot."""
    if not is_prepared(old):
        return None
    for container in entries(table(old, "spec", "template", "spec"), "containers"):
        told = {str(each.get("name")): str(each.get("value", "")) for each in entries(container, "env")}
        if contract.SIZES_ENV in told:
            ranks, grace_s = told.get(contract.RANKS_ENV, "1"), told.get(contract.GRACE_ENV, "0")
            return Settings(str(container.get("name", "")), told[contract.SIZES_ENV], ranks, grace_s)
    return None


def _accelerators(container: Json, team: Team) -> int:
    """How many accelerators, or partitions of one, the container asks for."""
    resources = table(container, "resources")
    asked: Mapping[str, object] = table(resources, "requests") | table(resources, "limits")
    ours = (n for name, n in asked.items() if name in team.accelerators or name.startswith("nvidia.com/mig-"))
    return sum(int(text) for n in ours if (text := str(n)).isdecimal() and len(text) < 6)


def _prepare(job: Json, settings: Settings) -> None:
    """Everything Kueue and the runtime need, and nothing of the user's but the names that are ours."""
    _inside(job, "metadata", "annotations")[ELASTIC_JOB] = "true"
    spec = _inside(job, "spec")
    spec["podFailurePolicy"] = _failure_policy(table(spec, "podFailurePolicy"), settings.container)
    spec["podReplacementPolicy"] = "Failed"  # the only one Kubernetes allows beside a podFailurePolicy
    _inside(spec, "template", "metadata", "labels")[ELASTIC_POD] = "true"
    pod = _inside(spec, "template", "spec")
    pod["subdomain"] = PEERS_SERVICE
    own_grace = pod.get("terminationGracePeriodSeconds", 30)
    pod["terminationGracePeriodSeconds"] = max(own_grace if isinstance(own_grace, int) else 30, int(settings.grace_s))
    secret = {"secretName": CONTROL_SECRET, "defaultMode": 0o444}  # readable by whoever the image runs as
    pod["volumes"] = [*_but(entries(pod, "volumes"), "name", {VOLUME}), {"name": VOLUME, "secret": secret}]
    for container in entries(pod, "containers"):
        if container.get("name", "") == settings.container:
            mount = {"name": VOLUME, "mountPath": contract.KEY_MOUNT, "readOnly": True}
            mounts = _but(entries(container, "volumeMounts"), "mountPath", {contract.KEY_MOUNT})
            container["volumeMounts"] = [*_but(mounts, "name", {VOLUME}), mount]
            env = environment(settings)  # ours first: the user's own variables may refer to them
            container["env"] = env + _but(entries(container, "env"), "name", {each["name"] for each in env})


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
        *({"name": n, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}} for n, path in fields.items()),
        *({"name": name, "value": value} for name, value in values.items()),
    ]


def _failure_policy(own: Json, container: str) -> Json:
    """The user's rules after ours: a rank that left on request, or a pod that was moved, is no failure."""
    left = {"containerName": container, "operator": "In", "values": [contract.LEFT]}
    ours: list[Json] = [
        {"action": "Ignore", "onExitCodes": left},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    theirs = ({name: value for name, value in rule.items() if value} for rule in entries(own, "rules"))
    return {**own, "rules": ours + [rule for rule in theirs if rule not in ours]}


def _but(items: list[Json], name: str, taken: set[str]) -> list[Json]:
    return [item for item in items if item.get(name) not in taken]


def _inside(value: Json, *path: str) -> Json:
    """The mapping at `path` of `value`, made where there is none."""
    for step in path:
        inner = value.get(step)
        if not isinstance(inner, dict):
            inner = value[step] = {}
        value = inner
    return value
