"""A candidate asks the members of its record for their votes."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence

from elastic_runtime import json_codec
from elastic_runtime.agent import succession
from elastic_runtime.agent.control_client import Refused, call
from elastic_runtime.agent.coordination import VOTE_PATH, Ballot, Candidacy, Standing, host_and_port
from elastic_runtime.agent.peers import MAX_CALLS, Peer
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.messages import Record

log = logging.getLogger(__name__)
# For a vote, which its voter grants or refuses at once.
VOTE_TIMEOUT_S = 0.5


def chance() -> int:
    """For a new epoch."""
    return 1 + secrets.randbelow(succession.CHANCES)


async def hold(
    settings: PodSettings,
    record: Record,
    candidacy: Candidacy,
    members: Sequence[Peer],
    receive: Callable[[Standing], object],
) -> bool:
    """Whether a majority of the record's members grants it; not all answers are waited for.

    `members`: without the candidate. `receive` takes in what a voter knows.
    """
    ballots = dict[int, Ballot]()
    # Why pods did not vote for it.
    reasons = dict[int, str]()
    turns = asyncio.Semaphore(MAX_CALLS)

    async def ask(peer: Peer) -> None:
        async with turns:
            ballot = await _ballot(settings, peer, candidacy)
            if isinstance(ballot, str):
                reasons[peer.index] = ballot
                return
            ballots[peer.index] = ballot
            if ballot.reason:
                reasons[peer.index] = ballot.reason
            receive(ballot.standing)

    asked = [asyncio.create_task(ask(peer)) for peer in members]
    try:
        for answered in asyncio.as_completed(asked):
            await answered
            if succession.is_elected(record, candidacy.candidate, ballots):
                break
    finally:
        for task in asked:
            task.cancel()
    is_elected = succession.is_elected(record, candidacy.candidate, ballots)
    if not is_elected:
        epoch = candidacy.candidate.epoch
        log.info("not elected", extra={"epoch": epoch, "reasons": dict(list(reasons.items())[:8])})
    return is_elected


async def _ballot(settings: PodSettings, peer: Peer, candidacy: Candidacy) -> Ballot | str:
    """Why there is none, if the pod does not answer."""
    if not peer.address:
        return "its address is unknown"
    try:
        body = await call(
            *host_and_port(peer.address),
            settings.keys,
            settings.job_uid,
            "POST",
            VOTE_PATH,
            json_codec.encode(candidacy),
            timeout_s=VOTE_TIMEOUT_S,
        )
        return json_codec.decode(Ballot, body)
    except (OSError, Refused, ValueError) as error:
        return str(error) or type(error).__name__
