"""The two paths over real HTTPS: what the API server sends, and what it must never be answered."""

import base64
import io
import json
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.objects import Json
from tests.fakes.api_server import json_patch
from tests.unit.webhook.test_defaults import JSON, jobs
from tests.unit.webhook.test_rules import PRIORITY, TEAM, a_job, running
from webhook.admission import SCHEDULER_USER
from webhook.certificates.keeper import HOSTS, issue_ca, issue_leaf, load
from webhook.server import MUTATE, VALIDATE, Malformed, application, mutate, parse, validate


def review(found: Any, old: Any = None, user: str = "ada") -> Json:
    request = {
        "uid": "u-1",
        "namespace": "vision",
        "object": found,
        "oldObject": old,
        "userInfo": {"username": user},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class Served:
    """Our application behind TLS, and a client that trusts nothing but our CA."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.port = port

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"https://127.0.0.1:{self.port}{path}?timeout=5s"
        async with self.session.post(
            url, data=io.BytesIO(data), server_hostname=HOSTS[0]
        ) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.status == 200 else text


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    ca = issue_ca(time.time())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load(context, issue_leaf(ca, time.time()))
    runner = web.AppRunner(application(lambda namespace: TEAM), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    trust = ssl.create_default_context(cadata=ca.certificate)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield Served(session, runner.addresses[0][1])
    await runner.cleanup()


async def test_a_job_comes_back_with_a_patch_that_applies_and_then_is_valid(served: Served) -> None:
    status, answer = await served.post(MUTATE, review(a_job()))
    response = answer["response"]
    assert (status, response["uid"], response["allowed"], response["patchType"]) == (
        200,
        "u-1",
        True,
        "JSONPatch",
    )
    after = json_patch(a_job(), json.loads(base64.b64decode(response["patch"])))
    assert after["spec"]["parallelism"] == 2
    # reinvoked, then validated: nothing more to say
    for path in (MUTATE, VALIDATE):
        assert (await served.post(path, review(after)))[1]["response"] == {
            "uid": "u-1",
            "allowed": True,
        }


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_a_refusal_says_everything_and_carries_no_patch(served: Served, path: str) -> None:
    _, answer = await served.post(path, review(a_job(9, labels={PRIORITY: "urgent"})))
    response = answer["response"]
    assert set(response) == {"uid", "allowed", "status"}
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert "urgent" in response["status"]["message"]
    assert "parallelism is 9" in response["status"]["message"]


async def test_the_schedulers_resize_passes_untouched(served: Served) -> None:
    old = running(a_job(), 4)
    new = running(a_job(), 2)
    for path in (MUTATE, VALIDATE):
        assert (await served.post(path, review(new, old, SCHEDULER_USER)))[1]["response"] == {
            "uid": "u-1",
            "allowed": True,
        }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b"\xff\xfe", "no JSON", id="not text"),
        pytest.param(b"[" * 100_000, "deep", id="nested without end"),
        pytest.param([], "no AdmissionReview", id="a list"),
        pytest.param({"request": {"uid": 7}}, "no AdmissionReview", id="a uid that is none"),
        pytest.param(review(None), "must be objects", id="no object, as in DELETE"),
        pytest.param(review({"metadata": []}), "metadata must be", id="metadata that is none"),
        pytest.param(
            review({"metadata": {"labels": {"a": 1}}}),
            "map texts to texts",
            id="a label that is no text",
        ),
        pytest.param(
            review({}, {"metadata": {"annotations": ["a"]}}),
            "map texts to texts",
            id="also of the old object",
        ),
    ],
)
@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_what_is_no_review_gets_400_and_the_reason(
    served: Served, path: str, body: Any, said: str
) -> None:
    status, text = await served.post(path, body)
    assert status == 400
    assert said in text


async def test_an_update_of_a_large_object_is_answered(served: Served) -> None:
    """The API server lets an object be 1.5 MB, and the review of an update carries two."""
    large = a_job(annotations={"data": "x" * 1_500_000})
    status, answer = await served.post(VALIDATE, review(large, large))
    assert (status, answer["response"]["allowed"]) == (200, True)
    assert (await served.post(VALIDATE, b"x" * (9 << 20)))[0] == 413


@settings(deadline=None)
@given(JSON | st.builds(review, jobs() | JSON, st.none() | jobs() | JSON))
def test_no_review_is_too_strange(body: Any) -> None:
    try:
        _, asked = parse(json.dumps(body).encode(), lambda namespace: TEAM)
    except Malformed:
        return
    answer = mutate(asked)
    assert ("patch" in answer) == ("patchType" in answer)
    if "patch" in answer:
        json_patch(asked.object, json.loads(base64.b64decode(answer["patch"])))
    assert "patch" not in validate(asked)
