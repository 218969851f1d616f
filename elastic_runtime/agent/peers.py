"""Where the agents of the other pods answer, before anybody has told: by name, or by their files.

Also what the end of a call says about the pod that was called.
"""

import asyncio
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from elastic_runtime import json_codec
from elastic_runtime.agent.control_client import Refused, call
from elastic_runtime.agent.coordination import STANDING_PATH, Standing, host_and_port
from elastic_runtime.agent.settings import PodSettings

# For the answer of an agent that runs: it computes nothing for it.
STANDING_TIMEOUT_S = 1.0
# That are under way together, of one agent.
MAX_CALLS = 256
# By these a name server says that a name, or its address, does not exist. It fails by all others.
NOT_THERE = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})


class Silence(Enum):
    """Why a pod has not answered."""

    # Its name does not exist, or nobody listens: it does not run.
    ABSENT = "absent"
    # Nothing answers at its address, and its name does not exist: Kubernetes takes away the name
    # of a pod when its kubelet has ended it. That of a new pod may not be there yet.
    UNNAMED = "unnamed"
    # It may run behind a link that is cut, or frozen.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Peer:
    index: int
    # host:port of its agent; empty if there is none.
    address: str


class Unnamed:
    """Pods that are silent at their addresses and have no names.

    Such a pod is absent when it has had no name for longer than a new pod has none. Otherwise those
    that a shrink deletes while the job has no coordinator would be waited for as long as pods
    behind a cut link.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since = dict[int, float]()

    def settle(self, index: int, answer: Standing | Silence, now: float) -> Standing | Silence:
        """The answer of this pod at `now`; one without a name counts as unknown or absent."""
        if answer is not Silence.UNNAMED:
            self._since.pop(index, None)
            return answer
        since = self._since.setdefault(index, now)
        return Silence.ABSENT if now - since >= self._limit_s else Silence.UNKNOWN

    def clear(self) -> None:
        self._since.clear()


def publish_port(settings: PodSettings, port: int) -> None:
    """On one machine: let the other pods find this one. It replaces a file of an earlier pod."""
    if settings.ports is None:
        return
    settings.ports.mkdir(parents=True, exist_ok=True)
    draft = settings.ports / f".{settings.index}.{secrets.token_hex(4)}"
    draft.write_text(str(port))
    draft.replace(settings.ports / str(settings.index))


def find(settings: PodSettings, index: int) -> Peer:
    """The pod by its stable name."""
    if index == 0:
        return Peer(index, f"{settings.first_host}:{settings.first_port}")
    if settings.ports is None:
        name = _pod_name(settings, index)
        return Peer(index, f"{name}.{settings.peers}:{settings.first_port}")
    with suppress(OSError, ValueError):
        port = int((settings.ports / str(index)).read_text())
        return Peer(index, f"{settings.first_host}:{port}")
    return Peer(index, "")


def _pod_name(settings: PodSettings, index: int) -> str:
    if settings.surplus and index >= settings.base_size:
        return f"{settings.surplus}-{index - settings.base_size}"
    return f"{settings.job}-{index}"


async def exchange(settings: PodSettings, peer: Peer, own: Standing) -> Standing | Silence:
    """Send this pod's standing to the other one: its own standing, or why there is none.

    A peer that is silent at its address is asked by its name too: it may have been replaced.
    """
    answer = await _exchange_at(settings, peer, own)
    by_name = find(settings, peer.index)
    if by_name.address == peer.address:
        if answer is not Silence.UNNAMED:
            return answer
        # Without the Service no pod has a name.
        return Silence.ABSENT if await _exists(settings.peers) else Silence.UNKNOWN
    if isinstance(answer, Standing):
        return answer
    of_name = await _exchange_at(settings, by_name, own)
    if isinstance(of_name, Standing):
        return of_name
    # A name that exists says nothing about the pod at the address.
    has_no_name = answer is Silence.UNKNOWN and of_name is Silence.UNNAMED
    return Silence.UNNAMED if has_no_name and await _exists(settings.peers) else answer


async def _exists(name: str) -> bool:
    """Whether the name server knows the name."""
    try:
        await asyncio.get_running_loop().getaddrinfo(name, None)
    except OSError:
        return False
    return True


async def _exchange_at(settings: PodSettings, peer: Peer, own: Standing) -> Standing | Silence:
    if not peer.address:
        return Silence.ABSENT
    try:
        body = await call(
            *host_and_port(peer.address),
            settings.keys,
            settings.job_uid,
            "POST",
            STANDING_PATH,
            json_codec.encode(own),
            timeout_s=STANDING_TIMEOUT_S,
        )
        standing = json_codec.decode(Standing, body)
    except ConnectionRefusedError:
        return Silence.ABSENT
    except socket.gaierror as error:
        # Without an answer of the name server nobody knows whether the name exists.
        return Silence.UNNAMED if error.errno in NOT_THERE else Silence.UNKNOWN
    except (OSError, Refused, ValueError):
        return Silence.UNKNOWN
    # Another pod may have got the address of one that ended.
    return standing if standing.index == peer.index else Silence.ABSENT
