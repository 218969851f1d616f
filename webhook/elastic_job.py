"""PURE. Reads an elastic Job: whether it is one, its size, and the size that its user wants."""

from cede.api import sizes
from cede.api.names import DESIRED_SIZE, ELASTIC_JOB, ELASTIC_POD, SIZES
from cede.api.objects import Json
from webhook.json_fields import get_annotation, get_dict, get_group_kind
from webhook.kinds import JOB


def is_elastic(job: Json | None) -> bool:
    """True for a batch/v1 Job with the annotation cede.dev/sizes."""
    return (
        job is not None
        and get_group_kind(job) == JOB
        and SIZES in get_dict(job, "metadata", "annotations")
    )


def is_prepared(job: Json | None) -> bool:
    """True for an elastic Job that already has our defaults: its pods carry our label."""
    pod_labels = get_dict(job, "spec", "template", "metadata", "labels")
    return (
        is_elastic(job)
        and ELASTIC_JOB in get_dict(job, "metadata", "annotations")
        and pod_labels.get(ELASTIC_POD) == "true"
    )


def get_counts(job: Json) -> tuple[int | None, int | None]:
    """Parallelism and completions; None for one that is not a whole number."""
    spec = get_dict(job, "spec")
    return as_count(spec.get("parallelism", 1)), as_count(spec.get("completions"))


def as_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_desired_size(job: Json, old: Json | None) -> int | None:
    """The size that the user wants, or None when the job's two numbers contradict each other.

    A new job states it with its numbers. In an update, the number that changed states it, so a
    patch of `parallelism` alone is enough. Without a change it is the size noted before.
    """
    parallelism, completions = get_counts(job)
    noted = sizes.parse_one(get_annotation(job, DESIRED_SIZE) or get_annotation(old, DESIRED_SIZE))
    if old is None:
        # the YAML of an existing job, created again: its numbers are not what its user wrote
        if noted is not None and is_prepared(job):
            return noted
        return parallelism if parallelism == completions else None
    pairs = zip((parallelism, completions), get_counts(old), strict=True)
    changed = {new for new, previous in pairs if new != previous}
    if not changed:
        return parallelism if noted is None else noted
    return changed.pop() if len(changed) == 1 else None
