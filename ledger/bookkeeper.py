"""PURE. Keeps the books between two writes: what was seen, what it sums up to, what to record.

What could not be written stays until it can be, in sums whose size does not grow with the time.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from cede.api.allocation import ComputeAllocation
from cede.api.audit_chain import AuditRecord, Head, next_record
from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.api.policy import ClusterPolicy
from ledger import timeline
from ledger.accounting import Backlogs, Entries, account
from ledger.changes import ContentReader, ObjectName, changes, forgotten
from ledger.claims import ClaimKey, Key, TakeBack, claims, follow, jobs_of
from ledger.months import time_of
from ledger.picture import Picture, PictureReader
from ledger.timeline import SECOND
from ledger.usage import UseReader

WRITE_INTERVAL = 10 * SECOND
MAX_SILENCE = 180 * SECOND
"""A watch is made again when the server was silent for 150 s (cede.kube.client). What is silent
for longer shows no more what happens."""


@dataclass(frozen=True, slots=True)
class Books:
    """Where the database ends."""

    # microseconds since 1970
    written: int
    backlogs: Backlogs = field(default_factory=dict)
    take_backs: dict[Key, TakeBack] = field(default_factory=dict)
    # the newest record of the audit
    head: Head | None = None
    # by object, the newest content in the audit
    recorded: dict[ObjectName, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is added to the books at once."""

    # where the books must end before, and end afterwards
    since: int
    until: int
    entries: Entries
    take_backs: Sequence[TakeBack]
    audit: Sequence[AuditRecord]


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects at one moment, and until when the server has confirmed that all are up to date;
    microseconds since 1970."""

    now: int
    confirmed: int
    policy: ClusterPolicy | None
    allocations: Collection[ComputeAllocation] = ()
    workloads: Collection[Workload] = ()
    cessions: Collection[Cession] = ()


class Bookkeeper:
    """Adds to these books from `now` on."""

    def __init__(self, books: Books, now: int) -> None:
        self._written = books.written
        self._backlogs = dict(books.backlogs)
        self._take_backs = books.take_backs
        self._head = books.head
        self._recorded = dict(books.recorded)
        self._timeline = timeline.begin(books.written, now)
        self._confirmed = now
        self._entries = Entries()
        self._audit: list[AuditRecord] = []
        self._pictures = PictureReader()
        self._uses = UseReader()
        self._contents = ContentReader()

    @property
    def written(self) -> int:
        """Where the database ends."""
        return self._written

    @property
    def noted(self) -> int:
        """When the last pass was."""
        return self._timeline.noted

    @property
    def head(self) -> Head | None:
        """The newest record of the audit, written or not."""
        return self._head

    def look(self, seen_objects: Seen) -> None:
        """Notes what holds from now on."""
        now = seen_objects.now
        self._confirmed = seen_objects.confirmed
        if now - seen_objects.confirmed > MAX_SILENCE:
            reason = "the API server was silent"
            noted = timeline.note(self._timeline, None, {}, now, reason)
            self._timeline = timeline.lose(noted, seen_objects.confirmed, reason)
            return
        self._record(seen_objects)
        if seen_objects.policy is None:
            reason = "there was no ClusterPolicy"
            self._timeline = timeline.note(self._timeline, None, {}, now, reason)
            return
        picture = self._pictures.read(
            seen_objects.policy, seen_objects.allocations, seen_objects.workloads
        )
        missed = self._follow(seen_objects.cessions, picture)
        self._timeline = timeline.note(self._timeline, self._uses.read(picture), missed, now)

    def _follow(self, cessions: Collection[Cession], picture: Picture) -> dict[ClaimKey, int]:
        """What jobs miss since it was taken back."""
        if not self._take_backs and all(cession.ended for cession in cessions):
            return {}
        jobs = jobs_of(picture)
        by_name = {cession.metadata.name: cession for cession in cessions}
        self._take_backs = follow(self._take_backs, by_name, jobs)
        return claims(self._take_backs.values(), jobs, picture.kinds)

    def _record(self, seen_objects: Seen) -> None:
        """Adds what has changed to the audit."""
        policies = [seen_objects.policy] if seen_objects.policy else []
        present = self._contents.read(
            [*policies, *seen_objects.allocations, *seen_objects.cessions]
        )
        time = time_of(seen_objects.now)
        for (kind, name), content in changes(self._recorded, present).items():
            record = next_record(self._head, time, kind, name, content)
            self._audit.append(record)
            self._head = record.head
            self._recorded[kind, name] = content
        # or there would be more of them with every take-back
        for key in forgotten(self._recorded, present):
            del self._recorded[key]

    def batch(self) -> Batch | None:
        """What is to be written now; None if that can wait."""
        ready = min(self._confirmed, self._timeline.noted) - self._written
        if ready < WRITE_INTERVAL and not self._audit:
            return None
        pieces, self._timeline = timeline.take(self._timeline, self._confirmed)
        account(pieces, self._backlogs, self._entries)
        return Batch(
            since=self._written,
            until=self._timeline.written,
            entries=self._entries,
            take_backs=tuple(self._take_backs.values()),
            audit=tuple(self._audit),
        )

    def has_written(self, batch: Batch) -> None:
        """The database has the batch, which is the last that was returned."""
        self._written = batch.until
        self._backlogs |= batch.entries.backlogs
        self._entries = Entries()
        self._audit = []
