"""PURE. The rows of `cede jobs`: each job's size, progress and priority, and why it is so."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace

from cede.api import names
from cede.api.cession import Cession
from cede.api.job_progress import NOTHING
from cede.api.kueue import Job, Workload
from cede.api.wait_reasons import WaitReason
from cede.api.workload_identity import identity, owner
from cede.causes.index import Index
from cede.causes.job_causes import job_causes
from cede.causes.no_workload import why_no_workload
from cede.causes.size import desired_size
from cede.causes.snapshot import NOTHING_READ, Snapshot
from cede.causes.workload_state import current, state
from cede.report import progress
from cede.report.ages import without_age
from cede.report.progress import UNKNOWN, Reported

ELASTIC = "elastic"
GENTLE_STOP = "gentle stop"
COLUMNS = (
    *("NAME", "STATE", "SIZE", "DESIRED", "ALLOWED", "STEP", "LOSS", "SAVED"),
    *("REPORTED", "LEVEL", "PRIORITY"),
)
PROGRESS_FIELDS = tuple(field.name for field in fields(Reported))


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
    # how far it is: the fields of Reported
    step: int | None
    loss: float | None
    saved_step: int | None
    saved: str
    reported: str
    save_failure: str
    silence: str
    silent_since: str
    # elastic: it shrinks before it is stopped; gentle stop: it has its grace to save
    level: str
    priority_class: str
    priority: int
    # why it waits, is stopped, lacks pods, or is smaller than desired: as `cede explain` says it
    why: str
    reason: WaitReason | None = None

    @property
    def progress(self) -> Reported:
        return Reported(**{name: getattr(self, name) for name in PROGRESS_FIELDS})


def rows(
    jobs: Iterable[Job],
    workloads: Iterable[Workload],
    cessions: Sequence[Cession],
    now: float,
    around: Snapshot = NOTHING_READ,
) -> list[JobRow]:
    """A row for each job that has not finished, by namespace and name. A guard is no job. What else
    was read is `around` them."""
    workloads = list(workloads)
    index = Index(replace(around, workloads=workloads, cessions=cessions), now)
    by_uid = {job.metadata.uid: job for job in jobs}
    slices = defaultdict[str, list[Workload]](list)
    for workload in workloads:
        slices[identity(workload)].append(workload)
    result = [_Described(by_uid.get(uid), group, index).row() for uid, group in slices.items()]
    result += [_without_workload(job, index) for uid, job in by_uid.items() if uid not in slices]
    shown = [
        row for row in result if row.state != "Finished" and row.namespace != names.GUARD_NAMESPACE
    ]
    return sorted(shown, key=lambda row: (row.namespace, row.name))


def _without_workload(job: Job, index: Index) -> JobRow:
    """Of a Job that Kueue has not read, or does not manage. A Job that ended may be such a one, and
    one that is being deleted."""
    causes = why_no_workload(job.metadata.key, job, index)
    is_queued = names.QUEUE_NAME in job.metadata.labels
    has_ended = job.has_ended or bool(job.metadata.deletionTimestamp)
    return JobRow(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        kind="Job",
        state="Waiting" if is_queued and not has_ended else "Finished",
        size=0,
        desired=_desired(job),
        allowed=job.metadata.annotations.get(names.SIZES, ""),
        **asdict(UNKNOWN),
        level=_level(job),
        priority_class=job.metadata.labels.get(names.PRIORITY_CLASS, ""),
        priority=0,
        reason=causes[0].reason,
        why=causes[0].sentence,
    )


def _level(job: Job | None) -> str:
    return ELASTIC if job and names.SIZES in job.metadata.annotations else GENTLE_STOP


def _desired(job: Job) -> int | None:
    if names.SIZES not in job.metadata.annotations:
        return job.spec.parallelism
    return desired_size(job)


@dataclass(frozen=True)
class _Described:
    """One job with all that surrounds it."""

    job: Job | None
    slices: Sequence[Workload]
    index: Index

    @property
    def workload(self) -> Workload:
        return current(self.slices)

    def row(self) -> JobRow:
        workload = self.workload
        owned_by = owner(workload)
        class_ref = workload.spec.priorityClassRef
        job = self.job
        causes = job_causes(workload, job, self.index)
        return JobRow(
            namespace=workload.metadata.namespace,
            name=owned_by.name if owned_by else workload.metadata.name,
            kind=owned_by.kind if owned_by else "Workload",
            state=self.state,
            size=self.size,
            desired=_desired(job) if job else sum(pods.count for pods in workload.spec.podSets),
            allowed=job.metadata.annotations.get(names.SIZES, "") if job else "",
            **asdict(self._progress()),
            level=_level(job),
            priority_class=class_ref.name if class_ref else "",
            priority=workload.spec.priority,
            reason=causes[0].reason if causes else None,
            why=causes[0].sentence if causes else "",
        )

    @property
    def state(self) -> str:
        return state(self.workload, self.index.snapshot.cessions)

    @property
    def size(self) -> int:
        """Pods with quota. The size of an elastic job changes before its admission does."""
        admission = self.workload.status.admission
        if self.state != "Running" or admission is None:
            return 0
        if self.job and _level(self.job) == ELASTIC:
            return self.job.spec.parallelism
        return sum(assignment.count for assignment in admission.podSetAssignments)

    def _progress(self) -> Reported:
        """What the scheduler has noted, or what it reported when it last ceded."""
        workload = self.workload
        uid = identity(workload)
        noted = self.index.snapshot.progress.get(workload.metadata.namespace, NOTHING)
        current_progress = progress.as_noted(noted.job(uid))
        for cession in self.index.cessions_by_target.get(uid, ()):
            status = cession.target_status(uid)
            if status.cededTime:
                return progress.newer(current_progress, progress.when_it_ceded(status))
        return current_progress


def without_ages(job_rows: Iterable[JobRow]) -> list[JobRow]:
    """The rows without what changes with time alone: the durations in their sentences, and when
    they last reported."""
    return [replace(row, why=without_age(row.why), reported="") for row in job_rows]


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
    yield from progress.cells(row.progress, now)
    yield row.level
    yield f"{row.priority_class} ({row.priority})".strip() if wide else row.priority_class


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
