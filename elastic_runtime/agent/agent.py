"""PID 1 of a training pod: the ranks are its children and live across generations. No torch
here."""

import asyncio
import json
import logging
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from elastic_runtime import contract
from elastic_runtime.agent import control_server, hang_detection, metrics
from elastic_runtime.agent.coordinator import (
    MEMBER_PATH,
    RECORD_PATH,
    STACKS_PATH,
    Coordinator,
    keep,
)
from elastic_runtime.agent.membership import Record
from elastic_runtime.agent.pod_state import Facts, Settings
from elastic_runtime.agent.worker_process import Child, spawn, spied

log = logging.getLogger(__name__)
BEAT_S = 0.3
# a deadline is looked at so long after it
MARGIN_S = 0.005
# between two looks at the processes, at most
WATCH_S = 0.05
# for what a process said before it died
LAST_S = 1.0
# pod 0, when it is sent away: the others may be sent next
STAYS_S = 10.0


class Parent:
    def __init__(self, settings: Settings, script: Sequence[str]) -> None:
        self.settings = settings
        self.script = script
        self.facts, self.record = Facts(), Record()
        self.revision = 0
        self.saves = 0
        # for a new coordinator: what the last one was asked, and knew to be durable
        self.kept: dict[str, Any] = {}
        self.ranks: list[Child] = []
        self.coordinator: Coordinator | None = None
        self._say = asyncio.Event()
        self._over = asyncio.Event()
        # `_samples`: of a step
        self.code = 0
        self._samples = 0
        # until when, by the monotonic clock, a pod that is told to leave may stay
        self._going = 0.0
        # how often since it got beyond where it died before; the step where it last died
        self._deaths = 0
        self._died_at = 0
        self._all_deaths, self._hung, self._done = 0, 0, metrics.Done()
        # as pod 0 said last; how often stacks were asked for
        self._others_wait = False
        self._stacks = -1
        # the coordinator's name
        self._told_by: str | None = None
        self._awake = hang_detection.Awake(time.monotonic, 4 * WATCH_S)

    async def run(self) -> int:
        """Until the job is finished, this pod has left, or the script fails for good; the exit
        code."""
        server = control_server.Server(
            self.settings.key, self.settings.job_uid, self._serve, self._metrics
        )
        port = await server.start(self.settings.port)
        if self.settings.index == 0:
            self.coordinator = Coordinator(self.settings.smallest)
        log.info("pod up", extra={"index": self.settings.index, "port": port})
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, lambda: asyncio.ensure_future(self._leave()))
        tasks = [
            asyncio.create_task(work)
            for work in (self._report(), self._listen(), self._raise(), self._watch())
        ]
        if self.coordinator:
            tasks.append(asyncio.create_task(self.coordinator.run()))
        over = asyncio.create_task(self._over.wait())
        try:
            done, _ = await asyncio.wait({over, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {over}:
                # a defect: say it
                task.result()
            await self._last_words()
        finally:
            self._kill()
            for task in [over, *tasks]:
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)
            await server.stop()
        return self.code

    # --- the ranks --------------------------------------------------------------------------------

    async def _raise(self) -> None:
        """Start the ranks, and start them again when one dies: the pod rejoins, the others have
        gone on."""
        while True:
            self.facts = Facts(incarnation=secrets.token_hex(6), leaving=self.facts.leaving)
            self.ranks = [
                await spawn(self.script, local, self.settings.ranks, self._awake)
                for local in range(self.settings.ranks)
            ]
            # that the last ones died, if they did
            self._say.set()
            self._tell_record()
            hearing = [asyncio.create_task(self._hear(rank)) for rank in self.ranks]
            waiting = {asyncio.create_task(rank.process.wait()): rank for rank in self.ranks}
            pending = set(waiting)
            failed = None
            while pending and failed is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                failed = next(
                    (waiting[t].process.returncode for t in done if waiting[t].process.returncode),
                    None,
                )
            self._kill()
            await asyncio.gather(*pending, return_exceptions=True)
            # its socket may stay open: what it started in a session of its own holds it too
            await asyncio.wait(hearing, timeout=LAST_S)
            for task in hearing:
                task.cancel()
            await asyncio.gather(*hearing, return_exceptions=True)
            for rank in self.ranks:
                rank.close()
            if failed is None:
                self.facts.finished = all(rank.finished for rank in self.ranks)
                left = any(rank.ready and not (rank.finished or rank.ended) for rank in self.ranks)
                if left:
                    log.error(
                        "the script ended before its last step", extra={"step": self.facts.step}
                    )
                self._end(1 if left else 0)
                return
            self._deaths = self._deaths + 1
            self._all_deaths = self._all_deaths + 1
            self._died_at = self.facts.step
            log.warning(
                "rank died",
                extra={"index": self.settings.index, "code": failed, "deaths": self._deaths},
            )
            if self._deaths > self.settings.restarts or self.facts.leaving:
                self.facts = Facts(
                    incarnation=secrets.token_hex(6),
                    leaving=self.facts.leaving,
                    # our last words: those who trained are gone
                )
                self._end(contract.LEFT if self.facts.leaving else failed if failed > 0 else 1)
                return

    def _kill(self) -> None:
        for rank in self.ranks:
            rank.kill()

    async def _hear(self, rank: Child) -> None:
        while line := await rank.reader.readline():
            self._heard(rank, json.loads(line))

    def _heard(self, rank: Child, said: dict[str, Any]) -> None:
        if said["say"] == "pong":
            rank.answered()
            return
        self.facts.heard(rank, self.ranks, said)
        match said["say"]:
            case "formed":
                self._samples = said.get("samples", 0)
            case "step":
                # one that comes to the same error again and again gets nowhere
                if said["step"] > self._died_at:
                    self._deaths = 0
                if rank is self.ranks[0]:
                    self._done = self._done.plus(self._samples, said["seconds"])
            case "parked":
                if self.facts.parked and self.facts.leaving:
                    self._end(contract.LEFT)
            case "arrived":
                # told with the next beat: it is news only if others stay away
                return
        self._say.set()

    async def _watch(self) -> None:
        """Ask every process whether it lives; what hangs is shown, killed and started again like
        one that died."""
        sleep_s = WATCH_S
        while True:
            await asyncio.sleep(sleep_s)
            self._awake.tick()
            sleep_s = WATCH_S
            for rank in (rank for rank in self.ranks if not rank.killed):
                rank.ask()
                others_wait = self._others_wait or self.facts.waits
                pulse = rank.pulse()
                left_s = (
                    hang_detection.answer_s(pulse, self.settings.patience, others_wait)
                    - pulse.unanswered_s
                )
                sleep_s = min(sleep_s, max(left_s, 0.0) + MARGIN_S)
                if why := hang_detection.hangs(pulse, self.settings.patience, others_wait):
                    log.error(
                        "rank hangs",
                        extra={"rank": self.ranks.index(rank), "why": why, "step": self.facts.step},
                    )
                    await self._show_all(rank)
                    self._hung += 1
                    rank.kill()
                    break

    async def _show_all(self, hung: Child) -> None:
        """Into the log: the stacks of this pod's processes, and, through pod 0, of all others'."""
        # before it is asked for: we may be told of our own question before its answer
        self._stacks += 1
        # beside us: others wait for this process to be killed
        self._asking = asyncio.create_task(self._ask_for_stacks())
        await self._show()
        if seen := await spied(hung.process.pid):
            log.info("py-spy", extra={"stacks": seen})

    async def _ask_for_stacks(self) -> None:
        with suppress(OSError, control_server.Refused):
            self._stacks = json.loads(await self._ask("POST", STACKS_PATH, timeout_s=0.3))["stacks"]

    async def _show(self) -> None:
        for local, stacks in enumerate(
            await asyncio.gather(*(rank.stacks() for rank in self.ranks))
        ):
            log.info("stacks", extra={"rank": local, "step": self.facts.step, "stacks": stacks})

    def _metrics(self) -> str:
        answer_s = max((rank.pulse().slowest_answer_s for rank in self.ranks), default=0.0)
        pod = metrics.of_pod(self.facts.step, self._all_deaths, self._hung, answer_s)
        return (self.coordinator.metrics() if self.coordinator else "") + pod

    def _tell_record(self) -> None:
        for rank in self.ranks:
            rank.tell(tell="record", record=asdict(self.record), index=self.settings.index)

    # --- the coordinator --------------------------------------------------------------------------

    async def _serve(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """Pod 0 answers; the others pass a controller's call on to it."""
        if self.coordinator:
            return await self.coordinator.handle(method, path, body)
        if path not in contract.PATHS:
            return 404, control_server.dump(
                {"message": f"{method} {path} is answered by pod 0 only"}
            )
        s = self.settings
        # as its caller signed it: a nonce of our own would let pod 0 take a replay for something
        # new
        try:
            return 200, await control_server.pass_on(
                s.coordinator, s.coordinator_port, s.key, method, path, headers, body, timeout_s=3.0
            )
        except control_server.Refused as refused:
            return refused.status or 502, control_server.dump({"message": refused.message})

    async def _ask(
        self, method: str, path: str, body: bytes = b"", timeout_s: float = 3.0
    ) -> bytes:
        s = self.settings
        if self.coordinator:
            return (await self.coordinator.handle(method, path, body))[1]
        return await control_server.call(
            s.coordinator,
            s.coordinator_port,
            s.key,
            s.job_uid,
            method,
            path,
            body,
            timeout_s=timeout_s,
        )

    async def _report(self) -> None:
        """Tell the coordinator at once what changed, and every `BEAT_S` that we are there."""
        while True:
            self._say.clear()
            await self._report_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._say.wait()

    async def _report_once(self) -> None:
        facts = asdict(self.facts)
        self.facts.progress = {}
        try:
            await self._ask(
                "POST",
                MEMBER_PATH,
                control_server.dump(
                    {
                        **facts,
                        "done": asdict(self._done),
                        "newest": max(facts["newest"], self.record.generation),
                        "index": self.settings.index,
                        "address": self.settings.address,
                        **self.kept,
                    }
                ),
            )
        except (OSError, control_server.Refused) as error:
            # said again when pod 0 is back
            self.facts.progress = facts["progress"] | self.facts.progress
            log.debug("pod 0 does not answer", extra={"reason": str(error)})

    async def _listen(self) -> None:
        """Do as pod 0 tells, as soon as it tells."""
        while True:
            try:
                told = json.loads(await self._ask("GET", f"{RECORD_PATH}?after={self.revision}"))
            except (OSError, control_server.Refused) as error:
                log.debug("pod 0 does not answer", extra={"reason": str(error)})
                self.revision = 0
                self._stacks = -1
                await asyncio.sleep(0.1)
                continue
            self._heed(told)

    def _heed(self, told: dict[str, Any]) -> None:
        """Keep the newest record and what else is told, and hand to the ranks what is new to
        them."""
        self.revision, self.kept = told["revision"], keep(self.kept, told["kept"])
        self._others_wait = bool(set(told.get("waiting", ())) - {self.settings.index})
        if self._stacks < told.get("stacks", 0):
            # beside us: the next record must not wait for it
            if self._stacks >= 0:
                self._showing = asyncio.create_task(self._show())
            self._stacks = told["stacks"]
        record = Record.read(told["record"])
        if record.generation >= self.record.generation and record != self.record:
            self.record = record
            self._tell_record()
        # we are not in it any more: nothing is left to wait for
        if told["finished"] and self.facts.broken >= self.facts.generation:
            self.facts.finished = True
            self._end(0)
        if told.get("coordinator") != self._told_by:
            # a new one counts anew; a rank counts what it is told
            self._told_by = told.get("coordinator")
            self.saves = 0
        if told["save"] > self.saves:
            self.saves = told["save"]
            for rank in self.ranks:
                rank.tell(tell="save")

    # --- the end ----------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """SIGTERM: leave at the end of the step; within the grace, whatever happens."""
        if self.facts.leaving:
            return
        log.info("told to leave", extra={"parked": self.facts.parked})
        self.facts.leaving = True
        self._going = time.monotonic() + max(1.0, self.settings.grace_s - 2.0)
        if self.facts.parked or not self.facts.ready:
            self._end(contract.LEFT)
            return
        self._say.set()
        for rank in self.ranks:
            rank.tell(tell="leave")
        await asyncio.sleep(self._going - time.monotonic())
        log.warning("grace is over", extra={"step": self.facts.step})
        self._end(contract.LEFT)

    def _end(self, code: int) -> None:
        if not self._over.is_set():
            self.code = code
            self._over.set()

    async def _last_words(self) -> None:
        """Say how it ended; pod 0 stays until the others have heard, or two seconds. One that is
        sent away stays longer: without it those
        who are sent next could not agree on a last save."""
        stays = min(self._going - time.monotonic(), STAYS_S) if self.facts.leaving else 0.0
        with suppress(TimeoutError):
            async with asyncio.timeout(max(2.0, stays)):
                await self._report_once()
                if self.coordinator:
                    await self.coordinator.heard_out()
