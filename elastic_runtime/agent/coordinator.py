"""The parent in pod 0 keeps the job's membership. Everything it knows can be rebuilt from what the
members say."""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from elastic_runtime import contract
from elastic_runtime.agent import membership, metrics
from elastic_runtime.agent.control_server import dump
from elastic_runtime.agent.hang_detection import Awake
from elastic_runtime.agent.membership import Limits, Member, View
from elastic_runtime.agent.status_text import busy, cut
from elastic_runtime.contract import SizeRequest, State, Status

MEMBER_PATH = "/v1/member"
RECORD_PATH = "/v1/record"
STACKS_PATH = "/v1/stacks"
# between two looks at the members
LOOK_S = 0.1
# how long a question for news is held open
HOLD_S = 1.0
# of what Progress holds: what is known of the newest save
DURABLE = ("durable_step", "digest", "save_s")
log = logging.getLogger(__name__)


@dataclass
class Progress:
    """What the leading rank said last; `message`, `finished` and a newer save are anybody's."""

    step: int = 0
    loss: float = 0.0
    seconds: list[float] = field(default_factory=list)
    pause_s: float = 0.0
    durable_step: int = 0
    digest: str = ""
    save_s: float = 0.0
    message: str = ""
    finished: bool = False


class Coordinator:
    def __init__(
        self, smallest: int, limits: Limits | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        # frozen itself, it takes nobody for silent
        self._clock = Awake(clock or asyncio.get_running_loop().time, 5 * LOOK_S)
        self.limits = limits or Limits()
        self.view = View(smallest=smallest, born=self._clock(), changed=self._clock())
        self.revision, self.name = 0, secrets.token_hex(6)
        self.cession = ""
        self.progress = Progress()
        self.save_wish = 0
        self.stacks_wish = 0
        # pods of which a process waits for others in the step in flight
        self.waiting: set[int] = set()
        self.tally = metrics.Tally()
        self._done: dict[int, metrics.Done] = {}
        self._news = asyncio.Condition()
        self._wake = asyncio.Event()

    # --- what is asked of it ----------------------------------------------------------------------

    async def handle(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """One request, of a controller or of a member. Raises ValueError for a body that says
        nothing."""
        route, _, query = path.partition("?")
        match method, route:
            case "PUT", contract.SIZE_PATH:
                await self._resize(contract.decode_size(body))
            case "POST", contract.CHECKPOINT_PATH:
                self.save_wish += 1
                await self._publish()
            case "GET", contract.STATUS_PATH:
                pass
            case "POST", "/v1/member":
                await self._hear(json.loads(body))
                return 200, b"{}"
            case "POST", "/v1/stacks":
                self.stacks_wish += 1
                await self._publish()
                return 200, dump({"stacks": self.stacks_wish})
            case "GET", "/v1/record":
                return 200, await self._tell(int(query.partition("=")[2] or 0))
            case _:
                return 404, dump({"message": f"no such call: {method} {route}"})
        return 200, contract.encode(self.status())

    async def _resize(self, asked: SizeRequest) -> None:
        if asked.size and asked.size < self.view.smallest:
            raise ValueError(
                f"size is {asked.size}: the smallest allowed is {self.view.smallest}, or 0 to stop"
            )
        if (asked.size, asked.cession) != (self.view.wanted, self.cession):
            log.info("size asked", extra={"size": asked.size, "cession": asked.cession})
            self.view = replace(
                self.view,
                wanted=asked.size,
                changed=self._clock() if asked.size else self.view.changed,
            )
            self.cession = asked.cession
            await self._publish()
        self._wake.set()

    async def _hear(self, said: dict[str, Any]) -> None:
        now = self._clock()
        index = int(said["index"])
        before = self.view.members.get(index)
        same = before is not None and before.incarnation == said["incarnation"]
        member = Member(
            index,
            str(said["incarnation"]),
            str(said["address"]),
            int(said["generation"]),
            tuple(said["members"]),
            int(said["step"]),
            bool(said["ready"]),
            bool(said["leaving"]),
            bool(said["parked"]),
            bool(said["finished"]),
            int(said["broken"]),
            int(said.get("newest", 0)),
            now,
            before.since if same and before else now,
        )
        turned = before is None or (before.ready, before.leaving, before.incarnation) != (
            member.ready,
            member.leaving,
            member.incarnation,
        )
        # a new coordinator hears what the last one was asked and knew
        if self.view.wanted is None and said.get("wanted") is not None:
            self.view = replace(self.view, wanted=int(said["wanted"]))
            self.cession = str(said.get("cession", ""))
        if (
            self.progress.durable_step < int(said.get("durable_step", 0))
            and not self.view.record.generation
        ):
            for fact in DURABLE:
                setattr(self.progress, fact, said[fact])
        self.view = replace(
            self.view,
            members={**self.view.members, index: member},
            changed=now if turned else self.view.changed,
        )
        self.waiting = self.waiting | {index} if said.get("waits") else self.waiting - {index}
        record = self.view.record
        known = (self.progress.finished, self.progress.durable_step)
        self._count(index, metrics.Done(**said.get("done", {})), said.get("progress", {}))
        if member.broken == record.generation > 0 and self.view.broke is None:
            self.view = replace(self.view, broke=now)
        store = said.get("store")
        if (
            store
            and int(store["generation"]) == record.generation
            and not record.store
            and index == record.members[0]
        ):
            self.view = replace(
                self.view, record=replace(record, store=f"{member.address}:{store['port']}")
            )
        if (
            self.view.record != record
            or (self.progress.finished, self.progress.durable_step) != known
        ):
            # who waits outside may go when all is finished; a new coordinator will ask what was
            # durable
            await self._publish()
        self._wake.set()

    def _count(self, index: int, done: metrics.Done, progress: dict[str, Any]) -> None:
        """What the job did: the leading pod's word. A save may end with another, which led when it
        began: that counts if it is newer."""
        more = done.since(self._done.get(index, done))
        self._done[index] = done
        if self.view.record.members[:1] == (index,):
            self.tally.worked(more)
        elif self.view.record.members:
            newer = int(progress.get("durable_step", 0)) > self.progress.durable_step
            anybodys = (
                ("finished", "message", *DURABLE, "stall_s") if newer else ("finished", "message")
            )
            progress = {fact: value for fact, value in progress.items() if fact in anybodys}
        for fact, value in progress.items():
            if fact == "seconds":
                self.progress.seconds = [*self.progress.seconds[-20:], float(value)]
            elif fact == "message":
                self.progress.message = cut(value)
            elif hasattr(self.progress, fact):
                # a newer runtime's ranks may say more
                setattr(self.progress, fact, value)
        if "pause_s" in progress:
            self.tally.paused(progress["pause_s"], self.view.record.abrupt)
        if "save_s" in progress:
            self.tally.saved(progress.get("stall_s", 0.0))

    async def _tell(self, after: int) -> bytes:
        """The record, at once if it is news, else when it is or after a moment."""
        if self.revision <= after:
            try:
                async with asyncio.timeout(HOLD_S), self._news:
                    await self._news.wait_for(lambda: self.revision > after)
            except TimeoutError:
                pass
        told = {
            "revision": self.revision,
            "record": asdict(self.view.record),
            "save": self.save_wish,
            "finished": self.progress.finished,
        }
        told |= {
            "stacks": self.stacks_wish,
            "waiting": sorted(self.waiting),
            "coordinator": self.name,
        }
        return dump(
            told
            | {"kept": {"wanted": self.view.wanted, "cession": self.cession, **self._durable()}}
        )

    def _durable(self) -> dict[str, Any]:
        return {fact: getattr(self.progress, fact) for fact in DURABLE}

    # --- what it does -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Forever: look at the members, decide, publish."""
        looked = self._clock()
        while True:
            self._wake.clear()
            self._clock.tick()
            before = looked
            looked = self._clock()
            self.tally.passed(looked - before, self.status().state)
            if next_record := membership.plan(self.view, self._clock(), self.limits):
                log.info("new generation", extra={"record": asdict(next_record)})
                self.view = replace(self.view, record=next_record, broke=None)
                await self._publish()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _publish(self) -> None:
        """All members are told how things stand."""
        async with self._news:
            self.revision += 1
            self._news.notify_all()

    async def heard_out(self) -> None:
        """Until every other pod has said that it finished, or parked when the job goes on, or fell
        silent."""
        done = self.progress.finished
        while any(
            m.index
            and not (m.finished or (m.parked and not done))
            and m.heard + 1.0 > self._clock()
            for m in self.view.members.values()
        ):
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self._wake.wait()

    def formed(self) -> bool:
        """Whether all members train in the newest generation."""
        record = self.view.record
        members = self.view.members
        return bool(record.members) and all(
            i in members and members[i].generation == record.generation for i in record.members
        )

    def status(self) -> Status:
        view = self.view
        progress = self.progress
        since = self._clock() - self.limits.silent_s
        everyone = [view.members[i] for i in view.record.members if i in view.members]
        stood = [
            m.step
            for m in everyone
            if m.generation == view.record.generation or (m.parked and view.record.stop)
            # before any commit too
        ]
        if progress.finished:
            state = State.FINISHED
        elif view.record.stop:
            state = (
                State.STOPPED if everyone and all(m.parked for m in everyone) else State.STOPPING
            )
        elif view.record.generation == 0:
            state = State.STARTING
        else:
            beyond = [i for i in view.record.members if view.wanted and i >= view.wanted]
            state = State.TRAINING if self.formed() and not beyond else State.RESIZING
        return Status(
            state=state,
            size=0 if state == State.STOPPED else len(view.record.members),
            wanted=view.wanted or 0,
            cession=self.cession,
            generation=view.record.generation,
            step=max(stood, default=progress.step),
            durableStep=progress.durable_step,
            digest=progress.digest,
            stepSeconds=round(median(progress.seconds), 4) if progress.seconds else 0.0,
            saveSeconds=round(progress.save_s, 4),
            pauseSeconds=round(progress.pause_s, 4),
            loss=round(progress.loss, 6),
            parked=tuple(
                sorted(m.index for m in view.members.values() if m.parked and m.heard >= since)
            ),
            message=progress.message,
            busy=busy(state, view, since, progress.durable_step),
        )

    def metrics(self) -> str:
        return metrics.of_job(self.status(), self.tally)


def keep(known: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """What a pod keeps for a new coordinator: as it is told, but for what a new one does not know
    before it hears it from us."""
    unheard = {"wanted", "cession"} if told["wanted"] is None else set[str]()
    if not told["durable_step"]:
        unheard.update(DURABLE)
    return known | {fact: value for fact, value in told.items() if fact not in unheard}


__all__ = ["MEMBER_PATH", "RECORD_PATH", "STACKS_PATH", "Coordinator", "Progress", "keep"]
