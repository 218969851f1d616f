"""Who has signed in. A session is in the memory of this process: it holds the token, with which its
person is asked about again and again."""

import hashlib
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

LIFE_S = 8 * 3600.0
IDLE_S = 3600.0
MAX_OF_PERSON = 8
MAX_OF_ALL = 2000


@dataclass
class Session:
    person: str
    token: str
    begun: float
    used: float


class Sessions:
    """`clock` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # by the hash of the cookie's value, so that looking one up tells nothing about it
        self._sessions: dict[bytes, Session] = {}

    def begin(self, person: str, token: str) -> str:
        """The value of the cookie. One session too many, of this person or of all, ends the one
        that was unused for longest: an open page uses its own again and again."""
        self._drop_old()
        own = [key for key, session in self._sessions.items() if session.person == person]
        self._make_room(own, MAX_OF_PERSON)
        self._make_room(self._sessions, MAX_OF_ALL)
        value = secrets.token_urlsafe(32)
        now = self._clock()
        self._sessions[_key(value)] = Session(person, token, now, now)
        return value

    def token(self, value: str) -> str:
        """The token of the session; empty if there is none any more."""
        session = self._sessions.get(_key(value))
        if session is None or self._is_old(session):
            self.end(value)
            return ""
        session.used = self._clock()
        return session.token

    def end(self, value: str) -> None:
        self._sessions.pop(_key(value), None)

    def _make_room(self, keys: Collection[bytes], bound: int) -> None:
        if len(keys) >= bound:
            del self._sessions[min(keys, key=lambda key: self._sessions[key].used)]

    def _is_old(self, session: Session) -> bool:
        now = self._clock()
        return now - session.begun > LIFE_S or now - session.used > IDLE_S

    def _drop_old(self) -> None:
        old = [key for key, session in self._sessions.items() if self._is_old(session)]
        for key in old:
            del self._sessions[key]


def _key(value: str) -> bytes:
    return hashlib.sha256(value.encode(errors="surrogateescape")).digest()
