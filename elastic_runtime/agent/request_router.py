"""Which agent answers a signed request: this one, or the coordinator that it follows."""

from collections.abc import Callable, Mapping

from elastic_runtime import contract, json_codec
from elastic_runtime.agent.control_client import Refused, forward
from elastic_runtime.agent.coordination import (
    STANDING_PATH,
    VOTE_PATH,
    Candidacy,
    Standing,
    host_and_port,
)
from elastic_runtime.agent.coordinator import CONFLICT, MISDIRECTED
from elastic_runtime.agent.leadership import Leadership

# For a controller's call. Controllers wait 2 s, and then try another pod.
FORWARD_TIMEOUT_S = 3.0
UNAVAILABLE = 503


class RequestRouter:
    def __init__(self, leadership: Leadership, end_if_late: Callable[[], bool]) -> None:
        """`end_if_late` ends a pod that came when its job had finished, and is True for one."""
        self._leadership = leadership
        self._end_if_late = end_if_late

    async def serve(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """(status, body). Raises ValueError for a bad body."""
        leadership = self._leadership
        match method, path:
            case "POST", value if value == STANDING_PATH:
                standing = leadership.receive(json_codec.decode(Standing, body))
                return 200, json_codec.encode(standing)
            case "POST", value if value == VOTE_PATH:
                return 200, json_codec.encode(leadership.vote(json_codec.decode(Candidacy, body)))
            case "POST", contract.FINISHED_PATH:
                if self._end_if_late():
                    return 200, contract.encode(contract.Status(contract.State.FINISHED))
                reason = "this pod has work of its own, or may still find the others"
                return CONFLICT, json_codec.dump({"message": reason})
        if coordinator := leadership.coordinator:
            sent_at = float(headers[contract.TIME_HEADER])
            return await coordinator.handle(method, path, body, sent_at)
        leader = leadership.standing().leader
        if path not in contract.PATHS:
            address = leader.address if leader else "nobody that this pod knows"
            return MISDIRECTED, json_codec.dump(
                {"message": f"{method} {path} is answered by the coordinator: {address}"}
            )
        if leader is None:
            return UNAVAILABLE, json_codec.dump(
                {"message": "no coordinator of this job is known at present: ask again"}
            )
        # With the caller's signature: with a nonce of our own, the coordinator would take a
        # replayed request for a new one.
        try:
            reply = await forward(
                *host_and_port(leader.address),
                leadership.settings.keys,
                method,
                path,
                headers,
                body,
                timeout_s=FORWARD_TIMEOUT_S,
            )
        except Refused as refused:
            return refused.status or 502, json_codec.dump({"message": refused.message})
        return 200, reply
