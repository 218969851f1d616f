"""From the caches' objects to one frozen picture of the cluster. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cede.api import durations, names, sizes
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, Cohort, Job, LocalQueue, Node, Pod, Workload
from cede.api.objects import Condition, Key, condition, is_true, unix
from cede.api.pods import pod_requests
from cede.api.resources import Quota, Resources, amount
from elastic_runtime.contract import Status
from scheduler.cohort import Limit, Queue, Tree


@dataclass(frozen=True, slots=True)
class Objects:
    """What the caches hold at one moment."""

    workloads: Sequence[Workload] = ()
    jobs: Sequence[Job] = ()
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = ()
    cluster_queues: Sequence[ClusterQueue] = ()
    local_queues: Sequence[LocalQueue] = ()
    cohorts: Sequence[Cohort] = ()
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    # by Job uid; those who answered lately
    statuses: Mapping[str, Status] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A Workload without quota."""

    key: Key
    uid: str
    queue: str
    priority: int
    # RFC 3339, as on the wire
    created: str
    # of each pod set: what one pod asks, and how many
    each: tuple[tuple[Resources, int], ...]
    job: Key = ("", "")
    job_uid: str = ""
    priority_class: str = ""
    # a scale-up slice of a job that runs
    replaces: bool = False
    active: bool = True

    @property
    def identity(self) -> str:
        return self.job_uid or self.uid


@dataclass(frozen=True, slots=True)
class Running:
    """A Workload with quota, and the Job it stands for."""

    key: Key
    uid: str
    queue: str
    priority: int
    # Unix seconds of the reservation; a growth is a new one
    since: float
    usage: Quota
    # pods it has quota for
    size: int
    # what one pod holds; of a Workload with several pod sets, the mean
    each: Quota
    job: Key = ("", "")
    job_uid: str = ""
    job_version: str = ""
    # Unix seconds since when its Job runs, through all sizes
    started: float = 0.0
    parallelism: int = 0
    ready: int = 0
    # sizes; empty for a job that is not elastic
    allowed: tuple[int, ...] = ()
    desired_size: int = 0
    grace_s: float = 0.0
    shrunk_at: float = 0.0
    # of pod 0
    address: str = ""
    status: Status | None = None
    active: bool = True

    @property
    def identity(self) -> str:
        """The uid that outlives a resize: the Job's, or the Workload's where there is no Job."""
        return self.job_uid or self.uid

    @property
    def smallest(self) -> int:
        return self.allowed[0] if self.allowed else self.size

    @property
    def lost_by_stop(self) -> float:
        """Accelerator-seconds of work not yet saved. Who says nothing has nothing to lose."""
        said = self.status
        return (said.step - said.durableStep) * said.stepSeconds * self.size if said else 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    tree: Tree = field(default_factory=Tree)
    # in Kueue's order: priority, then age
    waiting: tuple[Waiting, ...] = ()
    running: tuple[Running, ...] = ()
    # uids of Workloads
    finished: frozenset[str] = frozenset()
    cessions: tuple[Cession, ...] = ()
    # free on each schedulable node
    room: tuple[Resources, ...] = ()


def take(seen: Objects) -> Snapshot:
    jobs = {job.metadata.uid: job for job in seen.jobs}
    queue_of = {q.metadata.key: q.spec.clusterQueue for q in seen.local_queues}
    first_pods = {
        pod.metadata.labels.get(names.POD_JOB_UID, ""): pod.status.podIP
        for pod in seen.pods
        if pod.metadata.labels.get(names.POD_INDEX) == "0"
        and pod.status.phase == "Running"
        and not pod.metadata.deletionTimestamp
    }
    ready = Counter(
        p.metadata.labels.get(names.POD_JOB_UID, "")
        for p in seen.pods
        if is_true(p.status.conditions, names.READY)
    )
    waiting = list[Waiting]()
    running = list[Running]()
    finished = set[str]()
    held = {w.metadata.key for w in seen.workloads if _reserved(w)}
    replaced = {old for w in seen.workloads if w.metadata.key in held and (old := _predecessor(w))}
    for workload in seen.workloads:
        if is_true(workload.status.conditions, names.FINISHED):
            finished.add(workload.metadata.uid)
        elif workload.metadata.key in replaced:
            # its larger slice holds the quota already; Kueue finishes it in a moment
            continue
        elif _reserved(workload):
            uid = job_uid(workload)
            running.append(
                _running(
                    workload,
                    jobs.get(uid),
                    ready[uid],
                    first_pods.get(uid, ""),
                    seen.statuses.get(uid),
                )
            )
        else:
            queue = queue_of.get((workload.metadata.namespace, workload.spec.queueName), "")
            waiting.append(_waiting(workload, queue, held))
    tree = _tree(seen, running)
    waiting.sort(key=lambda w: (-w.priority, unix(w.created), w.key))
    cessions = tuple(sorted(seen.cessions, key=lambda c: (c.metadata.created, c.metadata.name)))
    return Snapshot(
        tree,
        tuple(w for w in waiting if w.queue in tree.queues),
        tuple(r for r in running if r.queue in tree.queues),
        frozenset(finished),
        cessions,
        _room(seen),
    )


def _reserved(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return (
        bool(workload.status.admission)
        and is_true(conditions, names.QUOTA_RESERVED)
        and not is_true(conditions, names.FINISHED)
    )


def _predecessor(workload: Workload) -> Key | None:
    """The Workload that this one, a larger slice of the same job, takes the place of."""
    said = workload.metadata.annotations.get(names.SLICE_REPLACEMENT_FOR, "")
    return (workload.metadata.namespace, said.rsplit("/", 1)[-1]) if said else None


def job_uid(workload: Workload) -> str:
    owners = [o.uid for o in workload.metadata.ownerReferences if o.kind == "Job"]
    return owners[0] if owners else workload.metadata.labels.get(names.JOB_UID, "")


def _waiting(workload: Workload, queue: str, held: set[Key]) -> Waiting:
    owner = next((o for o in workload.metadata.ownerReferences if o.kind == "Job"), None)
    ref = workload.spec.priorityClassRef
    return Waiting(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=queue,
        priority=workload.spec.priority,
        created=workload.metadata.creationTimestamp or "",
        each=tuple((pod_requests(s.template.spec), s.count) for s in workload.spec.podSets),
        job=(workload.metadata.namespace, owner.name if owner else ""),
        job_uid=job_uid(workload),
        priority_class=ref.name if ref else "",
        active=workload.spec.active,
        # a job that was stopped after it grew keeps the annotation, and replaces nothing
        replaces=_predecessor(workload) in held,
    )


def _running(
    workload: Workload, job: Job | None, ready: int, address: str, status: Status | None
) -> Running:
    assert workload.status.admission
    usage: Quota = Counter()
    size = 0
    counts = {s.name: s.count for s in workload.spec.podSets}
    for assigned in workload.status.admission.podSetAssignments:
        # a shrink lowers the pod set, not the assignment
        count = min(counts.get(assigned.name, assigned.count), assigned.count)
        size += count
        for resource, flavor in assigned.flavors.items():
            held = amount(resource, assigned.resourceUsage.get(resource, 0))
            usage[flavor, resource] += held * count // assigned.count if assigned.count else 0
    reserved = condition(workload.status.conditions, names.QUOTA_RESERVED) or Condition()
    found = Running(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=workload.status.admission.clusterQueue,
        priority=workload.spec.priority,
        since=unix(reserved.lastTransitionTime or ""),
        usage=usage,
        size=size,
        active=workload.spec.active,
        each=Counter({key: -(-held // size) for key, held in usage.items()}) if size else Counter(),
    )
    if job is None:
        return found
    notes = job.metadata.annotations
    allowed = (
        _allowed(notes.get(names.SIZES, ""))
        if job.metadata.annotations.get(names.ELASTIC_JOB) == "true"
        else ()
    )
    noted_size = sizes.parse_one(notes.get(names.DESIRED_SIZE, ""))
    # the shrink is written: Kueue follows in a moment
    if allowed and 0 < job.spec.parallelism < found.size:
        usage = Counter({key: each * job.spec.parallelism for key, each in found.each.items()})
        found = replace(found, size=job.spec.parallelism, usage=usage)
    return replace(
        found,
        job=job.metadata.key,
        job_uid=job.metadata.uid,
        job_version=job.metadata.resourceVersion,
        parallelism=job.spec.parallelism,
        ready=ready,
        allowed=allowed,
        desired_size=job.spec.parallelism if noted_size is None else noted_size,
        address=address,
        status=status,
        grace_s=durations.parse_or_zero(notes.get(names.GRACE, "")),
        shrunk_at=_time(notes.get(names.SHRUNK_AT, "")),
        started=unix(job.status.startTime or "") or found.since,
    )


def _time(text: str) -> float:
    """0.0 for what is no time: a job's user may write into its annotations what they like."""
    try:
        return unix(text)
    except (ValueError, OverflowError):
        return 0.0


def _allowed(text: str) -> tuple[int, ...]:
    try:
        return sizes.parse(text) if text else ()
    except ValueError:
        # the webhook refuses these; one that slipped by is not elastic
        return ()


def _tree(seen: Objects, running: Iterable[Running]) -> Tree:
    usage: dict[str, Quota] = defaultdict(Counter)
    for job in running:
        usage[job.queue] += job.usage
    own_tasks = {a.metadata.name: a.spec.preemptOwnTasks != "Never" for a in seen.allocations}
    ours = [q for q in seen.cluster_queues if q.spec.cohortName == names.COHORT or _is_ours(q)]
    queues = {
        q.metadata.name: _queue(q, usage[q.metadata.name], own_tasks.get(q.metadata.name, True))
        for q in ours
    }
    own: Quota = Counter()
    for cohort in seen.cohorts:
        for group in cohort.spec.resourceGroups if cohort.metadata.name == names.COHORT else ():
            for flavor in group.flavors:
                for r in flavor.resources:
                    own[flavor.name, r.name] += amount(r.name, r.nominalQuota)
    return Tree(queues, own)


def _is_ours(q: ClusterQueue) -> bool:
    return q.metadata.labels.get(names.MANAGED_BY) == names.MANAGED_BY_CEDE


def _queue(q: ClusterQueue, usage: Quota, preempts_own: bool) -> Queue:
    limits = {}
    for group in q.spec.resourceGroups:
        for flavor in group.flavors:
            for r in flavor.resources:
                borrowing, lending = (
                    None if text is None else amount(r.name, text)
                    for text in (r.borrowingLimit, r.lendingLimit)
                )
                limits[flavor.name, r.name] = Limit(
                    amount(r.name, r.nominalQuota), borrowing, lending
                )
    weight = q.spec.fairSharing.weight if q.spec.fairSharing else 1
    flavors = tuple(
        (g.coveredResources, tuple(f.name for f in g.flavors)) for g in q.spec.resourceGroups
    )
    return Queue(
        q.metadata.name,
        q.spec.cohortName,
        limits,
        usage,
        q.spec.queueingStrategy,
        q.metadata.resourceVersion,
        amount("cpu", weight) / 1000,
        preempts_own,
        _is_ours(q),
        flavors,
    )


def _room(seen: Objects) -> tuple[Resources, ...]:
    used: dict[str, Resources] = defaultdict(Resources)
    for pod in seen.pods:
        if pod.spec.nodeName and pod.status.phase in ("Pending", "Running"):
            used[pod.spec.nodeName] += pod_requests(pod.spec)
    rooms = []
    for node in seen.nodes:
        if node.spec.unschedulable or not is_true(node.status.conditions, names.READY):
            continue
        free = Resources(
            {name: amount(name, text) for name, text in node.status.allocatable.items()}
        )
        free.subtract(used[node.metadata.name])
        rooms.append(free)
    return tuple(rooms)
