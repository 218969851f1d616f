"""PURE. All that the page shows, as rows by key, and what differs between two of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cede.api.objects import Json
from cede.causes.snapshot import Snapshot
from cede.dashboard.job_rows import Group
from cede.dashboard.shares import TeamRow, TypeRow, team_row, type_rows
from cede.dashboard.view import View
from cede.report.history import Take, takes
from cede.report.jobs import JobRow
from cede.report.status import status

SECTIONS = ("cluster", "teams", "jobs", "takes")
THE_CLUSTER = "cluster"
"""The one key of section `cluster`."""


@dataclass(frozen=True)
class Cluster:
    # the context of the kubeconfig; empty in a deployment
    context: str = ""
    mode: str = ""
    preemption: str = ""
    leader: str = ""
    types: tuple[TypeRow, ...] = ()
    # problems, each with its cure
    attention: tuple[str, ...] = ()
    # the next three are those of a View
    rights: str = ""
    trouble: str = ""
    reading: bool = True


@dataclass(frozen=True)
class Page:
    cluster: Mapping[str, Cluster] = field(default_factory=lambda: {THE_CLUSTER: Cluster()})
    teams: Mapping[str, TeamRow] = field(default_factory=dict)
    jobs: Mapping[str, JobRow] = field(default_factory=dict)
    takes: Mapping[str, Take] = field(default_factory=dict)


def page(view: View, job_groups: Mapping[str, Group], context: str, now: float) -> Page:
    """`job_groups`: of job_rows.groups, for the same view."""
    teams = {
        allocation.metadata.name: team_row(allocation)
        for allocation in sorted(view.allocations, key=lambda item: item.metadata.name)
    }
    return Page(
        cluster={THE_CLUSTER: _cluster(view, teams, context, now)},
        teams=teams,
        jobs={_key(row): row for group in job_groups.values() for row in group.rows},
        takes={take.name: take for take in takes(view.cessions, "", 0.0)},
    )


def with_trouble(last: Page, trouble: str) -> Page:
    """The last page, which says why there is no newer one."""
    cluster = replace(last.cluster[THE_CLUSTER], trouble=trouble)
    return replace(last, cluster={THE_CLUSTER: cluster})


def _key(row: JobRow) -> str:
    return f"{row.namespace}/{row.name}/{row.kind}"


def _cluster(view: View, teams: Mapping[str, TeamRow], context: str, now: float) -> Cluster:
    # a policy that may not be read is no policy that is missing
    hidden = () if view.sees_policy else (view.rights,)
    sentences = [unread.sentence for unread in view.unreadable]
    snapshot = Snapshot(
        policy=view.policy,
        allocations=view.allocations,
        cessions=view.cessions,
        queues=view.queues,
        leases=view.leases,
        unreadable=(*sentences, *hidden),
    )
    facts = status(snapshot, now)
    problems = () if view.reading else _without(facts.attention, hidden)
    return Cluster(
        context=context,
        mode=facts.mode,
        preemption=facts.preemption,
        leader=facts.leader,
        types=type_rows(view.policy.status.instanceTypes if view.policy else (), teams),
        attention=tuple(problems),
        rights=view.rights,
        trouble=view.trouble,
        reading=view.reading,
    )


def _without(sentences: Iterable[str], hidden: Iterable[str]) -> Iterable[str]:
    left_out = set(hidden)
    return (sentence for sentence in sentences if sentence not in left_out)


def changes(old: Page, new: Page) -> Json:
    """By section: the rows that are new or differ, and the keys that are gone. Empty: nothing."""
    result: Json = {}
    for section in SECTIONS:
        before: Mapping[str, Any] = getattr(old, section)
        after: Mapping[str, Any] = getattr(new, section)
        differing = {key: row for key, row in after.items() if before.get(key) != row}
        gone = [key for key in before if key not in after]
        if differing or gone:
            result[section] = {"set": differing, "gone": gone}
    return result
