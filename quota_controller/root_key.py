"""The Secret with the root key, which the keys of all namespaces are derived from.

The key is replaced when it is old, and when an admin asks for it. Running jobs do not notice: pods
accept the key before for `contract.KEY_OVERLAP_S`, and the scheduler knows both.
"""

import base64
import logging
import secrets
from contextlib import suppress

from cede.api import names
from cede.api.objects import SECRETS, Json, Key, rfc3339, unix_or_zero
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, ApiError, NotFound
from elastic_runtime.contract import KEY_OVERLAP_S

log = logging.getLogger("quota_controller")
ROOT_SECRET: Key = (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)
LIFETIME_S = 30 * 24 * 3600.0
"""A key of this age is replaced."""
REFRESH_S = 30.0
"""The Secret is read again after this time."""


class RootKey:
    """The key as the Secret last had it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read_at = float("-inf")
        self.value = b""
        """Empty if the Secret has no entry for it."""
        self.previous = b""
        """The one before, which an admin who exchanges the key need not write."""
        self._written_previous = b""
        """The one before as the Secret last had it."""

    async def refresh(self, now: float) -> None:
        """Reads the key if it is time, and replaces it if it has ended.

        The Secret is created if there is none. Raises ApiError if no key has ever been read.
        """
        if self.value and now - self._read_at < REFRESH_S:
            return
        self._read_at = now
        try:
            secret = await self._get_or_create(now)
        except ApiError as error:
            if not self.value:
                raise
            log.warning("root key not read", extra={"reason": str(error)})
            return
        if is_due(secret, now):
            secret = await self._replace(secret, now)
        data = secret.get("data") or {}
        key = base64.b64decode(data.get(names.SECRET_KEY, ""))
        written = base64.b64decode(data.get(names.PREVIOUS_KEY, ""))
        if self.value and key != self.value:
            # Another leader may have replaced the key more than once since this one led. An admin
            # who writes only the key leaves the entry of an earlier exchange, or none.
            is_news = written not in (b"", self._written_previous)
            self.previous = written if is_news else self.value
        elif not self.previous:
            self.previous = written
        self._written_previous = written
        self.value = key

    async def _get_or_create(self, now: float) -> Json:
        with suppress(NotFound):
            return await self._client.get(SECRETS, dict, ROOT_SECRET)
        # another leader may have created it since
        with suppress(AlreadyExists):
            await self._client.create(SECRETS, _new_secret(now), namespace=ROOT_SECRET[0])
        return await self._client.get(SECRETS, dict, ROOT_SECRET)

    async def _replace(self, secret: Json, now: float) -> Json:
        """The Secret with a new key, and the one before beside it; as it is if that is refused,
        for example because somebody else has changed it."""
        annotations = {names.NEW_KEY: None, names.KEY_SINCE: rfc3339(now)}
        version = secret["metadata"]["resourceVersion"]
        previous = (secret.get("data") or {}).get(names.SECRET_KEY)
        body = {
            "metadata": {"resourceVersion": version, "annotations": annotations},
            "data": {names.SECRET_KEY: _new_key(), names.PREVIOUS_KEY: previous},
        }
        try:
            replaced: Json = await self._client.patch(SECRETS, ROOT_SECRET, body)
        except ApiError as error:
            log.warning("root key not replaced", extra={"reason": str(error)})
            return secret
        log.warning("root key replaced", extra={"secret": names.ROOT_SECRET})
        return replaced


def is_due(secret: Json, now: float) -> bool:
    """Whether the key must be replaced now.

    Not again while pods may know only the one before. A key whose age Cede did not note, such as
    one that an admin manages, is replaced on request only; so is one whose note is no time.
    """
    annotations = secret["metadata"].get("annotations") or {}
    since = unix_or_zero(annotations.get(names.KEY_SINCE, ""))
    age_s = now - since
    is_asked = names.NEW_KEY in annotations and age_s >= KEY_OVERLAP_S
    return is_asked or bool(since and age_s >= LIFETIME_S)


def _new_key() -> str:
    """In base64."""
    return base64.b64encode(secrets.token_hex(32).encode()).decode()


def _new_secret(now: float) -> Json:
    namespace, name = ROOT_SECRET
    # It has no label of an allocation, so that no plan ever deletes it.
    labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
    annotations = {names.KEY_SINCE: rfc3339(now)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "type": "Opaque",
        "data": {names.SECRET_KEY: _new_key()},
    }
