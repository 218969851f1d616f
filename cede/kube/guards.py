"""Deletes a guard."""

from contextlib import suppress

from cede.api import guards
from cede.kube.client import Client
from cede.kube.errors import NotFound


async def delete_guard(client: Client, cession: str) -> None:
    """None of its objects is left, or only until Kueue removes its finalizer. Raises ApiError."""
    for kind, key in guards.objects(cession):
        with suppress(NotFound):
            await client.delete(kind, key)
