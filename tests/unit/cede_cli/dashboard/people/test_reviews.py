"""How the API server is asked about people."""

from cede.api.objects import SUBJECT_ACCESS_REVIEWS
from cede.dashboard.people.person import OF_JOBS, SHARED, Person
from cede.dashboard.people.reviews import Reviews, Token
from tests.fakes.api_server import ApiServer
from tests.fakes.people import People

TEAMS = ("research", "vision")


async def asked(*namespaces: str) -> tuple[set[str], int]:
    """The namespaces whose jobs are seen by who may list these, and the number of questions."""
    people = People()
    people.add("ada", namespaces)
    async with ApiServer() as server, server.client() as client:
        server.admission_hook = people
        reviews = Reviews(client, lambda: TEAMS)
        rights = await reviews.rights(Person("ada", groups=("people",)))
        paths = [path for _, path in server.requests]
        assert set(paths) == {SUBJECT_ACCESS_REVIEWS.path()}
        return set(rights.namespaces), len(paths)


async def test_who_may_list_everywhere_is_asked_about_no_team() -> None:
    assert await asked("") == ({""}, len(SHARED) + len(OF_JOBS))


async def test_the_first_no_about_a_team_is_enough() -> None:
    questions = len(SHARED) + 1 + len(OF_JOBS) + 1
    assert await asked("research") == ({"research"}, questions)


def test_a_token_is_kept_by_its_hash() -> None:
    assert Token("a") == Token("a")
    assert Token("a") != Token("b")
    assert "secret" not in repr(Token("secret"))
