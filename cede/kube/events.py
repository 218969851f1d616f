"""Kubernetes events, in the plan's own words."""

from hashlib import sha256

from cede.api.objects import EVENTS, Json, rfc3339
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists


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
    """An Event on `regarding` (apiVersion, kind, name, namespace, uid). Saying the same again in
    the same second adds nothing.

    Events of cluster-scoped objects live in `default`, where `kubectl describe` looks for them.
    """
    namespace = regarding.get("namespace") or "default"
    same = sha256(f"{regarding.get('uid')}/{reason}/{note}/{int(now)}".encode()).hexdigest()[:16]
    body: Json = {
        "metadata": {
            "name": f"{regarding['name'][:200].rstrip('.-')}.{same}",
            "namespace": namespace,
        },
        "regarding": regarding,
        "reason": reason,
        "note": note[:1024],
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
