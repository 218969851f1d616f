"""PURE. What the coordinator knows of the job's pods: the input of every membership decision."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from elastic_runtime.agent.coordination import MemberReport, life_of
from elastic_runtime.messages import Record


@dataclass(frozen=True, slots=True)
class Member:
    """A pod by its last report. Up to `record_generation` the fields are of `MemberReport`."""

    index: int
    incarnation: str
    address: str = ""
    port: int = 0
    generation: int = 0
    members: tuple[int, ...] = ()
    step: int = 0
    ready: bool = False
    leaving: bool = False
    parked: bool = False
    finished: bool = False
    ended: bool = False
    broken: int = 0
    newest_generation: int = 0
    trained_epoch: int = 0
    trained_generation: int = 0
    record_epoch: int = 0
    record_generation: int = 0
    # When the pod last reported, and when this incarnation first did, by the coordinator's clock.
    reported_at: float = 0.0
    first_reported_at: float = 0.0


# Between two reports of a pod in which nothing changes, and how many of those the coordinator takes
# a second.
HEARTBEAT_S = 0.3
MAX_HEARTBEATS = 2000
# How many first reports a new coordinator takes a second, where pods share few cores: measured was
# 90 with 256 pods on 16 cores, which each make their connections again.
MAX_FIRST_REPORTS = 100


def heartbeat_s(pods: int) -> float:
    """Between two reports of each of so many pods: one process answers them all."""
    return max(HEARTBEAT_S, pods / MAX_HEARTBEATS)


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds, for a job whose pods report every `HEARTBEAT_S`."""

    # A pod that does not report for so long is lost. Its agent reports a dead process at once.
    silent_s: float = 3.0
    # The same once a generation broke: every pod reports several times in it.
    silent_after_break_s: float = 1.0
    # A replaced pod 0 waits so long for the members that others name.
    gather_s: float = 5.0
    # A coordinator that does not answer an agent for so long is lost to it, and every member lets
    # each one before it stand so long first.
    leaderless_s: float = 2.0
    stagger_s: float = 0.2
    # For the votes of the others, and until they know who was elected.
    election_s: float = 1.0
    # More than half of the members that fall silent together may have elected another coordinator,
    # behind a link that is cut. So long nothing is decided without them.
    cut_off_s: float = 20.0
    # Pod 0 takes a job over without pods that were silent for so long: until then a majority of
    # its members may train behind a link that is cut, or be replaced after the loss of a node.
    abandoned_s: float = 900.0
    # Pods that become ready together, or are terminated together, share one change.
    settle_s: float = 0.4

    def for_pods(self, pods: int) -> "Limits":
        """The same for a job of so many pods, which report more rarely when there are many."""
        times = heartbeat_s(pods) / HEARTBEAT_S
        return replace(
            self,
            silent_s=self.silent_s * times,
            silent_after_break_s=self.silent_after_break_s * times,
            leaderless_s=self.leaderless_s * times,
            stagger_s=self.stagger_s * times,
            election_s=self.election_s * times,
        )

    def first_reports_s(self, members: int) -> float:
        """How long a new coordinator waits for the first reports of so many."""
        return min(self.silent_after_break_s + members / MAX_FIRST_REPORTS, self.cut_off_s)


@dataclass(frozen=True, slots=True)
class View:
    """Everything the coordinator decides on. Times are seconds of its clock."""

    record: Record = field(default_factory=Record)
    members: Mapping[int, Member] = field(default_factory=dict)
    # Of this coordinator: its records have it.
    epoch: int = 1
    # Lives of members whose pods do not run any more, though they have not reported it, or that a
    # last save does not wait for.
    gone: frozenset[str] = frozenset()
    # Pods that may train under another coordinator: the job continued without them.
    astray: frozenset[int] = frozenset()
    # Epoch and number of the newest generation that another pod knows, though this one does not.
    heard: tuple[int, int] = (0, 0)
    # The size last requested, by which Cession, and when; None if no size was ever requested.
    wanted: int | None = None
    cession: str = ""
    ordered_at: float = 0.0
    smallest: int = 1
    # So many first pods are of the base of a surplus (decision 14); 0 if the job has none.
    base: int = 0
    # When this coordinator started.
    started_at: float = 0.0
    # When a member first reported that the current generation broke.
    broke_at: float | None = None
    # When a pod last became ready, restarted or began to leave.
    changed_at: float = 0.0


def merge_report(view: View, report: MemberReport, now: float) -> View:
    """The view after one report of a pod."""
    before = view.members.get(report.index)
    restarted = before is None or before.incarnation != report.incarnation
    changed = (
        before is None
        or restarted
        or (before.ready, before.leaving) != (report.ready, report.leaving)
    )
    member = Member(
        index=report.index,
        incarnation=report.incarnation,
        address=report.address,
        port=report.port,
        generation=report.generation,
        members=report.members or _known_members(before, report),
        step=report.step,
        ready=report.ready,
        leaving=report.leaving,
        parked=report.parked,
        finished=report.finished,
        ended=report.ended,
        broken=report.broken,
        newest_generation=report.newest_generation,
        trained_epoch=report.trained_epoch,
        trained_generation=report.trained_generation,
        record_epoch=report.record_epoch,
        record_generation=report.record_generation,
        reported_at=now,
        first_reported_at=now if before is None or restarted else before.first_reported_at,
    )
    kept = report.kept
    if kept.wanted is not None and (view.wanted is None or kept.ordered_at > view.ordered_at):
        # A new coordinator learns what the last one was asked.
        view = replace(view, wanted=kept.wanted, cession=kept.cession, ordered_at=kept.ordered_at)
    if view.broke_at is None and report.broken == view.record.generation > 0:
        view = replace(view, broke_at=now)
    return replace(
        view,
        members={**view.members, report.index: member},
        gone=view.gone - {life_of(report.incarnation)},
        astray=view.astray - {report.index},
        changed_at=now if changed else view.changed_at,
        record=_with_store(view.record, report),
    )


def _known_members(before: Member | None, report: MemberReport) -> tuple[int, ...]:
    """A pod names the members of its generation once to a coordinator."""
    is_known = before is not None and before.generation == report.generation
    return before.members if before is not None and is_known else ()


def _with_store(record: Record, report: MemberReport) -> Record:
    """The record, with the address of its store once the first member has opened it."""
    store = report.store
    is_new = (
        store is not None
        and store.generation == record.generation
        and not record.store
        and record.members[:1] == (report.index,)
    )
    if store is None or not is_new:
        return record
    return replace(record, store=f"{report.address}:{store.port}")


def are_enough(view: View, ready: Collection[int]) -> bool:
    """Whether the job can start on these pods. They need not be the first: Kubernetes may make one
    of those again only after ten minutes. But a surplus without its base may be of another job.
    """
    return len(ready) >= view.smallest and all(index in ready for index in range(view.base))


def all_have_ended(view: View) -> bool:
    """Whether the scripts of all members have ended in the record's generation."""
    record = view.record
    # Asked at every report: the first member that has not ended is the answer.
    return bool(record.members) and all(
        _has_ended(view, index, incarnation, record.generation)
        for index, incarnation in zip(record.members, record.incarnations, strict=True)
    )


def _has_ended(view: View, index: int, incarnation: str, generation: int) -> bool:
    pod = view.members.get(index)
    return (
        pod is not None
        and pod.ended
        and (pod.incarnation, pod.generation) == (incarnation, generation)
    )


def awaits_last_report(
    view: View, own_index: int, silent_before: float, *, job_finished: bool
) -> bool:
    """Whether another pod that is not silent has not reported its end yet."""
    return any(
        not (member.finished or (member.parked and not job_finished))
        and member.reported_at > silent_before
        for member in view.members.values()
        if member.index != own_index
    )


def addresses(view: View, record: Record) -> tuple[str, ...]:
    """Where the agents of its members answer, as host:port; empty for one that is unknown."""
    pods = [view.members.get(index) for index in record.members]
    return tuple(f"{pod.address}:{pod.port}" if pod and pod.port else "" for pod in pods)
