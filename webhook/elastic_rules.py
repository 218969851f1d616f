"""PURE. The rules for batch/v1 Jobs, most of them for elastic ones."""

import re
from collections.abc import Iterator

from cede.api import sizes
from cede.api.names import DESIRED_SIZE, SIZES, SURPLUS_OF
from cede.api.objects import Json
from webhook.elastic_job import as_count, get_counts, get_desired_size, is_elastic, is_prepared
from webhook.json_fields import get_annotation, get_dict, get_dicts

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
# Kubernetes' limit (batch/v1, PodFailurePolicy.rules)
MAX_FAILURE_RULES = 20
OWN_FAILURE_RULES = 2
# a longer list is shortened in messages
MAX_SIZES_SHOWN = 16
MAX_BASE_SHOWN = 160
"""Characters: two uids, a size, and a usual name."""


def job_complaints(job: Json, old: Json | None) -> Iterator[str]:
    """What is wrong with a batch/v1 Job, elastic or not."""
    if get_counts(job)[1] == 0:
        yield "spec.completions is 0, so the job would complete before it starts: set at least 1"
    if is_elastic(job):
        yield from _spec_complaints(job)
        yield from _size_complaints(job, old)


def _spec_complaints(job: Json) -> Iterator[str]:
    spec = get_dict(job, "spec")
    subject = f"a job with {SIZES}"
    if (mode := spec.get("completionMode", "NonIndexed")) != "Indexed":
        yield f"spec.completionMode is {mode}: {subject} needs Indexed"
    pod = get_dict(spec, "template", "spec")
    if (restart_policy := pod.get("restartPolicy", "Always")) != "Never":
        yield f"spec.template.spec.restartPolicy is {restart_policy}: {subject} needs Never"
    if not get_dicts(pod, "containers"):
        yield f"spec.template.spec.containers is empty: {subject} needs a container to train in"
    if get_annotation(job, MIN_PARALLELISM):
        yield (
            f"metadata.annotations[{MIN_PARALLELISM}] cannot be combined with {SIZES}: remove it, "
            f"the smallest size takes its place"
        )
    rule_count = len(get_dicts(get_dict(spec, "podFailurePolicy"), "rules"))
    limit = MAX_FAILURE_RULES if is_prepared(job) else MAX_FAILURE_RULES - OWN_FAILURE_RULES
    if rule_count > limit:
        yield (
            f"spec.podFailurePolicy.rules has {rule_count} rules: {subject} may have at most "
            f"{limit}, remove {rule_count - limit}"
        )


def _size_complaints(job: Json, old: Json | None) -> Iterator[str]:
    parallelism, completions = get_counts(job)
    desired_size = get_desired_size(job, old)
    note = get_annotation(job, DESIRED_SIZE)
    if note and old is not None and sizes.parse_one(note) is None:
        yield (
            f"metadata.annotations[{DESIRED_SIZE}] is {note[:20]!r}, which is not a number: "
            f"remove it and set spec.parallelism instead"
        )
    if desired_size is None:
        completions_text = "not set" if completions is None else completions
        yield (
            f"spec.parallelism is {parallelism} but spec.completions is {completions_text}: a job "
            f"with {SIZES} needs both to be equal"
        )
    try:
        allowed = sizes.parse(get_annotation(job, SIZES))
    except ValueError as error:
        yield f"metadata.annotations[{SIZES}]: {error}"
        return
    yield from _limit_complaints(job, allowed[0])
    # completions: 0 has its own complaint
    if completions == 0:
        return
    for path, size in _stated_sizes(job, desired_size):
        if size is not None and size not in allowed:
            yield (
                f"{path} is {size}, which is not one of the job's sizes {_shorten(allowed)}: use "
                f"one of them, or change {SIZES}"
            )


def _stated_sizes(job: Json, desired_size: int | None) -> list[tuple[str, int | None]]:
    """(field path, size) of each field with which the user stated a size."""
    parallelism, completions = get_counts(job)
    if desired_size is None:
        return [("spec.parallelism", parallelism), ("spec.completions", completions)]
    if desired_size in (parallelism, completions):
        return [("spec.parallelism", desired_size)]
    return [(f"metadata.annotations[{DESIRED_SIZE}]", desired_size)]


def _limit_complaints(job: Json, smallest: int) -> Iterator[str]:
    """Kubernetes checks limits on pods at every size, so they must hold at the smallest."""
    spec = get_dict(job, "spec")
    subject = f"a job whose smallest size is {smallest}"
    max_failed = as_count(spec.get("maxFailedIndexes"))
    if max_failed is not None and max_failed > smallest:
        yield f"spec.maxFailedIndexes is {max_failed}: {subject} may have at most {smallest}"
    # alpha since Kubernetes 1.37, which refuses a size below it
    gang = get_dict(spec, "scheduling", "schedulingPolicy", "gang")
    min_count = as_count(gang.get("minCount"))
    if min_count is not None and min_count > smallest:
        yield (
            f"spec.scheduling.schedulingPolicy.gang.minCount is {min_count}: {subject} may have at "
            f"most {smallest}"
        )
    for i, rule in enumerate(get_dicts(get_dict(spec, "successPolicy"), "rules")):
        path = f"spec.successPolicy.rules[{i}]"
        indexes = str(rule.get("succeededIndexes") or "")
        last = max((int(number) for number in re.findall(r"\d{1,9}", indexes)), default=0)
        if last >= smallest:
            yield (
                f"{path}.succeededIndexes contains {last}: {subject} may use only indexes 0 to "
                f"{smallest - 1}"
            )
        count = as_count(rule.get("succeededCount"))
        if count is not None and count > smallest:
            yield f"{path}.succeededCount is {count}: {subject} may have at most {smallest}"


def change_complaints(job: Json, old: Json) -> Iterator[str]:
    """What an update must not change."""
    if is_elastic(job) and not is_elastic(old):
        yield (
            f"metadata.annotations[{SIZES}] cannot be added to an existing job: delete the job and "
            f"create it again with the annotation"
        )
    if is_prepared(old) and not is_elastic(job):
        yield (
            f"metadata.annotations[{SIZES}] cannot be removed from an elastic job: delete the job "
            f"and create it again without the annotation"
        )
    if is_elastic(job) and is_prepared(old):
        yield from _changed_sizes_complaints(job, old)
        yield from _changed_base_complaints(job, old)


def _changed_base_complaints(job: Json, old: Json) -> Iterator[str]:
    """The pods know their base since they were made. One that is left out is restored."""
    base, previous = get_annotation(job, SURPLUS_OF), get_annotation(old, SURPLUS_OF)
    if not base or base == previous:
        return
    path = f"metadata.annotations[{SURPLUS_OF}]"
    shown, kept = (
        text if len(text) <= MAX_BASE_SHOWN else f"{text[:MAX_BASE_SHOWN]}…"
        for text in (base, previous)
    )
    if previous:
        yield (
            f"{path} is {shown!r}, but the pods belong to {kept!r}: keep that, or delete the "
            f"job and make another with `cede surplus`"
        )
    else:
        yield (
            f"{path} is {shown!r}, but a job cannot become a surplus: remove the annotation, and "
            f"make a surplus with `cede surplus`"
        )


def _changed_sizes_complaints(job: Json, old: Json) -> Iterator[str]:
    if get_annotation(job, SIZES) == get_annotation(old, SIZES):
        return
    allowed = _parse_sizes(job)
    previous = _parse_sizes(old)
    # _size_complaints reports sizes that cannot be parsed; those of `old` were changed while the
    # webhook did not answer
    if not allowed or not previous:
        return
    size = get_counts(old)[0]
    if size is not None and size not in allowed:
        yield (
            f"metadata.annotations[{SIZES}] does not contain {size}, the present size of the job: "
            f"add {size}"
        )
    lost = [option for option in previous if option < (size or 0) and option not in allowed]
    if lost:
        yield (
            f"metadata.annotations[{SIZES}] does not contain {_shorten(tuple(lost))}: a job keeps "
            f"the sizes to which it may shrink for the owners of its capacity. Add them, or delete "
            f"the job and create it again"
        )
    if allowed[0] < previous[0]:
        yield (
            f"metadata.annotations[{SIZES}] allows {allowed[0]}, but the job's pods were created "
            f"with the smallest size {previous[0]}: keep {previous[0]} as the smallest, or delete "
            f"the job and create it again"
        )


def _parse_sizes(job: Json) -> tuple[int, ...]:
    try:
        return sizes.parse(get_annotation(job, SIZES))
    except ValueError:
        return ()


def _shorten(allowed: tuple[int, ...]) -> str:
    if len(allowed) <= MAX_SIZES_SHOWN:
        return sizes.describe(allowed)
    return f"{sizes.describe(allowed[:3])} … {allowed[-1]}"
