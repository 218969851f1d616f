"""PURE. The contract between controllers and a job's runtime: messages, signatures, environment.

The control API has four calls, on the port of any pod of the job. The coordinator answers, and the
other pods forward the call to it; the last one is answered by the pod itself.

    PUT  /v1/size        SizeRequest → Status    sets the size; repeating it changes nothing
    GET  /v1/status                  → Status
    POST /v1/checkpoint              → Status    starts a durable save; `durableStep` shows its end
    POST /v1/finished                → Status    pod 0 has succeeded: this one ends if it is late

Requests and replies carry an HMAC-SHA256 signature (`sign`). A request without a new one gets 401.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from elastic_runtime import json_codec

VERSION = 2
"""Of this contract. 1: the first. 2: `version` and `oldest` in both messages, `busy` in the status.

Adding a field breaks nothing: a side ignores fields that it does not know, and missing fields have
a default that means "unknown". A change that the other side would misread raises `OLDEST`. Then
each side refuses the other with a sentence that names both versions.
"""
OLDEST = 1
"""The oldest version of the other side that this side understands."""
PORT = 8476
SIZE_PATH = "/v1/size"
STATUS_PATH = "/v1/status"
CHECKPOINT_PATH = "/v1/checkpoint"
FINISHED_PATH = "/v1/finished"
PATHS = (SIZE_PATH, STATUS_PATH, CHECKPOINT_PATH)
"""The calls that the coordinator answers."""
# No failures of a script: 255 is that of a container which went down with its node (containerd).
EXIT_LEFT_ON_REQUEST = 43
IGNORED_EXIT_CODES = (EXIT_LEFT_ON_REQUEST, 255)

# --- environment of a training container ----------------------------------------------------------
# The webhook writes it, and `python -m elastic_runtime` reads it.
JOB_ENV = "CEDE_JOB"
JOB_UID_ENV = "CEDE_JOB_UID"
NAMESPACE_ENV = "CEDE_NAMESPACE"
# Kubernetes sets it in the pods of an Indexed Job.
INDEX_ENV = "JOB_COMPLETION_INDEX"
POD_IP_ENV = "CEDE_POD_IP"
# The headless Service: pod 3 is `<job>-3.<peers>`.
PEERS_ENV = "CEDE_PEERS"
# The allowed sizes, ascending, comma-separated.
SIZES_ENV = "CEDE_SIZES"
RANKS_ENV = "CEDE_RANKS_PER_POD"
# In the pods of a base and of its surplus, in which its job goes on: pod 3 of a base of 2 is pod 1.
BASE_SIZE_ENV = "CEDE_BASE_SIZE"
# In the pods of a base the Job of its surplus; in those of a surplus that of its base, and its uid.
SURPLUS_ENV = "CEDE_SURPLUS"
BASE_JOB_ENV = "CEDE_BASE_JOB"
BASE_UID_ENV = "CEDE_BASE_JOB_UID"
# How long a save may take.
GRACE_ENV = "CEDE_GRACE_SECONDS"
# A process that others wait for is killed if it does not answer for so long; by default 1.
LIVENESS_TIMEOUT_ENV = "CEDE_LIVENESS_TIMEOUT_SECONDS"
# A process is killed if a step that others wait for takes so long; by default 60.
STEP_TIMEOUT_ENV = "CEDE_STEP_TIMEOUT_SECONDS"
PORT_ENV = "CEDE_CONTROL_PORT"
# The file that holds the namespace's key.
KEY_FILE_ENV = "CEDE_CONTROL_KEY_FILE"
KEY_MOUNT = "/etc/cede/control"
KEY_FILE = f"{KEY_MOUNT}/key"

# --- keys -----------------------------------------------------------------------------------------
# A key that was replaced is accepted for so long. Within it the kubelet updates the file in every
# pod, within 2 min as a rule, or Kubernetes has given up its node: after 40 s + 300 s.
KEY_OVERLAP_S = 600.0


def replace_key(content: bytes, newest: bytes, previous: bytes, now: float) -> bytes:
    """The content of a key file with `newest` first, and `previous`, if it was there, for a while:
    a line for each key, with its end in Unix seconds. Nothing else stays."""
    first, _, rest = content.partition(b"\n")
    if first == newest:
        key, _, end = rest.partition(b" ")
        # The clock of the controller that led before may have been ahead.
        is_ours = key == previous and end.isdigit() and int(end) <= now + 2 * KEY_OVERLAP_S
        return content if is_ours else newest
    if previous and first == previous:
        return b"%s\n%s %d" % (newest, previous, now + KEY_OVERLAP_S)
    return newest


def valid_keys(content: bytes, now: float) -> tuple[bytes, ...]:
    """Those of a key file that have not ended, the newest first. Raises ValueError without one."""
    entries = (line.partition(b" ") for line in content.splitlines())
    if keys := tuple(key for key, _, end in entries if key and (not end or now < float(end))):
        return keys
    raise ValueError("the file has no key that is valid now")


# --- signature ------------------------------------------------------------------------------------
JOB_HEADER = "Cede-Job"
TIME_HEADER = "Cede-Time"
NONCE_HEADER = "Cede-Nonce"
SIGNATURE_HEADER = "Cede-Signature"
HEADERS = (JOB_HEADER, TIME_HEADER, NONCE_HEADER, SIGNATURE_HEADER)
# The refusal of a request that may be sent again, signed with an older key.
WRONG_SIGNATURE = "the signature is wrong"


def derive_key(root: bytes, namespace: str) -> bytes:
    """The key of one namespace, as hexadecimal text. One that leaks signs for no other team."""
    digest = hmac.new(root, b"cede-control/" + namespace.encode(), hashlib.sha256)
    return digest.hexdigest().encode()


def sign(
    key: bytes, method: str, path: str, job_uid: str, time: str, nonce: str, body: bytes
) -> str:
    """HMAC-SHA256 over all parts, each after its length: no two requests give the same text."""
    parts = [method.encode(), path.encode(), job_uid.encode(), time.encode(), nonce.encode(), body]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def sign_request(
    key: bytes, method: str, path: str, job_uid: str, nonce: str, body: bytes, now: float
) -> dict[str, str]:
    """The headers of a signed request. `now`: Unix seconds. `nonce` must never be used twice."""
    time = f"{now:.3f}"
    return {
        JOB_HEADER: job_uid,
        TIME_HEADER: time,
        NONCE_HEADER: nonce,
        SIGNATURE_HEADER: sign(key, method, path, job_uid, time, nonce, body),
    }


def request_is_genuine(
    key: bytes, method: str, path: str, request: Mapping[str, str], body: bytes
) -> bool:
    """Whether somebody who has the key signed it, ever. `request`: its headers, of `HEADERS`."""
    job_uid, time, nonce, signature = (request[name] for name in HEADERS)
    return _equal(sign(key, method, path, job_uid, time, nonce, body), signature)


def key_of_request(
    keys: tuple[bytes, ...], method: str, path: str, request: Mapping[str, str], body: bytes
) -> bytes:
    """Which of `keys` signed the request: the first one, if none of the others did."""
    for key in keys[1:]:
        if request.keys() >= set(HEADERS) and request_is_genuine(key, method, path, request, body):
            return key
    return keys[0]


def sign_reply(key: bytes, status: int, request: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The headers of the reply to the request with these headers.

    The signature covers the request's nonce, so that no reply can be replayed.
    """
    job_uid = request[JOB_HEADER]
    time = request[TIME_HEADER]
    nonce = request[NONCE_HEADER]
    return {SIGNATURE_HEADER: sign(key, "REPLY", str(status), job_uid, time, nonce, body)}


def reply_is_genuine(
    key: bytes, status: int, request: Mapping[str, str], reply_signature: str, body: bytes
) -> bool:
    return _equal(sign_reply(key, status, request, body)[SIGNATURE_HEADER], reply_signature)


def _equal(expected: str, signature: str) -> bool:
    """Compare in a time that does not depend on where the texts differ; any text is allowed."""
    return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))


# --- messages -------------------------------------------------------------------------------------
# Of every text in them.
MAX_TEXT = 1000
MAX_SIZE = 4096


class State:
    """What a job is doing (`Status.state`)."""

    # Waits until the smallest size is there.
    STARTING = "starting"
    TRAINING = "training"
    # Between the last step of one size and the first of the next.
    RESIZING = "resizing"
    # Size 0 was requested: the job saves its state.
    STOPPING = "stopping"
    # The state is durable, and every rank is parked: safe to delete.
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """The size that the job must have. 0: save durably and park all pods (`State.STOPPED`)."""

    size: int
    # The Cession that this belongs to; empty when the job grows.
    cession: str = ""
    deadlineSeconds: float = 0.0
    # Of the sender's contract; a message without it is of version 1.
    version: int = VERSION
    # The oldest version that the sender still understands.
    oldest: int = OLDEST


@dataclass(frozen=True, slots=True)
class Status:
    """What a job's runtime reports. `ceded` says when pods may be deleted."""

    state: str = State.STARTING
    # Pods that train.
    size: int = 0
    # The size last requested; 0 with an empty `cession` if none was.
    wanted: int = 0
    # Of the last request.
    cession: str = ""
    # Number of the membership.
    generation: int = 0
    # Committed steps.
    step: int = 0
    # The step of the newest checkpoint on disk; 0 if there is none.
    durableStep: int = 0
    # SHA-256 of that checkpoint's manifest.
    digest: str = ""
    # Median of the last steps.
    stepSeconds: float = 0.0
    # Duration of the last save.
    saveSeconds: float = 0.0
    # What the last resize added between two steps, for the pods that stayed.
    pauseSeconds: float = 0.0
    # At the pace of the last steps; 0 while the job does not train.
    samplesPerSecond: float = 0.0
    # Of the last step; left out before the first one, and if it is no finite number.
    loss: float | None = field(default=None, metadata=json_codec.ANY_NUMBER)
    # Indexes of the pods that handed over and wait to be deleted.
    parked: tuple[int, ...] = ()
    message: str = ""
    # As in SizeRequest.
    version: int = VERSION
    oldest: int = OLDEST
    # A sentence: what the job does or waits for, with the pods and steps concerned.
    busy: str = ""
    # Why the last save failed; empty if it did not. It is a part of `message` too.
    saveMessage: str = ""

    def ceded(self, size: int) -> bool:
        """Whether the pods beyond `size` hold nothing of value any more: the others train without
        them. They report as `parked` a moment later."""
        if size == 0:
            return self.state == State.STOPPED
        return self.size <= size and self.state == State.TRAINING


M = TypeVar("M", SizeRequest, Status)


def encode(message: SizeRequest | Status) -> bytes:
    return json_codec.encode(message)


def decode_size(body: bytes) -> SizeRequest:
    """Raises ValueError with a sentence for the caller."""
    request = _decode(SizeRequest, body)
    if not 0 <= request.size <= MAX_SIZE:
        raise ValueError(
            f"size is {request.size!r}: it must be a whole number from 0 to {MAX_SIZE}"
        )
    return request


def decode_status(body: bytes) -> Status:
    """Raises ValueError: a job's pods hold the signing key, so a signed status can be anything."""
    return _decode(Status, body)


def _decode(cls: type[M], body: bytes) -> M:
    try:
        values = {"version": 1, "oldest": 1} | json_codec.load(body)
    except ValueError as error:
        raise ValueError(f"not a {cls.__name__}: {error}") from error
    message = json_codec.from_dict(cls, values, MAX_TEXT)
    if message.oldest > VERSION:
        raise ValueError(
            f"the peer requires version {message.oldest} of the contract, this side supports "
            f"{VERSION}: upgrade this side"
        )
    if message.version < OLDEST:
        raise ValueError(
            f"the peer supports version {message.version} of the contract, this side requires "
            f"{OLDEST}: upgrade the peer"
        )
    return message
