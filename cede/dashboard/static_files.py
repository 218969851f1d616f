"""The files that the browser gets."""

from collections.abc import Mapping
from importlib.resources import files

from aiohttp import web

INDEX = "index.html"
TYPES = {
    "css": "text/css",
    "html": "text/html",
    "mjs": "text/javascript",
    "svg": "image/svg+xml",
}
"""By the end of the name."""


class StaticFiles:
    """All files of the folder `static`, as they were at the start."""

    def __init__(self) -> None:
        folder = files("cede.dashboard") / "static"
        self._files: Mapping[str, bytes] = {
            entry.name: entry.read_bytes() for entry in folder.iterdir()
        }

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._files)

    async def answer(self, request: web.Request) -> web.Response:
        """The file with the name in the path; without a name, the page."""
        return self.page(request.match_info.get("name") or INDEX)

    def page(self, name: str) -> web.Response:
        """Raises HTTPNotFound."""
        if name not in self._files:
            raise web.HTTPNotFound(text=f"there is no {name}\n")
        return web.Response(body=self._files[name], content_type=type_of(name), charset="utf-8")


def type_of(name: str) -> str:
    return TYPES[name.rpartition(".")[2]]
