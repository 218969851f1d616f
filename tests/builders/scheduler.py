"""A queue, a waiting Workload, a running job, with defaults: a case shows only what it is about."""

from collections import Counter

from cede.api.cession import Cession, CessionSpec, Preemptor, Target
from cede.api.objects import Meta, rfc3339
from cede.api.reasons import CessionReason
from cede.api.resources import Quota, Resources
from elastic_runtime.contract import Status
from scheduler.cohort import Limit, Queue, Tree
from scheduler.snapshot import Running, Snapshot, Waiting

GPU = "nvidia.com/gpu"
KEY = ("a100", GPU)
NOW = 10_000.0


def gpus(n: int) -> Quota:
    return Counter({KEY: n})


def queue(
    name: str,
    nominal: int = 4,
    used: int = 0,
    borrowing: int | None = None,
    lending: int | None = None,
    **more: object,
) -> Queue:
    limits = {KEY: Limit(nominal, borrowing, lending)}
    return Queue(
        name,
        "cede",
        limits,
        gpus(used),
        flavors=(((GPU,), ("a100",)),),
        version="7",
        **more,  # type: ignore[arg-type]
    )


def tree(*queues: Queue, own: int = 0) -> Tree:
    return Tree({q.name: q for q in queues}, gpus(own))


def waiting(
    name: str = "claim", queue: str = "vision", pods: int = 4, priority: int = 50, **more: object
) -> Waiting:
    facts = {
        "created": rfc3339(NOW),
        "each": ((Resources({GPU: 1}), pods),),
        "job": (queue, name),
    } | more
    return Waiting((queue, f"job-{name}"), f"uid-{name}", queue, priority, **facts)  # type: ignore[arg-type]


def running(
    name: str = "gpt",
    queue: str = "research",
    size: int = 8,
    allowed: tuple[int, ...] = tuple(range(2, 9)),
    **more: object,
) -> Running:
    facts = {
        "priority": 50,
        "since": NOW - 1000,
        "job": (queue, name),
        "job_uid": f"job-uid-{name}",
        "job_version": "7",
        "parallelism": size,
        "allowed": allowed,
        "desired_size": max(allowed, default=size),
        "ready": size,
        "address": "10.0.0.1",
        "status": None,
    } | more
    facts.setdefault("started", facts["since"])
    return Running(
        (queue, f"job-{name}"),
        f"uid-{name}",
        queue,
        usage=gpus(size),
        size=size,
        each=gpus(1),
        **facts,  # type: ignore[arg-type]
    )


def snapshot(queues: Tree | None = None, **more: object) -> Snapshot:
    usage: dict[str, int] = Counter()
    for job in more.get("running", ()):  # type: ignore[attr-defined]
        usage[job.queue] += job.usage[KEY]
    found = queues or tree(*(queue(name, used=usage[name]) for name in ("vision", "research")))
    facts = {"room": (Resources({GPU: 100}),)} | more
    return Snapshot(found, **facts)  # type: ignore[arg-type]


def cession(
    phase: str = "Pending",
    to: int = 4,
    how: str = "Shrink",
    deadline: float = NOW + 30,
    **status: object,
) -> Cession:
    target = Target(
        namespace="research",
        job="gpt",
        uid="job-uid-gpt",
        workload="job-gpt",
        queue="research",
        fromSize=8,
        toSize=to,
        how=how,  # type: ignore[arg-type]
    )
    preemptor = Preemptor(
        namespace="vision",
        workload="job-claim",
        uid="uid-claim",
        job="claim",
        queue="vision",
        creationTime=rfc3339(NOW - 1),
    )
    spec = CessionSpec(
        reason=CessionReason.RECLAIM_OWN_QUOTA,
        preemptor=preemptor,
        targets=[target],
        deadline=rfc3339(deadline),
        why="because",
    )
    return Cession.model_validate(
        {
            "metadata": Meta(name="c-1", generation=1, creationTimestamp=rfc3339(NOW)),
            "spec": spec,
            "status": {"phase": phase, **status},
        }
    )


def says(
    state: str = "training", size: int = 8, wanted: int = 0, cession: str = "", **more: object
) -> Status:
    return Status(state=state, size=size, wanted=wanted, cession=cession, **more)  # type: ignore[arg-type]
