"""Answers of an API server about rights: SelfSubjectAccessReviews, and lists without the right."""

from collections.abc import Callable, Collection, Container
from typing import Any

from aiohttp import web

from cede.api.objects import ACCESS_REVIEWS, Kind

EVERYWHERE = ("",)


def reviews(
    namespaces: Container[str], without: Collection[Kind] = ()
) -> Callable[[str, str, Any], web.Response | None]:
    """An admission hook: the caller may do everything in these namespaces but with the kinds
    `without`; `""` stands for all of them at once."""

    def answer(method: str, path: str, body: Any) -> web.Response | None:
        if (method, path) != ("POST", ACCESS_REVIEWS.path()):
            return None
        asked = body["spec"]["resourceAttributes"]
        is_kind = asked["resource"] not in {kind.plural for kind in without}
        allowed = asked["namespace"] in namespaces and is_kind
        return web.json_response(body | {"status": {"allowed": allowed}}, status=201)

    return answer
