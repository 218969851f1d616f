"""Records why jobs wait as events of the jobs, for who knows only `kubectl describe job`."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import Gauge

from cede.api import names
from cede.api.kueue import Job
from cede.api.objects import WORKLOADS
from cede.api.wait_reasons import WaitReason
from cede.api.written_workload import WrittenWorkload
from cede.causes.index import Index
from cede.causes.snapshot import Snapshot
from cede.kube import events
from cede.kube.client import Client
from cede.kube.errors import ApiError
from cede.kube.threads import run_in_thread
from scheduler.faults import Fault, Faults
from scheduler.leader_clock import LeaderClock
from scheduler.wait_events import (
    ROUND_S,
    Known,
    Round,
    WaitEvent,
    Waiting,
    as_members_see,
    next_round,
    not_recorded,
    wait_event,
)

log = logging.getLogger("scheduler.announcer")
WAITING = Gauge(
    "cede_waiting_jobs",
    "Jobs of teams that wait or are stopped, by the first reason that `cede explain` gives a "
    "member. A job is explained again within minutes.",
    ["reason"],
)


class Announcer:
    """`look` returns what surrounds the jobs, and the Jobs."""

    def __init__(
        self,
        client: Client,
        clock: LeaderClock,
        look: Callable[[], tuple[Snapshot, Iterable[Job]]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._look = look
        # of this lead: the next leader records what still holds
        self._known: Mapping[str, Known] = {}
        # those that the log has
        self._faults = frozenset[Fault]()

    async def run(self) -> None:
        """Runs until it is cancelled. Nothing depends on it, so no failure ends it."""
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.announce()
            except Exception:
                log.exception("jobs not explained")

    async def announce(self) -> None:
        """One round, if we lead."""
        if not self._clock.leads:
            self._known = {}
            show_waiting({})
            return
        now = self._clock.now()
        snapshot, jobs = self._look()
        known, led_since = self._known, self._clock.led_since
        result = await run_in_thread(lambda: next_round(snapshot, jobs, known, now, led_since))
        self._known = result.known
        show_waiting(result.counts)
        self._report(result)
        refused = list[str]()
        for event in result.events:
            if not await self._record(await self._with_writer(event, snapshot, now), now):
                refused.append(event.waiting.identity)
        self._known = not_recorded(result.known, refused)

    def _report(self, result: Round) -> None:
        """A fault is logged once for as long as its job waits."""
        for fault in result.faults:
            if fault not in self._faults:
                log.error("not explained", extra={"subject": fault.subject, "reason": fault.reason})
        present = {fault for fault in self._faults if fault.subject in result.known}
        self._faults = frozenset({*present, *result.faults})

    async def _with_writer(self, event: WaitEvent, snapshot: Snapshot, now: float) -> WaitEvent:
        """Of a job that is inactive, the event with who made it so. Our own copy leaves out who
        wrote what."""
        workload = event.waiting.workload
        if workload is None or workload.spec.active:
            return event
        namespace, name = workload.metadata.key
        try:
            read, _ = await self._client.list(
                WORKLOADS, WrittenWorkload, namespace=namespace, fields=f"metadata.name={name}"
            )
        except ApiError as error:
            log.warning("writer not read", extra={"workload": name, "reason": str(error)})
            return event
        if not read or read[0].spec.active:
            return event
        waiting = Waiting(read[0], event.waiting.job)
        own = [item for item in snapshot.workloads if item.metadata.namespace == namespace]
        index = Index(as_members_see(snapshot, own), now)
        causes = Faults().attempt(name, (), waiting.causes, index)
        return wait_event(waiting, causes, now) if causes else event

    async def _record(self, event: WaitEvent, now: float) -> bool:
        """Whether the server took it."""
        facts = {"job": "/".join(event.key), "reason": event.reason, "why": event.note}
        log.info("waits", extra=facts)
        try:
            await events.record(
                self._client,
                manager=names.SCHEDULER,
                regarding=events.reference(event.kind, event.key, event.uid),
                reason=event.reason,
                note=event.note,
                now=now,
            )
        except ApiError as error:
            log.warning("event not written", extra=facts | {"error": str(error)})
            return False
        return True


def show_waiting(counts: Mapping[WaitReason, int]) -> None:
    """There are none of other reasons."""
    WAITING.clear()
    for reason, count in counts.items():
        WAITING.labels(reason).set(count)
