"""Answers AdmissionReviews over HTTP. rules.py and defaults.py decide what the answer is."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import Counter, Histogram

from cede.api.objects import Json
from cede.kube.threads import run_in_thread
from webhook.admission import AdmissionRequest
from webhook.connections import Connections
from webhook.defaults import apply_defaults
from webhook.json_fields import get_dict
from webhook.json_patch import create_patch
from webhook.review_body import MAX_LARGE_BODIES, ReviewBody, TooLarge
from webhook.rules import complaints
from webhook.team import TeamLookup

log = logging.getLogger(__name__)
MUTATE = "/mutate"
VALIDATE = "/validate"
# in one answer
MAX_COMPLAINTS = 50
ANSWER_WITHIN_S = 4.0
"""The API server waits for 5 s. After that it stores what nobody has checked."""
BUSY = "Cede's webhook had no time for this object: try again"
REVIEWS = Counter("cede_webhook_answers_total", "Admission reviews answered", ["path", "answer"])
REVIEW_SECONDS = Histogram(
    "cede_webhook_seconds",
    "Time from the complete request to its answer",
    ["path"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.5),
)


class MalformedReview(ValueError):
    """The body is not an AdmissionReview that can be answered; the text is for its sender."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets."""

    uid: str
    # of the AdmissionReview
    response: Json
    # None if the review cannot be read
    request: AdmissionRequest | None = None


def create_app(find_team: TeamLookup, connections: Connections) -> web.Application:
    """The application with its two paths.

    Each answer carries the uid of its request. What cannot be read, or takes too long, is refused:
    an error would be a yes to the API server (failurePolicy Ignore). A body without uid is of no
    API server, and gets status 400.
    """
    reviewer = Reviewer(find_team)

    async def handle(request: web.Request) -> web.Response:
        with connections.answering(request.protocol) as note_review:
            answer = await reviewer.answer(request)
            if answer.request:
                note_review()
        return _http_response(request.path, answer)

    # the body is read and bounded by ReviewBody
    app = web.Application()
    app.add_routes([web.post(MUTATE, handle), web.post(VALIDATE, handle)])
    return app


class Reviewer:
    """Reads and answers reviews. Large ones are answered beside the event loop, one at a time, so
    that they delay no others."""

    def __init__(self, find_team: TeamLookup) -> None:
        self._find_team = find_team
        self._large_bodies = asyncio.Semaphore(MAX_LARGE_BODIES)
        self._computing = asyncio.Lock()

    async def answer(self, request: web.Request) -> Answer:
        """The answer, in time. Raises nothing."""
        body = ReviewBody()
        deadline = asyncio.get_running_loop().time() + ANSWER_WITHIN_S
        try:
            async with asyncio.timeout_at(deadline), AsyncExitStack() as turn:
                await body.read(request, self._large_bodies, turn)
                started = time.perf_counter()
                answer = await self._answer(request.path, body, turn, deadline)
        # to a peer that has gone too: nobody reads it, but an error would fill the log
        except (TimeoutError, ConnectionError):
            return refusal(body.uid, BUSY, code=503)
        except TooLarge as error:
            return refusal(body.uid, str(error), code=413)
        REVIEW_SECONDS.labels(request.path).observe(time.perf_counter() - started)
        return answer

    async def _answer(
        self, path: str, body: ReviewBody, turn: AsyncExitStack, deadline: float
    ) -> Answer:
        def decide() -> Answer:
            return decide_review(path, body, self._find_team)

        if not body.is_large:
            return decide()
        # the thread goes on when its time is over, so the turn must last as long as it does
        return await asyncio.shield(
            asyncio.ensure_future(self._answer_large(decide, body, turn.pop_all(), deadline))
        )

    async def _answer_large(
        self, decide: Callable[[], Answer], body: ReviewBody, turn: AsyncExitStack, deadline: float
    ) -> Answer:
        async with turn, self._computing:
            if asyncio.get_running_loop().time() >= deadline:
                return refusal(body.uid, BUSY, code=503)
            return await run_in_thread(decide)


def decide_review(path: str, body: ReviewBody, find_team: TeamLookup) -> Answer:
    """The answer to a complete body. Raises nothing: what goes wrong becomes a refusal."""
    try:
        uid, admission = parse_review(bytes(body.content), find_team)
        decide = mutate if path == MUTATE else validate
        return Answer(uid, decide(admission), admission)
    except MalformedReview as error:
        return refusal(body.uid, str(error))
    except RecursionError:
        return refusal(body.uid, "the object is nested too deeply: make it flatter")
    # a fault of ours must not let through what the rules would refuse
    except Exception as error:
        log.exception("review failed", extra={"path": path})
        return refusal(body.uid, f"Cede's webhook failed: {type(error).__name__}", code=500)


def refusal(uid: str, message: str, *, code: int = 400) -> Answer:
    """The answer to a review that was not decided."""
    return Answer(uid, {"allowed": False, "status": {"code": code, "message": message}})


def _http_response(path: str, answer: Answer) -> web.Response:
    if not answer.uid:
        REVIEWS.labels(path, "malformed").inc()
        return web.Response(status=400, text=answer.response["status"]["message"])
    is_allowed = answer.response["allowed"]
    REVIEWS.labels(path, "allowed" if is_allowed else "refused").inc()
    if not is_allowed:
        why = answer.response["status"]["message"]
        log.info("refused", extra=_log_fields(answer.request or AdmissionRequest({}), why))
    return web.json_response(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": answer.uid} | answer.response,
        }
    )


def _log_fields(request: AdmissionRequest, why: str) -> dict[str, str]:
    metadata = get_dict(request.object, "metadata")
    return {
        "why": why,
        "user": request.user,
        "team": request.team.name,
        "kind": str(request.object.get("kind", "")),
        "namespace": str(metadata.get("namespace", "")),
        "object": str(metadata.get("name") or metadata.get("generateName", "")),
    }


def mutate(request: AdmissionRequest) -> Json:
    """The response with our patch, or the refusal.

    Refuses here already, while the object is still as the user wrote it.
    """
    if refusal := _refuse(request):
        return refusal
    operations = create_patch(request.object, apply_defaults(request))
    if not operations:
        return {"allowed": True}
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }


def validate(request: AdmissionRequest) -> Json:
    """The response for the final object, after all mutating webhooks."""
    return _refuse(request) or {"allowed": True}


def _refuse(request: AdmissionRequest) -> Json | None:
    """The refusal with all complaints; None when there are none."""
    texts = complaints(request)
    if not texts:
        return None
    if len(texts) > MAX_COMPLAINTS:
        texts = [*texts[:MAX_COMPLAINTS], f"and {len(texts) - MAX_COMPLAINTS} more"]
    return {
        "allowed": False,
        "status": {"code": 422, "reason": "Invalid", "message": "; ".join(texts)},
    }


def parse_review(body: bytes, find_team: TeamLookup) -> tuple[str, AdmissionRequest]:
    """The uid of the review, and its request. Raises MalformedReview."""
    try:
        review = json.loads(body)
    except ValueError as error:
        raise MalformedReview(f"the body is not JSON: {error}") from error
    request = get_dict(review, "request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedReview(
            "request.uid is missing: send an AdmissionReview of admission.k8s.io/v1"
        )
    new = request.get("object")
    old = request.get("oldObject")
    if not isinstance(new, dict) or not (old is None or isinstance(old, dict)):
        raise MalformedReview(
            "request.object and request.oldObject must be objects: send only CREATE and UPDATE"
        )
    _check_metadata(new)
    _check_metadata(old or {})
    namespace = request.get("namespace")
    user = get_dict(request, "userInfo").get("username")
    team = find_team(namespace if isinstance(namespace, str) else "")
    return uid, AdmissionRequest(new, old, user if isinstance(user, str) else "", team)


def _check_metadata(value: Json) -> None:
    """Raises MalformedReview for metadata that an API server would not send."""
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict):
        raise MalformedReview("metadata must be an object")
    for name in ("labels", "annotations"):
        texts = metadata.get(name) or {}
        if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
            raise MalformedReview(f"metadata.{name} must map strings to strings")
