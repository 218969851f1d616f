"""Answers of an API server about rights: SelfSubjectAccessReviews, and lists without the right."""

from collections.abc import Callable, Container
from typing import Any

from aiohttp import web

from cede.api.objects import ACCESS_REVIEWS

EVERYWHERE = ("",)


def reviews(namespaces: Container[str]) -> Callable[[str, str, Any], web.Response | None]:
    """An admission hook: the caller may do everything in these namespaces; `""` stands for all of
    them at once."""

    def answer(method: str, path: str, body: Any) -> web.Response | None:
        if (method, path) != ("POST", ACCESS_REVIEWS.path()):
            return None
        asked = body["spec"]["resourceAttributes"]["namespace"]
        return web.json_response(body | {"status": {"allowed": asked in namespaces}}, status=201)

    return answer
