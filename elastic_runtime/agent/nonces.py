"""PURE. Which signed requests a control port accepts: recent ones, each once."""

import math
from collections import OrderedDict
from collections.abc import Mapping

from elastic_runtime import contract

# Enough for 2,000 requests a second.
MAX_NONCES = 1 << 18
# A request further from the server's clock is stale. The clocks of a cluster agree far better.
MAX_SKEW_S = 60.0


class Nonces:
    """The nonces that one control port received within the skew window, at most `MAX_NONCES`.

    A request costs the same time however many there are.
    """

    def __init__(self, started_at: float) -> None:
        """`started_at`: now, in Unix seconds."""
        # An earlier process may have received what was sent before. Requests carry milliseconds.
        self._started_at = math.floor(1000 * started_at) / 1000
        # Nonce → the time of its request or of its arrival, whichever is later. If this side's
        # clock goes back, the nonces stay.
        self._times = OrderedDict[str, float]()

    def refusal(
        self,
        key: bytes,
        method: str,
        path: str,
        job_uid: str,
        headers: Mapping[str, str],
        body: bytes,
        now: float,
    ) -> str | None:
        """Why this request gets 401; None if it is genuine. From then on it counts as a replay."""
        try:
            job, nonce = headers[contract.JOB_HEADER], headers[contract.NONCE_HEADER]
            sent_at = float(headers[contract.TIME_HEADER])
            is_genuine = contract.request_is_genuine(key, method, path, headers, body)
        except (KeyError, ValueError):
            return "the request is not signed"
        if not is_genuine:
            return contract.WRONG_SIGNATURE
        if job != job_uid:
            return "the request is for another job"
        # Written so that NaN is refused.
        if not abs(now - sent_at) <= MAX_SKEW_S:
            return f"the request is {now - sent_at:+.0f} s off this pod's clock"
        # A clock that was ahead when this process started must not refuse everything until then.
        self._started_at = min(self._started_at, now)
        if sent_at < self._started_at:
            return "the request was sent before this pod started: send a new one"
        self._forget_old(now)
        if nonce in self._times:
            return "the request was seen before"
        self._times[nonce] = max(sent_at, now)
        return None

    def _forget_old(self, now: float) -> None:
        while self._times and (
            self._times[next(iter(self._times))] < now - 2 * MAX_SKEW_S
            or len(self._times) >= MAX_NONCES
        ):
            self._times.popitem(last=False)
