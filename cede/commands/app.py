"""All commands as one program."""

from collections.abc import Sequence

import typer

from cede.commands import whatif
from cede.commands.advise import advise
from cede.commands.audit import audit
from cede.commands.checkpoint import checkpoint
from cede.commands.command import (
    CONTEXT,
    DONE,
    FACTS,
    KUBECONFIG,
    OUTPUT,
    ROWS,
    Command,
    as_command,
)
from cede.commands.dashboard import dashboard
from cede.commands.doctor import doctor
from cede.commands.explain import explain
from cede.commands.history import history
from cede.commands.jobs import jobs
from cede.commands.output import warn
from cede.commands.priority import priority
from cede.commands.release import release, uninstall
from cede.commands.resize import resize
from cede.commands.status import status
from cede.commands.submit import submit
from cede.commands.surplus import surplus
from cede.commands.version import version

PROGRAM = "cede"
EXIT_CODES = (
    "Exit codes: 0 when it is done; 1 when it failed, or the job is not there; 2 for bad input, or "
    "when a Python package is missing; 130 when it was interrupted."
)
app = typer.Typer(
    help="Reports on quotas and jobs, changes jobs, and removes Cede again. Also `kubectl cede`.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def shared(
    kubeconfig: KUBECONFIG = None,
    context: CONTEXT = None,
    output: OUTPUT = None,
) -> None:
    """These options may stand before or after the command, which reads them."""


COMMANDS: tuple[tuple[Command, Sequence[str]], ...] = (
    (status, FACTS),
    (jobs, ROWS),
    (explain, FACTS),
    (history, ROWS),
    (dashboard, FACTS),
    (submit, (*FACTS, "name")),
    (surplus, (*FACTS, "name")),
    (resize, FACTS),
    (priority, FACTS),
    (checkpoint, FACTS),
    (advise, FACTS),
    (doctor, FACTS),
    (audit, FACTS),
    (release, FACTS),
    (uninstall, FACTS),
    (version, FACTS),
)
for command, formats in COMMANDS:
    app.command(command.__name__)(as_command(command, formats))
questions = typer.Typer(
    help="Predict what would happen to whom, and why, if something changed. Nothing is changed.",
    no_args_is_help=True,
)
for question in (whatif.submit, whatif.allocation, whatif.drain):
    questions.command(question.__name__)(as_command(question, FACTS))
app.add_typer(questions, name="whatif")


def run(arguments: Sequence[str] | None) -> int:
    """Runs the command line and returns the exit code; an error is one line."""
    try:
        code = app(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        # `cede` alone has printed the help
        if error.format_message():
            warn([_sentence(error)])
        return error.exit_code
    return DONE if code is None else int(code)


def _sentence(error: typer.TyperException) -> str:
    """The error in one line; after an argument that the command cannot have, where to read on."""
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    context: typer.Context | None = getattr(error, "ctx", None)
    return f"{message.rstrip('.')}: see `{context.command_path} --help`" if context else message
