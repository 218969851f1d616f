"""PURE. Gives pods the runtime from Cede's own image, so that theirs need not have it."""

from collections.abc import Iterator
from contextlib import suppress

from cede.api.names import (
    IMAGE,
    INJECT,
    RUNTIME,
    SIZES,
    SURPLUS_OF,
    SYSTEM_NAMESPACE,
    WEBHOOK,
    WRAP,
)
from cede.api.objects import Json
from elastic_runtime import contract
from webhook.command_wrap import wrap
from webhook.elastic_job import is_elastic
from webhook.json_fields import (
    copied,
    get_annotation,
    get_dict,
    get_dicts,
    get_group_kind,
    get_list,
)
from webhook.kinds import TRAIN_JOB, get_pod_templates
from webhook.team import Team
from webhook.training_container import count_accelerators, find_training_container

NAME = "cede-runtime"
"""Of the volume and of the init container that fills it."""
MOUNT = "/opt/cede"
MODULE = "elastic_runtime.agent.injection"
"""What the init container runs."""
PATH = "PYTHONPATH"
OWN_PATH = "CEDE_OWN_PYTHONPATH"
"""Has the user's PYTHONPATH if that comes from another object."""
SIZE_LIMIT = "64Mi"
USER = 65532
"""Of Cede's image: deploy/Dockerfile."""
MAX_SHOWN = 40
"""Characters of a user's text in a message."""
ANNOTATION = f"metadata.annotations[{RUNTIME}]"


def get_runtime(job: Json, team: Team) -> str:
    """`INJECT`, `WRAP` or `IMAGE`. The policy's default is for elastic jobs: only they need it. A
    surplus is made of pods that have the runtime of its base. That may be of an older version, and
    the agents of both are one job."""
    needs_it = is_elastic(job) and not get_annotation(job, SURPLUS_OF)
    default = INJECT if team.injects_runtime and needs_it else IMAGE
    return get_annotation(job, RUNTIME) or default


# --- what is added --------------------------------------------------------------------------------
def inject_runtime(job: Json, old: Json | None, team: Team) -> None:
    """Each pod template of a new job that asks for it has an init container that copies the
    runtime, and its training container finds it. An update only gets back what it had: the pods of
    most kinds cannot be changed any more. Idempotent."""
    old_templates = dict(get_pod_templates(old)) if old else {}
    is_wrapped = get_annotation(old or job, RUNTIME) == WRAP
    for path, template in get_pod_templates(job):
        pod = get_dict(template, "spec")
        if old is not None:
            _restore(pod, get_dict(old_templates.get(path), "spec"), is_wrapped, team)
        elif get_runtime(job, team) != IMAGE:
            container = find_training_container(pod, team)
            _inject(pod, container, _make_init_container(container, team), is_wrapped, team)


def _restore(pod: Json, old_pod: Json, is_wrapped: bool, team: Team) -> None:
    """Only if the old pod has all of it as it is added here. Otherwise an update by Kueue would
    change pods that cannot be changed, and the job would never start."""
    name = _trained_in(old_pod)
    init_container = copied(_find(old_pod, "initContainers", NAME))
    unchanged = copied(old_pod)
    _inject(unchanged, _find(unchanged, "containers", name), init_container, is_wrapped, team)
    if name and unchanged == old_pod:
        container = _find(pod, "containers", name) or find_training_container(pod, team)
        _inject(pod, container, init_container, is_wrapped, team)


def _find(pod: Json, field: str, name: str) -> Json:
    """The container of this name; empty if there is none."""
    return next((item for item in get_dicts(pod, field) if item.get("name") == name), {})


def _trained_in(old_pod: Json) -> str:
    """The name of the container that has the runtime."""
    for container in get_dicts(old_pod, "containers"):
        if any(mount.get("name") == NAME for mount in get_dicts(container, "volumeMounts")):
            return str(container.get("name"))
    return ""


def _inject(pod: Json, container: Json, init_container: Json, is_wrapped: bool, team: Team) -> None:
    if not container or not init_container:
        return
    _put(pod, "volumes", {"name": NAME, "emptyDir": {"sizeLimit": SIZE_LIMIT}}, "name")
    _put(pod, "initContainers", init_container, "name", is_first=True)
    mount = {"name": NAME, "mountPath": MOUNT, "readOnly": True}
    _put(container, "volumeMounts", mount, "mountPath")
    _prepend_path(container)
    # the last lines of a container that fails are in its status; its own message goes first
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if is_wrapped:
        _wrap(container, team)


def _put(value: Json, field: str, item: Json, key: str, *, is_first: bool = False) -> None:
    """The list has the item: in the place of one with its `key`, else as the first or the last. A
    list of another shape is left alone: the API server refuses it."""
    items = value.get(field) or []
    if not isinstance(items, list):
        return
    for place, other in enumerate(items):
        if isinstance(other, dict) and other.get(key) == item[key]:
            # with what the API server filled in
            value[field] = [*items[:place], other | item, *items[place + 1 :]]
            return
    value[field] = [item, *items] if is_first else [*items, item]


def _prepend_path(container: Json) -> None:
    """The runtime comes before all that the user's PYTHONPATH has. Kubernetes replaces `$(NAME)`
    in a value by a variable before it."""
    variables = get_list(container, "env")
    own = next((item for item in get_dicts(container, "env") if item.get("name") == PATH), {})
    if source := get_dict(own, "valueFrom"):
        place = variables.index(own)
        before = [item for item in variables[:place] if get_dict(item).get("name") != OWN_PATH]
        ours = [
            {"name": OWN_PATH, "valueFrom": source},
            {"name": PATH, "value": f"{MOUNT}:$({OWN_PATH})"},
        ]
        container["env"] = [*before, *ours, *variables[place + 1 :]]
        return
    text = str(own.get("value") or "")
    if MOUNT not in text.split(":"):
        text = f"{MOUNT}:{text}" if text else MOUNT
    _put(container, "env", {"name": PATH, "value": text}, "name")


def _make_init_container(container: Json, team: Team) -> Json:
    """Asks for what the container asks for that comes after it. So what the pod requests, its
    quality of service, and what quotas and limits of the namespace say of it stay as they were."""
    resources = {}
    for field in ("requests", "limits"):
        amounts = get_dict(container, "resources", field)
        if own := {name: amounts[name] for name in ("cpu", "memory") if name in amounts}:
            resources[field] = own
    return {
        "name": NAME,
        "image": team.runtime_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", MODULE, MOUNT, str(contract.VERSION)],
        "resources": resources,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": NAME, "mountPath": MOUNT}],
    }


def _wrap(container: Json, team: Team) -> None:
    """A command that cannot be rewritten stays: `runtime_complaints` refused it."""
    with suppress(ValueError):
        container["command"] = _wrapped(container, team)
        container.pop("args", None)


def _wrapped(container: Json, team: Team) -> list[str]:
    words = [str(word) for name in ("command", "args") for word in get_list(container, name)]
    return wrap(words if container.get("command") else [], count_accelerators(container, team) or 1)


# --- what is refused ------------------------------------------------------------------------------
def runtime_complaints(job: Json, old: Json | None, team: Team) -> Iterator[str]:
    """A word that means nothing, that comes too late, or that cannot be done."""
    text = get_annotation(job, RUNTIME)
    if RUNTIME in get_dict(job, "metadata", "annotations") and text not in (INJECT, WRAP, IMAGE):
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        yield f"{ANNOTATION} is {shown!r}: use {INJECT}, {WRAP} or {IMAGE}"
    elif old is None and get_runtime(job, team) != IMAGE:
        yield from _cannot_inject(job, team)
    if text == WRAP:
        yield from _cannot_wrap(job, team)
    if old is not None and text != get_annotation(old, RUNTIME):
        yield (
            f"{ANNOTATION} cannot be changed, because the pods have it: delete the "
            f"{get_group_kind(job)[1]} and create it again"
        )


def _cannot_inject(job: Json, team: Team) -> Iterator[str]:
    kind = get_group_kind(job)
    if kind != TRAIN_JOB and not list(get_pod_templates(job)):
        yield f"{ANNOTATION} is not supported on a {kind[1]}, which has no pod template: remove it"
    if not team.runtime_image:
        yield (
            f"the runtime is to come from Cede's own image ({ANNOTATION}, or the policy's "
            f"`runtime: Inject`), which the webhook did not find when it started: an admin checks "
            f"that Deployment {WEBHOOK} is in namespace {SYSTEM_NAMESPACE}, and restarts it"
        )


def _cannot_wrap(job: Json, team: Team) -> Iterator[str]:
    if not is_elastic(job):
        yield (
            f"{ANNOTATION} is {WRAP}, which is for elastic jobs: use {INJECT}, or put {SIZES} on "
            f"a batch/v1 Job"
        )
        return
    container = find_training_container(get_dict(job, "spec", "template", "spec"), team)
    try:
        _wrapped(container, team)
    except ValueError as error:
        yield f"spec.template.spec.containers[{container.get('name', '')}].command {error}"
