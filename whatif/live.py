"""Reads the cluster with the rights of whoever asks. Nothing is written."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

from cede.api import names
from cede.api.budget import MonthUse, noted_use
from cede.api.objects import CONFIG_MAPS, NAMESPACES, POLICIES, Json, Kind
from cede.api.policy import ClusterPolicy
from cede.kube.client import Client
from cede.kube.errors import Forbidden, NotFound, Unreadable
from cede.kube.failures import failure_sentence
from scheduler.snapshot.kinds import KINDS, LABELS, OPTIONAL
from scheduler.snapshot.snapshot import RawObjects
from whatif.questions import Picture
from whatif.world import assume_runtimes

T = TypeVar("T")


class MissingRights(Exception):
    """What has to be read, and may not be; with the cure."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        listed = ", ".join(kind.plural for kind in kinds)
        super().__init__(
            f"you may not list {listed} in all namespaces, and a prediction reads them: what "
            "happens depends on the jobs of all teams. Ask an administrator to run this command, "
            "or for a snapshot that the scheduler wrote (--dump), and name it by --snapshot. "
            "`kubectl create --dry-run=server -f FILE` checks a Job with your own rights"
        )


class _Lists:
    """Lists one kind after the other, and notes which ones may not be listed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.forbidden = list[Kind]()
        self.unreadable = list[Unreadable]()

    async def all(self, kind: Kind, cls: type[T], labels: str = "") -> Sequence[T]:
        """Raises NotFound if the cluster does not have the kind."""
        try:
            items, _ = await self._client.list(kind, cls, labels=labels, unreadable=self.unreadable)
        except Forbidden:
            self.forbidden.append(kind)
            return ()
        return items


async def read_picture(client: Client) -> tuple[Picture, list[str]]:
    """The cluster as it is, and a sentence for each object that cannot be read. Raises ApiError,
    and MissingRights with all that are missing."""
    lists = _Lists(client)
    objects: dict[str, Any] = {}
    for field, (kind, cls) in KINDS.items():
        try:
            objects[field] = await lists.all(kind, cls, LABELS.get(field, ""))
        except NotFound:
            if field not in OPTIONAL:
                raise
    policies = await lists.all(POLICIES, ClusterPolicy)
    namespaces: Sequence[Json] = await lists.all(NAMESPACES, dict)
    if lists.forbidden:
        raise MissingRights(lists.forbidden)
    raw = assume_runtimes(RawObjects(**objects, policies=policies))
    used = await _month_use(client)
    picture = Picture(raw, time.time(), tuple(namespaces), used, knows_runtimes=False)
    return picture, [failure_sentence(error) for error in lists.unreadable]


async def _month_use(client: Client) -> MonthUse | None:
    """What the ledger notes. Members may not read it: then what the statuses keep counts."""
    try:
        return noted_use(await client.get(CONFIG_MAPS, dict, names.LEDGER_NOTES))
    except (Forbidden, NotFound):
        return None
