"""What a job must say: object → complaints, in the words of its user's own YAML."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cede.api import sizes
from cede.api.names import (
    ELASTIC_JOB,
    ELASTIC_POD,
    GPU,
    GRACE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    SCHEDULER,
    SIZES,
    SYSTEM_NAMESPACE,
    WISH,
)
from cede.api.objects import Json

SCHEDULER_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{SCHEDULER}"
"""The only one whose change of parallelism is a resize and not a wish."""

KINDS = frozenset({
    ("batch", "Job"),
    ("jobset.x-k8s.io", "JobSet"),
    ("trainer.kubeflow.org", "TrainJob"),
    ("kubeflow.org", "PyTorchJob"),
    ("kubeflow.org", "JAXJob"),
    ("kubeflow.org", "TFJob"),
    ("kubeflow.org", "XGBoostJob"),
    ("kubeflow.org", "PaddleJob"),
    ("kubeflow.org", "MPIJob"),
    ("ray.io", "RayJob"),
    ("ray.io", "RayCluster"),
    ("ray.io", "RayService"),
    ("workload.codeflare.dev", "AppWrapper"),
    ("sparkoperator.k8s.io", "SparkApplication"),
})  # fmt: skip
"""(group, kind) that Kueue queues as a whole. What one of these owns is queued with its owner and left alone."""

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
_GRACE = re.compile(r"([1-9]\d{0,6})(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Team:
    """What a namespace's team may use, as the admin has said it; empty where the admin has said nothing."""

    name: str = ""
    classes: Mapping[str, int] = field(default_factory=dict)  # priority class → weight
    default_class: str = ""
    ceiling: str = ""  # the highest class allowed
    queues: frozenset[str] = frozenset()  # names of its LocalQueues
    accelerators: frozenset[str] = frozenset({GPU})  # resource names
    grace_s: int = 60
    max_grace_s: int = 600

    @property
    def allowed(self) -> list[str]:
        """The classes its jobs may name, the most important first."""
        top = self.classes.get(self.ceiling, max(self.classes.values(), default=0))
        return sorted((name for name in self.classes if self.classes[name] <= top), key=lambda n: (-self.classes[n], n))


@dataclass(frozen=True)
class Asked:
    """One admission: who asks, for which team, for what. `old` is None when the object is new."""

    object: Json
    old: Json | None = None
    user: str = ""
    team: Team = field(default_factory=Team)


# --- reading an object of any shape -----------------------------------------------------------------------------------
def table(value: object, *path: str) -> Json:
    """The mapping at `path`; an empty one where there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def entries(value: Json, name: str) -> list[Json]:
    """The mappings in the list called `name`; none where there is no list."""
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def annotation(job: Json | None, name: str) -> str:
    return str(table(job, "metadata", "annotations").get(name, ""))


def label(job: Json | None, name: str) -> str:
    return str(table(job, "metadata", "labels").get(name, ""))


def kind_of(job: Json) -> tuple[str, str]:
    """(group, kind)."""
    return str(job.get("apiVersion", "")).rpartition("/")[0], str(job.get("kind", ""))


def numbers(job: Json) -> tuple[int | None, int | None]:
    """Parallelism and completions, where they are whole numbers."""
    spec = table(job, "spec")
    return _whole(spec.get("parallelism", 1)), _whole(spec.get("completions"))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_elastic(job: Json | None) -> bool:
    return job is not None and kind_of(job) == ("batch", "Job") and SIZES in table(job, "metadata", "annotations")


def is_prepared(job: Json | None) -> bool:
    """Whether an elastic Job has been through our defaults: its pods carry our label."""
    labels = table(job, "spec", "template", "metadata", "labels")
    return is_elastic(job) and ELASTIC_JOB in table(job, "metadata", "annotations") and labels.get(ELASTIC_POD) == "true"


def concerns_us(asked: Asked) -> bool:
    """Not what a queued object owns, not what is on its way out, and not the scheduler's own resizes."""
    meta = table(asked.object, "metadata")
    owners = [kind_of(owner) for owner in entries(meta, "ownerReferences") if owner.get("controller") is True]
    leaving = bool(meta.get("deletionTimestamp"))
    return asked.user != SCHEDULER_USER and not leaving and not any(owner in KINDS for owner in owners)


def grace_seconds(text: str) -> int:
    """`90s`, `5m`, `1h` → seconds. Raises ValueError that says how to write it."""
    if not (found := _GRACE.fullmatch(text.strip())):
        raise ValueError(f"{text!r} is no length of time: write it like 90s, 5m or 1h")
    return int(found[1]) * _SECONDS[found[2]]


def wish_of(job: Json, old: Json | None) -> int | None:
    """The size its user asks for, or None when the two numbers contradict each other.

    A new job says it by its numbers. In a change it is the number that was changed, so that a patch of `parallelism`
    alone is understood; where neither was, it is the wish as noted.
    """
    parallelism, completions = numbers(job)
    noted = annotation(job, WISH) or annotation(old, WISH)
    note = int(noted) if noted.isdecimal() and len(noted) < 9 else None
    if old is None:
        return note if note is not None and is_prepared(job) else parallelism if parallelism == completions else None
    changed = {new for new, was in zip((parallelism, completions), numbers(old), strict=True) if new != was}
    if not changed:
        return note if note is not None else parallelism
    return changed.pop() if len(changed) == 1 else None


# --- the rules --------------------------------------------------------------------------------------------------------
def complaints(asked: Asked) -> list[str]:
    """Everything that is wrong, at once; empty when all is well.

    A change is held to account for what it makes wrong, not for what was so before: a policy that has changed since
    must not keep Kueue from starting a job.
    """
    if not concerns_us(asked):
        return []
    found = list(_complaints(asked.object, asked.old, asked.team))
    if asked.old is None:
        return found
    before = set(_complaints(asked.old, None, asked.team))
    return [complaint for complaint in found if complaint not in before] + list(_changes(asked.object, asked.old))


def _complaints(job: Json, old: Json | None, team: Team) -> Iterator[str]:
    yield from _priority(job, team)
    yield from _queue(job, team)
    if kind_of(job) != ("batch", "Job"):
        for name in (SIZES, GRACE):
            if annotation(job, name):
                yield f"metadata.annotations[{name}] is for a batch/v1 Job: remove it from this {kind_of(job)[1]}"
        return
    if numbers(job)[1] == 0:
        yield "spec.completions is 0, which is a job that is complete before it starts: write at least 1"
    if (text := annotation(job, GRACE)) or GRACE in table(job, "metadata", "annotations"):
        try:
            grace_seconds(text)
        except ValueError as error:
            yield f"metadata.annotations[{GRACE}]: {error}"
    if is_elastic(job):
        yield from _elastic(job)
        yield from _sizes(job, old)


def _priority(job: Json, team: Team) -> Iterator[str]:
    """Kueue itself accepts an unknown class, and then never admits the job, without a word."""
    name, where = label(job, PRIORITY_CLASS), f"metadata.labels[{PRIORITY_CLASS}]"
    if not name or not team.classes:
        return
    if name not in team.classes:
        yield f"{where} is {name!r}, which is no priority class here: use {_either(team.allowed)}"
    elif name not in team.allowed:
        yield f"{where} is {name!r}, above what team {team.name} may use: use {_either(team.allowed)}"


def _queue(job: Json, team: Team) -> Iterator[str]:
    name, own = label(job, QUEUE_NAME), team.queues | {LOCAL_QUEUE}
    if name and name not in own:
        yield (
            f"metadata.labels[{QUEUE_NAME}] is {name!r}, which is no queue of team {team.name}: "
            f"use {_either(sorted(own))}, or remove the label"
        )


def _elastic(job: Json) -> Iterator[str]:
    spec, because = table(job, "spec"), f"a job with {SIZES}"
    if (mode := spec.get("completionMode", "NonIndexed")) != "Indexed":
        yield f"spec.completionMode is {mode}: {because} needs Indexed"
    pod = table(spec, "template", "spec")
    if (restart := pod.get("restartPolicy", "Always")) != "Never":
        yield f"spec.template.spec.restartPolicy is {restart}: {because} needs Never"
    if not entries(pod, "containers"):
        yield f"spec.template.spec.containers is empty: {because} needs a container to train in"
    if annotation(job, MIN_PARALLELISM):
        yield f"metadata.annotations[{MIN_PARALLELISM}] does not go with {SIZES}: remove it, the sizes say as much"


def _sizes(job: Json, old: Json | None) -> Iterator[str]:
    parallelism, completions = numbers(job)
    wish = wish_of(job, old)
    if wish is None:
        number = "not set" if completions is None else completions
        yield f"spec.parallelism is {parallelism} but spec.completions is {number}: a job with {SIZES} needs both alike"
    try:
        allowed = sizes.parse(annotation(job, SIZES))
    except ValueError as error:
        yield f"metadata.annotations[{SIZES}]: {error}"
        return
    for name, value in (("parallelism", parallelism), ("completions", completions)) if wish is None else (("", wish),):
        if value is not None and value not in allowed and completions != 0:  # completions: 0 has its own complaint
            where = f"spec.{name}" if name else "spec.parallelism" if value in (parallelism, completions) else WISH
            yield f"{where} is {value}, which is not among its sizes {_few(allowed)}: take one of them, or change {SIZES}"


def _changes(job: Json, old: Json) -> Iterator[str]:
    """What may not become something else."""
    if is_elastic(job) and not is_elastic(old):
        yield f"metadata.annotations[{SIZES}] cannot be added later: delete the job and create it again with it"
    if is_prepared(old) and not is_elastic(job):
        yield f"metadata.annotations[{SIZES}] cannot be removed from an elastic job: delete the job and create it again"
    if not (is_elastic(job) and is_prepared(old)) or annotation(job, SIZES) == annotation(old, SIZES):
        return
    try:
        allowed = sizes.parse(annotation(job, SIZES))
    except ValueError:
        return  # said above
    if (now := numbers(old)[0]) is not None and now not in allowed:
        yield f"metadata.annotations[{SIZES}] leaves out {now}, which is what the job has now: keep {now} among the sizes"


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1] if names else "")))


def _few(allowed: tuple[int, ...]) -> str:
    """A long list in the middle of a sentence helps nobody."""
    return sizes.in_words(allowed) if len(allowed) <= 16 else f"{sizes.in_words(allowed[:3])} … {allowed[-1]}"
