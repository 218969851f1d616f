"""In which namespaces the caller may watch jobs."""

from cede.api.objects import ACCESS_REVIEWS
from cede.dashboard.rights import readable_namespaces, with_progress
from tests.fakes.access import EVERYWHERE, reviews
from tests.fakes.api_server import ApiServer


async def readable(allowed: tuple[str, ...], *asked: str) -> tuple[list[str], int]:
    """The namespaces, and the number of requests."""
    async with ApiServer() as server, server.client() as client:
        server.admission_hook = reviews(allowed)
        found_namespaces = await readable_namespaces(client, asked)
        assert {path for _, path in server.requests} == {ACCESS_REVIEWS.path()}
        return list(found_namespaces), len(server.requests)


async def test_who_may_watch_everywhere_is_asked_about_no_namespace() -> None:
    # two kinds, two verbs
    assert await readable(EVERYWHERE, "research", "vision") == ([""], 4)


async def test_others_watch_where_they_may() -> None:
    assert (await readable(("vision", "speech"), "vision", "research"))[0] == ["vision"]


async def test_nobody_watches_what_they_may_not() -> None:
    assert (await readable((), "vision"))[0] == []


async def test_how_far_jobs_are_is_watched_where_they_may() -> None:
    async with ApiServer() as server, server.client() as client:
        server.admission_hook = reviews(("vision",))
        assert await with_progress(client, ["research", "vision"]) == ["vision"]
