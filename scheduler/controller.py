"""Observe, decide, apply: one pass of the scheduler."""

import asyncio
import logging
import threading
from collections.abc import Collection, Sequence
from typing import Any

from cede.api import names
from cede.api.kueue import Job, Lease, LeaseSpec, MetadataOnly
from cede.api.objects import POLICIES, PRIORITY_CLASSES, rfc3339
from cede.api.policy import ClusterPolicy, PolicySpec
from cede.causes.snapshot import Snapshot as Around
from cede.kube.cache import Cache, all_synced
from cede.kube.client import MUTE_S, Client
from cede.kube.errors import ApiError, Unreachable
from cede.kube.loop import Unfinished
from cede.kube.threads import run_in_thread
from elastic_runtime.contract import State
from scheduler.apply import Applier
from scheduler.leader_clock import LeaderClock
from scheduler.metrics import PASS_SECONDS, PLAN_FAULTS, SNAPSHOT_AGE, CessionMetrics
from scheduler.plan import Plan, plan
from scheduler.progress_notes import Report
from scheduler.root_key import RootKey
from scheduler.runtime_client import Endpoint, RuntimeClient
from scheduler.snapshot import overdue, snapshot
from scheduler.snapshot.disagreement import Count, believed
from scheduler.snapshot.kinds import KINDS, LABELS, OPTIONAL
from scheduler.snapshot.memory import remember
from scheduler.snapshot.snapshot import RawObjects, Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

log = logging.getLogger("scheduler")
BUSY_INTERVAL_S = 0.5
"""Until the next pass while a Cession is open, if no change wakes the scheduler before."""
QUIET_INTERVAL_S = 5.0
"""The same while none is open."""
MAX_CACHE_AGE_S = MUTE_S + 90.0
"""Nothing is decided on a copy that the server has not confirmed for so long: a mute watch has been
replaced by a list by then, if the server answers at all."""
FIRST_POLL_TIMEOUT_S = 5.0
NO_POLICY = PolicySpec(mode="Observe")


class Controller:
    """Caches of everything that the scheduler reads. What it remembers from pass to pass, it also
    finds again after a restart."""

    def __init__(self, client: Client, wake: asyncio.Event, clock: LeaderClock) -> None:
        self.wake = wake
        self._root_key = RootKey(client, clock.now)
        self.runtimes = RuntimeClient(
            lambda: self._root_key.values, wake.set, refused=self._root_key.doubt
        )
        self._clock = clock
        self._objects: dict[str, Cache[Any]] = {
            name: Cache(
                client,
                kind,
                cls,
                labels=LABELS.get(name, ""),
                changed=wake.set,
                is_optional=name in OPTIONAL,
            )
            for name, (kind, cls) in KINDS.items()
        }
        self._policies = Cache(client, POLICIES, ClusterPolicy, changed=wake.set)
        # only events need them
        self._classes = Cache(client, PRIORITY_CLASSES, MetadataOnly)
        self._applier = Applier(client, self.runtimes, clock.now)
        self._last_plan = Plan(())
        # whether every runtime has answered once, or failed to
        self._has_polled = False
        # by the event loop's clock
        self._followed_at = float("-inf")
        self._followed: Sequence[Endpoint] = ()
        self._metrics = CessionMetrics()
        # two threads may take a snapshot
        self._memory = snapshot.Memory()
        self._memory_lock = threading.Lock()
        # since when our counts of quota differ from Kueue's
        self._differing_since: dict[Count, float] = {}
        # since when Kueue should have done something
        self._expected_since: dict[str, float] = {}

    @property
    def caches(self) -> list[Cache[Any]]:
        return [*self.needed_caches, self._classes]

    @property
    def needed_caches(self) -> list[Cache[Any]]:
        return [*self._objects.values(), self._policies]

    @property
    def policy(self) -> ClusterPolicy | None:
        return self._policies.get(("", names.POLICY_NAME))

    async def reconcile(self) -> float:
        """One pass. Returns the seconds until the next one if nothing changes before.

        Raises ApiError without a root key, and while a copy may be too old to decide on. Raises
        Unfinished if an error left out the claims of all teams: as long as this process leads,
        Kueue does not preempt for them either.
        """
        await self._root_key.refresh()
        self._check_age()
        if not self._has_polled:
            await self.poll_runtimes()
        self._clock.note_pass()
        objects = self.observe()
        policy = self.policy.spec if self.policy else NO_POLICY
        now = self._clock.now()
        SNAPSHOT_AGE.set(max(cache.age_s for cache in self.needed_caches))
        current, decision, expected = await run_in_thread(
            lambda: self._decide(objects, policy, now)
        )
        if any(job.leader_worker_set for job in current.admitted):
            # Kueue has admitted groups, so the kind is installed, perhaps since a moment ago
            self._objects["leader_worker_sets"].look_again()
        self._metrics.note(current, now)
        self._remember_disagreements(current)
        self._expected_since = remember(self._expected_since, expected, now)
        await self._report(decision)
        with PASS_SECONDS.labels("actions").time():
            await self._applier.apply(decision.actions, objects)
        self._follow_jobs_of(current)
        if all(cession.ended for cession in current.cessions):
            self._clock.adjust()
        is_busy = bool(decision.actions) or any(cession.open for cession in current.cessions)
        sleep_s = BUSY_INTERVAL_S if is_busy else QUIET_INTERVAL_S
        takes_nothing = any(fault.concerns_all_claims for fault in decision.faults)
        if takes_nothing and policy.mode == "Enforce":
            raise Unfinished(sleep_s)
        return sleep_s

    def observe(self) -> RawObjects:
        """What the caches and the runtimes show now."""
        objects: dict[str, Any] = {name: cache.all() for name, cache in self._objects.items()}
        objects["cessions"] = self._applier.latest(objects["cessions"])
        return RawObjects(
            **objects,
            policies=self._policies.all(),
            statuses=self.runtimes.statuses(),
            observations=self.runtimes.observations(),
            led_since=self._clock.led_since,
            believed=believed(self._differing_since, self._clock.now()),
            overdue=overdue.overdue(self._expected_since, self._clock.now()),
        )

    def look_around(self) -> tuple[Around, list[Job]]:
        """What explains the jobs, as the command reads it, and the Jobs. A leader asks, so a
        scheduler leads."""
        now = self._clock.now()
        lease = LeaseSpec(names.SCHEDULER, rfc3339(now, micro=True), leaseDurationSeconds=15)
        classes = self._classes.all() if self._classes.synced.is_set() else []
        around = Around(
            policy=self.policy,
            allocations=self._objects["allocations"].all(),
            cessions=self._applier.latest(self._objects["cessions"].all()),
            queues=self._objects["cluster_queues"].all(),
            leases={names.SCHEDULER_LEASE: Lease(spec=lease)},
            incomplete=frozenset(c.kind.plural for c in self.needed_caches if c.unreadable),
            workloads=self._objects["workloads"].all(),
            local_queues=self._objects["local_queues"].all(),
            cohorts=self._objects["cohorts"].all(),
            priority_classes=frozenset(item.metadata.name for item in classes) or None,
            oversized=self._last_plan.oversized,
        )
        return around, self._objects["jobs"].all()

    def look_at_runtimes(self) -> list[Report]:
        """What is known of the runtimes of all elastic jobs that have quota."""
        statuses, observations = self.runtimes.statuses(), self.runtimes.observations()
        return [
            Report(
                job=endpoint.job,
                uid=endpoint.uid,
                has_pods=bool(endpoint.addresses),
                status=statuses.get(endpoint.uid),
                observed=observations.get(endpoint.uid),
            )
            for endpoint in self._followed
        ]

    async def poll_runtimes(self) -> None:
        """Afterwards every runtime has answered once, or failed to in time."""
        await self._root_key.refresh()
        await self._follow()
        await self.runtimes.poll_all(FIRST_POLL_TIMEOUT_S)
        self._has_polled = True

    async def listen(self) -> None:
        """Follows the runtimes until cancelled, also while another replica leads."""
        await all_synced(self.needed_caches)
        clock = asyncio.get_running_loop().time
        while True:
            try:
                if not self._clock.leads:
                    self._metrics.stand_by()
                # a leader follows them in every pass
                if clock() - self._followed_at >= QUIET_INTERVAL_S:
                    await self._root_key.refresh()
                    await self._follow()
            except ApiError as error:
                log.warning("runtimes not followed", extra={"reason": str(error)})
            except Exception:
                # what cannot be read now may be readable later
                log.exception("runtimes not followed")
            await asyncio.sleep(QUIET_INTERVAL_S)

    async def _follow(self) -> None:
        objects = self.observe()
        self._follow_jobs_of(await run_in_thread(lambda: self._take(objects)))

    def _follow_jobs_of(self, current: Snapshot) -> None:
        self._followed = _endpoints(current)
        self.runtimes.follow(self._followed)
        self._followed_at = asyncio.get_running_loop().time()

    def _decide(
        self, objects: RawObjects, policy: PolicySpec, now: float
    ) -> tuple[Snapshot, Plan, Collection[str]]:
        with PASS_SECONDS.labels("snapshot").time():
            current = self._take(objects)
        with PASS_SECONDS.labels("plan").time():
            return current, plan(current, policy, now), overdue.find_expected(current)

    def _take(self, objects: RawObjects) -> Snapshot:
        with self._memory_lock:
            return snapshot.take(objects, self._memory)

    def _check_age(self) -> None:
        oldest = max(self.needed_caches, key=lambda cache: cache.age_s)
        if oldest.age_s > MAX_CACHE_AGE_S:
            raise Unreachable(
                f"the server has sent nothing about {oldest.kind.plural} for {oldest.age_s:.0f} s"
            )

    def _remember_disagreements(self, current: Snapshot) -> None:
        now = self._clock.now()
        before = believed(self._differing_since, now)
        self._differing_since = remember(self._differing_since, current.disagreements, now)
        for queue, (flavor, resource) in believed(self._differing_since, now) - before:
            log.warning(
                "Kueue's count of a ClusterQueue does not follow its Workloads",
                extra={"queue": queue, "flavor": flavor, "resource": resource},
            )

    async def _report(self, decision: Plan) -> None:
        """What is new since the last plan: the reasons and the faults in the log, the notices as
        events."""
        last = self._last_plan
        self._last_plan = decision
        if decision.why != last.why:
            for why in decision.why:
                log.info("planned", extra={"why": why})
        for fault in decision.faults:
            PLAN_FAULTS.inc()
            if fault not in last.faults:
                log.error("not planned", extra={"subject": fault.subject, "reason": fault.reason})
        await self._applier.apply(note for note in decision.notices if note not in last.notices)


def _endpoints(current: Snapshot) -> Sequence[Endpoint]:
    """The runtimes of all elastic jobs."""
    targets = {
        target.uid
        for cession in current.cessions
        if cession.open
        for target in cession.spec.targets
    }
    return [
        Endpoint(
            job=job.job,
            uid=job.job_uid,
            addresses=job.addresses,
            is_changing=job.job_uid in targets or _is_resizing(job),
            size=job.parallelism,
            base=job.base,
        )
        for job in current.admitted
        if job.is_elastic_job and job.job_uid
    ]


def _is_resizing(job: AdmittedWorkload) -> bool:
    """Whether the runtime has not reached the size of its Job yet."""
    return job.runtime is not None and (
        job.runtime.state != State.TRAINING or job.runtime.size != job.parallelism
    )
