"""PURE. (what is asked, the cluster's objects) → what would happen to whom, and why."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.budget import MonthUse
from cede.api.objects import ALLOCATIONS, Json, Meta, rfc3339
from cede.api.policy import ClusterPolicy, PolicySpec
from cede.api.resources import amount
from quota_controller.status.allocation import allocation_statuses
from scheduler.snapshot.snapshot import Memory, RawObjects, Snapshot
from whatif.answer import Answer, JobAnswer, TeamAnswer
from whatif.assumptions import assumptions
from whatif.changes import Change, Effect
from whatif.draining import check_nodes, drain
from whatif.job_answer import answer_job, refused
from whatif.passes import Course, run
from whatif.quota import Planned, QuotaFollower, plan_quota, with_allocation
from whatif.submission import BadQuestion, submission, with_priority
from whatif.teams import compare_teams
from whatif.world import World

NO_POLICY = (
    "there is no ClusterPolicy: no team has quota, and the scheduler takes nothing; apply one first"
)


@dataclass(frozen=True)
class Picture:
    """The cluster at one moment."""

    objects: RawObjects
    # Unix seconds
    now: float
    # raw Namespaces; empty if they are not known
    namespaces: tuple[Json, ...] = ()
    # what teams have used in this month; None if it is not known
    month_use: MonthUse | None = None
    # False: no runtime was asked what it does
    knows_runtimes: bool = True

    @cached_property
    def policy(self) -> ClusterPolicy:
        """Raises BadQuestion if there is none."""
        if not self.objects.policies:
            raise BadQuestion(NO_POLICY)
        return self.objects.policies[0]

    @property
    def spec(self) -> PolicySpec:
        return self.policy.spec

    @cached_property
    def _memory(self) -> Memory:
        return Memory()

    def world(self, objects: RawObjects | None = None) -> World:
        return World(objects or self.objects, self.spec, self.now, self._memory)

    @cached_property
    def snapshot(self) -> Snapshot:
        return self.world().snapshot()

    @cached_property
    def quota(self) -> Planned:
        """The quota_controller's plan as things are."""
        return self.plan(self.objects, self.snapshot)

    def plan(self, objects: RawObjects, snapshot: Snapshot) -> Planned:
        known = (self.policy, self.now, self.namespaces, self.month_use)
        return plan_quota(objects, snapshot.quota, *known)

    @cached_property
    def without(self) -> Course:
        """What would happen anyway."""
        return run(self.world())


# --- questions ------------------------------------------------------------------------------------
def ask_submit(picture: Picture, manifest: Json, namespace: str) -> Answer:
    """A user creates this Job. Raises BadQuestion."""
    asked = submission(manifest, namespace, picture.objects, picture.policy, picture.now)
    question = f"Job {'/'.join(asked.key)}"
    if asked.complaints:
        job = refused(asked.key, asked.complaints)
        return Answer(question, job, (), (), (), 0, (), (), ())
    world = picture.world()
    world.jobs[asked.key] = asked.job
    world.put(with_priority(asked.workload, picture.quota.priorities))
    course = run(world)
    job = answer_job(asked, course, world.snapshot())
    return _answer(question, picture, world, course, job=job)


def ask_allocation(picture: Picture, manifest: Json) -> Answer:
    """An admin applies this ComputeAllocation. Raises BadQuestion."""
    allocation = _allocation(manifest, picture)
    objects = with_allocation(picture.objects, allocation)
    world = picture.world(objects)
    course = run(world, _follow(picture))
    planned = picture.plan(world.objects, world.snapshot())
    status = allocation_statuses(planned.plan, planned.snapshot, {}, picture.now)
    conditions = status[allocation.metadata.name].conditions
    shown = (names.READY, names.WITHIN_BUDGET)
    notes = [condition["message"] for condition in conditions if condition["type"] in shown]
    problem = planned.plan.problems.get(allocation.metadata.name)
    notes += [problem.message] if problem and problem.message not in notes else []
    question = f"ComputeAllocation {allocation.metadata.name}"
    return _answer(question, picture, world, course, notes=notes)


def ask_drain(picture: Picture, nodes: Sequence[str]) -> Answer:
    """An admin drains these nodes. Raises BadQuestion."""
    world = picture.world()
    check_nodes(world, nodes)
    before = world.snapshot()
    moved = drain(world, nodes)
    lacking = list[Change]()
    for move in moved:
        job = before.find_admitted(move.workload.metadata.uid)
        if job and move.unplaced:
            why = f"{move.unplaced} of its pods find no other node with room for them"
            key = (job.key[0], job.name)
            lacking.append(
                Change(0, *key, job.queue, Effect.LACKS_NODES, job.size, job.size, "", why)
            )
    course = run(world, _follow(picture))
    course.changes[:0] = lacking
    placed = sum(not move.unplaced for move in moved)
    jobs = "1 job finds" if placed == 1 else f"{placed} jobs find"
    notes = [f"{jobs} room for all pods on other nodes"] if placed else []
    return _answer(f"drain {', '.join(nodes)}", picture, world, course, notes=notes)


def _follow(picture: Picture) -> Callable[[World], bool]:
    return QuotaFollower(picture.quota, picture.policy, picture.namespaces).update


def _allocation(manifest: Json, picture: Picture) -> ComputeAllocation:
    kind = (manifest.get("apiVersion"), manifest.get("kind"))
    if kind != (ALLOCATIONS.api_version, ALLOCATIONS.kind):
        raise BadQuestion(
            f"the file has a {kind[1] or 'text without kind'} of {kind[0] or 'no apiVersion'}: it "
            f"must have a {ALLOCATIONS.kind} of {ALLOCATIONS.api_version}"
        )
    try:
        written = ComputeAllocation.model_validate(manifest)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BadQuestion(f"{field} of the allocation is wrong: {first['msg']}") from error
    name = written.metadata.name
    if not name:
        raise BadQuestion("the allocation has no metadata.name: give it one")
    _check_quantities(written)
    existing = [a for a in picture.objects.allocations if a.metadata.name == name]
    if existing:
        return existing[0].model_copy(update={"spec": written.spec})
    metadata = Meta(name=name, uid=f"whatif-{name}", creationTimestamp=rfc3339(picture.now))
    return ComputeAllocation(metadata=metadata, spec=written.spec)


def _check_quantities(allocation: ComputeAllocation) -> None:
    """As the schema of the API server does."""
    spec = allocation.spec
    for entry in (*spec.quotas, *spec.sharing.borrowLimits):
        try:
            amount("cpu", entry.cpu or 0)
            amount("memory", entry.memory or 0)
        except ValueError as error:
            raise BadQuestion(f"instance type {entry.instanceType}: {error}") from error


# --- the answer -----------------------------------------------------------------------------------
def _answer(
    question: str,
    picture: Picture,
    world: World,
    course: Course,
    *,
    job: JobAnswer | None = None,
    notes: Sequence[str] = (),
) -> Answer:
    anyway = {change.kind: change for change in picture.without.changes}
    changes = tuple(change for change in course.changes if change.kind not in anyway)
    both = tuple(change for change in course.changes if change.kind in anyway)
    after = world.snapshot()
    touched = {(change.namespace, change.job) for change in course.changes}
    unchanged = [w for w in picture.snapshot.admitted if (w.key[0], w.name) not in touched]
    return Answer(
        question=question,
        job=job,
        notes=tuple(notes),
        changes=changes,
        anyway=both,
        unchanged=len(unchanged),
        teams=tuple(_teams(picture, world, after)),
        incomplete=tuple(_incomplete(course, picture.policy)),
        assumptions=assumptions(picture.knows_runtimes, bool(picture.namespaces)),
    )


def _teams(picture: Picture, world: World, after: Snapshot) -> Sequence[TeamAnswer]:
    return compare_teams(picture.quota, picture.plan(world.objects, after))


def _incomplete(course: Course, policy: ClusterPolicy) -> Iterator[str]:
    yield from course.faults
    if policy.status.preemption == "Kueue":
        yield "Kueue preempts by its own rules now: whom it would stop is not predicted"
    if not course.is_complete:
        yield "jobs would still change after the last pass that was followed: the list goes on"
