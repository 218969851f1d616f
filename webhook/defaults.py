"""What we add for a job: object → object as it should be → JSON patch."""

from copy import deepcopy

from cede.api.names import LOCAL_QUEUE, PRIORITY_CLASS, QUEUE_NAME
from cede.api.objects import Json
from webhook.admission import Asked, Team, inside, kind_of, label, table
from webhook.elastic_defaults import prepare_again, prepare_new
from webhook.elastic_rules import is_elastic
from webhook.kinds import SERVING, concerns_us, is_anothers_pod, said


def defaulted(asked: Asked) -> Json:
    """The object as it should be; equal to what was asked where nothing is to be added. Doing it
    twice changes nothing.

    Only for what has no complaints.
    """
    if not concerns_us(asked) or is_anothers_pod(asked.object):
        return asked.object
    job = deepcopy(asked.object)
    _give_labels(job, asked)
    if is_elastic(job) and asked.old is None:
        prepare_new(job, asked.team)
    elif is_elastic(job) and asked.old is not None:
        prepare_again(job, asked.old)
    return job


def patch(before: object, after: object, path: str = "") -> list[Json]:
    """The JSON patch (RFC 6902) that turns one into the other."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[Json] = []
        for name in before.keys() | after.keys():
            inner = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
            if name not in after:
                found.append({"op": "remove", "path": inner})
            elif name not in before:
                found.append({"op": "add", "path": inner, "value": after[name]})
            else:
                found += patch(before[name], after[name], inner)
        return sorted(found, key=lambda operation: str(operation["path"]))
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            op
            for i, pair in enumerate(zip(before, after, strict=True))
            for op in patch(*pair, f"{path}/{i}")
        ]
    return (
        []
        if before == after and type(before) is type(after)
        else [{"op": "replace", "path": path, "value": after}]
    )


# --- every kind -----------------------------------------------------------------------------------
def _give_labels(job: Json, asked: Asked) -> None:
    """Queue and priority. Later only what the job had is put back: Kueue allows neither to be added
    to a running one."""
    new = {QUEUE_NAME: LOCAL_QUEUE, PRIORITY_CLASS: _default_class(asked.team)}
    for name, default in new.items():
        value = said(job, name) or (
            default if asked.old is None or _is_adopted(asked.old) else label(asked.old, name)
        )
        if value and not label(job, name):
            inside(job, "metadata", "labels")[name] = value


def _is_adopted(old: Json) -> bool:
    """Whether it serves, has never been queued, and nothing of it is ready: Kueue queues it now,
    and so takes a priority."""
    return (
        kind_of(old) in SERVING
        and not label(old, QUEUE_NAME)
        and not table(old, "status").get("readyReplicas")
    )


def _default_class(team: Team) -> str:
    """The policy's default, or the highest below it that the team may use."""
    allowed = team.allowed
    weight = team.classes.get(team.default_class, 0)
    if not team.default_class or team.default_class in allowed:
        return team.default_class
    return next((name for name in allowed if team.classes[name] <= weight), "")
