"""The `cede` command, also `kubectl cede`: who owns and holds what, why a job waits, and the way
back to stock Kueue."""

import argparse
import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

# a training image has none of what these need; `main` says so in a line
if TYPE_CHECKING:
    from cede.kube.client import Client


class Refused(Exception):
    """What the person reads, in a line; the command ends with 1."""


@dataclass(frozen=True)
class Settings:
    command: str
    kubeconfig: str | None
    context: str | None
    as_json: bool
    namespace: str | None = None
    name: str = ""


def settings(arguments: Sequence[str] | None) -> Settings:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--kubeconfig", default=argparse.SUPPRESS, help="the file that says where the cluster is"
    )
    shared.add_argument("--context", default=argparse.SUPPRESS, help="a context of it")
    shared.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default=argparse.SUPPRESS,
        help="text (default) or json",
    )
    parser = argparse.ArgumentParser(prog="cede", description=__doc__, parents=[shared])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, says: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=says, description=says[0].upper() + says[1:] + ".", parents=[shared]
        )

    command("status", "who owns, uses, lends, borrows; the take-backs; what needs attention")
    explain = command("explain", "why a job waits, or what happened to it")
    explain.add_argument("name", metavar="WORKLOAD|JOB")
    explain.add_argument(
        "-n", "--namespace", default=argparse.SUPPRESS, help="its namespace; else the context's"
    )
    command(
        "release",
        (
            "give Kueue its own preemption back: Cede takes nothing back any more, running jobs "
            "go on "
            "untouched"
        ),
    )
    command(
        "uninstall",
        (
            "release, end Cede's parts and let its allocations go, so that its manifests can be "
            "deleted; running jobs go on"
        ),
    )
    command("version", "which version this is")
    found = parser.parse_args(arguments)
    return Settings(
        found.command,
        getattr(found, "kubeconfig", None),
        getattr(found, "context", None),
        getattr(found, "output", "text") == "json",
        getattr(found, "namespace", None),
        getattr(found, "name", ""),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 when something is in the way, 2 when this installation lacks
    something."""
    chosen = settings(arguments)
    if chosen.command == "version":
        show(chosen, {"version": own_version()}, [f"cede {own_version()}"])
        return 0
    # a library's warnings are not for the reader of a command
    logging.disable(logging.WARNING)
    try:
        return asyncio.run(run(chosen))
    except ModuleNotFoundError as lacking:
        print(
            (
                f"cede: {(lacking.name or '').partition('.')[0]} is not installed here: pip "
                f"install "
                f"'cede[cli]'"
            ),
            file=sys.stderr,
        )
        return 2
    except Refused as why:
        print(f"cede: {why}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # `cede status | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def own_version() -> str:
    try:
        return version("cede")
    except PackageNotFoundError:
        return "unreleased"


def show(chosen: Settings, facts: dict[str, Any], lines: Sequence[str]) -> None:
    print(
        json.dumps(facts, indent=2, ensure_ascii=False) if chosen.as_json else "\n".join(lines),
        flush=True,
    )


async def run(chosen: Settings) -> int:
    """Connects and does what was asked. Raises Refused, and ModuleNotFoundError where `cede[cli]`
    is not installed."""
    async with connected(chosen) as client:
        if chosen.command in ("release", "uninstall"):
            from cede.release import release, uninstall

            done, failed = await (release if chosen.command == "release" else uninstall)(client)
            show(chosen, {"done": done, "failed": failed}, done or ["nothing here is Cede's"])
            if failed:
                raise Refused(f"not everything is done, say it again: {'; '.join(failed)}")
            return 0
        if chosen.command == "explain":
            return await explain(client, chosen)
        return await status(client, chosen)


@asynccontextmanager
async def connected(chosen: Settings) -> "AsyncIterator[Client]":
    """A client whose refusals are sentences."""
    from kubernetes.aio.config import ConfigException
    from yaml import YAMLError

    from cede.kube.client import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
    from cede.kube.connection import connect

    try:
        async with connect(
            manager="cede-cli", kubeconfig=chosen.kubeconfig, context=chosen.context
        ) as client:
            yield client
    except BrokenPipeError:
        raise
    except (ConfigException, YAMLError, OSError) as error:
        raise Refused(
            f"no cluster to speak to ({error}): name one with --kubeconfig and --context"
        ) from error
    except Unreachable as error:
        raise Refused(f"the API server does not answer: {error.message}") from error
    except Unauthorized as error:
        raise Refused(
            "the API server does not know you: log in again, or name another --context"
        ) from error
    except Forbidden as error:
        raise Refused(f"you may not do this: {error.message}") from error
    except NotFound as error:
        raise Refused(
            f"the API server knows no such thing: {error.message}; are Kueue and Cede "
            f"installed "
            f"there?"
        ) from error
    except ApiError as error:
        raise Refused(f"the API server refused: {error}") from error


async def status(client: "Client", chosen: Settings) -> int:
    from cede import report

    found = report.status(await look(client), time.time())
    show(chosen, asdict(found), list(report.lines(found)))
    return 0


async def explain(client: "Client", chosen: Settings) -> int:
    from cede import report
    from cede.kube.connection import context_namespace

    namespace = chosen.namespace or context_namespace(chosen.kubeconfig, chosen.context)
    found = report.explain(
        (namespace, chosen.name), await look(client, (namespace, chosen.name)), time.time()
    )
    show(
        chosen,
        asdict(found),
        [
            f"{namespace}/{found.name}: {found.state}",
            *(f"  {sentence}" for sentence in found.sentences),
        ],
    )
    return 0 if found.state != "Unknown" else 1


async def look(client: "Client", key: tuple[str, str] | None = None) -> Any:
    """What there is to report on; with `key` also that Job or Workload and its surroundings. Leases
    we may not read are left out."""
    from cede import report
    from cede.api import kueue, names, objects
    from cede.api.allocation import ComputeAllocation
    from cede.api.cession import Cession
    from cede.api.policy import ClusterPolicy
    from cede.kube.client import Forbidden, NotFound

    leases: dict[str, kueue.Lease | None] = {}
    for name in report.LEASES_OF:
        try:
            leases[name] = await client.get(
                objects.LEASES, kueue.Lease, (names.SYSTEM_NAMESPACE, name)
            )
        except NotFound:
            leases[name] = None
        except Forbidden:
            continue
    policies, _ = await client.list(objects.POLICIES, ClusterPolicy)
    allocations, _ = await client.list(objects.ALLOCATIONS, ComputeAllocation)
    cessions, _ = await client.list(objects.CESSIONS, Cession)
    queues, _ = await client.list(objects.CLUSTER_QUEUES, kueue.ClusterQueue)
    seen = report.Seen(policies[0] if policies else None, allocations, cessions, queues, leases)
    if key is None:
        return seen
    workloads, _ = await client.list(objects.WORKLOADS, kueue.Workload, namespace=key[0])
    local_queues, _ = await client.list(objects.LOCAL_QUEUES, kueue.LocalQueue, namespace=key[0])
    owner = next(
        (
            o.name
            for w in workloads
            if w.metadata.name == key[1]
            for o in w.metadata.ownerReferences
            if o.kind == "Job"
        ),
        key[1],
    )
    try:
        job = await client.get(objects.JOBS, kueue.Job, (key[0], owner))
    except NotFound:
        job = None
    return report.Seen(
        **vars(seen) | {"workloads": workloads, "local_queues": local_queues, "job": job}
    )


if __name__ == "__main__":
    sys.exit(main())
