"""People as an API server knows them: whose a token is, and what each may list."""

from collections.abc import Collection
from typing import Any

from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ACCESS_REVIEWS,
    CONFIG_MAPS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Json,
)
from cede.dashboard.people.person import SHARED

ALL_SHARED = frozenset(kind.plural for kind in SHARED)


class People:
    """An admission hook. The server itself may do everything."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        # by name: plurals of shared kinds, and namespaces of jobs; "" is all
        self._rights: dict[str, tuple[Collection[str], Collection[str]]] = {}
        # who may not list how far jobs are
        self._without_progress = set[str]()

    def add(
        self, name: str, namespaces: Collection[str], kinds: Collection[str] = ALL_SHARED
    ) -> str:
        """Their token. Once more: other rights."""
        token = f"token-of-{name}"
        self._names[token] = name
        self._rights[name] = kinds, namespaces
        return token

    def without_progress(self, name: str) -> None:
        self._without_progress.add(name)

    def revoke(self, token: str) -> None:
        del self._names[token]

    def __call__(self, method: str, path: str, body: Any) -> web.Response | None:
        if method != "POST":
            return None
        if path == ACCESS_REVIEWS.path():
            return _answer(body, {"allowed": True})
        if path == TOKEN_REVIEWS.path():
            name = self._names.get(body["spec"]["token"])
            user = {"username": name, "uid": f"uid-{name}", "groups": ["people"]}
            return _answer(body, {"authenticated": True, "user": user} if name else {})
        if path == SUBJECT_ACCESS_REVIEWS.path():
            return _answer(body, {"allowed": self._may(body["spec"])})
        return None

    def _may(self, spec: Json) -> bool:
        assert spec["groups"] == ["people"]
        kinds, namespaces = self._rights[spec["user"]]
        attributes = spec["resourceAttributes"]
        assert attributes["verb"] == "list"
        if attributes["resource"] == CONFIG_MAPS.plural:
            assert attributes["name"] == names.PROGRESS
            if spec["user"] in self._without_progress:
                return False
        if attributes["resource"] in ALL_SHARED:
            return attributes["resource"] in kinds
        return bool({"", attributes["namespace"]} & set(namespaces))


def _answer(body: Json, status: Json) -> web.Response:
    return web.json_response(body | {"status": status}, status=201)
