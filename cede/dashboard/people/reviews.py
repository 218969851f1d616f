"""Asks the API server whose a token is, and what a person may see. Its answers count for a short
time: somebody whose rights end sees no more after it."""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial

from cede.api import names
from cede.api.objects import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Json, Kind
from cede.dashboard.people.person import (
    EVERYWHERE,
    OF_JOBS,
    PROGRESS,
    SHARED,
    Person,
    Rights,
    may_list,
    person_of,
    place_of,
)
from cede.dashboard.people.recent import Recent
from cede.kube.client import Client
from cede.kube.gather import gather_bounded

VALID_S = 60.0
STRANGER_S = 10.0
"""For so long a token that is nobody's is not asked about again."""


class Reviews:
    """`namespaces` gives those of all teams. All may raise ApiError, or Busy."""

    def __init__(self, client: Client, namespaces: Callable[[], Iterable[str]]) -> None:
        self._client = client
        self._namespaces = namespaces
        # by the hash of the token: whoever has signed out left no token here
        self._people = Recent[bytes, Person | None](_token_valid_s, lambda person: bool(person))
        self._rights = Recent[Person, Rights](lambda _: VALID_S)

    async def person(self, token: str) -> Person | None:
        """Whose the token is; None: nobody's, or of other audiences."""
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        return await self._people.get(digest, partial(self._whose, token))

    async def rights(self, person: Person) -> Rights:
        # somebody with many tokens is several persons, of one name
        return await self._rights.get(person, partial(self._ask_rights, person), person.name)

    async def _whose(self, token: str) -> Person | None:
        # without audiences: one that the API server itself accepts
        body: Json = {"metadata": {}, "spec": {"token": token}}
        return person_of(await self._client.create(TOKEN_REVIEWS, body))

    async def _ask_rights(self, person: Person) -> Rights:
        kinds = set[str]()
        allowed = set[str]()
        progress = set[str]()

        async def ask_kind(kind: Kind) -> None:
            if await self._may(person, kind, place_of(kind)):
                kinds.add(kind.plural)

        async def ask_namespace(namespace: str) -> None:
            for kind in OF_JOBS:
                if not await self._may(person, kind, namespace):
                    return
            allowed.add(namespace)
            await ask_progress(namespace)

        async def ask_progress(namespace: str) -> None:
            if await self._may(person, PROGRESS, namespace, names.PROGRESS):
                progress.add(namespace)

        await gather_bounded([*(ask_kind(kind) for kind in SHARED), ask_namespace(EVERYWHERE)])
        if EVERYWHERE not in allowed:
            await gather_bounded(ask_namespace(namespace) for namespace in self._namespaces())
        elif EVERYWHERE not in progress:
            await gather_bounded(ask_progress(namespace) for namespace in self._namespaces())
        return Rights(frozenset(kinds), frozenset(allowed), frozenset(progress))

    async def _may(self, person: Person, kind: Kind, namespace: str, name: str = "") -> bool:
        review = await self._client.create(
            SUBJECT_ACCESS_REVIEWS, may_list(person, kind, namespace, name)
        )
        return bool((review.get("status") or {}).get("allowed"))


def _token_valid_s(person: Person | None) -> float:
    return VALID_S if person else STRANGER_S
