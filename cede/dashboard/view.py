"""PURE. What was read of the cluster at one time, and what its reader may not read, in a line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.job_progress import Progress
from cede.api.kueue import ClusterQueue, Cohort, Job, Lease, LocalQueue, Workload
from cede.api.objects import DEPLOYMENTS, WORKLOADS
from cede.api.policy import ClusterPolicy
from cede.causes.snapshot import Snapshot

MAX_NAMES = 3
MAX_WATCHED = 21
"""Each of them needs four connections to the API server, of the 100 that a client has."""


@dataclass(frozen=True)
class UnreadObject:
    """One that this version cannot read, or that does not tell all."""

    kind: str
    namespace: str
    sentence: str


@dataclass(frozen=True)
class View:
    """`leases`, `incomplete` and `priority_classes` are as in a Snapshot."""

    policy: ClusterPolicy | None = None
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    queues: Sequence[ClusterQueue] = ()
    leases: Mapping[str, Lease | None] = field(default_factory=dict)
    jobs: Sequence[Job] = ()
    workloads: Sequence[Workload] = ()
    local_queues: Sequence[LocalQueue] = ()
    # how far elastic jobs are, by namespace
    progress: Mapping[str, Progress] = field(default_factory=dict)
    cohorts: Sequence[Cohort] = ()
    priority_classes: frozenset[str] | None = None
    incomplete: frozenset[str] = frozenset()
    unreadable: Sequence[UnreadObject] = ()
    # plurals of the kinds that the reader may not read
    hidden_kinds: frozenset[str] = frozenset()
    # the namespaces of all teams
    team_namespaces: frozenset[str] = frozenset()
    # those of them whose jobs the reader may not read
    hidden_namespaces: frozenset[str] = frozenset()
    # those whose jobs are not watched, because there are too many
    left_out: frozenset[str] = frozenset()
    # whether the reader sees the policy; without it, "there is none" would be wrong
    sees_policy: bool = True
    # why the API server does not answer; empty if it does
    trouble: str = ""
    # whether the first lists are not complete yet
    reading: bool = False

    @property
    def rights(self) -> str:
        """What the reader may not read, in one sentence; empty: all may be read."""
        return rights_sentence(self.hidden_kinds, self.hidden_namespaces, self.left_out)

    def around(self) -> Snapshot:
        """What surrounds the jobs of one namespace, as `cede jobs -n` reads it: without the
        Workloads of others."""
        return Snapshot(
            policy=self.policy,
            allocations=self.allocations,
            queues=self.queues,
            leases=self.leases,
            local_queues=self.local_queues,
            progress=self.progress,
            cohorts=self.cohorts,
            priority_classes=self.priority_classes,
            incomplete=self.incomplete | {WORKLOADS.plural, DEPLOYMENTS.plural},
        )


def rights_sentence(
    kinds: Iterable[str], namespaces: Iterable[str], left_out: Iterable[str] = ()
) -> str:
    """`kinds`: plurals that may not be read; `namespaces`: of teams whose jobs may not be read;
    `left_out`: of those whose jobs are not watched because there are too many."""
    hidden = [*sorted(kinds)]
    if places := _listed(namespaces):
        hidden.append(f"the jobs in {places}")
    sentences = []
    if hidden:
        sentences.append(f"Not shown, because you may not read it: {'; '.join(hidden)}.")
    if places := _listed(left_out):
        sentences.append(
            f"Not shown, because a page watches {MAX_WATCHED} namespaces one by one at most: the "
            f"jobs in {places}."
        )
    return " ".join(sentences)


def _listed(namespaces: Iterable[str]) -> str:
    places = sorted(namespaces)
    more = len(places) - MAX_NAMES
    return ", ".join(places[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
