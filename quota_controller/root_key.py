"""The Secret with the root key, which the keys of all namespaces are derived from."""

import base64
import secrets
from contextlib import suppress

from cede.api import names
from cede.api.objects import SECRETS, Json, Key
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, NotFound

ROOT_SECRET: Key = (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)


async def get_or_create(client: Client) -> bytes:
    """The root key. The Secret is created if there is none; empty if it exists without a key."""
    try:
        secret: Json = await client.get(SECRETS, dict, ROOT_SECRET)
    except NotFound:
        # another leader may have created it since
        with suppress(AlreadyExists):
            await client.create(SECRETS, _new_secret(), namespace=ROOT_SECRET[0])
        secret = await client.get(SECRETS, dict, ROOT_SECRET)
    return base64.b64decode((secret.get("data") or {}).get(names.SECRET_KEY, ""))


def _new_secret() -> Json:
    key = secrets.token_hex(32).encode()
    namespace, name = ROOT_SECRET
    # It has no label of an allocation, so that no plan ever deletes it.
    labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "data": {names.SECRET_KEY: base64.b64encode(key).decode()},
    }
