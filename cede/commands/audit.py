"""`cede audit verify`: whether the ledger's audit is as it was written."""

from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from cede.api.audit_chain import AuditRecord, complaint, parse_head, parse_record
from cede.commands.command import DONE, FAILED, BadInput, CommandFailed, Options, read_text
from cede.commands.connection import connected
from cede.commands.output import show

ACTION = Annotated[
    Literal["verify"], typer.Argument(metavar="verify", help="the only thing to do so far")
]
FILE = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="the records, as `python -m ledger audit` prints them; - is standard input",
    ),
]
HEAD = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="NUMBER:HASH",
        help="the newest record, as a log of the ledger has it (default: as the cluster has it)",
    ),
]


async def audit(chosen: Options, action: ACTION, file: FILE, head: HEAD = None) -> int:
    """Check that no record of the ledger's audit was changed, moved or deleted.

    The records are compared with the newest one that the ledger noted in the ConfigMap
    cede-ledger, by your own rights and outside of the ledger. The exit code is 1 if something is
    wrong.
    """
    records = list(_records(file))
    noted = head if head is not None else await _noted(chosen)
    if not noted:
        raise CommandFailed("the ledger has noted no record in the cluster: name one with --head")
    try:
        wrong = complaint(records, parse_head(noted))
    except ValueError as error:
        raise BadInput(str(error)) from error
    facts = {"intact": not wrong, "records": len(records), "noted": noted, "why": wrong}
    text = f"WRONG: {wrong}" if wrong else f"ok: {len(records)} records, checked against {noted}"
    show(chosen, facts, [text])
    return FAILED if wrong else DONE


def _records(file: str) -> Iterator[AuditRecord]:
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        try:
            yield parse_record(line)
        except ValueError as error:
            raise BadInput(f"{file}:{number}: {error}") from error


async def _noted(chosen: Options) -> str:
    from cede.kube import audit_head

    async with connected(chosen) as client:
        return await audit_head.read_text(client)
