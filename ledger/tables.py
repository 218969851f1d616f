"""The tables of the ledger's database."""

from typing import Any, ClassVar

from sqlalchemy import BigInteger, Boolean, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = 2
"""The version of all tables. Every change of them, also a new table, is the next version, to which
a migration in ledger.migrations leads."""


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {int: BigInteger, str: Text, bool: Boolean}


class Daily:
    """Sums of one day (UTC, `2026-11-25`), in accelerator-microseconds."""

    # SQLite then keeps the long keys once
    __table_args__: ClassVar[dict[str, bool]] = {"sqlite_with_rowid": False}
    # before the other columns of the key
    day: Mapped[str] = mapped_column(primary_key=True, sort_order=-1)


class Book(Base):
    """One row: how far the entries go. Times are microseconds since 1970. Every version reads `id`
    and `schema`, so these two stay as they are."""

    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    schema: Mapped[int]
    began: Mapped[int]
    written: Mapped[int]


class PoolDay(Daily, Base):
    """All accelerators of one kind."""

    __tablename__ = "pool_days"
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    capacity: Mapped[int]
    unallocated: Mapped[int]
    unallocated_lent: Mapped[int]
    excess: Mapped[int]


class TeamDay(Daily, Base):
    """What a team owned, used, borrowed and lent."""

    __tablename__ = "team_days"
    team: Mapped[str] = mapped_column(primary_key=True)
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    owned: Mapped[int]
    available: Mapped[int]
    used: Mapped[int]
    borrowed: Mapped[int]
    lent: Mapped[int]
    private: Mapped[int]


class JobDay(Daily, Base):
    """What a job used, by the priority class that it had then."""

    __tablename__ = "job_days"
    team: Mapped[str] = mapped_column(primary_key=True)
    namespace: Mapped[str] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(primary_key=True)
    priority_class: Mapped[str] = mapped_column(primary_key=True)
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    used: Mapped[int]
    borrowed: Mapped[int]


class ClaimDay(Daily, Base):
    """What a job missed because it was taken back for another team."""

    __tablename__ = "claim_days"
    team: Mapped[str] = mapped_column(primary_key=True)
    namespace: Mapped[str] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(primary_key=True)
    claimant: Mapped[str] = mapped_column(primary_key=True)
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    taken_back: Mapped[int]


class GapRow(Base):
    """A time in which nobody saw what happened."""

    __tablename__ = "gaps"
    begin: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    end: Mapped[int]
    reason: Mapped[str]


class Backlog(Base):
    """Work of a team that its own quota has not had time for: accounting.Backlogs."""

    __tablename__ = "backlogs"
    team: Mapped[str] = mapped_column(primary_key=True)
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


class OpenTakeBack(Base):
    """A take-back whose job misses something still, as JSON."""

    __tablename__ = "open_take_backs"
    cession: Mapped[str] = mapped_column(primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    record: Mapped[str]


class LossRow(Base):
    """What a job lost in a take-back on one kind of accelerator: ledger.losses.Loss. It follows
    from the audit."""

    __tablename__ = "target_losses"
    # names of Cessions recur, after those that ended are deleted
    cession_uid: Mapped[str] = mapped_column(primary_key=True)
    # which of the Cession's targets
    target: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    # both empty if nothing was lost, or nobody knows on what
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    cession: Mapped[str]
    # of the record in the audit
    number: Mapped[int]
    released: Mapped[str] = mapped_column(index=True)
    team: Mapped[str]
    job: Mapped[str]
    uid: Mapped[str]
    claimant: Mapped[str]
    claimant_job: Mapped[str]
    how: Mapped[str]
    from_size: Mapped[int]
    to_size: Mapped[int]
    # both NULL if nobody knows
    lost_steps: Mapped[int | None]
    # accelerator-microseconds
    lost: Mapped[int | None]


class LossBook(Base):
    """One row: the record of the audit up to which LossRow is complete."""

    __tablename__ = "loss_book"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int]


class AuditRow(Base):
    """One record of the audit: cede.api.audit_chain.AuditRecord."""

    __tablename__ = "audit"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[str]
    kind: Mapped[str]
    name: Mapped[str]
    content: Mapped[str]
    previous: Mapped[str]
    hash: Mapped[str]
