"""The metrics of the page for Prometheus."""

import math
from collections.abc import Awaitable, Callable
from enum import StrEnum

from aiohttp import web
from prometheus_client import Counter, Gauge

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OTHER = "other"
"""The path of a request that no route takes."""


class Outcome(StrEnum):
    ANSWERED = "answered"
    # there is no session, or its token is not accepted
    UNAUTHORIZED = "unauthorized"
    # the request is wrong
    REFUSED = "refused"
    # too many, the cluster is being read, or the API server does not answer
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    # the reader went away before the whole answer was sent
    LEFT = "left"


class Limit(StrEnum):
    """Of what there may be only so many at a time."""

    STREAMS = "streams"
    PAGES = "pages"
    EXPLANATIONS = "explanations"
    PREDICTIONS = "predictions"
    # people with different rights
    AUDIENCES = "audiences"
    # questions to the API server about people
    REVIEWS = "reviews"


REQUESTS = Counter(
    "cede_dashboard_requests_total",
    "Requests that have ended, by path and outcome: answered, unauthorized, refused, unavailable, "
    "failed, left. An open page is one of /api/changes, which its reader leaves.",
    ["path", "outcome"],
)
STREAMS = Gauge("cede_dashboard_open_streams", "Open pages, which are sent what changes.")
TOO_MANY = Counter(
    "cede_dashboard_too_many_total",
    "Requests that were refused because of a limit: streams, pages, explanations, predictions, "
    "audiences, reviews.",
    ["limit"],
)
for _limit in Limit:
    TOO_MANY.labels(_limit)
CONFIRMED = Gauge(
    "cede_dashboard_confirmed_timestamp_seconds",
    "When the API server last confirmed the oldest part of what the page shows.",
)


def note_picture(now: float, age_s: float) -> None:
    """`age_s`: how long ago the server confirmed the oldest part; infinite if it never did."""
    if math.isfinite(age_s):
        CONFIRMED.set(now - age_s)


@web.middleware
async def count_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    outcome = Outcome.LEFT
    try:
        response = await handler(request)
        outcome = outcome_of(response.status)
    except web.HTTPException as error:
        outcome = outcome_of(error.status)
        raise
    finally:
        REQUESTS.labels(_path(request), outcome).inc()
    return response


def outcome_of(status: int) -> Outcome:
    match status:
        case 401:
            return Outcome.UNAUTHORIZED
        case 503:
            return Outcome.UNAVAILABLE
        case _ if status < 400:
            return Outcome.ANSWERED
        case _ if status < 500:
            return Outcome.REFUSED
    return Outcome.FAILED


def _path(request: web.Request) -> str:
    """That of the route, such as /api/explain/{namespace}/{name}: whatever somebody asks for, there
    are no more of them."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else OTHER
