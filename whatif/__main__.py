"""`python -m whatif`: what would happen to whom, and why, if a Job were submitted, an allocation
were applied, or nodes were drained. Nothing is changed.

It asks the cluster of a kubeconfig with your rights, or a snapshot that was written by
`python -m scheduler --dump FILE`.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import yaml
from kubernetes.aio.config import ConfigException

from cede.api.objects import Json
from cede.kube.connection import connect, context_namespace
from cede.kube.errors import ApiError
from cede.kube.failures import failure_sentence
from scheduler import snapshot_dump
from whatif.answer import Answer, JobState, lines
from whatif.live import MissingRights, read_picture
from whatif.questions import Picture, ask_allocation, ask_drain, ask_submit
from whatif.submission import BadQuestion

FIELD_MANAGER = "cede-whatif"
DONE = 0
FAILED = 1
BAD_INPUT = 2
STDIN = "-"
MAX_ALIASES = 10
"""In a manifest. Aliases of aliases multiply: ninety of them can stand for a billion values."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the answer. Returns 0; 1 if there is none, or if the Job would be refused; 2 for bad
    input. An error is one line."""
    # what libraries log is not for whoever asks
    logging.disable(logging.WARNING)
    chosen = read_arguments(arguments)
    try:
        answer = ask(chosen)
    except BadQuestion as error:
        return _fail(str(error), BAD_INPUT)
    except MissingRights as error:
        return _fail(str(error), FAILED)
    except ApiError as error:
        return _fail(failure_sentence(error), FAILED)
    except (ConfigException, yaml.YAMLError, OSError) as error:
        cure = "name one with --kubeconfig and --context, or a --snapshot"
        return _fail(f"no cluster is configured ({error}): {cure}", FAILED)
    return _print(answer, chosen.output)


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m whatif", description=__doc__)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--snapshot", metavar="FILE", help="a dump (default: ask the cluster)")
    shared.add_argument("--kubeconfig", metavar="FILE")
    shared.add_argument("--context", metavar="NAME")
    shared.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text")
    file = argparse.ArgumentParser(add_help=False)
    file.add_argument(
        "-f", "--filename", metavar="FILE", required=True, help="YAML or JSON; - is standard input"
    )
    questions = parser.add_subparsers(dest="question", required=True)
    submit = questions.add_parser("submit", parents=[file, shared], help="a Job is submitted")
    submit.add_argument("-n", "--namespace", default="")
    questions.add_parser(
        "allocation", parents=[file, shared], help="a ComputeAllocation is applied"
    )
    drain = questions.add_parser("drain", parents=[shared], help="nodes are drained")
    drain.add_argument("nodes", metavar="NODE", nargs="+")
    return parser.parse_args(arguments)


def ask(chosen: argparse.Namespace) -> Answer:
    """Raises BadQuestion; without a snapshot also what a connection may raise."""
    manifest = {} if chosen.question == "drain" else read_manifest(chosen.filename)
    picture = _read_picture(chosen)
    match chosen.question:
        case "submit":
            return ask_submit(picture, manifest, _namespace(chosen, manifest))
        case "allocation":
            return ask_allocation(picture, manifest)
        case _:
            return ask_drain(picture, chosen.nodes)


def _namespace(chosen: argparse.Namespace, manifest: Json) -> str:
    """The one that was named; else that of the context, if the file has none."""
    metadata = manifest.get("metadata")
    is_named = isinstance(metadata, dict) and metadata.get("namespace")
    if chosen.namespace or is_named or chosen.snapshot:
        return str(chosen.namespace)
    return context_namespace(chosen.kubeconfig, chosen.context)


# --- what is read ---------------------------------------------------------------------------------
def read_manifest(file: str) -> Json:
    """The one object in a file. Raises BadQuestion."""
    text = _read_text(file)
    try:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text))
        if aliases > MAX_ALIASES:
            raise BadQuestion(
                f"{file} has {aliases} aliases (*name): it may have {MAX_ALIASES}; write out what "
                f"they stand for"
            )
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise BadQuestion(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadQuestion(f"{file} has {len(documents)} documents: it must have one, an object")
    return documents[0]


def _read_text(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadQuestion(f"{file} cannot be read: {error}") from error


def _read_picture(chosen: argparse.Namespace) -> Picture:
    if chosen.snapshot:
        return read_snapshot(chosen.snapshot)
    picture, unreadable = asyncio.run(_ask_cluster(chosen))
    for sentence in unreadable:
        print(f"whatif: {sentence}", file=sys.stderr)
    return picture


def read_snapshot(file: str) -> Picture:
    """Raises BadQuestion."""
    try:
        objects, _, now = snapshot_dump.read(_read_text(file))
    except (ValueError, ApiError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise BadQuestion(f"{file} is no snapshot of the scheduler: {text}") from error
    return Picture(objects, now)


async def _ask_cluster(chosen: argparse.Namespace) -> tuple[Picture, list[str]]:
    connection = connect(
        manager=FIELD_MANAGER, kubeconfig=chosen.kubeconfig, context=chosen.context
    )
    async with connection as client:
        return await read_picture(client)


# --- what is printed ------------------------------------------------------------------------------
def _print(answer: Answer, output: str) -> int:
    try:
        print(_text(answer, output), flush=True)
    except BrokenPipeError:
        # the reader has ended, as in `python -m whatif … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    is_refused = answer.job is not None and answer.job.state is JobState.REFUSED
    return FAILED if is_refused else DONE


def _text(answer: Answer, output: str) -> str:
    if output == "text":
        return "\n".join(lines(answer))
    # JSON knows no tuples and enums, which PyYAML would tag or refuse
    text = json.dumps(asdict(answer), indent=2, ensure_ascii=False)
    if output == "json":
        return text
    return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True).rstrip()


def _fail(sentence: str, code: int) -> int:
    print(f"whatif: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
