"""What a job must say: object → complaints, in the words of its user's own YAML."""

from collections.abc import Iterator

from cede.api.names import GRACE, LOCAL_QUEUE, PRIORITY_CLASS, QUEUE_NAME, SIZES
from cede.api.objects import Json
from webhook.admission import Asked, Team, kind_of, table
from webhook.elastic_rules import complaints_of_change, complaints_of_job
from webhook.kinds import (
    JOB,
    claims_a_controller,
    concerns_us,
    is_anothers_pod,
    places_of,
    templates,
)
from webhook.node_fit import too_large


def complaints(asked: Asked) -> list[str]:
    """Everything that is wrong, at once; empty when all is well.

    A change is held to account for what it makes wrong, not for what was so before: a policy that
    has changed since
    must not keep Kueue from starting a job.
    """
    if claims_a_controller(asked):
        return [
            (
                "metadata.ownerReferences says that a controller made this, which only a "
                "controller "
                "may say: remove it"
            )
        ]
    if not concerns_us(asked):
        return []
    found = list(_complaints(asked.object, asked.old, asked.team))
    if asked.old is None:
        return found
    before = set(_complaints(asked.old, None, asked.team))
    return [complaint for complaint in found if complaint not in before] + list(
        complaints_of_change(asked.object, asked.old)
    )


def _complaints(job: Json, old: Json | None, team: Team) -> Iterator[str]:
    yield from _priority(job, team)
    yield from _queue(job, team)
    yield from _pods_priority(job)
    if is_anothers_pod(job):
        # what else is in it, its maker decides
        return
    yield from too_large(job, team)
    if kind_of(job) == JOB:
        yield from complaints_of_job(job, old)
        return
    for name in (SIZES, GRACE):
        if name in table(job, "metadata", "annotations"):
            yield (
                f"metadata.annotations[{name}] is for a batch/v1 Job: remove it from this "
                f"{kind_of(job)[1]}"
            )


def _priority(job: Json, team: Team) -> Iterator[str]:
    """Kueue itself accepts an unknown class, and then never admits the job, without a word."""
    for where, name in places_of(job, PRIORITY_CLASS) if team.classes else ():
        if name not in team.classes:
            yield (
                f"{where} is {name!r}, which is no priority class here: use {_either(team.allowed)}"
            )
        elif name not in team.allowed:
            yield (
                f"{where} is {name!r}, above what team {team.name} may use: use "
                f"{_either(team.allowed)}"
            )


def _pods_priority(job: Json) -> Iterator[str]:
    """Where no class is named Kueue goes by the pods' own, and those of the cluster itself are
    above every team's."""
    for where, pods in templates(job):
        if (name := str(table(pods, "spec").get("priorityClassName", ""))).startswith("system-"):
            yield (
                f"{where}.spec.priorityClassName is {name!r}, which is for the cluster's own "
                f"pods: remove it"
            )


def _queue(job: Json, team: Team) -> Iterator[str]:
    own = team.queues | {LOCAL_QUEUE}
    for where, name in places_of(job, QUEUE_NAME):
        if name not in own:
            yield (
                f"{where} is {name!r}, which is no queue of team {team.name}: use "
                f"{_either(sorted(own))}, or remove the label"
            )


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1] if names else "")))
