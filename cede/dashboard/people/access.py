"""Lets in people whose token the cluster accepts: in the header of each request, as from an
authenticating proxy, or of a session that began with the form."""

import logging
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from aiohttp import hdrs, web

from cede.api.objects import ALLOCATIONS, CESSIONS
from cede.dashboard.feed import Feed
from cede.dashboard.history import Answer, from_ledger, not_allowed
from cede.dashboard.metrics import TOO_MANY, Limit
from cede.dashboard.people.as_person import AsPerson
from cede.dashboard.people.audiences import Audiences, TooMany
from cede.dashboard.people.person import Person, Rights
from cede.dashboard.people.recent import Busy, Recent
from cede.dashboard.people.reviews import Reviews
from cede.dashboard.people.sessions import LIFE_S, Sessions
from cede.dashboard.server import DATA
from cede.dashboard.static_files import StaticFiles
from cede.dashboard.visitor import Visitor
from cede.kube.errors import ApiError

log = logging.getLogger(__name__)
A = TypeVar("A")
SIGN_IN, SIGN_OUT = "sign-in", "sign-out"
FORM = "sign-in.html"
SIGN_IN_HEADER = "Cede-Sign-In"
"""Where the page leads somebody who is not let in."""
FORM_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    # else the browser would hide from us that the form is ours
    "Referrer-Policy": "same-origin",
}
# the next visit begins with TLS, too
TLS_HEADERS = {"Strict-Transport-Security": "max-age=31536000"}
BEARER = "Bearer "
MAX_TOKEN_BYTES = 1 << 14
HISTORY_S = 60.0
NO_HISTORY_S = 5.0
MAX_FIELDS = 8
"""Of the form, which has one."""


class PeopleAccess:
    """`address` is where people find the page."""

    def __init__(
        self,
        address: str,
        reviews: Reviews,
        sessions: Sessions,
        audiences: Audiences,
        as_person: AsPerson,
        ledger: str,
    ) -> None:
        self._address: SplitResult = urlsplit(address)
        self._reviews = reviews
        self._sessions = sessions
        self._audiences = audiences
        self._as_person = as_person
        self._ledger = ledger
        # it counts days, and each time it is asked it reads its database
        self._histories = Recent[str, Answer](
            lambda answer: NO_HISTORY_S if answer.problem else HISTORY_S
        )
        self._files = StaticFiles()
        self._is_secure = self._address.scheme == "https"
        # a browser keeps a cookie with this prefix for this host only, and sends it by TLS only
        self._cookie = "__Host-cede" if self._is_secure else "cede"

    def routes(self) -> Iterable[web.RouteDef]:
        return (
            web.get(f"/{SIGN_IN}", self._form),
            web.post(f"/{SIGN_IN}", self._begin),
            web.post(f"/{SIGN_OUT}", self._end),
        )

    async def close(self) -> None:
        await self._audiences.close()

    # --- who asks ---------------------------------------------------------------------------------
    def check(self, request: web.Request) -> None:
        if request.host != self._address.netloc:
            raise web.HTTPMisdirectedRequest(
                text=f"the request is for {request.host}, and this is {self._address.geturl()}: a "
                f"gateway should leave the header Host as it came, and --address should name that\n"
            )
        # anybody may lead a person to the page, and only the page may ask
        asks = request.method != hdrs.METH_GET or request.path.startswith(DATA)
        if asks and not self._is_ours(request):
            raise web.HTTPForbidden(text=f"this is for pages of {self._address.geturl()} only\n")

    def _is_ours(self, request: web.Request) -> bool:
        """Whether no other site has made the browser send it."""
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None:
            # none: it was typed
            return site in ("same-origin", "none")
        own = f"{self._address.scheme}://{self._address.netloc}"
        return request.headers.get(hdrs.ORIGIN, own) == own

    async def visitor(self, request: web.Request) -> Visitor:
        if not self._audiences.is_ready:
            raise web.HTTPServiceUnavailable(
                text="the cluster is being read: try again in a moment\n"
            )
        token, signed_in = self._token(request)
        person = await self._person(token) if token else None
        if person is None:
            if signed_in:
                self._end_session(request)
            raise web.HTTPUnauthorized(
                text="sign in: there is no session, or its token is not accepted any more\n",
                headers={SIGN_IN_HEADER: SIGN_IN, hdrs.WWW_AUTHENTICATE: "Bearer"},
            )
        rights = await self._rights(person)
        return Visitor(
            await self._feed(rights),
            partial(self._as_person.explain, token),
            partial(self._as_person.predict, token),
            partial(self._history, rights),
            person.name,
            signed_in,
        )

    def _token(self, request: web.Request) -> tuple[str, bool]:
        """The token, and whether it is that of a session."""
        given = request.headers.get(hdrs.AUTHORIZATION, "")
        if given.startswith(BEARER):
            return given.removeprefix(BEARER).strip(), False
        return self._sessions.token(request.cookies.get(self._cookie, "")), True

    async def _person(self, token: str) -> Person | None:
        if not token.isascii() or len(token) > MAX_TOKEN_BYTES:
            return None
        return await _reviewed(self._reviews.person(token), "who you are")

    async def _rights(self, person: Person) -> Rights:
        return await _reviewed(self._reviews.rights(person), "what you may see")

    async def _feed(self, rights: Rights) -> Feed:
        try:
            return await self._audiences.feed(rights)
        except TooMany as error:
            TOO_MANY.labels(Limit.AUDIENCES).inc()
            raise web.HTTPServiceUnavailable(
                text="too many people with different rights look at the page: try again later\n"
            ) from error

    async def _history(self, rights: Rights) -> Answer:
        """Who sees what all teams use now may see what they used: whoever had looked at all times
        would know these sums. A statement also has sums of take-backs, so it needs Cessions too."""
        if ALLOCATIONS.plural not in rights.kinds:
            return not_allowed()
        answer = await self._histories.get(self._ledger, partial(from_ledger, self._ledger))
        if CESSIONS.plural in rights.kinds:
            return answer
        return replace(answer, history=replace(answer.history, statements=()))

    # --- signing in and out -----------------------------------------------------------------------
    async def _form(self, _: web.Request) -> web.Response:
        response = self._files.page(FORM)
        response.headers.update(FORM_HEADERS | (TLS_HEADERS if self._is_secure else {}))
        return response

    async def _begin(self, request: web.Request) -> web.Response:
        """A session, and the page; or the form again, which says what is wrong."""
        token = _token_of(await request.read())
        try:
            person = await self._person(token) if token else None
        except web.HTTPServiceUnavailable:
            raise web.HTTPSeeOther(f"{SIGN_IN}#unavailable") from None
        if person is None:
            log.info("sign-in refused", extra={"peer": request.remote})
            raise web.HTTPSeeOther(f"{SIGN_IN}#refused")
        self._end_session(request)
        value = self._sessions.begin(person.name, token)
        log.info("signed in", extra={"person": person.name})
        response = web.HTTPSeeOther("./")
        response.set_cookie(
            self._cookie,
            value,
            max_age=int(LIFE_S),
            path="/",
            httponly=True,
            samesite="Strict",
            secure=self._is_secure,
        )
        raise response

    async def _end(self, request: web.Request) -> web.Response:
        self._end_session(request)
        response = web.Response(status=204)
        response.del_cookie(
            self._cookie, path="/", httponly=True, samesite="Strict", secure=self._is_secure
        )
        return response

    def _end_session(self, request: web.Request) -> None:
        self._sessions.end(request.cookies.get(self._cookie, ""))


def _token_of(form: bytes) -> str:
    """Empty if there is none."""
    try:
        fields = parse_qs(form.decode("ascii"), max_num_fields=MAX_FIELDS)
    except ValueError:
        return ""
    return fields.get("token", [""])[0].strip()


async def _reviewed(answer: Awaitable[A], what: str) -> A:
    """Raises HTTPServiceUnavailable."""
    try:
        return await answer
    except Busy as error:
        TOO_MANY.labels(Limit.REVIEWS).inc()
        raise web.HTTPServiceUnavailable(
            text="too many people come at once: try again in a moment\n"
        ) from error
    except ApiError as error:
        # the error may name requests, but never a token
        log.warning("not known", extra={"question": what, "reason": str(error)})
        raise web.HTTPServiceUnavailable(
            text=f"the API server does not say {what} ({error.reason}): try again in a moment\n"
        ) from error
