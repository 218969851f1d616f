"""The `cede` command, also `kubectl cede`: reports on quotas and jobs, and removes Cede again."""

import argparse
import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

# A training image has none of the packages that these modules import. They are imported where they
# are needed, so that `main` can print what to install.
if TYPE_CHECKING:
    from cede.api.objects import Key
    from cede.kube.client import Client
    from cede.kube.errors import ApiError
    from cede.report.snapshot import Snapshot


class CommandFailed(Exception):
    """The line that the user reads, with the cure; the exit code is 1."""


@dataclass(frozen=True)
class Options:
    command: str
    # None: as kubectl finds them
    kubeconfig: str | None
    context: str | None
    as_json: bool
    # None: the context's
    namespace: str | None = None
    # of a Job or Workload
    name: str = ""


def options(arguments: Sequence[str] | None) -> Options:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    return Options(
        parsed.command,
        getattr(parsed, "kubeconfig", None),
        getattr(parsed, "context", None),
        getattr(parsed, "output", "text") == "json",
        getattr(parsed, "namespace", None),
        getattr(parsed, "name", ""),
    )


def _parser() -> argparse.ArgumentParser:
    """The shared options may be given before or after the command."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--kubeconfig", default=argparse.SUPPRESS, help="the kubeconfig file of the cluster"
    )
    shared.add_argument(
        "--context", default=argparse.SUPPRESS, help="the context of the kubeconfig to use"
    )
    shared.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default=argparse.SUPPRESS,
        help="text (default) or json",
    )
    parser = argparse.ArgumentParser(prog="cede", description=__doc__, parents=[shared])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add_command(name: str, purpose: str) -> argparse.ArgumentParser:
        description = purpose[0].upper() + purpose[1:] + "."
        return commands.add_parser(name, help=purpose, description=description, parents=[shared])

    add_command("status", "show what each team owns, uses, lends and borrows, and all problems")
    explain = add_command("explain", "show why a job waits, or what happened to it")
    explain.add_argument("name", metavar="WORKLOAD|JOB")
    explain.add_argument(
        "-n",
        "--namespace",
        default=argparse.SUPPRESS,
        help="its namespace (default: the namespace of the context)",
    )
    add_command(
        "release",
        "enable Kueue's own preemption and stop Cede's; running jobs are not touched",
    )
    add_command(
        "uninstall",
        "release, stop Cede's components and remove its finalizers, so that its manifests can be "
        "deleted; running jobs are not touched",
    )
    add_command("version", "show the version of Cede")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns 0, 1 when it failed, or 2 when a Python package is missing."""
    chosen = options(arguments)
    if chosen.command == "version":
        show(chosen, {"version": own_version()}, [f"cede {own_version()}"])
        return 0
    # warnings of libraries are not for the user of a command
    logging.disable(logging.WARNING)
    try:
        return asyncio.run(run(chosen))
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        cure = "install Cede's own wheel with its extra [cli]"
        print(f"cede: {package} is not installed here: {cure}", file=sys.stderr)
        return 2
    except CommandFailed as failure:
        print(f"cede: {failure}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # the reader has ended, as in `cede status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def own_version() -> str:
    try:
        return version("cede")
    except PackageNotFoundError:
        return "unreleased"


def show(chosen: Options, facts: dict[str, Any], lines: Iterable[str]) -> None:
    """Prints the facts as JSON, or the lines as text."""
    text = json.dumps(facts, indent=2, ensure_ascii=False) if chosen.as_json else "\n".join(lines)
    print(text, flush=True)


async def run(chosen: Options) -> int:
    """Connects and runs the command; returns the exit code.

    Raises CommandFailed, and ModuleNotFoundError where `cede[cli]` is not installed.
    """
    async with connected(chosen) as client:
        match chosen.command:
            case "status":
                return await status(client, chosen)
            case "explain":
                return await explain(client, chosen)
            case _:
                return await change(client, chosen)


@asynccontextmanager
async def connected(chosen: Options) -> "AsyncIterator[Client]":
    """A client; its errors inside the context become CommandFailed with a cure."""
    from kubernetes.aio.config import ConfigException
    from yaml import YAMLError

    from cede.kube.connection import connect
    from cede.kube.errors import ApiError

    try:
        async with connect(
            manager="cede-cli", kubeconfig=chosen.kubeconfig, context=chosen.context
        ) as client:
            yield client
    except BrokenPipeError:
        raise
    except (ConfigException, YAMLError, OSError) as error:
        raise CommandFailed(
            f"no cluster is configured ({error}): name one with --kubeconfig and --context"
        ) from error
    except ApiError as error:
        raise CommandFailed(failure_sentence(error)) from error


def failure_sentence(error: "ApiError") -> str:
    """What an error of the API server means for the user, with the cure."""
    from cede.kube.errors import Forbidden, NotFound, Unauthorized, Unreachable

    match error:
        case Unreachable():
            return (
                f"the API server is not reachable: {error.message}; check the network, or name "
                f"another --context"
            )
        case Unauthorized():
            return (
                "the API server does not accept your credentials: log in again, or name another "
                "--context"
            )
        case Forbidden():
            return f"you are not allowed to do this: {error.message}; ask an administrator"
        case NotFound():
            return (
                f"the cluster lacks a kind of object: {error.message}; are Kueue and Cede "
                f"installed there?"
            )
        case _:
            return f"the API server refused the request: {error}"


# --- the commands ---------------------------------------------------------------------------------
async def status(client: "Client", chosen: Options) -> int:
    from cede.report import status, text

    facts = status.status(await read_snapshot(client), time.time())
    show(chosen, asdict(facts), text.status_lines(facts))
    return 0


async def explain(client: "Client", chosen: Options) -> int:
    from cede.kube.connection import context_namespace
    from cede.report import explanation, text

    namespace = chosen.namespace or context_namespace(chosen.kubeconfig, chosen.context)
    key = (namespace, chosen.name)
    facts = explanation.explain(key, await read_snapshot(client, key), time.time())
    show(chosen, asdict(facts), text.explanation_lines(facts))
    return 0 if facts.state != "Unknown" else 1


async def change(client: "Client", chosen: Options) -> int:
    from cede.release import release, uninstall

    command = release if chosen.command == "release" else uninstall
    done, failed = await command(client)
    show(chosen, {"done": done, "failed": failed}, done or ["nothing in this cluster is Cede's"])
    if failed:
        raise CommandFailed(f"some steps failed, run the command again: {'; '.join(failed)}")
    return 0


# --- reading the cluster --------------------------------------------------------------------------
async def read_snapshot(client: "Client", key: "Key | None" = None) -> "Snapshot":
    """Reads what a report needs; with `key`, also that Job or Workload and what surrounds it."""
    from cede.api import kueue, objects
    from cede.api.allocation import ComputeAllocation
    from cede.api.cession import Cession
    from cede.api.policy import ClusterPolicy
    from cede.report.snapshot import Snapshot

    policies, _ = await client.list(objects.POLICIES, ClusterPolicy)
    facts: dict[str, Any] = {"policy": policies[0] if policies else None}
    facts["allocations"], _ = await client.list(objects.ALLOCATIONS, ComputeAllocation)
    facts["cessions"], _ = await client.list(objects.CESSIONS, Cession)
    facts["queues"], _ = await client.list(objects.CLUSTER_QUEUES, kueue.ClusterQueue)
    facts["leases"] = await _leases(client)
    if key is not None:
        facts |= await _around_job(client, key)
    return Snapshot(**facts)


async def _leases(client: "Client") -> dict[str, Any]:
    """The leases by name; without those that the user may not read, None for a missing one."""
    from cede.api import kueue, names, objects
    from cede.kube.errors import Forbidden, NotFound
    from cede.report.snapshot import COMPONENT_BY_LEASE

    leases: dict[str, kueue.Lease | None] = {}
    for name in COMPONENT_BY_LEASE:
        key = (names.SYSTEM_NAMESPACE, name)
        try:
            leases[name] = await client.get(objects.LEASES, kueue.Lease, key)
        except NotFound:
            leases[name] = None
        except Forbidden:
            continue
    return leases


async def _around_job(client: "Client", key: "Key") -> dict[str, Any]:
    """The fields of a Snapshot that only `cede explain` needs."""
    from cede.api import kueue, objects
    from cede.kube.errors import NotFound

    namespace, name = key
    workloads, _ = await client.list(objects.WORKLOADS, kueue.Workload, namespace=namespace)
    local_queues, _ = await client.list(objects.LOCAL_QUEUES, kueue.LocalQueue, namespace=namespace)
    job_name = name
    for workload in workloads:
        if workload.metadata.name == name:
            owners = workload.metadata.ownerReferences
            job_name = next((owner.name for owner in owners if owner.kind == "Job"), name)
    try:
        job = await client.get(objects.JOBS, kueue.Job, (namespace, job_name))
    except NotFound:
        job = None
    return {"workloads": workloads, "local_queues": local_queues, "job": job}


if __name__ == "__main__":
    sys.exit(main())
