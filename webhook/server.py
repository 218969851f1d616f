"""AdmissionReview in, AdmissionReview out. The handlers translate; rules.py and defaults.py
decide."""

import base64
import json
import logging
import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import Counter, Histogram

from cede.api.objects import Json
from webhook.admission import Asked, Team, table
from webhook.defaults import defaulted, patch
from webhook.rules import complaints

log = logging.getLogger(__name__)
MUTATE = "/mutate"
VALIDATE = "/validate"
# complaints in one answer
MOST = 50
# bytes; the review of an update carries two objects of up to 1.5 MB
BODY_LIMIT = 8 << 20
ANSWERS = Counter("cede_webhook_answers_total", "Admission reviews answered", ["path", "answer"])
SECONDS = Histogram(
    "cede_webhook_seconds",
    "From the whole request to its answer",
    ["path"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.5),
)

Facts = Callable[[str], Team]
"""Namespace → what its team may use. Answers from memory: nothing is asked of the API server inside
a request."""


class Malformed(ValueError):
    """Not an AdmissionReview that can be answered; the text is for its sender."""


def application(facts: Facts) -> web.Application:
    """The two paths. Every answer carries the request's uid; what is no review gets 400 and the
    reason."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        began = time.perf_counter()
        try:
            uid, asked = parse(body, facts)
            response: Json = {"uid": uid} | (
                mutate(asked) if request.path == MUTATE else validate(asked)
            )
        except (Malformed, RecursionError) as error:
            reason = (
                str(error) if isinstance(error, Malformed) else "the review is nested too deeply"
            )
            ANSWERS.labels(request.path, "malformed").inc()
            return web.Response(status=400, text=reason)
        SECONDS.labels(request.path).observe(time.perf_counter() - began)
        ANSWERS.labels(request.path, "allowed" if response["allowed"] else "refused").inc()
        if not response["allowed"]:
            log.info(
                "refused",
                extra={
                    "why": response["status"]["message"],
                    "user": asked.user,
                    "team": asked.team.name,
                    **about(asked),
                },
            )
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    app = web.Application(client_max_size=BODY_LIMIT)
    app.add_routes([web.post(MUTATE, answer), web.post(VALIDATE, answer)])
    return app


def about(asked: Asked) -> dict[str, str]:
    """Which object, in the facts of a log line."""
    meta = table(asked.object, "metadata")
    name = str(meta.get("name") or meta.get("generateName", ""))
    return {
        "kind": str(asked.object.get("kind", "")),
        "namespace": str(meta.get("namespace", "")),
        "object": name,
    }


def mutate(asked: Asked) -> Json:
    """Allowed with what we add, or refused with all that is wrong: here already, where the user's
    own words still stand."""
    if complained := refusal(asked):
        return complained
    if not (operations := patch(asked.object, defaulted(asked))):
        return {"allowed": True}
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }


def validate(asked: Asked) -> Json:
    """The last word, on what all mutating webhooks have made of the object."""
    return refusal(asked) or {"allowed": True}


def refusal(asked: Asked) -> Json | None:
    if not (found := complaints(asked)):
        return None
    said = found[:MOST] + ([f"and {len(found) - MOST} more"] if len(found) > MOST else [])
    return {
        "allowed": False,
        "status": {"code": 422, "reason": "Invalid", "message": "; ".join(said)},
    }


def parse(body: bytes, facts: Facts) -> tuple[str, Asked]:
    """The request's uid, and what it asks. Raises Malformed."""
    try:
        review = json.loads(body)
    except ValueError as error:
        raise Malformed(f"the body is no JSON: {error}") from error
    request = table(review, "request")
    uid = request.get("uid")
    found = request.get("object")
    if not isinstance(uid, str) or not uid:
        raise Malformed("request.uid is missing: this is no AdmissionReview of admission.k8s.io/v1")
    old = request.get("oldObject")
    if not isinstance(found, dict) or not (old is None or isinstance(old, dict)):
        raise Malformed(
            "request.object and request.oldObject must be objects: only CREATE and UPDATE are "
            "answered here"
        )
    for each in (found, old or {}):
        _check_metadata(each)
    namespace = request.get("namespace")
    user = table(request, "userInfo").get("username")
    team = facts(namespace if isinstance(namespace, str) else "")
    return uid, Asked(found, old, user if isinstance(user, str) else "", team)


def _check_metadata(found: Json) -> None:
    """Labels and annotations are what the API server lets them be; anything else was not sent by
    one."""
    meta = found.get("metadata", {})
    if not isinstance(meta, dict):
        raise Malformed("metadata must be an object")
    for name in ("labels", "annotations"):
        values = meta.get(name) or {}
        if not isinstance(values, dict) or not all(
            isinstance(value, str) for value in values.values()
        ):
            raise Malformed(f"metadata.{name} must map texts to texts")
