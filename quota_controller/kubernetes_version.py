"""Which Kubernetes the API server is, read again from time to time."""

import logging

from cede.api.support import Kubernetes
from cede.kube.client import Client
from cede.kube.errors import ApiError
from cede.kube.server_version import read_kubernetes

log = logging.getLogger("quota_controller")
REFRESH_S = 300.0
"""An upgrade replaces one API server after another, and takes longer."""


class KubernetesVersion:
    """As the API server last told it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read_at = float("-inf")
        self.value: Kubernetes | None = None
        """None before it was read."""

    async def refresh(self, now: float) -> None:
        """Reads it if it is time. Nothing but a condition depends on it, so no error is raised."""
        if self.value and now - self._read_at < REFRESH_S:
            return
        self._read_at = now
        try:
            self.value = await read_kubernetes(self._client)
        except ApiError as error:
            log.warning("version of Kubernetes not read", extra={"reason": str(error)})
