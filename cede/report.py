"""PURE. What `cede` says: from the cluster's objects to facts, and from facts to lines a person
reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cede.api import names, sizes
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, Job, Lease, LocalQueue, Workload
from cede.api.objects import Condition, Json, Key, is_true, unix
from cede.api.pods import pod_requests
from cede.api.policy import ClusterPolicy
from cede.api.resources import Resources, describe_amounts, parse

# ended take-backs that `status` shows
LAST = 5
LEASES_OF = {
    names.SCHEDULER_LEASE: names.SCHEDULER,
    names.QUOTA_CONTROLLER_LEASE: names.QUOTA_CONTROLLER,
}


@dataclass(frozen=True)
class Seen:
    """What the command has read. A lease that we may not read is absent; one that does not exist is
    None."""

    policy: ClusterPolicy | None = None
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    queues: Sequence[ClusterQueue] = ()
    leases: Mapping[str, Lease | None] = field(default_factory=dict)
    workloads: Sequence[Workload] = ()
    local_queues: Sequence[LocalQueue] = ()
    job: Job | None = None


@dataclass(frozen=True)
class Team:
    name: str
    namespace: str
    owns: str
    uses: str
    lends: str
    borrows: str
    ready: bool


@dataclass(frozen=True)
class TakeBack:
    name: str
    phase: str
    preemptor: str
    gives: str
    # from the claim to its pods being ready; empty until then
    seconds: str
    since_s: int
    why: str
    message: str


@dataclass(frozen=True)
class Status:
    # empty: there is no policy
    mode: str
    preemption: str
    leader: str
    types: tuple[str, ...]
    teams: tuple[Team, ...]
    open: tuple[TakeBack, ...]
    last: tuple[TakeBack, ...]
    # what is off, and its cure
    attention: tuple[str, ...]


def status(seen: Seen, now: float) -> Status:
    """The whole of `cede status`."""
    policy = seen.policy
    newest = sorted(seen.cessions, key=lambda c: c.metadata.created, reverse=True)
    return Status(
        mode=policy.spec.mode if policy else "",
        preemption=policy.status.preemption if policy else "",
        leader=leader(seen, now),
        types=tuple(_type(one.model_dump()) for one in policy.status.instanceTypes)
        if policy
        else (),
        teams=tuple(_team(a) for a in sorted(seen.allocations, key=lambda a: a.metadata.name)),
        open=tuple(take_back(c, now) for c in newest if c.open),
        last=tuple(take_back(c, now) for c in newest if not c.open)[:LAST],
        attention=tuple(_attention(seen, now)),
    )


def _type(one: Json) -> str:
    free = describe_amounts(parse(one["unallocated"]))
    return (
        f"{one['name']}: {one['healthyNodes']} of {one['nodes']} nodes healthy, hold "
        f"{describe_amounts(parse(one['healthy']))}; unallocated: {free}"
    )


def _team(a: ComputeAllocation) -> Team:
    said = a.status
    ready = is_true(said.conditions, names.READY)
    return Team(
        a.team, said.namespace or a.namespace, said.owns, said.used, said.lent, said.borrowed, ready
    )


def take_back(c: Cession, now: float) -> TakeBack:
    by = c.spec.preemptor
    said = c.status
    gives = ", ".join(
        f"{v.namespace}/{v.job or v.workload} {v.fromSize} → {v.toSize}" for v in c.spec.targets
    )
    preemptor = f"{by.namespace}/{by.job or by.workload}"
    since_s = max(0, round(now - c.metadata.created))
    return TakeBack(
        c.metadata.name,
        said.phase,
        preemptor,
        gives,
        said.secondsToOwner,
        since_s,
        c.spec.why,
        said.message,
    )


def leader(seen: Seen, now: float) -> str:
    """Who schedules; empty when nobody does. Without sight of the lease, the quota_controller's
    word."""
    if names.SCHEDULER_LEASE not in seen.leases:
        return seen.policy.status.leader if seen.policy else ""
    lease = seen.leases[names.SCHEDULER_LEASE]
    return lease.spec.holderIdentity or "" if lease and _alive(lease, now) else ""


def _alive(lease: Lease, now: float) -> bool:
    """Twice the lease's duration: this machine's clock may be somewhat off."""
    return bool(lease.spec.holderIdentity) and now - unix(lease.spec.renewTime) < 2 * (
        lease.spec.leaseDurationSeconds or 15
    )


def _attention(seen: Seen, now: float) -> Iterable[str]:
    if not seen.policy:
        yield (
            f"there is no ClusterPolicy: apply one named {names.POLICY_NAME} that names the "
            f"cluster's instance types"
        )
    for name, lease in seen.leases.items():
        if lease is None or not _alive(lease, now):
            since = (
                f" for {ago(now - unix(lease.spec.renewTime))}"
                if lease and lease.spec.renewTime
                else ""
            )
            component = LEASES_OF.get(name, name)
            yield (
                f"no {component} has led{since}: see to Deployment {component} in "
                f"{names.SYSTEM_NAMESPACE}"
            )
    if seen.policy:
        yield from _untrue(
            "ClusterPolicy", seen.policy.metadata.name, seen.policy.status.conditions
        )
        yield from (
            f"instance type {one.name}: {one.message}"
            for one in seen.policy.status.instanceTypes
            if one.message
        )
    for a in seen.allocations:
        if a.status.observedGeneration < a.metadata.generation:
            yield (
                f"ComputeAllocation {a.metadata.name} is not taken up yet: see to Deployment "
                f"{names.QUOTA_CONTROLLER}"
            )
        yield from _untrue("ComputeAllocation", a.metadata.name, a.status.conditions)
    for q in seen.queues:
        if q.spec.stopPolicy != "None":
            yield (
                f"ClusterQueue {q.metadata.name} is held ({q.spec.stopPolicy}): nothing new is "
                f"admitted"
            )


def _untrue(kind: str, name: str, conditions: Iterable[Json]) -> Iterable[str]:
    for c in conditions:
        if c["status"] != "True":
            yield f"{kind} {name}: {c['type']} is {c['status']} ({c['reason']}): {c['message']}"


# --- explain --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Explanation:
    namespace: str
    name: str
    # Waiting, Running, Stopped, Finished, Unknown
    state: str
    sentences: tuple[str, ...]


def explain(key: Key, seen: Seen, now: float) -> Explanation:
    """Why the Workload or Job waits, or what happened to it; oldest take-back first."""
    namespace, name = key
    mine = [
        w
        for w in seen.workloads
        if w.metadata.name == name or any(o.name == name for o in w.metadata.ownerReferences)
    ]
    mine.sort(
        key=lambda w: (
            not is_true(w.status.conditions, names.FINISHED),
            w.status.admission is not None,
            w.metadata.created,
        )
    )
    state, said = _workload(mine[-1], seen, now) if mine else ("Unknown", _no_workload(key, seen))
    about = {name} | {w.metadata.name for w in mine}
    sentences = [*_job(seen.job), *said, *_history(namespace, about, seen.cessions, now)]
    return Explanation(namespace, name, state, tuple(sentences))


def _job(job: Job | None) -> Iterable[str]:
    if job and (allowed := job.metadata.annotations.get(names.SIZES)):
        desired_size = job.metadata.annotations.get(names.DESIRED_SIZE, "?")
        yield (
            f"Elastic, sizes {allowed}; it would like {desired_size} pods and has quota for "
            f"{job.spec.parallelism} at most now."
        )
        try:
            sizes.parse(allowed)
        except ValueError as error:
            yield f"Its sizes cannot be read: {error}."


def _no_workload(key: Key, seen: Seen) -> list[str]:
    if seen.job is None:
        return [
            (
                f"There is no Job and no Workload {key[1]} in namespace {key[0]}: see `kubectl get "
                f"jobs,workloads -n {key[0]}`."
            )
        ]
    if names.QUEUE_NAME not in seen.job.metadata.labels:
        return [
            (
                f"It names no queue, so Kueue does not manage it: label it {names.QUEUE_NAME}: "
                f"{names.LOCAL_QUEUE} in a team's namespace."
            )
        ]
    return ["Kueue has made no Workload for it yet: is Kueue's controller running?"]


def _workload(w: Workload, seen: Seen, now: float) -> tuple[str, list[str]]:
    conditions = {c.type: c for c in w.status.conditions}
    if is_true(w.status.conditions, names.FINISHED):
        return "Finished", [
            (
                f"Finished {_since(conditions[names.FINISHED], now)}: "
                f"{conditions[names.FINISHED].message}."
            )
        ]
    if w.status.admission and is_true(w.status.conditions, names.ADMITTED):
        flavors = sorted(
            {flavor for a in w.status.admission.podSetAssignments for flavor in a.flavors.values()}
        )
        count = sum(a.count for a in w.status.admission.podSetAssignments)
        said = [
            f"Runs in ClusterQueue {w.status.admission.clusterQueue} with {count} pods on "
            f"{', '.join(flavors)}, admitted "
            f"{_since(conditions[names.ADMITTED], now)}."
        ]
        if names.PODS_READY in conditions and conditions[names.PODS_READY].status != "True":
            said.append(f"Its pods are not all ready: {conditions[names.PODS_READY].message}.")
        return "Running", said
    evicted = conditions.get(names.EVICTED)
    said = (
        [f"Evicted {_since(evicted, now)} ({evicted.reason}): {evicted.message}."]
        if evicted and evicted.status == "True"
        else []
    )
    if not w.spec.active:
        return "Stopped", [
            *said,
            "Its Workload is not active (spec.active: false), so Kueue does not admit it.",
        ]
    return "Waiting", [*said, *_waiting(w, conditions.get(names.QUOTA_RESERVED), seen, now)]


def _waiting(w: Workload, reserved: Condition | None, seen: Seen, now: float) -> Iterable[str]:
    local = next(
        (
            q
            for q in seen.local_queues
            if q.metadata.key == (w.metadata.namespace, w.spec.queueName)
        ),
        None,
    )
    where = (
        f"ClusterQueue {local.spec.clusterQueue}"
        if local
        else f"LocalQueue {w.spec.queueName}, which does not exist here,"
    )
    yield f"Waits in {where} for {ago(now - w.metadata.created)}, priority {w.spec.priority}."
    if reserved and reserved.message:
        yield f"Kueue says: {reserved.message.rstrip('.')}."
    if any(c.open and c.spec.preemptor.uid == w.metadata.uid for c in seen.cessions):
        # the take-back speaks for itself
        return
    queue = next(
        (q for q in seen.queues if local and q.metadata.name == local.spec.clusterQueue), None
    )
    yield _why_nothing_is_taken(asks(w), queue, seen, now)


def _why_nothing_is_taken(
    need: Resources, queue: ClusterQueue | None, seen: Seen, now: float
) -> str:
    if queue:
        owns = Resources()
        for group in queue.spec.resourceGroups:
            for flavor in group.flavors:
                owns.update(parse({r.name: r.nominalQuota for r in flavor.resources}))
        beyond = {
            name: amount for name, amount in need.items() if name in owns and amount > owns[name]
        }
        if beyond:
            has = describe_amounts(Resources({name: owns[name] for name in beyond}))
            return (
                f"It asks for {describe_amounts(beyond)} and its queue owns {has}: what is beyond its "
                f"own it gets when idle, and takes from nobody."
            )
    if seen.policy and seen.policy.spec.mode == "Observe":
        return (
            "The policy's mode is Observe: Cede takes nothing back, Kueue preempts by its own "
            "rules."
        )
    if not leader(seen, now):
        return (
            f"No scheduler leads, so nothing is taken back: see to Deployment "
            f"{names.SCHEDULER} in {names.SYSTEM_NAMESPACE}."
        )
    young = seen.policy.spec.preemption.minRuntimeSeconds if seen.policy else 0
    return (
        f"No take-back is under way for it: nobody it may take from holds enough, or they have "
        f"run for less than {young} s."
    )


def asks(w: Workload) -> Resources:
    """What all its pods ask together."""
    total = Resources()
    for pods in w.spec.podSets:
        total.update(
            {name: amount * pods.count for name, amount in pod_requests(pods.template.spec).items()}
        )
    return total


def _history(
    namespace: str, about: set[str], cessions: Iterable[Cession], now: float
) -> Iterable[str]:
    for c in sorted(cessions, key=lambda c: c.metadata.created):
        by = c.spec.preemptor
        said = take_back(c, now)
        when = f"{ago(now - c.metadata.created)} ago"
        if by.namespace == namespace and {by.job, by.workload} & about:
            seconds = f" It had its pods after {said.seconds} s." if said.seconds else ""
            yield (
                f"Take-back {said.name}, {when}, {said.phase}: {said.gives}.{seconds} Why: "
                f"{said.why} {said.message}"
            ).rstrip()
        for v in c.spec.targets:
            if v.namespace == namespace and {v.job, v.workload} & about:
                yield (
                    f"It gave to {said.preemptor} {when}, {v.fromSize} → {v.toSize} pods: "
                    f"{_giving(c, v.uid)} Why: {said.why}"
                ).rstrip()


def _giving(c: Cession, uid: str) -> str:
    v = c.target_status(uid)
    how = "it was stopped whole." if v.stopped else "it trains on."
    if v.cededTime:
        return f"ceded after step {v.step}, {v.durableStep} saved; {how}"
    return (
        f"the deadline passed before it had ceded; {how}"
        if v.forcedTime
        else ("asked." if v.askedTime else "not asked yet.")
    )


# --- words ----------------------------------------------------------------------------------------
def ago(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`: as long as it takes to understand."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _since(condition: Condition, now: float) -> str:
    return f"{ago(now - unix(condition.lastTransitionTime))} ago"


def lines(found: Status) -> Iterable[str]:
    """`cede status` as text."""
    taker = {"Cede": "jobs cede", "Kueue": "Kueue preempts by its own rules"}.get(
        found.preemption, "not said yet who takes back"
    )
    yield f"Policy   mode {found.mode}: {taker}" if found.mode else "Policy   none"
    yield f"Leader   {found.leader or 'nobody'}"
    yield from (f"Nodes    {one}" for one in found.types)
    yield ""
    head = ("TEAM", "NAMESPACE", "OWNS", "USES", "LENDS", "BORROWS", "READY")
    yield from table(
        [
            head,
            *(
                (
                    t.name,
                    t.namespace,
                    t.owns,
                    t.uses,
                    t.lends,
                    t.borrows,
                    "yes" if t.ready else "NO",
                )
                for t in found.teams
            ),
        ]
    )
    for title, some in (("Take-backs under way", found.open), ("Last take-backs", found.last)):
        yield ""
        yield title + ("" if some else ": none")
        for one in some:
            took = f" in {one.seconds} s" if one.seconds else ""
            yield (
                f"  {one.name}: {one.preemptor} ← {one.gives or 'nobody'}; {one.phase}{took}, "
                f"{ago(one.since_s)} ago. {one.why}"
            ).rstrip()
    if found.attention:
        yield ""
        yield "Needs attention"
        yield from (f"  {one}" for one in found.attention)


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            cell.ljust(width)
            for cell, width in zip((cell or "-" for cell in row), widths, strict=True)
        ).rstrip()
