"""`python -m ledger`: counts accelerator-hours while this replica leads; `statement`, `history`,
`audit` and `verify` read."""

import argparse
import asyncio
import os
import socket
import sys
import time
from collections.abc import Sequence

from kubernetes.aio.config import ConfigException

from cede.api import names
from cede.api.audit_chain import Head, line_of, parse_head
from cede.kube import audit_head, service
from cede.kube.client import Client
from cede.kube.connection import connect
from cede.kube.errors import ApiError
from cede.kube.lease import Times
from ledger import books, day_sums, month_sums, statement, statement_tables
from ledger.controller import Controller
from ledger.database import Database, DatabaseError
from ledger.months import Month, parse_month

LEADERSHIP = service.Leadership(names.LEDGER, stalled_after_s=180.0, times=Times())
NOT_INTACT = 1
NOT_CHECKED = 2
MAX_DAYS = 3660


def parser() -> argparse.ArgumentParser:
    program = argparse.ArgumentParser(prog="python -m ledger", description=__doc__)
    service.add_flags(program, os.environ.get("POD_NAME") or socket.gethostname())
    program.add_argument(
        "--database",
        default=os.environ.get("CEDE_LEDGER_DATABASE", "sqlite:///ledger.db"),
        metavar="URL",
        help=(
            "sqlite:////data/ledger.db or postgresql://user:password@host/name (default: the "
            "environment variable CEDE_LEDGER_DATABASE, or ledger.db in this folder)"
        ),
    )
    commands = program.add_subparsers(dest="command")
    month = commands.add_parser("statement", help="print the statement of a month")
    month.add_argument("--month", type=_month, required=True, metavar="2026-11")
    month.add_argument(
        "--by",
        dest="table",
        choices=tuple(statement_tables.TABLES),
        default="team",
        help="the table in the CSV: one row for each of these (default: team)",
    )
    month.add_argument("-o", "--output", choices=("csv", "json"), default="csv")
    history = commands.add_parser("history", help="print the use of days, for `cede advise`")
    history.add_argument(
        "--days",
        type=_days,
        default=30,
        metavar="N",
        help="how many, up to now; days are those of UTC (default: 30)",
    )
    commands.add_parser("audit", help="print the records of the audit, for `cede audit verify`")
    verify = commands.add_parser("verify", help="check that nobody has changed the audit")
    verify.add_argument(
        "--head",
        type=_head,
        metavar="NUMBER:HASH",
        help="the newest record, as the log has it (default: as the cluster has it)",
    )
    return program


def _month(text: str) -> Month:
    try:
        return parse_month(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _days(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= MAX_DAYS):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days from 1 to {MAX_DAYS}")
    return int(text)


def _head(text: str) -> Head:
    try:
        return parse_head(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


async def run(client: Client, flags: service.Flags, database: Database) -> None:
    """Runs the controller until cancelled."""
    controller = Controller(client, asyncio.Event(), time.time, database)
    routes = [day_sums.route(database)]
    await service.run_replica(controller, client, flags, LEADERSHIP, routes)


def print_statement(database: Database, month: Month, table: str, output: str) -> None:
    sums = month_sums.read_month(database, month)
    text = statement.as_json(sums) if output == "json" else statement.as_csv(sums, table)
    print(text.rstrip("\n"))


async def noted_head(kubeconfig: str | None) -> Head | None:
    async with connect(manager=names.LEDGER, kubeconfig=kubeconfig) as client:
        return await audit_head.read(client)


def verify(database: Database, head: Head | None, kubeconfig: str | None) -> None:
    """Exits with 1 if the audit is not intact, and with 2 if that could not be checked."""
    try:
        noted = head or asyncio.run(noted_head(kubeconfig))
    except (ApiError, ConfigException, OSError, ValueError) as error:
        print(f"the newest record cannot be read from the cluster: {error}", file=sys.stderr)
        print("name it with --head, as a log of the ledger has it", file=sys.stderr)
        sys.exit(NOT_CHECKED)
    wrong, last = books.verify(database, noted)
    if wrong:
        print(f"not intact: {wrong}")
        sys.exit(NOT_INTACT)
    print(f"intact: {last.number if last else 0} records; the newest is {last}")
    print(f"checked against {noted}" if noted else "no record was noted to check it against")


def main(arguments: Sequence[str]) -> None:
    given = parser().parse_args(arguments)
    try:
        database = Database(given.database)
        if given.command == "statement":
            print_statement(database, given.month, given.table, given.output)
        elif given.command == "history":
            print(day_sums.read_history(database, given.days).text())
        elif given.command == "audit":
            for record in books.read_audit(database):
                print(line_of(record))
        elif given.command == "verify":
            verify(database, given.head, given.kubeconfig)
        else:
            serve(service.read_flags(given), database)
    except DatabaseError as error:
        sys.exit(str(error))


def serve(flags: service.Flags, database: Database) -> None:
    try:
        asyncio.run(
            service.run_process(flags, names.LEDGER, lambda client: run(client, flags, database))
        )
    except asyncio.CancelledError:
        # the end that a signal asks for
        sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
