"""Both paths over real HTTPS: answers to reviews, and refusals of everything else."""

import asyncio
import base64
import io
import json
import ssl
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.kube.webhook_secret import HOSTS
from tests.builders.jobs import (
    PRIORITY,
    TEAM,
    elastic_job,
    make_review,
    plain_job,
    running_job,
)
from tests.builders.random_jobs import JSON, random_jobs
from tests.fakes.patches import json_patch
from tests.harness.certificates import fresh_certificates, serving_context
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.connections import Connections
from webhook.server import (
    MAX_COMPLAINTS,
    MUTATE,
    VALIDATE,
    MalformedReview,
    create_app,
    mutate,
    parse_review,
    validate,
)

ALLOWED = {"uid": "u-1", "allowed": True}


class WebhookClient:
    """Sends bodies to the webhook over TLS."""

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
async def client() -> AsyncIterator[WebhookClient]:
    """A client of a running webhook that trusts only our CA."""
    certificates = fresh_certificates()
    runner = web.AppRunner(create_app(lambda namespace: TEAM, Connections()), access_log=None)
    await runner.setup()
    context = serving_context(certificates)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    trust = ssl.create_default_context(cadata=certificates.bundle)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield WebhookClient(session, runner.addresses[0][1])
    await runner.cleanup()


async def test_the_patch_of_a_job_applies_and_the_result_is_valid(client: WebhookClient) -> None:
    status, answer = await client.post(MUTATE, make_review(elastic_job()))
    response = answer["response"]
    assert status == 200
    assert response["uid"] == "u-1"
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    after = json_patch(elastic_job(), json.loads(base64.b64decode(response["patch"])))
    assert after["spec"]["parallelism"] == 2
    # the API server asks again after other webhooks, and then for validation
    for path in (MUTATE, VALIDATE):
        _, answer = await client.post(path, make_review(after))
        assert answer["response"] == ALLOWED


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_a_refusal_has_all_complaints_and_no_patch(client: WebhookClient, path: str) -> None:
    job = elastic_job(9, labels={PRIORITY: "urgent"})
    _, answer = await client.post(path, make_review(job))
    response = answer["response"]
    assert set(response) == {"uid", "allowed", "status"}
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert "urgent" in response["status"]["message"]
    assert "parallelism is 9" in response["status"]["message"]


def test_a_refusal_with_very_many_complaints_is_shortened() -> None:
    rules = [{"succeededCount": 5}] * (MAX_COMPLAINTS + 7)
    job = elastic_job(successPolicy={"rules": rules})
    _, request = parse_review(json.dumps(make_review(job)).encode(), lambda namespace: TEAM)
    message = validate(request)["status"]["message"]
    assert message.count("succeededCount is 5") == MAX_COMPLAINTS
    assert message.endswith("; and 7 more")


async def test_the_schedulers_resize_passes_unchanged(client: WebhookClient) -> None:
    old = running_job(elastic_job(), 4)
    new = running_job(elastic_job(), 2)
    for path in (MUTATE, VALIDATE):
        _, answer = await client.post(path, make_review(new, old, SCHEDULER_USER))
        assert answer["response"] == ALLOWED


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", "is not JSON", id="empty"),
        pytest.param(b"\xff\xfe", "is not JSON", id="not text"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="nested too deeply"),
        pytest.param([], "send an AdmissionReview", id="a list"),
        pytest.param({"request": {"uid": 7}}, "send an AdmissionReview", id="a uid of wrong type"),
        pytest.param(b"x" * (5 << 20), "bytes, above", id="too large"),
    ],
)
@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_what_no_api_server_sends_gets_400_and_the_reason(
    client: WebhookClient, path: str, body: Any, reason: str
) -> None:
    status, text = await client.post(path, body)
    assert status == 400
    assert reason in text


# --- an error is a no -----------------------------------------------------------------------------
def nested(levels: int) -> bytes:
    """The review of an AppWrapper whose template is as deep as this."""
    template = b'{"a":' * levels + b"1" + b"}" * levels
    return (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",'
        b'"object":{"spec":{"components":[{"template":' + template + b"}]}}}}"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(nested(1_200), "nested too deeply", id="1,200 levels"),
        pytest.param(nested(100_000), "nested too deeply", id="100,000 levels"),
        pytest.param(
            make_review({"metadata": {"annotations": {"data": "x" * 9_000_000}}}),
            "bytes, above",
            id="9 MB",
        ),
        pytest.param(
            make_review({"metadata": {}, "spec": [{}] * 100_000}),
            "fields and values",
            id="100,000 empty objects",
        ),
        pytest.param(make_review(None), "must be objects", id="no object, as in DELETE"),
        pytest.param(
            make_review({"metadata": []}), "metadata must be", id="metadata of wrong type"
        ),
        pytest.param(
            make_review({"metadata": {"labels": {"a": 1}}}),
            "map strings to strings",
            id="a label of wrong type",
        ),
        pytest.param(
            make_review({}, {"metadata": {"annotations": ["a"]}}),
            "map strings to strings",
            id="annotations of wrong type in the old object",
        ),
    ],
)
@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_a_review_that_cannot_be_read_is_refused(
    client: WebhookClient, path: str, body: Any, reason: str
) -> None:
    """An HTTP error would be a yes: the configurations have failurePolicy Ignore."""
    status, answer = await client.post(path, body)
    assert status == 200
    response = answer["response"]
    assert (response["uid"], response["allowed"]) == ("u-1", False)
    assert reason in response["status"]["message"]


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_a_rule_that_raises_refuses(
    client: WebhookClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: AdmissionRequest) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr("webhook.server.complaints", fail)
    _, answer = await client.post(path, make_review(elastic_job()))
    assert answer["response"]["allowed"] is False
    assert "ZeroDivisionError" in answer["response"]["status"]["message"]


async def test_a_large_review_delays_no_other_and_is_refused_in_time(
    client: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the API server's timeout it would be stored without a check. Nobody computes what has
    been refused meanwhile."""
    decided = threading.Event()
    begun = 0

    def wait_if_large(request: AdmissionRequest) -> list[str]:
        nonlocal begun
        if "data" in request.object["metadata"]["annotations"]:
            begun += 1
            decided.wait()
        return []

    monkeypatch.setattr("webhook.server.complaints", wait_if_large)
    monkeypatch.setattr("webhook.server.ANSWER_WITHIN_S", 1.0)
    large = make_review(plain_job(annotations={"data": "x" * 2_400_000}))
    async with asyncio.TaskGroup() as tasks:
        sent = [tasks.create_task(client.post(VALIDATE, large)) for _ in range(12)]
        _, answer = await client.post(VALIDATE, make_review(plain_job()))
        assert answer["response"] == ALLOWED
        answers = [await post for post in sent]
        decided.set()
    for _, answer in answers:
        assert answer["response"]["allowed"] is False
        assert "try again" in answer["response"]["status"]["message"]
    _, answer = await client.post(VALIDATE, large)
    assert answer["response"] == ALLOWED
    assert begun == 2


async def test_an_update_of_a_large_object_is_answered(client: WebhookClient) -> None:
    """An object may have 1.5 MB, and the review of an update carries two objects."""
    large = elastic_job(annotations={"data": "x" * 1_500_000})
    status, answer = await client.post(VALIDATE, make_review(large, large))
    assert status == 200
    assert answer["response"]["allowed"] is True


async def test_an_update_of_a_job_with_20_000_variables_is_answered(client: WebhookClient) -> None:
    job = elastic_job()
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": f"V{number}", "value": "x"} for number in range(20_000)]
    status, answer = await client.post(VALIDATE, make_review(job, job))
    assert status == 200
    assert answer["response"]["allowed"] is True


@settings(deadline=None)
@given(JSON | st.builds(make_review, random_jobs() | JSON, st.none() | random_jobs() | JSON))
def test_any_body_is_answered_or_malformed(body: Any) -> None:
    try:
        _, request = parse_review(json.dumps(body).encode(), lambda namespace: TEAM)
    except MalformedReview:
        return
    answer = mutate(request)
    assert ("patch" in answer) == ("patchType" in answer)
    if "patch" in answer:
        json_patch(request.object, json.loads(base64.b64decode(answer["patch"])))
    assert "patch" not in validate(request)
