"""Records Kubernetes events."""

from hashlib import sha256

from cede.api.objects import EVENTS, Json, Key, Kind, rfc3339
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists

MAX_NOTE_BYTES = 1024
"""The API server refuses longer notes, and counts the bytes of their UTF-8."""


def reference(kind: Kind, key: Key, uid: str) -> Json:
    """The object that an event is about."""
    namespace, name = key
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }


async def record(
    client: Client,
    *,
    manager: str,
    regarding: Json,
    reason: str,
    note: str,
    now: float,
    type_: str = "Normal",
    action: str = "Reconcile",
) -> None:
    """Records an Event on the object `regarding` (apiVersion, kind, name, namespace, uid).

    An equal event within the same second is recorded once. Events of cluster-scoped objects are in
    namespace `default`, where `kubectl describe` looks for them.
    """
    namespace = regarding.get("namespace") or "default"
    identity = f"{regarding.get('uid')}/{reason}/{note}/{int(now)}"
    suffix = sha256(identity.encode()).hexdigest()[:16]
    # a name has at most 253 characters
    prefix = regarding["name"][:200].rstrip(".-")
    body: Json = {
        "metadata": {
            "name": f"{prefix}.{suffix}",
            "namespace": namespace,
        },
        "regarding": regarding,
        "reason": reason,
        "note": note.encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
        "type": type_,
        "action": action,
        "eventTime": rfc3339(now, micro=True),
        "reportingController": f"cede.dev/{manager}",
        "reportingInstance": manager,
    }
    try:
        await client.create(EVENTS, body, namespace=namespace)
    except AlreadyExists:
        return
