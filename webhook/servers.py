"""PURE. Deployments and LeaderWorkerSets with allowed sizes: what is wrong with them, and who may
change their replicas.

One that has ceded replicas keeps the number that the scheduler gave it. Another number is
noted as the one that it gets back.
"""

from collections.abc import Iterator

from cede.api import sizes
from cede.api.names import CEDED, DESIRED_SIZE, SERVER, SHRUNK_AT, SIZES, WHOLE
from cede.api.objects import Json
from webhook.elastic_job import as_count
from webhook.json_fields import (
    ensure_dict,
    get_annotation,
    get_dict,
    get_group_kind,
    get_label,
)
from webhook.kinds import DEPLOYMENT, LEADER_WORKER_SET

REPLICAS = "spec.replicas"


def is_server(job: Json | None) -> bool:
    """True for one with the annotation cede.dev/sizes."""
    return (
        job is not None
        and get_group_kind(job) in (DEPLOYMENT, LEADER_WORKER_SET)
        and SIZES in get_dict(job, "metadata", "annotations")
    )


def server_complaints(job: Json) -> Iterator[str]:
    """Replicas of a server leave one by one, so there are no gaps between its sizes. One that is
    scaled to 0 is off, whatever its sizes are."""
    path = f"metadata.annotations[{SIZES}]"
    try:
        allowed = sizes.parse(get_annotation(job, SIZES))
    except ValueError as error:
        yield f"{path}: {error}"
        return
    low, high = allowed[0], allowed[-1]
    _, kind = get_group_kind(job)
    if len(allowed) != high - low + 1:
        yield f"{path} has gaps, but a {kind} gives replicas one by one: write {low}-{high}"
    for field, count in _numbers(job):
        if _is_ceded(job) and field == REPLICAS and 0 < count < low:
            yield (
                f"{path} begins at {low}, but the {kind} has ceded all but {count} of its "
                f"replicas: let it begin at {count} until it has them back, or first set the label "
                f"{SERVER}: {WHOLE}, with which it asks for all of them at once"
            )
        elif count and not low <= count <= high:
            yield (
                f"{field} is {count}, which is not one of the sizes {low} to {high}: use one of "
                f"them, or change {SIZES}"
            )


def _numbers(job: Json) -> Iterator[tuple[str, int]]:
    """The fields that say how many replicas it has, and gets back if it has ceded some."""
    yield REPLICAS, get_replicas(job)
    if _is_ceded(job):
        noted = sizes.parse_one(get_annotation(job, DESIRED_SIZE)) or 0
        yield f"the desired number of replicas (metadata.annotations[{DESIRED_SIZE}])", noted


def _is_ceded(job: Json) -> bool:
    return get_label(job, SERVER) == CEDED


def get_replicas(job: Json) -> int:
    count = as_count(get_dict(job, "spec").get("replicas"))
    return 1 if count is None else count


def note_replicas(job: Json, old: Json | None) -> None:
    """Sets the label by which the scheduler finds the server, and its notes. Only the scheduler
    writes that a server has ceded. Whoever removes the sizes, or writes that it is whole, gives it
    all its replicas back: they wait for quota like any others."""
    labels = ensure_dict(job, "metadata", "labels")
    notes = ensure_dict(job, "metadata", "annotations")
    desired = _desired(job, old)
    is_released = not is_server(job) or labels.get(SERVER) == WHOLE
    labels.pop(SERVER, None)
    for name in (DESIRED_SIZE, SHRUNK_AT):
        notes.pop(name, None)
    if is_server(job):
        labels[SERVER] = WHOLE
    if old is None or desired is None:
        return
    present = get_replicas(old)
    ensure_dict(job, "spec")["replicas"] = desired
    if not is_released and desired > present:
        job["spec"]["replicas"] = present
        labels[SERVER] = CEDED
        notes[DESIRED_SIZE] = str(desired)
        if shrunk_at := get_annotation(old, SHRUNK_AT):
            notes[SHRUNK_AT] = shrunk_at


def _desired(job: Json, old: Json | None) -> int | None:
    """The number that the user wants of a server that has ceded: a changed number of replicas, or
    else a changed note; None for one that has not."""
    if old is None or not _is_ceded(old):
        return None
    if get_replicas(job) != get_replicas(old):
        return get_replicas(job)
    note = get_annotation(job, DESIRED_SIZE)
    if get_label(job, SERVER) != WHOLE:
        # the user's own file does not have it
        note = note or get_annotation(old, DESIRED_SIZE)
    return sizes.parse_one(note)
