"""The root key, which the keys of all namespaces are derived from: read, and read again."""

import base64
import logging
from collections.abc import Callable

from cede.api import names
from cede.api.objects import SECRETS, Json, Key
from cede.kube.client import Client
from cede.kube.errors import ApiError, Unreadable

log = logging.getLogger("scheduler")
ROOT_SECRET: Key = (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)
REFRESH_S = 60.0
"""The key is read again after this time."""
DOUBT_REFRESH_S = 5.0
"""The same after a runtime did not accept it."""


class RootKey:
    """The last key that was read. It is kept when the Secret is lost: the jobs have it too."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._read_at = float("-inf")
        self._is_doubted = False
        self.value: bytes | None = None

    def doubt(self) -> None:
        """A runtime did not accept our signature: the key may have changed."""
        self._is_doubted = True

    async def refresh(self) -> None:
        """Reads the key if it is time. Raises ApiError if there has never been a key."""
        age_s = self._clock() - self._read_at
        if self.value and age_s < (DOUBT_REFRESH_S if self._is_doubted else REFRESH_S):
            return
        self._read_at = self._clock()
        self._is_doubted = False
        try:
            key = await self._read()
        except ApiError as error:
            if self.value is None:
                raise
            log.warning("root key not read", extra={"reason": str(error)})
            return
        if self.value and key != self.value:
            log.warning("root key changed", extra={"secret": names.ROOT_SECRET})
        self.value = key

    async def _read(self) -> bytes:
        secret: Json = await self._client.get(SECRETS, dict, ROOT_SECRET)
        try:
            key = base64.b64decode((secret.get("data") or {}).get(names.SECRET_KEY, ""))
        except ValueError:
            key = b""
        if not key:
            raise Unreadable(
                f"Secret {names.ROOT_SECRET} has no entry {names.SECRET_KEY} in base64, so no job "
                "can be asked: restore the entry",
                ROOT_SECRET,
            )
        return key
