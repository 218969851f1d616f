"""The losses in the database. They follow from the audit, which is too long to read for a month."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain, groupby
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from cede.api.audit_chain import AuditRecord
from cede.api.objects import CESSIONS, Json
from ledger.losses import NO_KIND, Loss, LossKey, Work, losses
from ledger.months import Month
from ledger.tables import AuditRow, LossBook, LossRow

RECORDS_OF_A_PAGE = 1000
CESSIONS_OF_A_STATEMENT = 1000
"""SQLite takes 32,766 parameters."""
COMMON = tuple(entry.name for entry in fields(Loss) if entry.name != "works")
"""The columns that are equal in all rows of a loss."""


def add(connection: Connection, records: Sequence[AuditRecord]) -> None:
    """The next records of the audit. Of several records of a Cession the last counts."""
    rows_of = dict[str, list[Json]]()
    for record in records:
        if record.kind == CESSIONS.kind and (rows := list(_rows(record))):
            rows_of[rows[0]["cession_uid"]] = rows
    uids = list(rows_of)
    for begin in range(0, len(uids), CESSIONS_OF_A_STATEMENT):
        part = uids[begin : begin + CESSIONS_OF_A_STATEMENT]
        connection.execute(delete(LossRow).where(LossRow.cession_uid.in_(part)))
    if rows_of:
        # SQLAlchemy sends many rows in one statement only where something is returned
        statement = insert(LossRow).returning(LossRow.number)
        connection.execute(statement, list(chain.from_iterable(rows_of.values())))
    _set_position(connection, records[-1].number)


def catch_up(connection: Connection) -> bool:
    """Adds a page of those of records that a version without this table wrote; whether there was
    one. Each page is a transaction: a year of them takes longer than a pass may, and the ledger
    that is started again goes on from there."""
    position = connection.execute(select(LossBook.number)).scalar_one_or_none() or 0
    records = _records_after(connection, position)
    if records:
        add(connection, records)
    return bool(records)


def _set_position(connection: Connection, number: int) -> None:
    if connection.execute(update(LossBook).values(number=number)).rowcount == 0:
        connection.execute(insert(LossBook), {"id": 1, "number": number})


def read(connection: Connection, month: Month) -> tuple[Loss, ...]:
    """Of this month, in order."""
    job = (LossRow.released, LossRow.cession, LossRow.cession_uid, LossRow.target)
    query = select(*LossRow.__table__.columns).where(_is_in(month))
    rows = connection.execute(query.order_by(*job, LossRow.instance_type, LossRow.resource))
    targets = groupby(rows, key=lambda row: (row.cession_uid, row.target))
    return tuple(_loss(list(of_target)) for _, of_target in targets)


def read_sums(connection: Connection, month: Month) -> dict[LossKey, Counter[str]]:
    """Of all jobs of a team together."""
    keys = (LossRow.team, LossRow.instance_type, LossRow.resource)
    unknown_losses = func.count() - func.count(LossRow.lost)
    query = select(*keys, func.sum(LossRow.lost), unknown_losses).where(_is_in(month))
    return {
        LossKey(team, "", "", "", type_name, resource): Counter(
            lost=int(lost or 0), unknown_losses=unknown
        )
        for team, type_name, resource, lost, unknown in connection.execute(query.group_by(*keys))
    }


def _is_in(month: Month) -> Any:
    """Times sort like their texts."""
    return and_(LossRow.released >= month.name, LossRow.released < f"{month.name}-99")


def _records_after(connection: Connection, number: int) -> Sequence[AuditRecord]:
    is_later = and_(AuditRow.kind == CESSIONS.kind, AuditRow.number > number)
    query = select(*AuditRow.__table__.columns).where(is_later).order_by(AuditRow.number)
    rows = connection.execute(query.limit(RECORDS_OF_A_PAGE))
    return [AuditRecord(*row) for row in rows]


def _rows(record: AuditRecord) -> Iterator[Json]:
    for target, loss in enumerate(losses(record.name, record.content)):
        for (type_name, resource), lost in loss.works or (Work(NO_KIND, 0),):
            yield {
                **{name: getattr(loss, name) for name in COMMON},
                "target": target,
                "instance_type": type_name,
                "resource": resource,
                "number": record.number,
                "lost": lost,
            }


def _loss(rows: Sequence[Any]) -> Loss:
    works = [Work((row.instance_type, row.resource), row.lost) for row in rows]
    common = {name: getattr(rows[0], name) for name in COMMON}
    return Loss(**common, works=tuple(work for work in works if work != (NO_KIND, 0)))
