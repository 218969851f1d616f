"""Asks the API server in which namespaces its caller may watch jobs."""

from collections.abc import Iterable, Sequence

from cede.api import names
from cede.api.objects import ACCESS_REVIEWS, CONFIG_MAPS, JOBS, WORKLOADS, Json, Kind
from cede.kube.client import Client
from cede.kube.gather import gather_bounded

EVERYWHERE = ""
NAMESPACED = (JOBS, WORKLOADS)
"""What the rows of jobs are made of."""
VERBS = ("list", "watch")


async def readable_namespaces(client: Client, namespaces: Iterable[str]) -> Sequence[str]:
    """`("",)` for somebody who may watch the jobs of all namespaces, else those of `namespaces`
    whose jobs the caller may watch. May raise ApiError."""
    if await _may_watch(client, EVERYWHERE):
        return (EVERYWHERE,)
    allowed = list[str]()

    async def ask(namespace: str) -> None:
        if await _may_watch(client, namespace):
            allowed.append(namespace)

    await gather_bounded(ask(namespace) for namespace in namespaces)
    return sorted(allowed)


async def with_progress(client: Client, namespaces: Iterable[str]) -> Sequence[str]:
    """Those in which the caller may watch how far jobs are. May raise ApiError."""
    allowed = list[str]()

    async def ask(namespace: str) -> None:
        if await _may_both(client, CONFIG_MAPS, namespace, names.PROGRESS):
            allowed.append(namespace)

    await gather_bounded(ask(namespace) for namespace in namespaces)
    return sorted(allowed)


async def _may_watch(client: Client, namespace: str) -> bool:
    for kind in NAMESPACED:
        if not await _may_both(client, kind, namespace):
            return False
    return True


async def _may_both(client: Client, kind: Kind, namespace: str, name: str = "") -> bool:
    """List and watch; the one object of this name, if there is a name."""
    for verb in VERBS:
        if not await _may(client, verb, kind, namespace, name):
            return False
    return True


async def _may(client: Client, verb: str, kind: Kind, namespace: str, name: str) -> bool:
    attributes = {
        "verb": verb,
        "group": kind.group,
        "resource": kind.plural,
        "namespace": namespace,
        **({"name": name} if name else {}),
    }
    body: Json = {"metadata": {}, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(ACCESS_REVIEWS, body)
    return bool(answer.get("status", {}).get("allowed"))
