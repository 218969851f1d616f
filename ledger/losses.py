"""PURE. Which work was lost in take-backs, and by whose claim, from the records of the audit."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from cede.api.objects import Json


@dataclass(frozen=True, slots=True)
class Loss:
    """What one Cession took from one job."""

    # RFC 3339: when the job released it
    released: str
    cession: str
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


def losses(contents: Iterable[tuple[str, str]], month: str) -> tuple[Loss, ...]:
    """Of the targets that released capacity in this month. `contents` are (name, content) of
    Cessions, as the audit has them; of several with one name the last counts."""
    newest = {name: json.loads(content) for name, content in contents}
    entries = [
        _loss(name, cession, target)
        for name, cession in newest.items()
        for target in cession.get("targets", ())
        # a Cession that has not ended does not say it yet
        if str(target.get("released", "")).startswith(f"{month}-")
    ]
    return tuple(sorted(entries, key=lambda loss: (loss.released, loss.cession, loss.job)))


def _loss(name: str, cession: Json, target: Json) -> Loss:
    return Loss(
        released=target["released"],
        cession=name,
        team=target["team"],
        job=target["job"],
        claimant=cession["claimant"],
        claimant_job=cession["job"],
        how=target["how"],
        from_size=target["from"],
        to_size=target["to"],
        lost_steps=target["lostSteps"],
    )
