"""The losses in the database. They follow from the audit, which is too long to read for a month."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select

from cede.api.audit_chain import AuditRecord
from cede.api.objects import CESSIONS, Json
from ledger.losses import NO_KIND, Loss, LossKey, Work, losses
from ledger.months import Month
from ledger.tables import AuditRow, LossRow

RECORDS_OF_A_PAGE = 1000
COMMON = tuple(entry.name for entry in fields(Loss) if entry.name != "works")
"""The columns that are equal in all rows of a loss."""


def add(connection: Connection, records: Iterable[AuditRecord]) -> None:
    """Of several records of a Cession the last counts."""
    for record in records:
        if record.kind != CESSIONS.kind:
            continue
        if rows := list(_rows(record)):
            connection.execute(delete(LossRow).where(LossRow.cession_uid == rows[0]["cession_uid"]))
            connection.execute(insert(LossRow), rows)


def catch_up(connection: Connection) -> None:
    """Adds those of records that a version without this table wrote."""
    newest = connection.execute(select(func.max(LossRow.number))).scalar() or 0
    while records := _records_after(connection, newest):
        add(connection, records)
        newest = records[-1].number


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
