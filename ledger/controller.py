"""Follows the cluster by watches, and adds what it sees to the books."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import Counter, Gauge

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.audit_chain import Head
from cede.api.budget import MonthUse
from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.api.objects import ALLOCATIONS, CESSIONS, POLICIES, WORKLOADS
from cede.api.policy import ClusterPolicy
from cede.kube import audit_head, month_use
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.threads import run_in_thread
from ledger import books
from ledger.bookkeeper import Batch, Bookkeeper, Books, Seen
from ledger.database import Database, DatabaseError
from ledger.month_sums import read_month_use
from ledger.timeline import SECOND

log = logging.getLogger(__name__)
PASS_S = 10.0
"""The longest time between two passes. Changes make one at once."""
MAX_AHEAD_S = 600.0
"""Our clock may be so far ahead of that of the API server. Books that end in the future record
nothing until then."""
OPENING_S = 60.0
"""The longest time that a pass waits for the books to be open. An upgrade of the tables may take
hours, and a leader that finishes no pass for 3 minutes ends."""
USE_INTERVAL_S = 60.0
"""How often it is noted what teams with a budget have used."""
WRITTEN = Gauge("cede_ledger_written_timestamp_seconds", "How far the ledger's books go.")
FAILED_WRITES = Counter(
    "cede_ledger_failed_writes_total", "Times that the ledger's database could not be written."
)
GAP_SECONDS = Counter("cede_ledger_gap_seconds_total", "Time that the books show as not recorded.")
AUDIT_INTACT = Gauge(
    "cede_ledger_audit_intact",
    "0 if the audit is known to be changed, or to lack the record that was noted.",
)
# a replica that does not lead knows nothing of it
AUDIT_INTACT.set(1)


class Controller:
    """`clock` gives Unix seconds."""

    def __init__(
        self, client: Client, wake: asyncio.Event, clock: Callable[[], float], database: Database
    ) -> None:
        self.wake = wake
        self._client = client
        self._clock = clock
        self._database = database
        self._policies = Cache(client, POLICIES, ClusterPolicy, changed=wake.set)
        self._allocations = Cache(client, ALLOCATIONS, ComputeAllocation, changed=wake.set)
        self._cessions = Cache(client, CESSIONS, Cession, changed=wake.set)
        self._workloads = Cache(client, WORKLOADS, Workload, changed=wake.set)
        # None until the books were read, and when somebody else has written into them
        self._bookkeeper: Bookkeeper | None = None
        # while the books are read
        self._opening: asyncio.Task[Books] | None = None
        self._is_intact = False
        # the newest record, until it is noted outside of the database
        self._to_note: Head | None = None
        # when the use of budgets was noted last (Unix seconds)
        self._use_noted = 0.0

    @property
    def caches(self) -> Iterable[Cache[Any]]:
        return (self._policies, self._allocations, self._cessions, self._workloads)

    @property
    def needed_caches(self) -> Iterable[Cache[Any]]:
        return self.caches

    async def reconcile(self) -> float:
        """One pass: look, note, write. A database that fails changes nothing in what is noted."""
        if self._leaps() and await self._is_ahead():
            return PASS_S
        try:
            bookkeeper = self._bookkeeper or await self._open()
            if bookkeeper is None:
                return PASS_S
            bookkeeper.look(self._look())
            if batch := bookkeeper.batch():
                await self._write(bookkeeper, batch)
                await self._note_head()
                await self._note_use()
        except DatabaseError as error:
            FAILED_WRITES.inc()
            log.warning("books not written", extra={"reason": str(error)})
        return PASS_S

    def _leaps(self) -> bool:
        """Whether this pass is so late, or the first one, that our clock may have been set."""
        noted = self._bookkeeper.noted if self._bookkeeper else 0
        return self._now() - noted > MAX_AHEAD_S * SECOND

    async def _is_ahead(self) -> bool:
        ahead_s = self._now() / SECOND - await self._client.time()
        if ahead_s <= MAX_AHEAD_S:
            return False
        log.error(
            "nothing recorded: this clock is ahead of that of the API server: set one of them",
            extra={"seconds": round(ahead_s)},
        )
        return True

    def _now(self) -> int:
        return int(self._clock() * SECOND)

    def _look(self) -> Seen:
        now = self._now()
        age_s = max(cache.age_s for cache in self.caches)
        return Seen(
            now=now,
            confirmed=now - int(age_s * SECOND),
            policy=self._policies.get(("", names.POLICY_NAME)),
            allocations=self._allocations.all(),
            workloads=self._workloads.all(),
            cessions=self._cessions.all(),
        )

    async def _open(self) -> Bookkeeper | None:
        """Reads the books, and whether somebody has changed the audit. None if that takes longer:
        the next pass waits again."""
        opened = await self._opened()
        if opened is None:
            log.info("books not open yet", extra={"database": self._database.name})
            return None
        wrong = await self._audit_complaint()
        self._is_intact = not wrong
        AUDIT_INTACT.set(self._is_intact)
        if wrong:
            # the noted record stays as it is: it is the evidence
            log.error("audit not intact", extra={"reason": wrong})
        # an earlier process may have ended before it had noted it
        self._to_note = opened.head
        log.info("books opened", extra={"database": self._database.name})
        self._bookkeeper = Bookkeeper(opened, self._now())
        return self._bookkeeper

    async def _opened(self) -> Books | None:
        now = self._now()
        if self._opening is None:
            opening = run_in_thread(lambda: books.open_books(self._database, now))
            self._opening = asyncio.create_task(opening)
        # a pass that is cancelled leaves it running
        done, _ = await asyncio.wait([self._opening], timeout=OPENING_S)
        if not done:
            return None
        self._opening = None
        return done.pop().result()

    async def _audit_complaint(self) -> str:
        try:
            noted = await audit_head.read(self._client)
        except ValueError as error:
            return str(error)
        wrong, _ = await run_in_thread(lambda: books.verify(self._database, noted))
        return wrong

    async def _write(self, bookkeeper: Bookkeeper, batch: Batch) -> None:
        try:
            await run_in_thread(lambda: books.add(self._database, batch))
        except books.Overtaken:
            # what was not written is a gap, or is in the entries of the other process
            self._bookkeeper = None
            raise
        bookkeeper.has_written(batch)
        WRITTEN.set(batch.until / SECOND)
        for gap in batch.entries.gaps:
            GAP_SECONDS.inc((gap.end - gap.begin) / SECOND)
            seconds = round((gap.end - gap.begin) / SECOND, 1)
            log.warning("not recorded", extra={"reason": gap.reason, "seconds": seconds})
        if batch.audit:
            head = batch.audit[-1].head
            log.info("audit", extra={"head": str(head), "records": len(batch.audit)})
            self._to_note = head

    async def _note_head(self) -> None:
        """With the next batch again if the API server does not take it: until then nobody would
        miss the newest records."""
        head = self._to_note
        if head and self._is_intact and await audit_head.note(self._client, head):
            self._to_note = None

    async def _note_use(self) -> None:
        """For the quota_controller, if there are budgets. With the next batch again if the API
        server does not take it."""
        teams = {item.metadata.name for item in self._allocations.all() if item.spec.budget}
        now = self._clock()
        # also if the clock was set back
        if not teams or abs(now - self._use_noted) < USE_INTERVAL_S:
            return

        async def count() -> MonthUse:
            return await run_in_thread(lambda: read_month_use(self._database, teams))

        if await month_use.note(self._client, count):
            self._use_noted = now
