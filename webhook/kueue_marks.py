"""PURE. Marks by which Kueue counts pods as those of a Workload that is not theirs: labels and
annotations that only Kueue and MultiKueue set."""

from collections.abc import Iterator

from cede.api.names import MULTIKUEUE_ORIGIN, POD_GROUP, PREBUILT_WORKLOAD, SUSPENDING_PARENT
from cede.api.objects import Json
from webhook.json_fields import get_dict, get_group_kind
from webhook.kinds import (
    SERVING,
    STATEFUL_SET,
    get_pod_templates,
    is_controlled_pod,
    is_controller_account,
)
from webhook.team import Team

STATEFUL_SET_PARENT = "statefulset"
"""What Kueue writes on the pods of a StatefulSet (pkg/controller/jobs/statefulset)."""
MAX_SHOWN = 40
"""Characters of a user's text in a message."""


def mark_complaints(job: Json, user: str, team: Team) -> Iterator[str]:
    """By each of these a member had pods that ran without quota."""
    if is_controlled_pod(job) or is_controller_account(user, team.controller_namespaces):
        return
    yield from _prebuilt_complaints(job)
    # also an empty one: Kueue asks only whether there is one
    if MULTIKUEUE_ORIGIN in get_dict(job, "metadata", "labels"):
        yield (
            f"metadata.labels[{MULTIKUEUE_ORIGIN}] is written by MultiKueue only: remove the label"
        )
    if get_group_kind(job) in SERVING:
        yield from _group_complaints(job)
    if get_group_kind(job) == STATEFUL_SET:
        yield from _parent_complaints(job)


def _prebuilt_complaints(job: Json) -> Iterator[str]:
    """Kueue would take the Workload of a server for that of this job, and end it where they differ:
    the pods of the server would run on without quota (pkg/controller/jobframework/reconciler.go,
    ensureOneWorkload). Kueue itself sets the name: on pods of its servers, and with MultiKueue."""
    # a pod is its own template
    for path, part in {"": job, **dict(get_pod_templates(job))}.items():
        for field in _fields_with(PREBUILT_WORKLOAD, path, part):
            yield (
                f"{field} names the Workload of another job, which is not supported: remove it, "
                f"and Kueue makes one for this job"
            )


def _group_complaints(job: Json) -> Iterator[str]:
    """Kueue reserves for each pod of a group what the first of its role asks for, and tells roles
    apart by an annotation of the pods or by 32 bits of a hash (pkg/controller/jobs/pod)."""
    for path, template in get_pod_templates(job):
        for field in _fields_with(POD_GROUP, path, template):
            yield (
                f"{field} puts the pods into a group, which Kueue does not count pod by pod: "
                f"remove it"
            )


def _parent_complaints(job: Json) -> Iterator[str]:
    """Kueue would not check a change of such a StatefulSet, and not count its pods again. An empty
    annotation names another controller, too (managedByAnotherFramework)."""
    for path, template in get_pod_templates(job):
        annotations = get_dict(template, "metadata", "annotations")
        parent = str(annotations.get(SUSPENDING_PARENT, STATEFUL_SET_PARENT))
        if parent != STATEFUL_SET_PARENT:
            yield (
                f"{path}.metadata.annotations[{SUSPENDING_PARENT}] is {parent[:MAX_SHOWN]!r}, by "
                f"which Kueue would leave the StatefulSet to another controller: remove it"
            )


def _fields_with(name: str, path: str, part: Json) -> Iterator[str]:
    """The paths of the label and the annotation of this name that the part has."""
    for place in ("labels", "annotations"):
        if name in get_dict(part, "metadata", place):
            field_path = f"{path}.metadata.{place}".removeprefix(".")
            yield f"{field_path}[{name}]"
