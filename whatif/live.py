"""Reads the cluster with the rights of whoever asks. Nothing is written."""

import time
from collections.abc import Iterable
from typing import Any

from cede.api import names
from cede.api.budget import MonthUse, noted_use
from cede.api.objects import CONFIG_MAPS, NAMESPACES, POLICIES, Json
from cede.api.policy import ClusterPolicy
from cede.kube.client import Client
from cede.kube.errors import Forbidden, NotFound
from cede.kube.failures import failure_sentence
from cede.reading.reader import Reader
from scheduler.snapshot.kinds import KINDS, LABELS, OPTIONAL
from scheduler.snapshot.snapshot import RawObjects
from whatif.questions import Picture
from whatif.world import assume_runtimes


class MissingRights(Exception):
    """What has to be read, and may not be; with the cure."""

    def __init__(self, plurals: Iterable[str]) -> None:
        listed = ", ".join(plurals)
        super().__init__(
            f"you may not list {listed} in all namespaces, and a prediction reads them: what "
            "happens depends on the jobs of all teams. Ask an administrator to run this command, "
            "or for a snapshot that the scheduler wrote (--dump), and name it by --snapshot. "
            "`kubectl create --dry-run=server -f FILE` checks a Job with your own rights"
        )


async def read_picture(client: Client) -> tuple[Picture, list[str]]:
    """The cluster as it is, and a sentence for each object that cannot be read. Raises ApiError,
    and MissingRights with all that are missing."""
    reader = Reader(client)
    objects: dict[str, Any] = {}
    for field, (kind, cls) in KINDS.items():
        try:
            objects[field] = await reader.all(kind, cls, labels=LABELS.get(field, ""))
        except NotFound:
            if field not in OPTIONAL:
                raise
    policies = await reader.all(POLICIES, ClusterPolicy)
    namespaces: list[Json] = await reader.all(NAMESPACES, dict)
    if reader.forbidden:
        read = [*(kind for kind, _ in KINDS.values()), POLICIES, NAMESPACES]
        raise MissingRights(kind.plural for kind in read if kind.plural in reader.forbidden)
    raw = assume_runtimes(RawObjects(**objects, policies=policies))
    used = await _month_use(client)
    picture = Picture(raw, time.time(), tuple(namespaces), used, knows_runtimes=False)
    return picture, [failure_sentence(error) for error in reader.unreadable]


async def _month_use(client: Client) -> MonthUse | None:
    """What the ledger notes. Members may not read it: then what the statuses keep counts."""
    try:
        return noted_use(await client.get(CONFIG_MAPS, dict, names.LEDGER_NOTES))
    except (Forbidden, NotFound):
        return None
