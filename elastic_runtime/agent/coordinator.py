"""The agent of pod 0 keeps the job's membership. A replaced pod 0 rebuilds it from the reports."""

import asyncio
import logging
import math
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace

from elastic_runtime import contract, json_codec, messages
from elastic_runtime.agent import membership, metrics
from elastic_runtime.agent.hang_detection import PausableClock
from elastic_runtime.agent.job_progress import JobProgress
from elastic_runtime.agent.membership_view import Limits, Member, View, merge_report
from elastic_runtime.agent.status_text import describe, slow_pod
from elastic_runtime.contract import SizeRequest, State, Status
from elastic_runtime.messages import (
    CoordinatorReply,
    CoordinatorState,
    MemberReport,
    StacksReply,
)

# Between two decisions, unless a report comes earlier.
DECISION_INTERVAL_S = 0.1
# A request for the next record is held open for so long.
LONG_POLL_S = 1.0
# Between two checks whether every pod has sent its last report, unless one comes earlier, and how
# long the silence of a pod is waited for.
LAST_REPORT_INTERVAL_S = 0.5
LAST_REPORT_TIMEOUT_S = 1.0
log = logging.getLogger(__name__)


class Coordinator:
    def __init__(
        self, smallest: int, limits: Limits | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        # After this process itself was frozen, no pod counts as silent.
        self._clock = PausableClock(
            clock or asyncio.get_running_loop().time, 5 * DECISION_INTERVAL_S
        )
        self.limits = limits or Limits()
        now = self._clock()
        self.view = View(smallest=smallest, started_at=now, changed_at=now)
        self.revision = 0
        self.name = secrets.token_hex(6)
        self.progress = JobProgress()
        self.saves_requested = 0
        self.stacks_requested = 0
        # Pods in which a process waits for others in the step in flight.
        self.waiting: set[int] = set()
        self._revised = asyncio.Condition()
        self._reported = asyncio.Event()

    # --- requests ---------------------------------------------------------------------------------

    async def handle(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer a controller or an agent: (status, body). Raises ValueError for a bad body."""
        route, _, query = path.partition("?")
        match method, route:
            case "PUT", contract.SIZE_PATH:
                await self._resize(contract.decode_size(body))
            case "POST", contract.CHECKPOINT_PATH:
                self.saves_requested += 1
                await self._publish()
            case "GET", contract.STATUS_PATH:
                pass
            case "POST", messages.MEMBER_PATH:
                await self._receive(json_codec.decode(MemberReport, body))
                return 200, b"{}"
            case "POST", messages.STACKS_PATH:
                self.stacks_requested += 1
                await self._publish()
                return 200, json_codec.encode(StacksReply(self.stacks_requested))
            case "GET", messages.RECORD_PATH:
                await self._wait_for_revision_after(int(query.partition("=")[2] or 0))
                return 200, json_codec.encode(self._reply())
            case _:
                return 404, json_codec.dump({"message": f"no such call: {method} {route}"})
        return 200, contract.encode(self.status())

    async def _resize(self, request: SizeRequest) -> None:
        if request.size and request.size < self.view.smallest:
            raise ValueError(
                f"size is {request.size}: the smallest allowed is {self.view.smallest}, "
                f"or 0 to stop"
            )
        if (request.size, request.cession) != (self.view.wanted, self.view.cession):
            log.info("size requested", extra={"size": request.size, "cession": request.cession})
            self.view = replace(
                self.view,
                wanted=request.size,
                cession=request.cession,
                changed_at=self._clock() if request.size else self.view.changed_at,
            )
            await self._publish()
        self._reported.set()

    async def _receive(self, report: MemberReport) -> None:
        before = self.view.record
        self.view = merge_report(self.view, report, self._clock())
        if report.waits:
            self.waiting.add(report.index)
        else:
            self.waiting.discard(report.index)
        if not before.generation:
            self.progress.recover(report.kept)
        known = (self.progress.finished, self.progress.durable_step)
        self.progress.own_s[report.index] = report.own_s
        self.progress.add(report.index, report.done, report.progress, before.members, before.abrupt)
        # Pods that wait outside may end when the job has finished. Every pod keeps what is durable.
        if (
            self.view.record != before
            or (self.progress.finished, self.progress.durable_step) != known
        ):
            await self._publish()
        self._reported.set()

    async def _wait_for_revision_after(self, revision: int) -> None:
        """Until there is news; `LONG_POLL_S` at most."""
        if self.revision > revision:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LONG_POLL_S), self._revised:
                await self._revised.wait_for(lambda: self.revision > revision)

    def _reply(self) -> CoordinatorReply:
        return CoordinatorReply(
            revision=self.revision,
            coordinator=self.name,
            record=self.view.record,
            saves_requested=self.saves_requested,
            stacks_requested=self.stacks_requested,
            finished=self.progress.finished,
            waiting=tuple(sorted(self.waiting)),
            kept=CoordinatorState(
                wanted=self.view.wanted,
                cession=self.view.cession,
                durable_step=self.progress.durable_step,
                digest=self.progress.digest,
                save_s=self.progress.save_s,
            ),
        )

    # --- decisions --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Decide whenever a pod has reported, until cancelled."""
        last_decision = self._clock()
        while True:
            self._reported.clear()
            self._clock.tick()
            now = self._clock()
            self.progress.tally.add_state(now - last_decision, self.status().state)
            last_decision = now
            await self._decide()
            with suppress(TimeoutError):
                async with asyncio.timeout(DECISION_INTERVAL_S):
                    await self._reported.wait()

    async def _decide(self) -> None:
        decision = membership.plan(self.view, self._clock(), self.limits)
        if decision.record is None:
            return
        log.info(
            "new generation",
            extra={
                "record": asdict(decision.record),
                "reason": decision.reason.name,
                "why": decision.reason.sentence,
            },
        )
        self.view = replace(self.view, record=decision.record, broke_at=None)
        await self._publish()

    async def _publish(self) -> None:
        """Answer every agent that waits for news."""
        async with self._revised:
            self.revision += 1
            self._revised.notify_all()

    async def wait_for_last_reports(self) -> None:
        """Until every other pod has reported its end or is silent.

        The end is `finished`, or `parked` if the job itself has not finished.
        """
        # As it is now: a job that finishes meanwhile does not make parked pods awaited again.
        job_finished = self.progress.finished
        while self._awaits_last_report(job_finished):
            self._reported.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_REPORT_INTERVAL_S):
                    await self._reported.wait()

    def _awaits_last_report(self, job_finished: bool) -> bool:
        reported_after = self._clock() - LAST_REPORT_TIMEOUT_S
        others = [member for member in self.view.members.values() if member.index]
        return any(
            not (member.finished or (member.parked and not job_finished))
            and member.reported_at > reported_after
            for member in others
        )

    # --- status -----------------------------------------------------------------------------------

    def status(self) -> Status:
        view = self.view
        progress = self.progress
        silent_before = self._clock() - self.limits.silent_s
        state = self._state()
        parked = [
            member.index
            for member in view.members.values()
            if member.parked and member.reported_at >= silent_before
        ]
        is_training = state == State.TRAINING
        return Status(
            state=state,
            size=0 if state == State.STOPPED else len(view.record.members),
            wanted=view.wanted or 0,
            cession=view.cession,
            generation=view.record.generation,
            step=self._step(),
            durableStep=progress.durable_step,
            digest=progress.digest,
            stepSeconds=round(progress.median_step_s, 4),
            samplesPerSecond=round(is_training * progress.samples_per_second, 3),
            saveSeconds=round(progress.save_s, 4),
            pauseSeconds=round(progress.pause_s, 4),
            loss=_finite(progress.loss),
            parked=tuple(sorted(parked)),
            message=progress.text(view.wanted),
            busy=describe(state, view, silent_before, progress.durable_step)
            + (slow_pod(self._own_seconds()) if is_training else ""),
        )

    def _own_seconds(self) -> dict[int, float]:
        return {index: self.progress.own_s.get(index, 0.0) for index in self.view.record.members}

    def _state(self) -> str:
        record = self.view.record
        if self.progress.finished:
            return State.FINISHED
        if record.stop:
            members = self._known_members()
            all_parked = members and all(member.parked for member in members)
            return State.STOPPED if all_parked else State.STOPPING
        if record.generation == 0:
            return State.STARTING
        wanted = self.view.wanted
        has_surplus = wanted and any(index >= wanted for index in record.members)
        return State.TRAINING if self._has_formed() and not has_surplus else State.RESIZING

    def _step(self) -> int:
        """The newest step of the members that have formed; it is known before they commit one."""
        record = self.view.record
        steps = [
            member.step
            for member in self._known_members()
            if member.generation == record.generation or (member.parked and record.stop)
        ]
        return max(steps, default=self.progress.step)

    def _known_members(self) -> list[Member]:
        members = self.view.members
        return [members[index] for index in self.view.record.members if index in members]

    def _has_formed(self) -> bool:
        """Whether all members train in the newest generation."""
        record = self.view.record
        members = self._known_members()
        return (
            bool(members)
            and len(members) == len(record.members)
            and all(member.generation == record.generation for member in members)
        )

    def metrics(self) -> str:
        return metrics.format_job(self.status(), self.progress.tally)


def _finite(loss: float | None) -> float | None:
    return None if loss is None or not math.isfinite(loss) else round(loss, 6)


def merge_kept(kept: CoordinatorState, newer: CoordinatorState) -> CoordinatorState:
    """The state a pod keeps so that a replaced coordinator can recover it.

    Values that the new coordinator does not know yet do not overwrite kept ones.
    """
    if newer.wanted is not None:
        kept = replace(kept, wanted=newer.wanted, cession=newer.cession)
    if newer.durable_step:
        kept = replace(
            kept, durable_step=newer.durable_step, digest=newer.digest, save_s=newer.save_s
        )
    return kept
