"""What the ledger sees: a policy with a capacity, allocations with their quota, Workloads."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.api.objects import Json, rfc3339
from cede.api.policy import ClusterPolicy
from ledger.accounting import Entries, joined
from ledger.bookkeeper import Batch, Bookkeeper, Books, Seen
from ledger.timeline import SECOND

TYPE = "p5"
KIND = (TYPE, names.GPU)
NOW = 1_795_132_800 * SECOND
"""2026-11-20, midnight."""
DAY = "2026-11-20"


def policy(capacity: int = 16, **spec: Any) -> ClusterPolicy:
    """One type of node, whose healthy nodes have this many accelerators."""
    types = [{"name": TYPE, "accelerators": 8, "cpu": "190", "memory": "1900Gi"}]
    status = {"instanceTypes": [{"name": TYPE, "healthy": {names.GPU: str(capacity), "cpu": "9"}}]}
    return ClusterPolicy.model_validate(
        {
            "metadata": {"name": names.POLICY_NAME, "uid": "uid-policy"},
            "spec": {"instanceTypes": types, **spec},
            "status": status,
        }
    )


@cache
def allocation(
    name: str, owned: int = 8, available: int | None = None, strategy: str = "LendAndBorrow"
) -> ComputeAllocation:
    """A team that owns so many accelerators, of which these are available."""
    usable = owned if available is None else available
    quota = {
        "instanceType": TYPE,
        "nominal": {names.GPU: str(owned), "cpu": "180"},
        "healthy": {names.GPU: str(usable), "cpu": "180"},
    }
    return ComputeAllocation.model_validate(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
            "spec": {
                "quotas": [{"instanceType": TYPE, "accelerators": owned}],
                "sharing": {"strategy": strategy},
            },
            "status": {"quotas": [quota]},
        }
    )


def workload(
    name: str,
    team: str = "research",
    pods: int = 4,
    *,
    since: int = NOW,
    waits: bool = False,
    conditions: Sequence[Json] = (),
    replaces: str = "",
    job: str = "",
    priority_class: str = "training",
    flavor: str = TYPE,
    **spec: Any,
) -> Workload:
    """A job of so many pods with one accelerator each; it has quota unless it waits."""
    assignment = {
        "name": "main",
        "count": pods,
        "flavors": {names.GPU: flavor, "cpu": flavor},
        "resourceUsage": {names.GPU: str(pods), "cpu": str(pods)},
    }
    reserved = {
        "type": names.QUOTA_RESERVED,
        "status": str(not waits),
        "lastTransitionTime": rfc3339(since / SECOND),
    }
    status: Json = {"conditions": [reserved, *conditions]}
    if not waits:
        status["admission"] = {"clusterQueue": team, "podSetAssignments": [assignment]}
    notes = {names.SLICE_REPLACEMENT_FOR: f"{team}/{replaces}"} if replaces else {}
    owner = {"kind": "Job", "name": job or name, "uid": f"job-{job or name}", "controller": True}
    body = {
        "metadata": {
            "name": name,
            "namespace": team,
            "uid": f"uid-{name}",
            "annotations": notes,
            "ownerReferences": [owner],
        },
        "spec": {
            "priorityClassRef": {"name": priority_class},
            "podSets": [{"name": "main", "count": pods}],
            **spec,
        },
        "status": status,
    }
    return msgspec.convert(body, Workload, strict=False)


def cession(
    *targets: tuple[str, int, int],
    name: str = "c",
    claimant: str = "vision",
    phase: str = "Asked",
    released: bool = False,
    team: str = "research",
) -> Cession:
    """Takes capacity from these jobs of a team: (name, from, to)."""
    time = rfc3339(NOW / SECOND) if released else ""
    return Cession.model_validate(
        {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {
                "preemptor": {
                    "namespace": claimant,
                    "workload": "claim",
                    "uid": "uid-claim",
                    "queue": claimant,
                    "creationTime": rfc3339(NOW / SECOND),
                },
                "reason": "ReclaimOwnQuota",
                "targets": [
                    {
                        "namespace": team,
                        "job": job,
                        "uid": f"job-{job}",
                        "workload": job,
                        "queue": team,
                        "fromSize": from_size,
                        "toSize": to_size,
                        "how": "Shrink" if to_size else "Stop",
                    }
                    for job, from_size, to_size in targets
                ],
            },
            "status": {
                "phase": phase,
                "targets": [{"uid": f"job-{job}", "releasedTime": time} for job, _, _ in targets],
            },
        }
    )


def seen_at(
    now: int,
    *,
    allocations: Collection[ComputeAllocation] = (),
    workloads: Collection[Workload] = (),
    cessions: Collection[Cession] = (),
    cluster_policy: ClusterPolicy | None = None,
    confirmed: int | None = None,
    without_policy: bool = False,
) -> Seen:
    """By default research and vision own 8 of 16 accelerators each."""
    return Seen(
        now=now,
        confirmed=now if confirmed is None else confirmed,
        policy=None if without_policy else cluster_policy or policy(),
        allocations=allocations or (allocation("research"), allocation("vision")),
        workloads=workloads,
        cessions=cessions,
    )


class Ledger:
    """A bookkeeper and a database in memory, which may be lost, refuse, or start again."""

    def __init__(self, now: int = NOW) -> None:
        self.books = Books(now)
        self.total = Entries()
        self.audit: list[Any] = []
        self.bookkeeper = Bookkeeper(self.books, now)

    def look(self, seen_objects: Seen, *, refuses: bool = False) -> Batch | None:
        """One pass; the batch if one was written."""
        self.bookkeeper.look(seen_objects)
        batch = self.bookkeeper.batch()
        if batch is None or refuses:
            return None
        assert batch.since == self.books.written, "the books have no hole"
        merge(self.total, batch.entries)
        self.audit += batch.audit
        recorded = {(record.kind, record.name): record.content for record in batch.audit}
        self.books = Books(
            batch.until,
            {**self.books.backlogs, **batch.entries.backlogs},
            {entry.key: entry for entry in batch.take_backs if not entry.is_over},
            batch.audit[-1].head if batch.audit else self.books.head,
            self.books.recorded | recorded,
        )
        self.bookkeeper.has_written(batch)
        return batch

    def restart(self, now: int) -> None:
        """The process ends, and another one begins with what the database has."""
        self.bookkeeper = Bookkeeper(self.books, now)

    # --- what the books say -----------------------------------------------------------------------
    def team(self, name: str) -> Counter[str]:
        return added_up(sums for (_, (team, _)), sums in self.total.teams.items() if team == name)

    def job(self, name: str) -> Counter[str]:
        return added_up(sums for (_, key), sums in self.total.jobs.items() if key.job == name)

    def claim(self, job: str, claimant: str) -> int:
        return added_up(
            sums
            for (_, key), sums in self.total.claims.items()
            if (key.job, key.claimant) == (job, claimant)
        )["taken_back"]

    @property
    def pool(self) -> Counter[str]:
        return added_up(self.total.pools.values())

    @property
    def gap(self) -> int:
        return sum(gap.end - gap.begin for gap in self.total.gaps)


def added_up(counters: Iterable[Counter[str]]) -> Counter[str]:
    """`sum` would leave out what is not above zero."""
    result = Counter[str]()
    for counter in counters:
        result.update(counter)
    return result


def merge(total: Entries, added: Entries) -> None:
    """As the database adds them."""
    tables: tuple[tuple[dict[Any, Counter[str]], dict[Any, Counter[str]]], ...] = (
        (total.pools, added.pools),
        (total.teams, added.teams),
        (total.jobs, added.jobs),
        (total.claims, added.claims),
    )
    for old, new in tables:
        for key, sums in new.items():
            old.setdefault(key, Counter()).update(sums)
    total.gaps = joined([*total.gaps, *added.gaps])
    total.backlogs |= added.backlogs
