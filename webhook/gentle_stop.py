"""PURE. The time to save that pods of every kind have when they are stopped."""

from collections.abc import Iterator

from cede.api import durations
from cede.api.names import AFTER_PREEMPTION, GRACE, REQUEUE, RUNTIME, SAVE_TIME, SIZES, STOP
from cede.api.objects import Json
from webhook.elastic_job import is_elastic
from webhook.json_fields import (
    copied,
    ensure_dict,
    get_annotation,
    get_dict,
    get_dicts,
    get_group_kind,
    get_list,
)
from webhook.kinds import (
    DEPLOYMENT,
    SERVING,
    TRAIN_JOB,
    PodTemplate,
    get_pod_specs,
    get_pod_templates,
)
from webhook.team import Team

KUBERNETES_GRACE_S = 30
"""What a pod has that does not say how long it needs."""
TORCHRUN_TIMEOUT = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
"""Whole seconds after which torchrun kills workers that it told to end; 30 without it (torch:
distributed/launcher/api.py, LaunchConfig)."""
TORCHRUN_RESERVE_S = 5
"""torchrun has this time to end after its workers."""
MAX_SHOWN = 40
"""Characters of a user's text in a message."""
RUNTIME_PATCH = "cede.dev/webhook"
"""Our entry among the patches of a TrainJob's runtime."""


# --- what is added --------------------------------------------------------------------------------
def give_time_to_save(job: Json, old: Json | None, team: Team) -> None:
    """Raises the grace period of the job's pods to that of the job, and sets torchrun's just below
    it. Neither is lowered. A grace period of 30 s counts as Kubernetes' default; any other that is
    longer, and torchrun's in `env`, stay as the user chose them. An update only gets back what it
    had: the pods of most kinds cannot be changed any more. A new grace of a kind whose pods can be
    changed reaches them, and torchrun."""
    if get_group_kind(job) == TRAIN_JOB:
        _hand_to_job_set(job, old)
    old_templates = dict(get_pod_templates(old)) if old else {}
    for path, template in get_pod_templates(job):
        if old is None:
            _copy_after_preemption(job, template)
        if old is None or _has_new_grace(job, old):
            grace_s = pod_grace_s(job, template, team)
            if path in old_templates:
                _renew_timeout(template, old_templates[path], grace_s)
            _raise(template, grace_s)
        elif path in old_templates:
            _restore(template, old_templates[path])


def _has_new_grace(job: Json, old: Json) -> bool:
    """Whether an update changes the grace of a kind whose pods can be changed."""
    return get_group_kind(job) in SERVING and get_annotation(job, GRACE) != get_annotation(
        old, GRACE
    )


def _raise(template: Json, grace_s: int) -> None:
    pod = get_dict(template, "spec")
    if not pod:
        return
    if grace_s != _own_grace_s(pod):
        pod["terminationGracePeriodSeconds"] = grace_s
    for container in get_dicts(pod, "containers"):
        _add_variable(container, _timeout_variable(grace_s))


def _timeout_variable(grace_s: int) -> Json:
    return {"name": TORCHRUN_TIMEOUT, "value": str(max(1, grace_s - TORCHRUN_RESERVE_S))}


def _renew_timeout(template: Json, old_template: Json, grace_s: int) -> None:
    """Torchrun's time as we set it for the old grace period becomes that of the new one, at its
    place: another order would be a change of the pods."""
    ours = _timeout_variable(_own_grace_s(get_dict(old_template, "spec")))
    for container in get_dicts(get_dict(template, "spec"), "containers"):
        for variable in get_dicts(container, "env"):
            if variable == ours:
                variable.update(_timeout_variable(grace_s))


def _copy_after_preemption(job: Json, template: Json) -> None:
    """The scheduler reads it on the pods, which every kind has. An update cannot change it."""
    if text := get_annotation(job, AFTER_PREEMPTION):
        ensure_dict(template, "metadata", "annotations")[AFTER_PREEMPTION] = text


def _restore(template: Json, old_template: Json) -> None:
    pod = get_dict(template, "spec")
    old_pod = get_dict(old_template, "spec")
    if text := get_annotation(old_template, AFTER_PREEMPTION):
        ensure_dict(template, "metadata", "annotations")[AFTER_PREEMPTION] = text
    old_grace_s = _own_grace_s(old_pod)
    if old_grace_s > KUBERNETES_GRACE_S == _own_grace_s(pod):
        pod["terminationGracePeriodSeconds"] = old_grace_s
    old_containers = {str(item.get("name")): item for item in get_dicts(old_pod, "containers")}
    for container in get_dicts(pod, "containers"):
        old_container = old_containers.get(str(container.get("name")), {})
        for variable in get_dicts(old_container, "env"):
            if variable.get("name") == TORCHRUN_TIMEOUT:
                _add_variable(container, dict(variable))


def _add_variable(container: Json, variable: Json) -> None:
    """Behind the user's own, if none has the name. A list of another shape is left alone: the API
    server refuses it."""
    own = container.get("env") or []
    if not isinstance(own, list) or any(
        isinstance(item, dict) and item.get("name") == variable["name"] for item in own
    ):
        return
    container["env"] = [*own, variable]


def _hand_to_job_set(job: Json, old: Json | None) -> None:
    """A TrainJob has no pod template. Trainer gives the annotations of its patches to the JobSet
    that it makes, which is where the webhook finds them (Trainer: pkg/runtime/core/
    trainingruntime.go, newRuntimeInfo)."""
    forwarded = (GRACE, AFTER_PREEMPTION, RUNTIME, SIZES)
    notes = {name: get_annotation(job, name) for name in forwarded}
    notes = {name: text for name, text in notes.items() if text}
    template = {"metadata": {"annotations": notes}}
    ours: Json = {"manager": RUNTIME_PATCH, "trainingRuntimeSpec": {"template": template}}
    if old is not None:
        _restore_patch(job, old)
    elif notes:
        _insert_patch(job, ours, len(get_list(get_dict(job, "spec"), "runtimePatches")))


def _restore_patch(job: Json, old: Json) -> None:
    """To the same place: Trainer compares the lists with their order, and refuses a change unless
    the TrainJob is suspended (Trainer: pkg/runtime/framework/plugins/jobset/jobset.go)."""
    for place, patch in enumerate(get_list(get_dict(old, "spec"), "runtimePatches")):
        if isinstance(patch, dict) and patch.get("manager") == RUNTIME_PATCH:
            _insert_patch(job, copied(patch), place)


def _insert_patch(job: Json, patch: Json, place: int) -> None:
    """Unless there is one of ours. A list of another shape is left alone."""
    spec = ensure_dict(job, "spec")
    patches = spec.get("runtimePatches") or []
    if not isinstance(patches, list):
        return
    if any(item.get("manager") == RUNTIME_PATCH for item in get_dicts(spec, "runtimePatches")):
        return
    spec["runtimePatches"] = [*patches[:place], patch, *patches[place:]]


# --- how much time that is ------------------------------------------------------------------------
def pod_grace_s(job: Json, template: Json, team: Team) -> int:
    """What pods of this template get. The policy's default is for those that do not choose."""
    own_s = _own_grace_s(get_dict(template, "spec"))
    if own_s != KUBERNETES_GRACE_S and not get_annotation(job, GRACE):
        return own_s
    return max(own_s, job_grace_s(job, team))


def job_grace_s(job: Json, team: Team) -> int:
    """The grace of the job, or the policy's default. A grace that cannot be parsed, or that the
    policy does not allow, counts as what it allows."""
    requested_s = int(durations.parse_or_zero(get_annotation(job, GRACE)))
    return min(requested_s or team.grace_s, team.max_grace_s)


def _own_grace_s(pod: Json) -> int:
    own = pod.get("terminationGracePeriodSeconds")
    if isinstance(own, int) and not isinstance(own, bool):
        return own
    return KUBERNETES_GRACE_S


# --- what is refused ------------------------------------------------------------------------------
def time_complaints(job: Json, team: Team) -> Iterator[str]:
    """Durations that cannot be parsed, and a save that takes longer than the job would have."""
    is_valid = True
    for name in (GRACE, SAVE_TIME):
        if name in get_dict(job, "metadata", "annotations"):
            try:
                durations.parse(get_annotation(job, name))
            except ValueError as error:
                is_valid = False
                yield f"metadata.annotations[{name}]: {error}"
    save_s = durations.parse_or_zero(get_annotation(job, SAVE_TIME))
    grace_s = _shortest_s(job, team)
    if not is_valid or save_s <= grace_s:
        return
    cure = f"set metadata.annotations[{GRACE}] to at least {save_s:.0f}s"
    if save_s > team.max_grace_s:
        cure = f"the policy allows {team.max_grace_s} s at most, so it must save faster"
    yield (
        f"metadata.annotations[{SAVE_TIME}] is {get_annotation(job, SAVE_TIME)}, but the job has "
        f"{grace_s} s to save when it is stopped: {cure}"
    )


def _shortest_s(job: Json, team: Team) -> int:
    """The time that each of its pods has. An elastic job is asked, and has the grace of the job."""
    templates: list[PodTemplate] = [] if is_elastic(job) else list(get_pod_templates(job))
    graces = [pod_grace_s(job, template, team) for _, template in templates]
    return min(graces, default=job_grace_s(job, team))


def long_grace_complaints(job: Json, old: Json | None, team: Team) -> Iterator[str]:
    """Pods that say they need longer than the policy allows: while they are stopped, they hold
    accelerators whose quota Kueue has freed. What a pod of the job had passes, as Kubernetes'
    default and what we set, which is no more."""
    allowed_s = max(team.max_grace_s, KUBERNETES_GRACE_S)
    had_s = max((_own_grace_s(pod) for _, pod in get_pod_specs(old or {})), default=0)
    for path, pod in get_pod_specs(job):
        own_s = _own_grace_s(pod)
        if own_s > max(allowed_s, had_s):
            yield (
                f"{path}.terminationGracePeriodSeconds is {own_s}, but the policy allows "
                f"{allowed_s} s at most: lower it, or ask an admin to raise "
                f"spec.preemption.maxGraceSeconds of the ClusterPolicy"
            )


def after_preemption_complaints(job: Json, old: Json | None) -> Iterator[str]:
    """A word that means nothing, or comes too late."""
    path = f"metadata.annotations[{AFTER_PREEMPTION}]"
    text = get_annotation(job, AFTER_PREEMPTION)
    if AFTER_PREEMPTION in get_dict(job, "metadata", "annotations") and text not in (REQUEUE, STOP):
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        yield f"{path} is {shown!r}: use {REQUEUE} or {STOP}"
    if text == STOP and get_group_kind(job) == DEPLOYMENT:
        yield (
            f"{path} is {STOP}, but a Deployment makes new pods, which wait in its queue: remove "
            f"the annotation, or make it a Job"
        )
    if old is not None and text != get_annotation(old, AFTER_PREEMPTION):
        yield (
            f"{path} cannot be changed, because the pods have it: delete the "
            f"{get_group_kind(job)[1]} and create it again"
        )
