"""How the API server is asked about people."""

import gc
import weakref
from typing import cast

from cede.api.objects import SUBJECT_ACCESS_REVIEWS, Json, Kind
from cede.dashboard.people.person import OF_JOBS, SHARED, Person
from cede.dashboard.people.reviews import Reviews
from cede.kube.client import Client
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
    # how far the jobs are is one more
    assert await asked("") == ({""}, len(SHARED) + len(OF_JOBS) + 1)


async def test_the_first_no_about_a_team_is_enough() -> None:
    questions = len(SHARED) + 1 + len(OF_JOBS) + 1 + 1
    assert await asked("research") == ({"research"}, questions)


async def test_who_may_not_list_how_far_jobs_are_sees_the_jobs() -> None:
    people = People()
    people.add("ada", ("research",))
    people.without_progress("ada")
    async with ApiServer() as server, server.client() as client:
        server.admission_hook = people
        rights = await Reviews(client, lambda: TEAMS).rights(Person("ada", groups=("people",)))
    assert rights.namespaces == {"research"}
    assert rights.progress == frozenset()


class Text(str):
    """A text of which can be told whether somebody keeps it."""


class Answering:
    async def create(self, _: Kind, body: Json) -> Json:
        return body | {"status": {"authenticated": True, "user": {"username": "ada"}}}


async def test_no_token_is_kept() -> None:
    reviews = Reviews(cast(Client, Answering()), lambda: TEAMS)
    token = Text("secret")
    kept = weakref.ref(token)
    assert await reviews.person(token) == Person("ada")
    del token
    gc.collect()
    assert kept() is None
