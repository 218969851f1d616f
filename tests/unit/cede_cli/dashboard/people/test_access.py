"""Who is let in, and that each sees what RBAC lets them see."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack

import pytest

from cede.api.objects import CESSIONS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from cede.dashboard.history import Answer
from cede.dashboard.people import access
from cede.dashboard.server import MAX_STREAMS_OF_PERSON
from tests.builders.take_backs import cession
from tests.fakes.api_faults import drops
from tests.fakes.api_server import ApiServer
from tests.fakes.people import ALL_SHARED, People
from tests.harness.page_reader import history
from tests.unit.cede_cli.dashboard.people.conftest import Site, bearer

pytestmark = pytest.mark.usefixtures("quick")
EVERYWHERE = ("",)
OWN_FORM = {"Origin": "https://cede.example", "Sec-Fetch-Site": "same-origin"}


async def sign_in(site: Site, token: str, **headers: str) -> tuple[int, str, str]:
    """(status, where it leads, the cookie)."""
    response = await site.post("sign-in", OWN_FORM | headers, data={"token": token})
    async with response:
        cookie = response.headers.get("Set-Cookie", "")
        return response.status, response.headers.get("Location", ""), cookie


async def test_each_person_sees_what_they_may_list(site: Site, people: People) -> None:
    admin = await site.page(people.add("admin", EVERYWHERE))
    assert len({row["namespace"] for row in admin["jobs"].values()}) == 4
    assert admin["cluster"]["cluster"]["rights"] == ""
    member = await site.page(people.add("member", ("research",), ALL_SHARED - {"leases"}))
    assert {row["namespace"] for row in member["jobs"].values()} == {"research"}
    assert set(member["teams"]) == {"vision", "research", "speech", "robotics"}
    assert member["cluster"]["cluster"]["rights"] == (
        "Not shown, because you may not read it: leases; the jobs in robotics, speech, vision."
    )
    stranger = await site.page(people.add("stranger", (), ()))
    assert (stranger["teams"], stranger["jobs"], stranger["takes"]) == ({}, {}, {})
    assert "research" not in json.dumps(stranger)


async def test_people_with_equal_rights_share_a_page(site: Site, people: People) -> None:
    first = await site.page(people.add("ada", ("research",)))
    second = await site.page(people.add("bob", ("research",)))
    other = await site.page(people.add("eve", ("vision",)))
    assert abs(first["version"] - second["version"]) < 1000
    assert abs(first["version"] - other["version"]) > 1000


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param(bearer("nobody's"), id="a token of nobody"),
        pytest.param({"Authorization": "Basic YTpi"}, id="another scheme"),
        pytest.param({"Cookie": "__Host-cede=guessed"}, id="a session that was never begun"),
    ],
)
async def test_others_are_sent_to_the_form(
    site: Site, people: People, headers: dict[str, str]
) -> None:
    await site.page(people.add("admin", EVERYWHERE))
    for path in ("api/page", "api/me", "api/history", "api/explain/research/gpt-7b"):
        status, text = await site.get(path, **headers)
        assert (status, "sign in: " in text) == (401, True)


async def test_a_session_begins_with_a_token_and_ends(site: Site, people: People) -> None:
    token = people.add("ada", ("research",))
    await site.page(token)
    status, location, cookie = await sign_in(site, token)
    assert (status, location) == (303, "./")
    value, *rest = cookie.split("; ")
    assert {"HttpOnly", "Secure", "SameSite=Strict", "Path=/"} <= set(rest)
    assert token not in cookie
    headers = {"Cookie": value}
    assert json.loads((await site.get("api/me", **headers))[1]) == {"user": "ada", "signedIn": True}
    (await site.post("sign-out", headers | {"Sec-Fetch-Site": "same-origin"})).release()
    assert (await site.get("api/me", **headers))[0] == 401


async def test_a_token_in_the_header_needs_no_session(site: Site, people: People) -> None:
    token = people.add("ada", ("research",))
    await site.page(token)
    status, text = await site.get("api/me", **bearer(token))
    assert (status, json.loads(text)) == (200, {"user": "ada", "signedIn": False})


async def test_a_token_that_is_nobodys_begins_no_session(
    site: Site, people: People, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await site.page(people.add("admin", EVERYWHERE))
    assert await sign_in(site, "stolen-and-ended") == (303, "sign-in#refused", "")
    assert await sign_in(site, "") == (303, "sign-in#refused", "")
    assert "stolen-and-ended" not in caplog.text + str([vars(entry) for entry in caplog.records])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("application/x-www-form-urlencoded; charset=none", b"token=a", id="a charset"),
        pytest.param("multipart/form-data", b"token=a", id="parts without a boundary"),
        pytest.param("application/x-www-form-urlencoded", b"a&" * 9999, id="many fields"),
        pytest.param("application/x-www-form-urlencoded", b"token=%ff\xff", id="no text"),
        pytest.param("application/x-www-form-urlencoded", b"token=a%0d%0ab", id="two lines"),
    ],
)
async def test_a_form_that_is_none_is_refused_as_a_wrong_token_is(
    site: Site, caplog: pytest.LogCaptureFixture, kind: str, body: bytes
) -> None:
    headers = OWN_FORM | {"Content-Type": kind}
    async with await site.post("sign-in", headers, data=body) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "sign-in#refused")
    assert not [entry for entry in caplog.records if entry.exc_info]


async def test_signing_in_again_ends_the_session_before(site: Site, people: People) -> None:
    token = people.add("ada", ("research",))
    await site.page(token)
    _, _, first = await sign_in(site, token)
    _, _, second = await sign_in(site, token, Cookie=first.partition(";")[0])
    status = [
        (await site.get("api/me", Cookie=cookie.partition(";")[0]))[0] for cookie in (first, second)
    ]
    assert status == [401, 200]


async def test_a_wrong_token_of_a_proxy_ends_no_session(site: Site, people: People) -> None:
    token = people.add("ada", ("research",))
    await site.page(token)
    session = {"Cookie": (await sign_in(site, token))[2].partition(";")[0]}
    assert (await site.get("api/me", **session, **bearer("nobody's")))[0] == 401
    assert (await site.get("api/me", **session))[0] == 200


async def test_a_browser_comes_by_tls_only_once_it_has_seen_the_form(
    site: Site, local_site: Site
) -> None:
    async with site.session.get(f"{site.url}sign-in", headers=site.host) as answer:
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    # another program may serve another port of this machine without
    async with site.session.get(f"{local_site.url}sign-in", headers=local_site.host) as answer:
        assert "Strict-Transport-Security" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="another site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="another host of the domain"),
        pytest.param({"Origin": "https://evil.example"}, id="an old browser"),
        pytest.param({"Origin": "null"}, id="no origin"),
    ],
)
async def test_no_other_site_begins_a_session_or_asks(
    site: Site, people: People, headers: dict[str, str]
) -> None:
    token = people.add("ada", EVERYWHERE)
    for path in ("sign-in", "sign-out", "api/whatif"):
        async with await site.post(path, headers | bearer(token), data={"token": token}) as answer:
            assert answer.status == 403
    for path in ("api/page", "api/explain/research/gpt-7b"):
        assert (await site.get(path, **headers, **bearer(token)))[0] == 403


async def test_links_of_other_sites_lead_to_the_page(site: Site, people: People) -> None:
    await site.page(people.add("ada", EVERYWHERE))
    for path in ("", "sign-in"):
        assert (await site.get(path, **{"Sec-Fetch-Site": "cross-site"}))[0] == 200


async def test_another_host_name_is_refused(site: Site) -> None:
    assert (await site.get("", Host="evil.example"))[0] == 421


@pytest.mark.usefixtures("short")
async def test_a_token_that_ended_opens_no_stream(site: Site, people: People) -> None:
    token = people.add("ada", EVERYWHERE)
    version = (await site.page(token))["version"]
    url = f"{site.url}api/changes?after={version - 1}"
    headers = {"Host": "cede.example"} | bearer(token)
    people.revoke(token)
    async with site.session.get(url, headers=headers) as response:
        assert response.status == 401


@pytest.mark.usefixtures("short")
async def test_an_open_stream_ends_when_rights_do(
    site: Site, people: People, server: ApiServer
) -> None:
    token = people.add("ada", EVERYWHERE)
    version = (await site.page(token))["version"]
    headers = {"Host": "cede.example"} | bearer(token)
    url = f"{site.url}api/changes?after={version}"
    async with asyncio.timeout(20), site.session.get(url, headers=headers) as response:
        people.add("ada", ("vision",))
        server.put(CESSIONS, cession("new", "vision/detector", ("speech/tts", 6, 2)))
        assert b"new" not in await response.content.read()
    assert {row["namespace"] for row in (await site.page(token))["jobs"].values()} == {"vision"}


async def test_one_person_opens_no_streams_of_others(site: Site, people: People) -> None:
    ada, bob = (people.add(name, EVERYWHERE) for name in ("ada", "bob"))
    version = (await site.page(ada))["version"]
    url = f"{site.url}api/changes?after={version - 1}"
    async with AsyncExitStack() as open_pages:

        async def status_for(token: str) -> int:
            headers = {"Host": "cede.example"} | bearer(token)
            request = site.session.get(url, headers=headers)
            return (await open_pages.enter_async_context(request)).status

        assert [await status_for(ada) for _ in range(MAX_STREAMS_OF_PERSON)].count(200) == 16
        assert await status_for(ada) == 503
        assert await status_for(bob) == 200


async def test_what_was_asked_counts_for_a_while(
    site: Site, people: People, server: ApiServer
) -> None:
    token = people.add("ada", ("research",))
    await site.page(token)
    before = len(server.writes())
    for _ in range(5):
        await site.page(token)
    assert len(server.writes()) == before
    assert [path for _, path in server.writes()].count(TOKEN_REVIEWS.path()) == 1


@pytest.mark.usefixtures("short")
async def test_without_an_answer_of_the_api_server_nobody_is_let_in(
    site: Site, people: People, server: ApiServer
) -> None:
    token = people.add("ada", EVERYWHERE)
    await site.page(token)
    server.script("POST", SUBJECT_ACCESS_REVIEWS.path(), *[drops()] * 99)
    status, text = await site.get("api/page", **bearer(token))
    assert status == 503
    assert text == (
        "the API server does not say what you may see (Unreachable): try again in a moment\n"
    )


async def test_an_explanation_is_read_with_the_persons_token(
    site: Site, people: People, server: ApiServer
) -> None:
    token = people.add("ada", EVERYWHERE)
    await site.page(token)
    server.token = token
    status, text = await site.get("api/explain/research/gpt-7b", **bearer(token))
    assert (status, json.loads(text)["state"]) == (200, "Running")


async def test_the_form_may_be_sent_here_and_nowhere_else(site: Site) -> None:
    url = f"{site.url}sign-in"
    async with site.session.get(url, headers={"Host": "cede.example"}) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "form-action 'self'; frame-ancestors 'none'" in policy
        assert "script" not in policy
        assert 'action="sign-in"' in await response.text()


async def test_the_history_needs_allocations_and_its_statements_cessions_too(
    site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "from_ledger", lambda _: history())
    for name, kinds, problem, count in (
        ("ada", ALL_SHARED, "", 2),
        ("bob", ALL_SHARED - {"cessions"}, "", 0),
        ("eve", (), "You may not read", 0),
    ):
        token = people.add(name, EVERYWHERE, kinds)
        await site.page(token)
        answer = json.loads((await site.get("api/history", **bearer(token)))[1])
        assert (answer["problem"][:16], len(answer["history"]["statements"])) == (problem, count)


async def test_many_who_ask_for_the_history_are_one_question_to_the_ledger(
    site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    async def from_ledger(address: str) -> Answer:
        asked.append(address)
        return Answer()

    monkeypatch.setattr(access, "from_ledger", from_ledger)
    tokens = [people.add(name, EVERYWHERE) for name in ("ada", "bob")]
    await site.page(tokens[0])
    for token in tokens * 3:
        assert (await site.get("api/history", **bearer(token)))[0] == 200
    assert len(asked) == 1
