"""Notes in the cluster how far the elastic jobs are, for `cede jobs`, `cede explain` and the
page."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from cede.api import job_progress, names
from cede.api.job_progress import NOTHING, Progress, ProgressConfigMap
from cede.api.objects import CONFIG_MAPS, Json
from cede.kube.client import Client
from cede.kube.errors import ApiError, Invalid, NotFound, TooManyRequests, Unreachable
from cede.kube.threads import run_in_thread
from scheduler.faults import Fault, Faults
from scheduler.leader_clock import LeaderClock
from scheduler.progress_notes import RETRY_S, ROUND_S, Report, Written, due, notes

log = logging.getLogger("scheduler.progress_writer")
ALL = ""
"""In place of a namespace."""


class ProgressWriter:
    """`look` returns what is known of the runtimes."""

    def __init__(
        self, client: Client, clock: LeaderClock, look: Callable[[], Iterable[Report]]
    ) -> None:
        self._client = client
        self._clock = clock
        self._look = look
        # by namespace; None: of this lead, nothing was read yet
        self._written: dict[str, Written] | None = None
        self._notes: Mapping[str, Progress] = {}
        self._not_before = 0.0
        # the last refusal, so that a lasting one is logged once; by namespace, ALL for the server
        self._refusals = dict[str, str]()
        # of the last round
        self._faults: Sequence[Fault] = ()

    async def run(self) -> None:
        """Runs until it is cancelled. Nothing depends on it, so no failure ends it."""
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.write()
            except Exception:
                log.exception("progress not noted")

    async def write(self) -> None:
        """One round, if we lead."""
        if not self._clock.leads:
            self._written = None
            self._refusals.clear()
            return
        now = self._clock.now()
        if now < self._not_before:
            return
        try:
            if self._written is None:
                self._written = await self._read()
                self._notes = {
                    namespace: written.progress or NOTHING
                    for namespace, written in self._written.items()
                }
            await self._write(self._written, now)
        except ApiError as error:
            self._not_before = now + RETRY_S
            self._report(ALL, error)

    async def _read(self) -> dict[str, Written]:
        """The notes of whoever led before."""
        config_maps, _ = await self._client.list(
            CONFIG_MAPS, ProgressConfigMap, fields=job_progress.FIELDS, unreadable=[]
        )
        return {item.metadata.namespace: Written(job_progress.read(item)) for item in config_maps}

    async def _write(self, written: dict[str, Written], now: float) -> None:
        reports, before = list(self._look()), self._notes
        faults = Faults()
        self._notes = await run_in_thread(lambda: notes(reports, before, now, faults))
        self._report_faults(faults.all)
        for namespace in due(self._notes, written, now):
            if not self._clock.leads:
                return
            # until it has succeeded
            written[namespace] = Written(None, now)
            progress = self._notes.get(namespace, NOTHING)
            try:
                await self._write_one(namespace, progress)
            except ApiError as error:
                if isinstance(error, Unreachable | TooManyRequests):
                    raise
                self._report(namespace, error)
                continue
            for place in (ALL, namespace):
                self._refusals.pop(place, None)
            written[namespace] = Written(progress, now)
            if not progress.jobs:
                del written[namespace]

    async def _write_one(self, namespace: str, progress: Progress) -> None:
        key = (namespace, names.PROGRESS)
        if not progress.jobs:
            with suppress(NotFound):
                await self._client.delete(CONFIG_MAPS, key)
            return
        labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
        metadata = {"name": names.PROGRESS, "labels": labels}
        data = {job_progress.KEY: progress.text()}
        body: Json = {"metadata": metadata, "data": data}
        try:
            await self._client.apply(CONFIG_MAPS, key, body)
        except Invalid as error:
            if "immutable" not in error.message:
                raise
            # only a deletion ends what a member has set
            with suppress(NotFound):
                await self._client.delete(CONFIG_MAPS, key)
            await self._client.apply(CONFIG_MAPS, key, body)

    def _report_faults(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            if fault not in self._faults:
                facts = {"job": fault.subject, "reason": fault.reason}
                log.error("progress of a job not noted", extra=facts)
        self._faults = faults

    def _report(self, place: str, error: ApiError) -> None:
        if self._refusals.get(place) != str(error):
            facts = {"namespace": place, "reason": str(error)}
            log.warning("progress not noted", extra=facts)
        self._refusals[place] = str(error)
