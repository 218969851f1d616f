"""What an elastic Job must say beyond what any job must."""

import re
from collections.abc import Iterator

from cede.api import sizes
from cede.api.names import DESIRED_SIZE, ELASTIC_JOB, ELASTIC_POD, GRACE, SIZES
from cede.api.objects import Json
from webhook.admission import annotation, entries, kind_of, table

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
# Kubernetes allows no more failure rules in a Job, and two of them are ours
RULES = 20
_GRACE = re.compile(r"([1-9]\d{0,6})(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


# --- what a Job is, and what its user wants -------------------------------------------------------
def numbers(job: Json) -> tuple[int | None, int | None]:
    """Parallelism and completions, where they are whole numbers."""
    spec = table(job, "spec")
    return _whole(spec.get("parallelism", 1)), _whole(spec.get("completions"))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_elastic(job: Json | None) -> bool:
    return (
        job is not None
        and kind_of(job) == ("batch", "Job")
        and SIZES in table(job, "metadata", "annotations")
    )


def is_prepared(job: Json | None) -> bool:
    """Whether an elastic Job has been through our defaults: its pods carry our label."""
    labels = table(job, "spec", "template", "metadata", "labels")
    return (
        is_elastic(job)
        and ELASTIC_JOB in table(job, "metadata", "annotations")
        and labels.get(ELASTIC_POD) == "true"
    )


def grace_seconds(text: str) -> int:
    """`90s`, `5m`, `1h` → seconds. Raises ValueError that says how to write it."""
    if not (found := _GRACE.fullmatch(text.strip())):
        raise ValueError(
            f"{text if len(text) <= 40 else text[:20] + '…'!r} is no length of time: write it "
            f"like 90s, 5m or 1h"
        )
    return int(found[1]) * _SECONDS[found[2]]


def desired_size_of(job: Json, old: Json | None) -> int | None:
    """The size its user asks for, or None when the two numbers contradict each other.

    A new job says it by its numbers. In a change it is the number that was changed, so that a patch
    of `parallelism`
    alone is understood; where neither was, it is the desired size as noted.
    """
    parallelism, completions = numbers(job)
    note = _noted(annotation(job, DESIRED_SIZE) or annotation(old, DESIRED_SIZE))
    if old is None:
        return (
            note
            if note is not None and is_prepared(job)
            else parallelism
            if parallelism == completions
            else None
        )
    changed = {
        new for new, was in zip((parallelism, completions), numbers(old), strict=True) if new != was
    }
    if not changed:
        return note if note is not None else parallelism
    return changed.pop() if len(changed) == 1 else None


def _noted(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else None


# --- the rules ------------------------------------------------------------------------------------
def complaints_of_job(job: Json, old: Json | None) -> Iterator[str]:
    """Of a batch/v1 Job, elastic or not."""
    if numbers(job)[1] == 0:
        yield (
            "spec.completions is 0, which is a job that is complete before it starts: write at "
            "least 1"
        )
    if (text := annotation(job, GRACE)) or GRACE in table(job, "metadata", "annotations"):
        try:
            grace_seconds(text)
        except ValueError as error:
            yield f"metadata.annotations[{GRACE}]: {error}"
    if is_elastic(job):
        yield from _elastic(job)
        yield from _sizes(job, old)


def _elastic(job: Json) -> Iterator[str]:
    spec = table(job, "spec")
    because = f"a job with {SIZES}"
    if (mode := spec.get("completionMode", "NonIndexed")) != "Indexed":
        yield f"spec.completionMode is {mode}: {because} needs Indexed"
    pod = table(spec, "template", "spec")
    if (restart := pod.get("restartPolicy", "Always")) != "Never":
        yield f"spec.template.spec.restartPolicy is {restart}: {because} needs Never"
    if not entries(pod, "containers"):
        yield f"spec.template.spec.containers is empty: {because} needs a container to train in"
    if annotation(job, MIN_PARALLELISM):
        yield (
            f"metadata.annotations[{MIN_PARALLELISM}] does not go with {SIZES}: remove it, the "
            f"sizes say as much"
        )
    rules = len(entries(table(spec, "podFailurePolicy"), "rules"))
    most = RULES if is_prepared(job) else RULES - 2
    if rules > most:
        yield f"spec.podFailurePolicy.rules has {rules} rules: {because} may have {most}"


def _sizes(job: Json, old: Json | None) -> Iterator[str]:
    parallelism, completions = numbers(job)
    desired_size = desired_size_of(job, old)
    if (noted := annotation(job, DESIRED_SIZE)) and old is not None and _noted(noted) is None:
        yield (
            f"metadata.annotations[{DESIRED_SIZE}] is {noted[:20]!r}, which is no size: remove it, or "
            f"write spec.parallelism"
        )
    if desired_size is None:
        number = "not set" if completions is None else completions
        yield (
            f"spec.parallelism is {parallelism} but spec.completions is {number}: a job with "
            f"{SIZES} needs both alike"
        )
    try:
        allowed = sizes.parse(annotation(job, SIZES))
    except ValueError as error:
        yield f"metadata.annotations[{SIZES}]: {error}"
        return
    yield from _counted(job, allowed[0])
    for name, value in (
        (("parallelism", parallelism), ("completions", completions))
        if desired_size is None
        else (("", desired_size),)
    ):
        # completions: 0 has its own complaint
        if value is not None and value not in allowed and completions != 0:
            where = (
                f"spec.{name}"
                if name
                else "spec.parallelism"
                if value in (parallelism, completions)
                else DESIRED_SIZE
            )
            yield (
                f"{where} is {value}, which is not among its sizes {_few(allowed)}: take one of "
                f"them, or change {SIZES}"
            )


def _counted(job: Json, smallest: int) -> Iterator[str]:
    """What counts the job's pods must hold for its smallest size: Kubernetes checks it at each."""
    spec = table(job, "spec")
    because = f"a job with {SIZES} {smallest} and more"
    if (failed := _whole(spec.get("maxFailedIndexes"))) is not None and failed > smallest:
        yield f"spec.maxFailedIndexes is {failed}: {because} may say {smallest} at most"
    for i, rule in enumerate(entries(table(spec, "successPolicy"), "rules")):
        where = f"spec.successPolicy.rules[{i}]"
        indexes = str(rule.get("succeededIndexes") or "")
        last = max((int(number) for number in re.findall(r"\d{1,9}", indexes)), default=0)
        if last >= smallest:
            yield (
                f"{where}.succeededIndexes names index {last}: {because} always has 0 to "
                f"{smallest - 1} only"
            )
        if (count := _whole(rule.get("succeededCount"))) is not None and count > smallest:
            yield f"{where}.succeededCount is {count}: {because} may say {smallest} at most"


def complaints_of_change(job: Json, old: Json) -> Iterator[str]:
    """What may not become something else."""
    if is_elastic(job) and not is_elastic(old):
        yield (
            f"metadata.annotations[{SIZES}] cannot be added later: delete the job and create it "
            f"again with it"
        )
    if is_prepared(old) and not is_elastic(job):
        yield (
            f"metadata.annotations[{SIZES}] cannot be removed from an elastic job: delete the "
            f"job and create it again"
        )
    if not (is_elastic(job) and is_prepared(old)) or annotation(job, SIZES) == annotation(
        old, SIZES
    ):
        return
    try:
        allowed = sizes.parse(annotation(job, SIZES))
    except ValueError:
        # said above
        return
    if (now := numbers(old)[0]) is not None and now not in allowed:
        yield (
            f"metadata.annotations[{SIZES}] leaves out {now}, which is what the job has now: "
            f"keep {now} among the sizes"
        )
    smallest = sizes.parse(annotation(old, SIZES))[0]
    if allowed[0] < smallest:
        yield (
            f"metadata.annotations[{SIZES}] begins with {allowed[0]}, and the job's pods were "
            f"told that {smallest} is the smallest: "
            f"keep {smallest}, or delete the job and create it again"
        )


def _few(allowed: tuple[int, ...]) -> str:
    """A long list in the middle of a sentence helps nobody."""
    return (
        sizes.describe(allowed)
        if len(allowed) <= 16
        else f"{sizes.describe(allowed[:3])} … {allowed[-1]}"
    )
