"""PURE. Which work was lost in take-backs, and by whose claim, from the records of the audit."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from cede.api.objects import Json
from cede.api.resources import FlavorResource
from ledger.timeline import SECOND

NO_KIND = ("", "")
"""Of a loss whose kind of accelerators nobody knows."""


class Work(NamedTuple):
    """What a job lost on one kind of accelerator."""

    kind: FlavorResource
    # accelerator-microseconds; None: nobody knows
    lost: int | None


@dataclass(frozen=True, slots=True)
class Loss:
    """What one Cession took from one job."""

    # RFC 3339: when the job released it
    released: str
    # its name, which a later Cession may have too
    cession: str
    cession_uid: str
    team: str
    # namespace/name
    job: str
    # the team for which it was taken, and its job
    claimant: str
    claimant_job: str
    # Shrink, Drain or Stop
    how: str
    from_size: int
    to_size: int
    # steps that the job has to repeat; None: nobody knows
    lost_steps: int | None
    # of the job; empty if nothing was lost, and in records of earlier versions
    uid: str = ""
    # by kind; empty if nothing was lost of any
    works: tuple[Work, ...] = ()

    @property
    def lost(self) -> int | None:
        """On all kinds together, in accelerator-microseconds; None: nobody knows."""
        known = [work.lost for work in self.works if work.lost is not None]
        return sum(known) if len(known) == len(self.works) else None


class LossKey(NamedTuple):
    """A job that lost something, the team for whose claim, and the kind of accelerators."""

    team: str
    # namespace/name
    job: str
    uid: str
    claimant: str
    instance_type: str
    resource: str


def losses(name: str, content: str) -> tuple[Loss, ...]:
    """Of the targets of this Cession that have released capacity. Until it has ended, its record
    in the audit does not say it."""
    cession: Json = json.loads(content)
    targets = cession.get("targets", ())
    return tuple(_loss(name, cession, target) for target in targets if target.get("released"))


def sums_of(entries: Iterable[Loss]) -> dict[LossKey, Counter[str]]:
    """`lost`, as far as it is known, and how many are not: `unknown_losses`."""
    sums: dict[LossKey, Counter[str]] = {}
    for loss in entries:
        for kind, lost in loss.works:
            key = LossKey(loss.team, loss.job, loss.uid, loss.claimant, *kind)
            values = sums.setdefault(key, Counter())
            values.update(lost=lost or 0, unknown_losses=int(lost is None))
    return sums


def _loss(name: str, cession: Json, target: Json) -> Loss:
    return Loss(
        released=target["released"],
        cession=name,
        cession_uid=cession["uid"],
        team=target["team"],
        job=target["job"],
        claimant=cession["claimant"],
        claimant_job=cession["job"],
        how=target["how"],
        from_size=target["from"],
        to_size=target["to"],
        lost_steps=target["lostSteps"],
        uid=target.get("uid", ""),
        works=tuple(_works(target)),
    )


def _works(target: Json) -> Iterable[Work]:
    if target["lostSteps"] == 0:
        return
    # of records without hours, such as those of earlier versions
    unknown = [(*NO_KIND, None)]
    for type_name, resource, seconds in target.get("lost", unknown):
        yield Work((type_name, resource), None if seconds is None else round(seconds * SECOND))
