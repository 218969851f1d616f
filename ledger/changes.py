"""PURE. What the audit records: each change of a quota or of the policy, and each take-back."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from cede.api.allocation import ComputeAllocation
from cede.api.audit_chain import canonical
from cede.api.cession import Cession, Target
from cede.api.cession_status import TargetStatus
from cede.api.objects import Json
from cede.api.policy import ClusterPolicy

ObjectName = tuple[str, str]
"""(kind, name)."""
Recorded = ClusterPolicy | ComputeAllocation | Cession
DELETED = canonical({"deleted": True})


class ContentReader:
    """What there is to record of every object. Reads an object again only when it has changed."""

    def __init__(self) -> None:
        self._read: dict[ObjectName, tuple[Recorded, str]] = {}

    def read(self, objects: Iterable[Recorded]) -> dict[ObjectName, str]:
        """As canonical JSON."""
        present = {}
        for item in objects:
            name = (item.CRD.kind.kind, item.metadata.name)
            kept = self._read.get(name)
            if not kept or kept[0] is not item:
                kept = (item, canonical(content(item)))
            present[name] = kept
        self._read = present
        return {name: text for name, (_, text) in present.items()}


def content(item: Recorded) -> Json:
    match item:
        case ClusterPolicy():
            return {"uid": item.metadata.uid, "spec": _changed_fields(item.spec)}
        case ComputeAllocation():
            return _allocation(item)
        case Cession():
            return _cession(item)


def changes(
    recorded: Mapping[ObjectName, str], present: Mapping[ObjectName, str]
) -> dict[ObjectName, str]:
    """The contents that differ from those that were recorded last, in the order of the names.

    Cessions that ended are deleted after a while, which changes nothing.
    """
    changed = {name: text for name, text in present.items() if recorded.get(name) != text}
    for name in recorded.keys() - present.keys():
        if recorded[name] != DELETED and not _has_ended(recorded[name]):
            changed[name] = DELETED
    return dict(sorted(changed.items()))


def forgotten(
    recorded: Mapping[ObjectName, str], present: Mapping[ObjectName, str]
) -> list[ObjectName]:
    """The Cessions that ended and are gone: nothing of them will change."""
    return [name for name in recorded.keys() - present.keys() if _has_ended(recorded[name])]


def _has_ended(content: str) -> bool:
    return '"ended":true' in content


def _allocation(allocation: ComputeAllocation) -> Json:
    """What its admin wrote, and what was granted; not what follows from the nodes and the jobs."""
    granted = {entry.instanceType: entry.granted for entry in allocation.status.quotas}
    return {
        "uid": allocation.metadata.uid,
        "spec": _changed_fields(allocation.spec),
        "granted": granted,
    }


def _cession(cession: Cession) -> Json:
    """The plan, and how it ended."""
    spec = cession.spec
    return {
        "uid": cession.metadata.uid,
        "claimant": spec.preemptor.queue,
        "job": f"{spec.preemptor.namespace}/{spec.preemptor.name}",
        "reason": spec.reason,
        "need": [need.model_dump(mode="json") for need in spec.need],
        "targets": [_target(cession, target) for target in spec.targets],
        "ended": cession.ended,
        "phase": cession.status.phase if cession.ended else "",
        "released": cession.status.releasedTime if cession.ended else "",
    }


def _target(cession: Cession, target: Target) -> Json:
    """What was planned; at the end of the Cession also what became of it."""
    plan = {
        "team": target.queue,
        "job": f"{target.namespace}/{target.name}",
        "from": target.fromSize,
        "to": target.toSize,
        "how": target.how,
    }
    if not cession.ended:
        return plan
    status = cession.target_status(target.uid)
    how = "Stop" if status.stopped else target.how
    lost_steps = cession.lost_steps(target)
    end = {"how": how, "released": status.releasedTime, "lostSteps": lost_steps}
    return plan | end | (_lost(status) if status.releasedTime and lost_steps != 0 else {})


def _lost(status: TargetStatus) -> Json:
    """The accelerator-seconds by kind, null where nobody knows; empty for a job without
    accelerators, and nothing at all if nobody knows the kinds."""
    seconds = status.lost_seconds
    if seconds is None:
        return {"uid": status.uid}
    return {"uid": status.uid, "lost": [[*kind, value] for kind, value in seconds.items()]}


def _changed_fields(model: BaseModel) -> Json:
    return model.model_dump(mode="json", exclude_defaults=True)
