"""The one page both sides sign: what controllers and a job's runtime say to each other, and how it
is signed.

The control API is three calls on the port of any pod of the job; pod 0 holds the truth, the others
pass the call on.

    PUT  /v1/size        SizeRequest → Status    level, not event: saying it again changes nothing
    GET  /v1/status                  → Status
    POST /v1/checkpoint              → Status    a durable save starts; `durableStep` says when it
    is done

Every request and every reply carries an HMAC-SHA256 signature (`sign`). Unsigned, stale or replayed
requests get 401.
"""

import hashlib
import hmac
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

VERSION = 2
"""Of this page. 1: as first written. 2: `version` and `oldest` in both messages, `busy` in the
status.

What is only added is no break: fields that one side does not know it ignores, fields that are
missing have a default that says "unknown".
A change that the other side would misread raises `OLDEST`; then each side refuses the other with a
sentence that names both versions.
"""
OLDEST = 1
"""The oldest version of the other side that is still understood."""
PORT = 8476
SIZE_PATH = "/v1/size"
STATUS_PATH = "/v1/status"
CHECKPOINT_PATH = "/v1/checkpoint"
PATHS = (SIZE_PATH, STATUS_PATH, CHECKPOINT_PATH)
"""What controllers may ask of any pod."""

# --- environment of a training container: written by the webhook, read by `python -m elastic_runtim
# the Job's name
JOB_ENV = "CEDE_JOB"
JOB_UID_ENV = "CEDE_JOB_UID"
NAMESPACE_ENV = "CEDE_NAMESPACE"
# set by Kubernetes in the pods of an Indexed Job
INDEX_ENV = "JOB_COMPLETION_INDEX"
POD_IP_ENV = "CEDE_POD_IP"
# the headless Service: pod 0 is `<job>-0.<peers>`
PEERS_ENV = "CEDE_PEERS"
# allowed sizes, ascending, comma-separated
SIZES_ENV = "CEDE_SIZES"
RANKS_ENV = "CEDE_RANKS_PER_POD"
# how long a save may take
GRACE_ENV = "CEDE_GRACE_SECONDS"
# a process that others wait for may be silent so long, 1 when left out, before it is killed
LIVENESS_TIMEOUT_ENV = "CEDE_LIVENESS_TIMEOUT_SECONDS"
# a step that others wait for may take so long, 60 when left out, before its process is killed
STEP_TIMEOUT_ENV = "CEDE_STEP_TIMEOUT_SECONDS"
PORT_ENV = "CEDE_CONTROL_PORT"
# holds the namespace's key
KEY_FILE_ENV = "CEDE_CONTROL_KEY_FILE"

KEY_MOUNT = "/etc/cede/control"
KEY_FILE = f"{KEY_MOUNT}/key"

EXIT_LEFT_ON_REQUEST = 43
"""Exit code of a pod that left on request: the webhook's podFailurePolicy ignores it."""

# --- signature ------------------------------------------------------------------------------------
JOB_HEADER = "Cede-Job"
TIME_HEADER = "Cede-Time"
NONCE_HEADER = "Cede-Nonce"
SIGNATURE_HEADER = "Cede-Signature"
HEADERS = (JOB_HEADER, TIME_HEADER, NONCE_HEADER, SIGNATURE_HEADER)
# of 2,000 requests a second
MOST_NONCES = 1 << 18
MAX_SKEW_S = 60.0
"""A request further than this from the server's clock is stale. Clocks of one cluster agree to well
under it."""


def derive_key(root: bytes, namespace: str) -> bytes:
    """The key of one namespace, as hexadecimal text: what leaks from one team's pods signs for no
    other team."""
    return (
        hmac.new(root, b"cede-control/" + namespace.encode(), hashlib.sha256).hexdigest().encode()
    )


def sign(
    key: bytes, method: str, path: str, job_uid: str, time: str, nonce: str, body: bytes
) -> str:
    """HMAC-SHA256 over every part with its length before it, so that no two requests read the
    same."""
    parts = [method.encode(), path.encode(), job_uid.encode(), time.encode(), nonce.encode(), body]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def sign_request(
    key: bytes, method: str, path: str, job_uid: str, nonce: str, body: bytes, now: float
) -> dict[str, str]:
    """The headers of a signed request. `now` in Unix seconds; `nonce` must never be used twice."""
    time = f"{now:.3f}"
    signature = sign(key, method, path, job_uid, time, nonce, body)
    return {
        JOB_HEADER: job_uid,
        TIME_HEADER: time,
        NONCE_HEADER: nonce,
        SIGNATURE_HEADER: signature,
    }


def sign_reply(key: bytes, status: int, request: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The headers of the reply to `request` (its headers): bound to its nonce, so that no reply can
    be replayed."""
    return {
        SIGNATURE_HEADER: sign(
            key,
            "REPLY",
            str(status),
            request[JOB_HEADER],
            request[TIME_HEADER],
            request[NONCE_HEADER],
            body,
        )
    }


def reply_is_genuine(
    key: bytes, status: int, request: Mapping[str, str], reply_signature: str, body: bytes
) -> bool:
    return _same(sign_reply(key, status, request, body)[SIGNATURE_HEADER], reply_signature)


def _same(ours: str, theirs: str) -> bool:
    """Whether the signatures are alike, in a time that does not tell where they differ; whatever
    text the other is."""
    return hmac.compare_digest(ours.encode(), theirs.encode(errors="replace"))


class Nonces:
    """The nonces seen within the skew window, at most `MOST_NONCES`; one for each control port. A
    request costs the same however many."""

    def __init__(self) -> None:
        # nonce → its request's time or ours, whichever is later; if our clock goes back they stay
        self._seen = OrderedDict[str, float]()

    def refused(
        self,
        key: bytes,
        method: str,
        path: str,
        job_uid: str,
        headers: Mapping[str, str],
        body: bytes,
        now: float,
    ) -> str | None:
        """Why this request gets 401, or None: it is genuine, and from now on a replay."""
        try:
            job, time, nonce, signature = (headers[h] for h in HEADERS)
            sent = float(time)
        except (KeyError, ValueError):
            return "the request is not signed"
        if not _same(sign(key, method, path, job, time, nonce, body), signature):
            return "the signature is wrong"
        if job != job_uid:
            return "the request is for another job"
        if not abs(now - sent) <= MAX_SKEW_S:
            return f"the request is {now - sent:+.0f} s off this pod's clock"
        while self._seen and (
            self._seen[next(iter(self._seen))] < now - 2 * MAX_SKEW_S
            or len(self._seen) >= MOST_NONCES
        ):
            self._seen.popitem(last=False)
        if nonce in self._seen:
            return "the request was seen before"
        self._seen[nonce] = max(sent, now)
        return None


# --- messages -------------------------------------------------------------------------------------
class State:
    """What a job is busy with (`Status.state`)."""

    # waiting for its smallest size to be there
    STARTING = "starting"
    TRAINING = "training"
    # between the last step of one size and the first of the next
    RESIZING = "resizing"
    # saving, asked to size 0
    STOPPING = "stopping"
    # durably saved, every rank parked: safe to delete
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """The size wanted. 0: save durably, park everybody (`State.STOPPED`)."""

    size: int
    # the take-back this belongs to; empty when growing
    cession: str = ""
    deadlineSeconds: float = 0.0
    # of the sender's page; 1 when it says none
    version: int = VERSION
    # that the sender still understands
    oldest: int = OLDEST


@dataclass(frozen=True, slots=True)
class Status:
    """What a job's runtime says of itself. Ceded: `size <= wanted`, and every pod from index
    `wanted` on is in `parked`."""

    state: str = State.STARTING
    # pods that train
    size: int = 0
    # the last size asked for; 0 with an empty `cession` when never asked
    wanted: int = 0
    # the last request's
    cession: str = ""
    # number of the membership
    generation: int = 0
    # committed steps
    step: int = 0
    # the step of the newest save on disk; 0 for none
    durableStep: int = 0
    # of that save's manifest, sha256
    digest: str = ""
    # median of the last steps
    stepSeconds: float = 0.0
    # the last save's
    saveSeconds: float = 0.0
    # what the last resize added between two steps, for those who stayed
    pauseSeconds: float = 0.0
    # of the last step
    loss: float = 0.0
    # indexes of pods that handed over and wait to be deleted
    parked: tuple[int, ...] = field(default=())
    message: str = ""
    # as in SizeRequest
    version: int = VERSION
    oldest: int = OLDEST
    # what it does or waits for, in words, with the pods and steps that it is about
    busy: str = ""

    def ceded(self, size: int) -> bool:
        """Whether nothing of value lies beyond `size` pods any more."""
        return (
            self.state == State.STOPPED
            if size == 0
            else self.size <= size and self.state == State.TRAINING
        )


def encode(message: SizeRequest | Status) -> bytes:
    return json.dumps(asdict(message), separators=(",", ":")).encode()


def decode_size(body: bytes) -> SizeRequest:
    """Raises ValueError with a sentence for the caller, or for an unknown version. Fields this
    version does not know are ignored."""
    found: SizeRequest = _decode(SizeRequest, body)
    if not 0 <= found.size <= 4096:
        raise ValueError(f"size is {found.size!r}: it must be a whole number from 0 to 4096")
    return found


def decode_status(body: bytes) -> Status:
    """Raises ValueError: a job's pods hold the key that signs, so what they say may be anything at
    all.

    Fields this version does not know are ignored: a newer runtime may say more.
    """
    found: Status = _decode(Status, body)
    return found


def _apart(found: SizeRequest | Status) -> str:
    """Why this side and the sender cannot understand each other; empty if they can."""
    theirs = f"the other side speaks version {found.version} of the contract"
    ours = f"this one {VERSION}"
    if found.oldest > VERSION:
        return f"{theirs} and none before {found.oldest}, {ours}: update this one"
    if found.version < OLDEST:
        return f"{theirs}, {ours} and none before {OLDEST}: update the other"
    return ""


def _decode(cls: Any, body: bytes) -> Any:
    try:
        raw = json.loads(body)
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {"version": 1, "oldest": 1}
        values |= {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in known}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"not a {cls.__name__}: {error}") from error
    for f in fields(cls):
        if f.name in values and not _fits(values[f.name], f.type, f.name):
            meant = _MEANT.get(f.type, "a list of at most 4,096 whole numbers from 0 on")
            raise ValueError(f"{f.name} is {str(values[f.name])[:40]!r}: it must be {meant}")
    try:
        found = cls(**values)
    except TypeError as error:
        raise ValueError(f"not a {cls.__name__}: {error}") from error
    if why := _apart(found):
        raise ValueError(why)
    return found


_MEANT: dict[object, str] = {
    int: "a whole number from 0 on",
    float: "a number from 0 on",
    str: "a text of at most 1,000 characters",
}
# what every JSON parser keeps whole
_MOST = 2**53


def _fits(value: object, kind: object, name: str = "") -> bool:
    if kind is int:
        return type(value) is int and 0 <= value <= _MOST
    if kind is float:
        # nan is not
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and (name == "loss" or 0 <= value <= _MOST)
        )
    if kind is str:
        return isinstance(value, str) and len(value) <= 1000
    return (
        isinstance(value, tuple) and len(value) <= 4096 and all(_fits(each, int) for each in value)
    )
