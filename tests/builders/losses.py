"""Cessions that ended, and what their jobs had not saved."""

from itertools import chain
from typing import Any

from cede.api import names
from cede.api.cession import Cession
from ledger.changes import ContentReader
from ledger.losses import Loss, losses
from tests.builders.ledger import TYPE, cession

RELEASED = "2026-11-20T00:00:00Z"
CEDED: dict[str, Any] = {"cededTime": "2026-11-20T00:00:00Z", "step": 70, "durableStep": 50}
HELD = [{"flavor": TYPE, "resource": names.GPU}]
UNSAVED: dict[str, Any] = {
    "step": 70,
    "durableStep": 50,
    "unsaved": [{"flavor": TYPE, "resource": names.GPU, "seconds": "5400.0"}],
}
"""An hour and a half of one accelerator."""


def ended(
    size: int = 4,
    name: str = "c",
    claimant: str = "vision",
    job: str = "gpt",
    team: str = "research",
    uid: str = "",
    how: str = "",
    **target: Any,
) -> Cession:
    """One job gave, from eight pods to so many."""
    record = cession(
        (job, 8, size), name=name, claimant=claimant, phase="Completed", released=True, team=team
    ).model_dump()
    record["status"]["targets"][0] |= target
    record["spec"]["targets"][0]["how"] = how or ("Shrink" if size else "Stop")
    record["metadata"] = {"name": name, "uid": uid or f"uid-{name}"}
    return Cession.model_validate(record)


def lost_in(*cessions: Cession) -> tuple[Loss, ...]:
    contents = ContentReader().read(cessions)
    parts = [losses(name, text) for (_, name), text in contents.items()]
    return tuple(chain.from_iterable(parts))


RECORDS = (
    ended(0, "a", stopped=True, **CEDED | UNSAVED),
    ended(0, "b", stopped=True, **CEDED | UNSAVED | {"durableStep": 65}),
    ended(0, "c", job="rigid", stopped=True, unsaved=HELD),
    ended(4, "d", "speech", **CEDED),
    ended(0, "e", "speech", job="rigid", stopped=True, unsaved=HELD),
    ended(0, "f", "speech", job="old", stopped=True),
    ended(0, "g", "speech", job="cpu", stopped=True, withoutAccelerators=True),
)
