"""The connection of a command to the API server, and what its refusals mean for a user."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from cede.commands.command import CommandFailed, Options
from cede.kube.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable, Unreadable

# The packages below them take a second to import. Help and completion need none of them.
if TYPE_CHECKING:
    from cede.kube.client import HttpClient

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


def failure_sentence(error: ApiError) -> str:
    """What an error of the API server means for the user, with the cure."""
    match error:
        case ApiError(is_denied=True):
            return f"the request was refused: {error.message}"
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
        case Unreadable(key=(_, name)) if name:
            # pydantic writes lines
            reason = " ".join(error.message.split())
            return f"this cede cannot read {reason}: use the version that wrote it"
        case _:
            return f"the API server refused the request: {error}"
