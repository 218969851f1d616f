"""Asks the API server whose a token is, and what a person may see. Its answers count for a short
time: somebody whose rights end sees no more after it."""

import hashlib
from collections.abc import Callable, Iterable

from cede.api.objects import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Json, Kind
from cede.dashboard.people.person import (
    EVERYWHERE,
    OF_JOBS,
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
    """`namespaces` gives those of all teams. All may raise ApiError."""

    def __init__(self, client: Client, namespaces: Callable[[], Iterable[str]]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._people = Recent[Token, Person | None](self._whose, _token_valid_s)
        self._rights = Recent[Person, Rights](self._ask_rights, lambda _: VALID_S)

    async def person(self, token: str) -> Person | None:
        """Whose the token is; None: nobody's, or of other audiences."""
        return await self._people.get(Token(token))

    async def rights(self, person: Person) -> Rights:
        return await self._rights.get(person)

    async def _whose(self, token: "Token") -> Person | None:
        # without audiences: one that the API server itself accepts
        body: Json = {"metadata": {}, "spec": {"token": token.text}}
        return person_of(await self._client.create(TOKEN_REVIEWS, body))

    async def _ask_rights(self, person: Person) -> Rights:
        kinds = set[str]()
        allowed = set[str]()

        async def ask_kind(kind: Kind) -> None:
            if await self._may(person, kind, place_of(kind)):
                kinds.add(kind.plural)

        async def ask_namespace(namespace: str) -> None:
            for kind in OF_JOBS:
                if not await self._may(person, kind, namespace):
                    return
            allowed.add(namespace)

        await gather_bounded([*(ask_kind(kind) for kind in SHARED), ask_namespace(EVERYWHERE)])
        if EVERYWHERE not in allowed:
            await gather_bounded(ask_namespace(namespace) for namespace in self._namespaces())
        return Rights(frozenset(kinds), frozenset(allowed))

    async def _may(self, person: Person, kind: Kind, namespace: str) -> bool:
        review = await self._client.create(
            SUBJECT_ACCESS_REVIEWS, may_list(person, kind, namespace)
        )
        return bool((review.get("status") or {}).get("allowed"))


class Token:
    """Kept by its hash: the text itself is in no list of what was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._digest = hashlib.sha256(text.encode(errors="surrogateescape")).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


def _token_valid_s(person: Person | None) -> float:
    return VALID_S if person else STRANGER_S
