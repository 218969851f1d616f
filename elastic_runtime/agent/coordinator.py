"""One agent keeps the job's membership. A new coordinator continues from what others keep."""

import asyncio
import heapq
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace

from elastic_runtime import contract, json_codec
from elastic_runtime.agent import (
    absentees,
    coordination,
    job_status,
    membership,
    membership_view,
    metrics,
    size_orders,
)
from elastic_runtime.agent.coordination import (
    CoordinatorReply,
    CoordinatorState,
    MemberReport,
    StacksReply,
)
from elastic_runtime.agent.hang_detection import PausableClock
from elastic_runtime.agent.job_progress import JobProgress
from elastic_runtime.agent.membership_view import Limits, View, heartbeat_s, merge_report
from elastic_runtime.contract import SizeRequest, Status
from elastic_runtime.messages import Record

# Between two decisions, unless a report comes earlier.
DECISION_INTERVAL_S = 0.1
# Times what a decision took: the coordinator takes at most a tenth of a core for them.
DECISION_REST = 9
# A request for the next record is held open for so long, or for a heartbeat if that is longer.
LONG_POLL_S = 1.0
# Between two checks whether every pod has sent its last report, unless one comes earlier, and how
# long the silence of a pod is waited for.
LAST_REPORT_INTERVAL_S = 0.5
LAST_REPORT_TIMEOUT_S = 1.0
# The answer to an agent that should ask another coordinator, and to a size that was requested
# before the one that was obeyed last.
MISDIRECTED = 421
CONFLICT = 409
log = logging.getLogger(__name__)


class Coordinator:
    def __init__(
        self,
        smallest: int,
        limits: Limits | None = None,
        clock: Callable[[], float] | None = None,
        *,
        inherited: View | None = None,
        kept: CoordinatorState | None = None,
    ) -> None:
        """`inherited` and `kept`: what its own agent knows of the last coordinator."""
        # After this process itself was frozen, no pod counts as silent.
        self._clock = PausableClock(
            clock or asyncio.get_running_loop().time, 5 * DECISION_INTERVAL_S
        )
        self.limits = limits or Limits()
        now = self._clock()
        kept = kept or CoordinatorState()
        inherited = inherited or View(smallest=smallest)
        self.view = replace(inherited, started_at=now, changed_at=now)
        # Until it makes a generation, agents may know more of the last coordinator than it does.
        self._inherits = True
        # The highest epoch in a report: above its own, another coordinator is or will be elected.
        self.reported_epoch = self.view.epoch
        # Pods that know nothing of this coordinator ask for what is after 0.
        self.revision = 1
        self.name = secrets.token_hex(6)
        self.progress = JobProgress()
        self.progress.recover(kept)
        self.saves_requested = 0
        self.stacks_requested = 0
        # Pods in which a process waits for others in the step in flight.
        self.waiting: set[int] = set()
        # The record that the pods were sent last, and the revision from which on they know it.
        self._published = self.view.record
        self._record_revision = self.revision
        # Replies without and with the record, and their bytes.
        self._encoded = dict[bool, tuple[CoordinatorReply | None, bytes]]()
        self._revised = asyncio.Condition()
        self._reported = asyncio.Event()

    @property
    def present_limits(self) -> Limits:
        """For as many pods as there are."""
        return self.limits.for_pods(len(self.view.members))

    # --- requests ---------------------------------------------------------------------------------

    async def handle(
        self, method: str, path: str, body: bytes, sent_at: float = 0.0
    ) -> tuple[int, bytes]:
        """Answer a controller or an agent: (status, body). Raises ValueError for a bad body.

        `sent_at`: when a controller signed the request, in Unix seconds.
        """
        route, _, query = path.partition("?")
        match method, route:
            case "PUT", contract.SIZE_PATH:
                if refusal := await self._resize(contract.decode_size(body), sent_at):
                    return CONFLICT, json_codec.dump({"message": refusal})
            case "POST", contract.CHECKPOINT_PATH:
                self.saves_requested += 1
                await self._publish()
            case "GET", contract.STATUS_PATH:
                pass
            case "POST", coordination.MEMBER_PATH:
                report = json_codec.decode(MemberReport, body)
                self.reported_epoch = max(self.reported_epoch, report.epoch)
                if report.epoch > self.view.epoch:
                    return MISDIRECTED, json_codec.dump({"message": "it coordinates no more"})
                await self._receive(report)
                return 200, b"{}"
            case "POST", coordination.STACKS_PATH:
                self.stacks_requested += 1
                await self._publish()
                return 200, json_codec.encode(StacksReply(self.stacks_requested))
            case "GET", coordination.RECORD_PATH:
                revision = int(query.partition("=")[2] or 0)
                await self._wait_for_revision_after(revision)
                return 200, self._encoded_reply(revision)
            case _:
                return 404, json_codec.dump({"message": f"no such call: {method} {route}"})
        return 200, contract.encode(self.status())

    async def _resize(self, request: SizeRequest, sent_at: float) -> str:
        """Obey the request, unless it is older than the last one: then the reason why not."""
        order = size_orders.obey(self.view, request, sent_at, self._clock())
        self.view = order.view
        if order.is_new:
            log.info("size requested", extra={"size": request.size, "cession": request.cession})
            await self._publish()
        self._reported.set()
        return order.refusal

    async def _receive(self, report: MemberReport) -> None:
        before = self.view.record
        self.view = merge_report(self.view, report, self._clock())
        if report.waits:
            self.waiting.add(report.index)
        else:
            self.waiting.discard(report.index)
        if self._inherits:
            self.progress.recover(report.kept)
            self.progress.finished |= report.finished
        known = (self.progress.finished, self.progress.durable_step)
        self.progress.finished |= membership_view.all_have_ended(self.view)
        self.progress.own_s[report.index] = report.own_s
        self.progress.add(report.index, report.done, report.progress, before.members, before.abrupt)
        # Pods that wait outside may end when the job has finished. Every pod keeps what is durable.
        is_new = (self.progress.finished, self.progress.durable_step) != known
        if is_new or self.view.record != before:
            await self._publish()
        self._reported.set()

    async def _wait_for_revision_after(self, revision: int) -> None:
        """Until there is news, for as long as a poll may last."""
        if self.revision > revision:
            return
        with suppress(TimeoutError):
            poll_s = max(LONG_POLL_S, heartbeat_s(len(self.view.members)))
            async with asyncio.timeout(poll_s), self._revised:
                await self._revised.wait_for(lambda: self.revision > revision)

    def _encoded_reply(self, known_revision: int) -> bytes:
        """With the record, unless the pod knows it. All pods receive the same, encoded once."""
        is_known = self._record_revision <= known_revision <= self.revision
        reply = self._reply(None if is_known else self.view.record)
        before, encoded = self._encoded.get(is_known, (None, b""))
        if reply != before:
            encoded = json_codec.encode(reply)
            self._encoded[is_known] = (reply, encoded)
        return encoded

    def _reply(self, record: Record | None) -> CoordinatorReply:
        return CoordinatorReply(
            revision=self.revision,
            coordinator=self.name,
            epoch=self.view.epoch,
            record=record,
            addresses=membership_view.addresses(self.view, record) if record else (),
            saves_requested=self.saves_requested,
            stacks_requested=self.stacks_requested,
            finished=self.progress.finished,
            # With two each pod sees whether another one waits.
            waiting=tuple(heapq.nsmallest(2, self.waiting)),
            heartbeat_s=heartbeat_s(len(self.view.members)),
            kept=CoordinatorState(
                wanted=self.view.wanted,
                cession=self.view.cession,
                ordered_at=self.view.ordered_at,
                durable_step=self.progress.durable_step,
                digest=self.progress.digest,
                save_s=self.progress.save_s,
            ),
        )

    def misses_majority(self) -> bool:
        return absentees.misses_majority(self.view, self._clock(), self.present_limits)

    def mark_gone(self, index: int) -> None:
        """A member's pod does not run any more: nobody listens where its agent was."""
        self.view = absentees.without(self.view, index)
        self._reported.set()

    # --- decisions --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Decide whenever a pod has reported, until cancelled."""
        last_decision = self._clock()
        while True:
            began = time.perf_counter()
            self._reported.clear()
            self._clock.tick()
            now = self._clock()
            state = job_status.state(self.view, self.progress)
            self.progress.tally.add_state(now - last_decision, state)
            last_decision = now
            await self._decide()
            # With thousands of pods there is always a new report.
            rest_s = DECISION_REST * (time.perf_counter() - began)
            await asyncio.sleep(min(rest_s, DECISION_INTERVAL_S))
            with suppress(TimeoutError):
                async with asyncio.timeout(DECISION_INTERVAL_S):
                    await self._reported.wait()

    async def _decide(self) -> None:
        before = self.view.record
        self.view = absentees.confirm(self.view, self._clock(), self.present_limits)
        if self.view.record is not before:
            await self._publish()
        decision = membership.plan(self.view, self._clock(), self.present_limits)
        if decision.record is None:
            return
        reason = decision.reason
        facts = {"record": asdict(decision.record), "reason": reason.name, "why": reason.sentence}
        log.info("new generation", extra=facts)
        self._inherits = False
        self.view = absentees.announce(self.view, decision.record)
        await self._publish()
        # The members before may be no more, or be this pod alone.
        self._reported.set()

    async def _publish(self) -> None:
        """Answer every agent that waits for news."""
        async with self._revised:
            self.revision += 1
            if self.view.record is not self._published:
                self._published = self.view.record
                self._record_revision = self.revision
            self._revised.notify_all()

    def releases(self, index: int) -> bool:
        """Whether the requested size, which is not 0, leaves this pod out."""
        return bool(self.view.wanted) and index >= (self.view.wanted or 0)

    async def wait_for_last_reports(self, own_index: int) -> None:
        """Until every pod other than `own_index` has reported its end or is silent.

        The end is `finished`, or `parked` if the job itself has not finished.
        """
        # As it is now: a job that finishes meanwhile does not make parked pods awaited again.
        job_finished = self.progress.finished
        while membership_view.awaits_last_report(
            self.view, own_index, self._clock() - LAST_REPORT_TIMEOUT_S, job_finished=job_finished
        ):
            self._reported.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_REPORT_INTERVAL_S):
                    await self._reported.wait()

    # --- status -----------------------------------------------------------------------------------

    def status(self) -> Status:
        silent_before = self._clock() - self.present_limits.silent_s
        return job_status.status(self.view, self.progress, silent_before)

    def metrics(self) -> str:
        return metrics.format_job(self.status(), self.progress.tally)
