"""Which Kubernetes an API server is."""

from typing import TYPE_CHECKING

from cede.api.support import FREEZING_API, Kubernetes
from cede.kube.errors import NotFound

# `cede --help` imports this module, and no client
if TYPE_CHECKING:
    from cede.kube.client import Client


async def read_kubernetes(client: "Client") -> Kubernetes:
    """Every user may read it. Raises ApiError if the server does not answer."""
    version = str((await client.describe("/version")).get("gitVersion", ""))
    try:
        await client.describe(FREEZING_API)
    except NotFound:
        return Kubernetes(version)
    return Kubernetes(version, has_gangs=True)
