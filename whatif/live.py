"""Reads the cluster with the rights of whoever asks. Nothing is written."""

import time
from typing import Any

from cede.api import names
from cede.api.budget import MonthUse, noted_use
from cede.api.objects import CONFIG_MAPS, NAMESPACES, POLICIES
from cede.api.policy import ClusterPolicy
from cede.kube.client import Client
from cede.kube.errors import Forbidden, NotFound, Unreadable
from cede.kube.failures import failure_sentence
from scheduler.snapshot.kinds import KINDS, LABELS, OPTIONAL
from scheduler.snapshot.snapshot import RawObjects
from whatif.questions import Picture
from whatif.world import assume_runtimes


async def read_picture(client: Client) -> tuple[Picture, list[str]]:
    """The cluster as it is, and a sentence for each object that cannot be read. Raises ApiError."""
    errors = list[Unreadable]()
    objects: dict[str, Any] = {}
    for field, (kind, cls) in KINDS.items():
        labels = LABELS.get(field, "")
        try:
            objects[field], _ = await client.list(kind, cls, labels=labels, unreadable=errors)
        except NotFound:
            if field not in OPTIONAL:
                raise
    policies, _ = await client.list(POLICIES, ClusterPolicy, unreadable=errors)
    namespaces, _ = await client.list(NAMESPACES, dict)
    raw = assume_runtimes(RawObjects(**objects, policies=policies))
    used = await _month_use(client)
    picture = Picture(raw, time.time(), tuple(namespaces), used, knows_runtimes=False)
    return picture, [failure_sentence(error) for error in errors]


async def _month_use(client: Client) -> MonthUse | None:
    """What the ledger notes. Members may not read it: then what the statuses keep counts."""
    try:
        return noted_use(await client.get(CONFIG_MAPS, dict, names.LEDGER_NOTES))
    except (Forbidden, NotFound):
        return None
