"""PURE. The rows of `cede jobs`: each job's size, progress and priority, and why it is so."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cede.api import durations, names, sizes
from cede.api.cession import Cession, Target
from cede.api.kueue import Job, Workload
from cede.api.objects import condition, unix
from cede.api.workload_identity import identity, owner
from cede.report.cessions import job_of, target_text
from cede.report.workload_state import current, state, stopped_for

ELASTIC = "elastic"
GENTLE_STOP = "gentle stop"
COLUMNS = (
    *("NAME", "STATE", "SIZE", "DESIRED", "ALLOWED", "STEP", "SAVED", "REPORTED"),
    *("LEVEL", "PRIORITY"),
)


@dataclass(frozen=True)
class JobRow:
    """A job that Kueue manages and that has not finished. None and an empty text: not known."""

    namespace: str
    name: str
    # of the object that Kueue queues, such as Job or JobSet
    kind: str
    # Waiting, Running or Stopped
    state: str
    # pods with quota now
    size: int
    # pods that its user wants
    desired: int | None
    # as its user wrote them; empty for a job that is not elastic
    allowed: str
    # the last step when it last ceded, and the newest step that was saved then
    step: int | None
    saved_step: int | None
    # when it reported these two (RFC 3339)
    reported: str
    # elastic: it shrinks before it is stopped; gentle stop: it has its grace to save
    level: str
    priority_class: str
    priority: int
    # why it waits, is stopped, or is smaller than desired
    why: str


def rows(
    jobs: Iterable[Job], workloads: Iterable[Workload], cessions: Sequence[Cession], now: float
) -> list[JobRow]:
    """A row for each job that has not finished, by namespace and name. A guard is no job."""
    by_uid = {job.metadata.uid: job for job in jobs}
    slices = defaultdict[str, list[Workload]](list)
    for workload in workloads:
        slices[identity(workload)].append(workload)
    newest_first = sorted(cessions, key=lambda cession: cession.metadata.created, reverse=True)
    result = [
        _Described(by_uid.get(uid), group, newest_first, now).row() for uid, group in slices.items()
    ]
    result += [_without_workload(job) for uid, job in by_uid.items() if uid not in slices]
    shown = [
        row for row in result if row.state != "Finished" and row.namespace != names.GUARD_NAMESPACE
    ]
    return sorted(shown, key=lambda row: (row.namespace, row.name))


def _without_workload(job: Job) -> JobRow:
    """Of a Job that Kueue has not read, or does not manage. A Job that ended may be such a one."""
    is_queued = names.QUEUE_NAME in job.metadata.labels
    has_ended = bool(job.status.conditions) and any(
        entry.type in ("Complete", "Failed") and entry.status == "True"
        for entry in job.status.conditions
    )
    return JobRow(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        kind="Job",
        state="Waiting" if is_queued and not has_ended else "Finished",
        size=0,
        desired=_desired(job),
        allowed=job.metadata.annotations.get(names.SIZES, ""),
        step=None,
        saved_step=None,
        reported="",
        level=_level(job),
        priority_class=job.metadata.labels.get(names.PRIORITY_CLASS, ""),
        priority=0,
        why="Kueue has created no Workload for it yet",
    )


def _level(job: Job | None) -> str:
    return ELASTIC if job and names.SIZES in job.metadata.annotations else GENTLE_STOP


def _desired(job: Job) -> int | None:
    if names.SIZES not in job.metadata.annotations:
        return job.spec.parallelism
    return sizes.parse_one(job.metadata.annotations.get(names.DESIRED_SIZE, ""))


@dataclass(frozen=True)
class _Described:
    """One job with all that surrounds it; the newest Cession comes first."""

    job: Job | None
    slices: Sequence[Workload]
    cessions: Sequence[Cession]
    now: float

    @property
    def workload(self) -> Workload:
        return current(self.slices)

    def row(self) -> JobRow:
        workload = self.workload
        owned_by = owner(workload)
        progress = self._progress()
        class_ref = workload.spec.priorityClassRef
        job = self.job
        return JobRow(
            namespace=workload.metadata.namespace,
            name=owned_by.name if owned_by else workload.metadata.name,
            kind=owned_by.kind if owned_by else "Workload",
            state=self.state,
            size=self.size,
            desired=_desired(job) if job else sum(pods.count for pods in workload.spec.podSets),
            allowed=job.metadata.annotations.get(names.SIZES, "") if job else "",
            step=progress[0] if progress else None,
            saved_step=progress[1] if progress else None,
            reported=progress[2] if progress else "",
            level=_level(job),
            priority_class=class_ref.name if class_ref else "",
            priority=workload.spec.priority,
            why=self._why(),
        )

    @property
    def state(self) -> str:
        return state(self.workload, self.cessions)

    @property
    def size(self) -> int:
        """Pods with quota. The size of an elastic job changes before its admission does."""
        admission = self.workload.status.admission
        if self.state != "Running" or admission is None:
            return 0
        if self.job and _level(self.job) == ELASTIC:
            return self.job.spec.parallelism
        return sum(assignment.count for assignment in admission.podSetAssignments)

    def _taken(self) -> Iterable[tuple[Cession, Target]]:
        """The Cessions that it was a target of."""
        uid = identity(self.workload)
        for cession in self.cessions:
            for target in cession.spec.targets:
                if target.uid == uid:
                    yield cession, target

    def _progress(self) -> tuple[int, int, str] | None:
        """(step, saved step, when), as it reported when it last ceded."""
        for cession, target in self._taken():
            status = cession.target_status(target.uid)
            if status.cededTime:
                return status.step, status.durableStep, status.cededTime
        return None

    def _why(self) -> str:
        match self.state:
            case "Waiting":
                return self._why_it_waits()
            case "Stopped":
                return self._why_it_is_stopped()
            case "Running":
                return self._why_it_is_small()
            case _:
                return ""

    def _why_it_waits(self) -> str:
        workload = self.workload
        for cession in self.cessions:
            if cession.open and cession.spec.preemptor.uid == workload.metadata.uid:
                targets = ", ".join(map(target_text, cession.spec.targets))
                return f"Cession {cession.metadata.name} is {cession.status.phase}: {targets}"
        if first := stopped_for(workload, self.cessions):
            return f"is set aside until Cession {first.metadata.name} has ended"
        reserved = condition(workload.status.conditions, names.QUOTA_RESERVED)
        return reserved.message.rstrip(".") if reserved else ""

    def _why_it_is_stopped(self) -> str:
        if cession := stopped_for(self.workload, self.cessions):
            return f"was stopped for {job_of(cession)} ({cession.spec.reason})"
        return "its Workload is not active (spec.active is false)"

    def _why_it_is_small(self) -> str:
        pods_ready = condition(self.workload.status.conditions, names.PODS_READY)
        if pods_ready and pods_ready.status == "False":
            return f"its pods are not all ready: {pods_ready.message.rstrip('.')}"
        desired = _desired(self.job) if self.job else None
        if desired is None or self.size >= desired:
            return ""
        for cession, target in self._taken():
            return self._taken_by(cession, target)
        return ""

    def _taken_by(self, cession: Cession, target: Target) -> str:
        """What the newest Cession took, or is about to take."""
        sizes_text = f"{target.fromSize} → {target.toSize} pods"
        reason = f"for {job_of(cession)} ({cession.spec.reason})"
        released = cession.target_status(target.uid).releasedTime
        if released:
            ago = durations.describe(self.now - unix(released))
            return f"ceded {sizes_text} {reason}, {ago} ago"
        return f"is asked to cede {sizes_text} {reason}" if cession.open else ""


# --- text -----------------------------------------------------------------------------------------
def job_table(
    job_rows: Sequence[JobRow], now: float, *, everywhere: bool, wide: bool
) -> list[tuple[str, ...]]:
    """The rows as cells, with headings; an unknown value is empty."""
    start = ("NAMESPACE",) if everywhere else ()
    kind = ("KIND",) if wide else ()
    table = [(*start, *kind, *COLUMNS, "WHY")]
    for row in job_rows:
        first = (row.namespace,) if everywhere else ()
        second = (row.kind,) if wide else ()
        table.append((*first, *second, *_cells(row, now, wide=wide), row.why))
    return table


def _cells(row: JobRow, now: float, *, wide: bool) -> Iterable[str]:
    yield from (row.name, row.state, str(row.size), _number(row.desired), row.allowed)
    yield from (_number(row.step), _number(row.saved_step))
    yield f"{durations.describe(now - unix(row.reported))} ago" if row.reported else ""
    yield row.level
    yield f"{row.priority_class} ({row.priority})".strip() if wide else row.priority_class


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
