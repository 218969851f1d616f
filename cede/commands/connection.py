"""The connection of a command to the API server, and what its refusals mean for a user."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from cede.api import kueue, objects
from cede.api.objects import Key
from cede.commands.command import CommandFailed, Options
from cede.kube.errors import ApiError, NotFound
from cede.kube.failures import failure_sentence

# The packages below them take a second to import. Help and completion need none of them.
if TYPE_CHECKING:
    from cede.kube.client import Client, HttpClient

FIELD_MANAGER = "cede-cli"


@asynccontextmanager
async def connected(chosen: Options) -> "AsyncIterator[HttpClient]":
    """A client; its errors inside the context become CommandFailed with a cure."""
    from cede.kube.connection import connect

    with _configured():
        try:
            async with connect(
                manager=FIELD_MANAGER, kubeconfig=chosen.kubeconfig, context=chosen.context
            ) as client:
                yield client
        except ApiError as error:
            raise CommandFailed(failure_sentence(error)) from error


def namespace_of(chosen: Options, namespace: str | None) -> str:
    """The given namespace, or that of the context."""
    from cede.kube.connection import context_namespace

    if namespace:
        return namespace
    with _configured():
        return context_namespace(chosen.kubeconfig, chosen.context)


def context_of(chosen: Options) -> str:
    """The name of the context; empty in a pod."""
    from cede.kube.connection import context_name

    with _configured():
        return context_name(chosen.kubeconfig, chosen.context)


async def read_job(client: "Client", key: Key) -> kueue.Job:
    """The Job. Raises CommandFailed that says where to look when there is none."""
    try:
        return await client.get(objects.JOBS, kueue.Job, key)
    except NotFound as error:
        namespace, name = key
        raise CommandFailed(
            f"there is no Job {name} in namespace {namespace}: see `cede jobs -n {namespace}`"
        ) from error


@contextmanager
def _configured() -> Iterator[None]:
    """An error of the kubeconfig becomes CommandFailed with a cure."""
    from kubernetes.aio.config import ConfigException
    from yaml import YAMLError

    try:
        yield
    except BrokenPipeError:
        raise
    except (ConfigException, YAMLError, OSError) as error:
        raise CommandFailed(
            f"no cluster is configured ({error}): name one with --kubeconfig and --context"
        ) from error
