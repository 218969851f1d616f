"""An agent's side of the coordinator: reports the pod's state, and acts on what that decides."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace

from elastic_runtime import json_codec, messages
from elastic_runtime.agent.control_client import Connection, Refused
from elastic_runtime.agent.coordination import (
    MEMBER_PATH,
    RECORD_PATH,
    STACKS_PATH,
    CoordinatorReply,
    CoordinatorState,
    StacksReply,
    host_and_port,
)
from elastic_runtime.agent.coordinator import MISDIRECTED, Coordinator
from elastic_runtime.agent.knowledge import NEVER
from elastic_runtime.agent.membership_view import HEARTBEAT_S, Limits, heartbeat_s
from elastic_runtime.agent.pod_state import merged
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.agent.worker_pool import WorkerPool
from elastic_runtime.messages import Progress

log = logging.getLogger(__name__)
# Both for pods that report every `HEARTBEAT_S`, in proportion for those that do so more rarely: one
# process answers them all, perhaps all at once because it is a new coordinator.
RETRY_DELAY_S = 0.1
REQUEST_TIMEOUT_S = 3.0
# The stacks of the other pods must not delay the end of a worker that hangs.
STACKS_TIMEOUT_S = 0.3
# No request for stacks is known of this coordinator.
STACKS_UNKNOWN = -1


def request_timeout_s(interval_s: float) -> float:
    """`interval_s`: between two reports."""
    return REQUEST_TIMEOUT_S * interval_s / HEARTBEAT_S


def retry_delay_s(interval_s: float) -> float:
    """At random, so that pods do not come back together. `interval_s`: between two reports."""
    factor = 0.5 + secrets.randbelow(1000) / 1000
    return factor * RETRY_DELAY_S * interval_s / HEARTBEAT_S


class CoordinatorClient:
    def __init__(
        self,
        settings: PodSettings,
        pool: WorkerPool,
        end: Callable[[int], None],
        clock: Callable[[], float],
    ) -> None:
        """`end(code)` is called when the job is over for this pod."""
        self.settings = settings
        # If this pod coordinates, it answers its own requests.
        self.coordinator: Coordinator | None = None
        # A copy for the next coordinator.
        self.kept = CoordinatorState()
        # The highest epoch that this pod follows or voted for: lower ones do not count any more.
        self.epoch = 0
        # When the coordinator last answered, by `clock`.
        self.answered_at = NEVER
        # Of this agent, for the others; and of the members of the record, by index.
        self.port = settings.port
        self.addresses = dict[int, str]()
        self._pool = pool
        self._end = end
        self._clock = clock
        self._address = ""
        self._revision = 0
        self._coordinator_name = ""
        # One for each of the two loops: the one waits while the other reports.
        self._reports = self._connection()
        self._replies = self._connection()
        # Until the coordinator says how often this pod should report.
        self._heartbeat_s = heartbeat_s(settings.largest)
        # Of `CoordinatorReply`, as far as this pod has acted on them.
        self._saves_requested = 0
        self._stacks_requested = STACKS_UNKNOWN

    @property
    def limits(self) -> Limits:
        """For as many pods as the newest generation has."""
        return Limits().for_pods(len(self._pool.record.members))

    @property
    def heartbeat_s(self) -> float:
        """Between two reports in which nothing changes."""
        return self._heartbeat_s

    # --- the coordinator --------------------------------------------------------------------------

    def follow(self, address: str, epoch: int) -> None:
        """Report to the coordinator of `epoch` at host:port; empty: to the one of this agent.

        The caller starts the two loops again: they may wait for the last one's answer.
        """
        self.close()
        self.epoch = epoch
        self.answered_at = self._clock()
        self._revision = 0
        self._stacks_requested = STACKS_UNKNOWN
        self._address = address
        self._reports = self._connection()
        self._replies = self._connection()

    def lose(self) -> None:
        """The coordinator is known to coordinate no more: it counts as lost from now on."""
        self.answered_at = min(self.answered_at, self._clock() - self.limits.leaderless_s)

    def _connection(self) -> Connection:
        host, port = host_and_port(self._address) if self._address else ("", 0)
        return Connection(host, port, self.settings.keys, self.settings.job_uid)

    async def _call(
        self,
        connection: Connection,
        method: str,
        path: str,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> bytes:
        """Raises OSError or Refused if the coordinator does not answer."""
        if self.coordinator:
            return (await self.coordinator.handle(method, path, body))[1]
        if not self._address:
            raise ConnectionRefusedError("no coordinator is known")
        timeout_s = timeout_s or request_timeout_s(self._heartbeat_s)
        try:
            return await connection.call(method, path, body, timeout_s=timeout_s)
        except Refused as refused:
            if refused.status == MISDIRECTED:
                self.lose()
            raise

    def close(self) -> None:
        self._reports.close()
        self._replies.close()

    # --- reports ----------------------------------------------------------------------------------

    async def send_reports(self) -> None:
        """Report every change at once, and a heartbeat as often as it asks, until cancelled."""
        while True:
            self._pool.changed.clear()
            await self.send_report()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._pool.changed.wait()

    async def send_report(self) -> None:
        pool = self._pool
        report = pool.state.report(
            self.settings.index,
            self.settings.address,
            port=self.port,
            epoch=self.epoch,
            record=pool.record,
            trained=pool.trained,
            done=pool.done,
            kept=self.kept,
        )
        pool.state.progress = Progress()
        if self._reports.is_open:
            # This coordinator knows them: from an earlier report, or because it chose them.
            report = replace(report, members=())
        try:
            await self._call(self._reports, "POST", MEMBER_PATH, json_codec.encode(report))
            pool.reported_waits = report.waits
            self.answered_at = self._clock()
        except (OSError, Refused, asyncio.CancelledError) as error:
            # Reported again, with the members, when a coordinator answers.
            self._reports.close()
            pool.state.progress = merged(report.progress, pool.state.progress)
            if isinstance(error, asyncio.CancelledError):
                raise
            log.debug("the coordinator does not answer", extra={"reason": str(error)})

    def request_stacks(self) -> None:
        """Ask the other pods of the job to log their stacks, without waiting for the answer."""
        # Before the request: the coordinator may ask this pod before it answers.
        self._stacks_requested += 1
        self._requesting = asyncio.create_task(self._request_stacks())

    async def _request_stacks(self) -> None:
        connection = self._connection()
        with suppress(OSError, Refused), closing(connection):
            body = await self._call(connection, "POST", STACKS_PATH, timeout_s=STACKS_TIMEOUT_S)
            self._stacks_requested = json_codec.decode(StacksReply, body).stacks_requested

    # --- decisions of the coordinator -------------------------------------------------------------

    async def receive_replies(self) -> None:
        """Act on every decision as soon as it is made, until cancelled."""
        path = RECORD_PATH
        while True:
            try:
                body = await self._call(self._replies, "GET", f"{path}?after={self._revision}")
            except (OSError, Refused) as error:
                log.debug("the coordinator does not answer", extra={"reason": str(error)})
                self._revision = 0
                self._stacks_requested = STACKS_UNKNOWN
                await asyncio.sleep(retry_delay_s(self._heartbeat_s))
                continue
            self.apply(json_codec.decode(CoordinatorReply, body))

    def apply(self, reply: CoordinatorReply) -> None:
        """Keep what the coordinator decided, and send the workers what is new to them.

        Nothing of it counts once this pod voted for another.
        """
        if reply.epoch < self.epoch:
            return
        pool = self._pool
        # The same pod may coordinate again.
        self.epoch = reply.epoch
        self.answered_at = self._clock()
        self._revision = reply.revision
        self.kept = merge_kept(self.kept, reply.kept)
        pool.others_wait = bool(set(reply.waiting) - {self.settings.index})
        if reply.stacks_requested > self._stacks_requested:
            if self._stacks_requested != STACKS_UNKNOWN:
                # In a task of its own: the next record must not wait for it.
                self._logging = asyncio.create_task(pool.log_stacks())
            self._stacks_requested = reply.stacks_requested
        self._heartbeat_s = max(reply.heartbeat_s, HEARTBEAT_S)
        record = reply.record or pool.record
        if reply.addresses:
            self.addresses.update(zip(record.members, reply.addresses, strict=True))
        # A new coordinator may not know yet that a record is valid.
        is_known = record.order == pool.record.order and len(record.electors) > 0
        if record.order >= pool.record.order and record != pool.record and not is_known:
            pool.set_record(record)
        is_in_none = pool.state.broken >= pool.state.generation
        if reply.finished and (is_in_none or pool.state.ended):
            # This pod is in no generation, or its scripts have ended, and none will follow.
            pool.state.finished = True
            self._end(0)
        if reply.coordinator != self._coordinator_name:
            # A new coordinator counts from 0; a worker counts the requests that it receives.
            self._coordinator_name = reply.coordinator
            self._saves_requested = 0
        if reply.saves_requested > self._saves_requested:
            self._saves_requested = reply.saves_requested
            pool.send(messages.SaveRequested())


def merge_kept(kept: CoordinatorState, newer: CoordinatorState) -> CoordinatorState:
    """The state a pod keeps so that a new coordinator can recover it.

    Values that the new coordinator does not know yet do not overwrite kept ones.
    """
    if newer.wanted is not None and newer.ordered_at >= kept.ordered_at:
        kept = replace(
            kept, wanted=newer.wanted, cession=newer.cession, ordered_at=newer.ordered_at
        )
    if newer.durable_step:
        kept = replace(
            kept, durable_step=newer.durable_step, digest=newer.digest, save_s=newer.save_s
        )
    return kept
