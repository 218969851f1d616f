"""Answers AdmissionReviews over HTTP. rules.py and defaults.py decide what the answer is."""

import base64
import json
import logging
import time

from aiohttp import web
from prometheus_client import Counter, Histogram

from cede.api.objects import Json
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.json_fields import get_dict
from webhook.json_patch import create_patch
from webhook.rules import complaints
from webhook.team import TeamLookup

log = logging.getLogger(__name__)
MUTATE = "/mutate"
VALIDATE = "/validate"
# in one answer
MAX_COMPLAINTS = 50
# the review of an update carries two objects of up to 1.5 MB
MAX_BODY_BYTES = 8 << 20
REVIEWS = Counter("cede_webhook_answers_total", "Admission reviews answered", ["path", "answer"])
REVIEW_SECONDS = Histogram(
    "cede_webhook_seconds",
    "Time from the complete request to its answer",
    ["path"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.5),
)


class MalformedReview(ValueError):
    """The body is not an AdmissionReview that can be answered; the text is for its sender."""


def create_app(find_team: TeamLookup) -> web.Application:
    """The application with its two paths.

    Each answer carries the uid of its request. A malformed review gets status 400 and the reason.
    """

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        started = time.perf_counter()
        try:
            uid, admission = parse_review(body, find_team)
            decide = mutate if request.path == MUTATE else validate
            response: Json = {"uid": uid} | decide(admission)
        except MalformedReview as error:
            return _reject_malformed(request.path, str(error))
        except RecursionError:
            return _reject_malformed(request.path, "the review is nested too deeply")
        REVIEW_SECONDS.labels(request.path).observe(time.perf_counter() - started)
        REVIEWS.labels(request.path, "allowed" if response["allowed"] else "refused").inc()
        if not response["allowed"]:
            log.info("refused", extra=_log_fields(admission, response["status"]["message"]))
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes([web.post(MUTATE, handle), web.post(VALIDATE, handle)])
    return app


def _reject_malformed(path: str, reason: str) -> web.Response:
    REVIEWS.labels(path, "malformed").inc()
    return web.Response(status=400, text=reason)


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
