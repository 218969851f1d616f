"""PURE. Finalizers of jobs: by one a job is deleted with its pods, by any other without them."""

from collections.abc import Iterator

from cede.api.objects import Json
from webhook.admission import AdmissionRequest
from webhook.json_fields import ensure_dict, get_dict, get_group_kind, get_list
from webhook.kinds import APP_WRAPPER, JOB, POD, get_wrapped_objects, is_controller_account

FOREGROUND_DELETION = "foregroundDeletion"
OF_GARBAGE_COLLECTOR = (FOREGROUND_DELETION, "orphan")
"""The finalizers that say what the garbage collector does. An object has one of them at most."""
MAX_SHOWN = 120
"""Characters of a user's text in a message."""


def delete_with_pods(job: Json, old: Json | None) -> None:
    """By the default of batch/v1 the API server leaves the pods of a Job that is deleted, outside
    of every quota. With this finalizer a client that names no propagationPolicy deletes them, too;
    a client that names one decides (k8s.io/apiserver: pkg/registry/generic/registry/store.go,
    deletionFinalizersForGarbageCollection). An update with the user's file keeps it. Decision 30.
    """
    had_it = FOREGROUND_DELETION in get_list(get_dict(old, "metadata"), "finalizers")
    if get_group_kind(job) != JOB or not (old is None or had_it):
        return
    finalizers = get_list(get_dict(job, "metadata"), "finalizers")
    if not any(finalizer in OF_GARBAGE_COLLECTOR for finalizer in finalizers):
        ensure_dict(job, "metadata")["finalizers"] = [*finalizers, FOREGROUND_DELETION]


def finalizer_complaints(request: AdmissionRequest) -> Iterator[str]:
    """With a finalizer of its user a job that is deleted stays: Kueue frees its quota, and the
    garbage collector leaves its pods, because their owner is there. Those that the job had pass.
    Kueue's webhook adds one to each pod, which ends all the same."""
    if get_group_kind(request.object) == POD or is_controller_account(
        request.user, request.team.controller_namespaces
    ):
        return
    known = {FOREGROUND_DELETION}
    for _, names in _finalizers(request.old or {}):
        known |= names.keys()
    for path, names in _finalizers(request.object):
        text = ", ".join(name for name in names if name not in known)
        if text:
            shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
            yield (
                f"{path}.finalizers has {shown}: once the job is deleted, its pods would run "
                f"outside of every quota: remove it. An operator that sets finalizers of its own "
                f"needs its namespace in spec.security.controllerNamespaces of the ClusterPolicy"
            )


def _finalizers(job: Json) -> Iterator[tuple[str, dict[str, None]]]:
    """(field path of the metadata, names without repetition) of the job, and of each object in an
    AppWrapper, whose controller creates them with all their metadata."""
    parts = [("metadata", job)]
    if get_group_kind(job) == APP_WRAPPER:
        wrapped = get_wrapped_objects(get_dict(job, "spec"))
        parts += [(f"{path}.metadata", part) for path, part in wrapped]
    for path, part in parts:
        names = get_list(get_dict(part, "metadata"), "finalizers")
        yield path, dict.fromkeys(name for name in names if isinstance(name, str))
