"""PURE. Passes of Kueue and of the scheduler over a world, until nothing changes any more."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cede.api.cession import Cession, Target
from cede.api.cession_status import CessionStatus, TargetStatus
from cede.api.objects import Key, Meta, rfc3339
from cede.api.reasons import CessionPhase
from scheduler.actions import (
    Action,
    AmendCession,
    CreateGuard,
    DeleteCession,
    DeleteGuard,
    JoinGuard,
    OpenCession,
    RecordEvent,
    RecordWorkloadEvent,
    RequestSize,
    RequeueWorkload,
    ResizeJob,
    SetPrivateQuota,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.cession.preemptor_state import find_preemptor
from scheduler.finish_actions import ReportFinish
from scheduler.plan import plan
from scheduler.preemption.admissions import next_admissions
from scheduler.resizing.missing_pods import PLACEMENT_WAIT_S
from scheduler.save_actions import AnswerSave, RequestSave
from scheduler.server_actions import DrainPod, ScaleServer, scale
from scheduler.snapshot.servers import by_id
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from whatif import effects
from whatif.changes import Change, Effect
from whatif.world import World, trains

MAX_PASSES = 500
MAX_ROUNDS = 5
"""Between two rounds so much time passes that every job may be taken from, and grow, again."""

Noted = PendingWorkload | AdmittedWorkload
WithoutEffect = (
    OpenCession
    | UpdateCession
    | AmendCession
    | DeleteCession
    | SetQueueingStrategy
    | RequeueWorkload
    | ReportFinish
    | RequestSave
    | AnswerSave
    | CreateGuard
    | JoinGuard
    | DeleteGuard
    | SetPrivateQuota
    | RecordEvent
    | RecordWorkloadEvent
)
"""Actions that change nobody's size: records, and steps of a take-back, which happens as a whole.
mypy notices an action that is neither one of these nor performed."""


@dataclass
class Course:
    """What happened in a world."""

    changes: list[Change] = field(default_factory=list)
    # what the scheduler's plans said, without repetitions
    sentences: dict[str, None] = field(default_factory=dict)
    # parts that the scheduler could not plan
    faults: dict[str, None] = field(default_factory=dict)
    # False: there would be further changes
    is_complete: bool = True


def run(world: World, update: Callable[[World], bool] | None = None) -> Course:
    """All that follows. `update` sets the quotas before each pass, and returns whether one changed.

    Every take-back is taken to succeed, and every runtime to hand over as soon as it is asked.
    """
    passes = _Passes(world, update)
    open_cessions = [cession for cession in world.cessions.values() if cession.open]
    for cession in open_cessions:
        passes.complete(cession, world.snapshot())
    settings = world.policy.preemption
    round_s = 1 + max(
        settings.minRuntimeSeconds, settings.growCooldownSeconds, int(PLACEMENT_WAIT_S)
    )
    for number in range(MAX_ROUNDS):
        before = len(passes.course.changes)
        passes.until_quiet()
        if not passes.are_left:
            break
        if number and len(passes.course.changes) == before:
            return passes.course
        world.now += round_s
    passes.course.is_complete = False
    return passes.course


class _Passes:
    def __init__(self, world: World, update: Callable[[World], bool] | None) -> None:
        self.course = Course()
        self._world = world
        self._update = update
        self._start = world.now
        # by the uid of a Job that waits for a slice
        self._why_grows: dict[str, str] = {}
        self._passes = 0

    @property
    def are_left(self) -> bool:
        return self._passes < MAX_PASSES

    def until_quiet(self) -> None:
        """Until a pass changes nothing."""
        while self.are_left and self._pass():
            self._passes += 1

    def _pass(self) -> bool:
        """Whether something changed. Kueue admits what fits; then the scheduler plans."""
        world = self._world
        if self._update and self._update(world):
            return True
        snapshot = world.snapshot()
        is_fair = world.policy.idleCompute == "FairShare"
        pending = next_admissions(snapshot, fair_sharing=is_fair)
        admitted = [self._admit(workload) for workload in pending]
        if any(admitted):
            return True
        decision = plan(snapshot, world.policy, world.now)
        self.course.sentences |= dict.fromkeys(decision.why)
        self.course.faults |= {
            f"{fault.subject}: {fault.reason}": None for fault in decision.faults
        }
        opened = [action for action in decision.actions if isinstance(action, OpenCession)]
        for action in opened:
            self.complete(action.cession, snapshot)
        if opened:
            # the other actions were planned on what is no more
            return True
        performed = [self._perform(action, snapshot) for action in decision.actions]
        return any(performed)

    # --- take-backs -------------------------------------------------------------------------------
    def complete(self, cession: Cession, snapshot: Snapshot) -> None:
        """Its targets give, and its preemptor is admitted."""
        now = rfc3339(self._world.now)
        statuses = list[TargetStatus]()
        for target in cession.spec.targets:
            job = snapshot.find_job(target.uid)
            if job and job.active and target.toSize < job.size:
                self._give(job, target, cession, snapshot)
                stops = target.how == "Stop"
                statuses.append(TargetStatus(uid=target.uid, stopped=stops, releasedTime=now))
        name = cession.metadata.name
        self._world.cessions[name] = cession.model_copy(
            update={
                "metadata": Meta(name=name, uid=name, creationTimestamp=now),
                "status": CessionStatus(
                    phase=CessionPhase.COMPLETED, targets=statuses, completionTime=now
                ),
            }
        )
        preemptor = find_preemptor(cession, self._world.snapshot()).pending
        if preemptor:
            self._admit(preemptor, cession)

    def _give(
        self, job: AdmittedWorkload, target: Target, cession: Cession, snapshot: Snapshot
    ) -> None:
        world = self._world
        why = cession.spec.why
        match target.how:
            case "Stop":
                effects.stop(world, job)
                self._note(job, Effect.STOPS, 0, cession.spec.reason, why)
            case "Drain":
                effects.drain_pod(world, job)
                if job.server:
                    server = by_id(snapshot.servers)[job.server]
                    left = world.servers[job.server].spec.replicas - 1
                    effects.scale_server(world, scale(server, left, why, shrinks=True))
                self._note(job, Effect.DRAINS, 0, cession.spec.reason, why)
            case "Shrink":
                effects.resize_job(world, job.job, target.toSize, shrinks=True)
                self._note(job, Effect.SHRINKS, target.toSize, cession.spec.reason, why)

    # --- Kueue ------------------------------------------------------------------------------------
    def _admit(self, pending: PendingWorkload, cession: Cession | None = None) -> bool:
        before = self._world.snapshot()
        grown = before.find_job(pending.identity) if pending.is_scale_up else None
        unplaced = effects.admit(self._world, before, pending)
        if unplaced is None:
            return False
        pods = sum(pod_set.count for pod_set in pending.pod_sets)
        rule = cession.spec.reason if cession else ""
        why = cession.spec.why if cession else "its team's queue has room for it"
        if grown:
            why = self._why_grows.pop(pending.job_uid, why)
            self._note(grown, Effect.GROWS, grown.size + pods, rule, why)
        else:
            self._note(pending, Effect.ADMITTED, pods, rule, why)
        self._note_unplaced(pending, unplaced)
        return True

    def _note_unplaced(self, job: Noted, unplaced: int) -> None:
        if unplaced:
            why = f"{unplaced} of its pods find no node with room for them"
            self._note(job, Effect.LACKS_NODES, 0, "", why)

    # --- the scheduler ----------------------------------------------------------------------------
    def _perform(self, action: Action, snapshot: Snapshot) -> bool:
        """Whether it changes who has what. Cessions and reservations do not."""
        match action:
            case ResizeJob():
                return self._resize(action, snapshot)
            case RequestSize():
                job = snapshot.find_job(action.job_uid)
                if job is None or action.size >= job.size or job.has_ceded(action.size):
                    return False
                self._world.statuses[action.job_uid] = trains(action.size, job.runtime)
                return True
            case SetWorkloadActive():
                return self._set_active(action, snapshot)
            case DrainPod():
                job = snapshot.find_job(action.job_uid)
                if job:
                    effects.drain_pod(self._world, job)
                    self._note(job, Effect.DRAINS, 0, "", action.why)
                return job is not None
            case ScaleServer():
                self._scale(action, snapshot)
                return True
            case _:
                _check_has_no_effect(action)
                return False

    def _resize(self, action: ResizeJob, snapshot: Snapshot) -> bool:
        job = snapshot.find_job(action.job_uid)
        effects.resize_job(self._world, action.job, action.size, shrinks=action.shrinks)
        if job and action.size < job.size:
            self._note(job, Effect.SHRINKS, action.size, "", action.why)
        elif job:
            self._why_grows[action.job_uid] = action.why
        return True

    def _set_active(self, action: SetWorkloadActive, snapshot: Snapshot) -> bool:
        job = snapshot.find_admitted(action.uid)
        if job and not action.active:
            effects.stop(self._world, job)
            self._note(job, Effect.STOPS, 0, "", action.why)
        return effects.set_active(
            self._world, action.workload, action.cession, active=action.active
        )

    def _scale(self, action: ScaleServer, snapshot: Snapshot) -> None:
        server = by_id(snapshot.servers)[action.server]
        effects.scale_server(self._world, action)
        if action.replicas > server.replicas:
            queue = server.pods[0].queue if server.pods else ""
            sizes = (server.replicas, action.replicas)
            self._add(server.key, queue, Effect.GROWS, sizes, "", action.why)

    # --- what is noted ----------------------------------------------------------------------------
    def _note(
        self,
        job: PendingWorkload | AdmittedWorkload,
        effect: Effect,
        size: int,
        rule: str,
        why: str,
    ) -> None:
        before = job.size if isinstance(job, AdmittedWorkload) else 0
        key = (job.key[0], job.name)
        self._add(key, job.queue, effect, (before, size), rule, why)

    def _add(
        self, key: Key, team: str, effect: Effect, sizes: tuple[int, int], rule: str, why: str
    ) -> None:
        after_s = round(self._world.now - self._start)
        self.course.changes.append(Change(after_s, *key, team, effect, *sizes, rule, why))


def _check_has_no_effect(_: WithoutEffect) -> None:
    """For the type checker only."""
