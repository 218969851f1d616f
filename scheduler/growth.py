"""Who grows into what is idle. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from cede.api import sizes
from cede.api.objects import unix
from cede.api.resources import Quota, Resources
from elastic_runtime.contract import State
from scheduler.actions import Act, Ask, Resize
from scheduler.cohort import Tree
from scheduler.preemptors import assignments
from scheduler.snapshot import Running, Snapshot, Waiting

# what a runtime is told as the reason, where it is no Cession
EXCESS = "excess"
# a slice not admitted by then is withdrawn: were its job preempted, its pods would run on without
# quota (Kueue 0.19.2)
PENDING_S = 5.0


def grow(seen: Snapshot, now: float, snooze_s: float, promised: bool) -> Iterator[Act]:
    """At most one growth at a time: Kueue 0.19.2 over-admits when two meet in one cycle. None while
    a Cession runs (`promised`)."""
    growing = [job for job in seen.running if job.allowed and job.parallelism > job.size]
    for job in growing:
        slices = [w for w in seen.waiting if w.replaces and w.job_uid == job.job_uid]
        if slices and now - max(unix(w.created) for w in slices) > PENDING_S:
            why = "what was idle is no longer"
            yield Resize(job.job, job.job_uid, job.job_version, job.size, False, why)
    if growing or promised:
        return
    able = [
        j
        for j in seen.running
        if seen.tree.queues[j.queue].ours
        and _settled(j)
        and j.size < j.desired_size
        and now - j.shrunk_at >= snooze_s
    ]
    for job in sorted(able, key=lambda j: (seen.tree.share(j.queue), -j.priority, j.since, j.key)):
        if any(_could_use(seen.tree, waiting, job) for waiting in seen.waiting):
            continue
        top = largest(seen.tree, seen.room, job)
        if top > job.size:
            yield Resize(
                job.job,
                job.job_uid,
                job.job_version,
                top,
                False,
                f"{top - job.size} pods' worth is idle",
            )
            return


def _settled(job: Running) -> bool:
    """Whether it trains on all it has. One that is still starting would only start slower with more
    pods; one that says nothing
    may not even be elastic."""
    trains = (
        job.status is not None
        and job.status.state == State.TRAINING
        and job.status.size == job.size
    )
    return trains and bool(job.allowed) and job.active and job.parallelism == job.size


def excess(seen: Snapshot, giving: Collection[str]) -> Iterator[Ask | Resize]:
    """More is used than there is: two admissions met in one of Kueue's cycles, or quota was cut.
    Who borrows gives it back, gently.

    A job that answers is asked first and resized once it has ceded. Jobs in `giving`, by uid, are
    left to their take-back.
    """
    tree = seen.tree
    able = [
        j
        for j in seen.running
        if j.allowed and j.active and j.size > j.smallest and j.identity not in giving
    ]
    for job in sorted(able, key=lambda j: (j.priority, -j.since, j.key)):
        over = Quota(
            {
                key: -free
                for key, each in job.each.items()
                if each and (free := tree.available(job.queue, key)) < 0
            }
        )
        if not over or not tree.queues[job.queue].ours or not tree.queues[job.queue].borrows(over):
            continue
        pods = max(-(-amount // job.each[key]) for key, amount in over.items())
        size = sizes.largest_within(job.allowed, job.size - pods) or job.smallest
        tree = tree.using(
            job.queue, Quota({key: each * (job.size - size) for key, each in job.each.items()}), -1
        )
        if (
            job.status
            and job.address
            and not (job.status.wanted == size and job.status.ceded(size))
        ):
            yield Ask(job.job, job.job_uid, job.address, size, EXCESS, 0.0)
        else:
            yield Resize(
                job.job, job.job_uid, job.job_version, size, True, "more is in use than there is"
            )


def largest(tree: Tree, room: Iterable[Resources], job: Running) -> int:
    """The largest allowed size within its desired size for which quota and nodes have room now."""
    most = job.size
    for size in job.allowed:
        if size > min(job.desired_size, sizes.MAX_SIZE) or size <= job.size:
            continue
        more = Quota({key: each * (size - job.size) for key, each in job.each.items()})
        if tree.fits(job.queue, more) and _place(room, job.each, size - job.size):
            most = size
    return most


def _place(room: Iterable[Resources], each: Quota, pods: int) -> bool:
    """Whether so many pods more fit on the nodes as they are. Flavors are left to Kueue: it keeps a
    growing job on its own."""
    asked = Resources({resource: amount for (_, resource), amount in each.items() if amount > 0})
    fits = sum(
        min((max(0, free[r]) // amount for r, amount in asked.items()), default=pods)
        for free in room
    )
    return fits >= pods


def _could_use(tree: Tree, waiting: Waiting, job: Running) -> bool:
    """Whether a waiting Workload wants any of what the job would take, and may ever have it."""
    if not waiting.active or waiting.replaces or waiting.queue not in tree.queues:
        return False
    if tree.queues[waiting.queue].cohort != tree.queues[job.queue].cohort:
        return False
    requests: Sequence[Quota] = list(assignments(waiting, tree.queues[waiting.queue]))
    return any(
        any(request[key] for key in job.each)
        and all(amount <= tree.potential(waiting.queue, key) for key, amount in request.items())
        for request in requests
    )
