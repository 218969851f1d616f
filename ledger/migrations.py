"""Makes the tables of an earlier version those of this one.

A migration names every table and column as it was then, and nothing of ledger.tables: those change.
It works for SQLite and PostgreSQL. A change that SQLite has no statement for, such as of a primary
key, is made with `batch_alter_table`, which copies the table.
"""

import logging
from collections.abc import Callable, Mapping

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import BigInteger, Column, Connection, Text, select, update

from ledger.tables import Book

log = logging.getLogger("ledger.migrations")
Migration = Callable[[Operations], None]


def add_losses(op: Operations) -> None:
    """Tables of version 1 have them if its last releases opened them."""
    op.create_table(
        "target_losses",
        Column("cession_uid", Text, primary_key=True),
        Column("target", BigInteger, primary_key=True, autoincrement=False),
        Column("instance_type", Text, primary_key=True),
        Column("resource", Text, primary_key=True),
        Column("cession", Text, nullable=False),
        Column("number", BigInteger, nullable=False),
        Column("released", Text, nullable=False),
        Column("team", Text, nullable=False),
        Column("job", Text, nullable=False),
        Column("uid", Text, nullable=False),
        Column("claimant", Text, nullable=False),
        Column("claimant_job", Text, nullable=False),
        Column("how", Text, nullable=False),
        Column("from_size", BigInteger, nullable=False),
        Column("to_size", BigInteger, nullable=False),
        Column("lost_steps", BigInteger),
        Column("lost", BigInteger),
        if_not_exists=True,
    )
    op.create_index("ix_target_losses_released", "target_losses", ["released"], if_not_exists=True)
    op.create_table(
        "loss_book",
        Column("id", BigInteger, primary_key=True, autoincrement=False),
        Column("number", BigInteger, nullable=False),
        if_not_exists=True,
    )


MIGRATIONS: Mapping[int, Migration] = {2: add_losses}
"""By the version of the tables that they lead to. The last one is ledger.tables.SCHEMA."""


def upgrade(connection: Connection, migrations: Mapping[int, Migration]) -> None:
    """Makes those that these tables lack, in order. All of it is in the transaction of
    `connection`, so a failure leaves the tables as they were."""
    before = connection.execute(select(Book.schema)).scalar_one()
    op = Operations(MigrationContext.configure(connection))
    for version in sorted(version for version in migrations if version > before):
        migrations[version](op)
        connection.execute(update(Book).values(schema=version))
        log.info("tables upgraded", extra={"before": version - 1, "version": version})
