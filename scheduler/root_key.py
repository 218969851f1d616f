"""The root key, which the keys of all namespaces are derived from: read, and read again.

For a while after it was replaced, pods know only keys that were derived from the one before.
"""

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
        self.values: tuple[bytes, ...] = ()
        """The newest first: it, and the one before if there was one."""

    def doubt(self) -> None:
        """A runtime did not accept our signature: the key may have changed."""
        self._is_doubted = True

    async def refresh(self) -> None:
        """Reads the key if it is time. Raises ApiError if there has never been a key."""
        age_s = self._clock() - self._read_at
        if self.values and age_s < (DOUBT_REFRESH_S if self._is_doubted else REFRESH_S):
            return
        self._read_at = self._clock()
        self._is_doubted = False
        try:
            values = await self._read()
        except ApiError as error:
            if not self.values:
                raise
            log.warning("root key not read", extra={"reason": str(error)})
            return
        if self.values and values[0] != self.values[0]:
            log.warning("root key changed", extra={"secret": names.ROOT_SECRET})
            # an admin may have written another one without the one before
            values = (*values, self.values[0])
        elif len(values) == 1:
            values = self.values or values
        self.values = tuple(dict.fromkeys(values))

    async def _read(self) -> tuple[bytes, ...]:
        secret: Json = await self._client.get(SECRETS, dict, ROOT_SECRET)
        data = secret.get("data") or {}
        key = _decoded(data.get(names.SECRET_KEY, ""))
        previous = _decoded(data.get(names.PREVIOUS_KEY, ""))
        if not key:
            raise Unreadable(
                f"Secret {names.ROOT_SECRET} has no entry {names.SECRET_KEY} in base64, so no job "
                "can be asked: restore the entry",
                ROOT_SECRET,
            )
        return (key, previous) if previous else (key,)


def _decoded(entry: str) -> bytes:
    """Empty if it is no base64."""
    try:
        return base64.b64decode(entry)
    except ValueError:
        return b""
