"""The history of the page: what teams used day by day, as the ledger counted it."""

import asyncio
from dataclasses import dataclass, field

import aiohttp
import msgspec

from cede.api import names
from cede.api.team_days import PATH, PORT_NAME, TeamDays
from cede.kube.client import HttpClient
from cede.kube.errors import ApiError, Forbidden, NotFound
from cede.kube.failures import failure_sentence

PROXY = (
    f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/services/{names.LEDGER}:{PORT_NAME}/proxy{PATH}"
)
"""Who may `get` this may read the history: it goes through the API server, with its RBAC."""
LEDGER_S = 20.0
TIMEOUT = aiohttp.ClientTimeout(total=None, connect=3)
"""Without `total`, see cede.kube.client."""
NOT_INSTALLED = (
    "There is no history, because the ledger is not installed: kubectl apply --server-side -k "
    "deploy/components/ledger"
)


@dataclass(frozen=True)
class Answer:
    # why there is no history, with the cure; empty: there is one
    problem: str = ""
    history: TeamDays = field(default_factory=TeamDays)


async def through_api_server(client: HttpClient) -> Answer:
    """With the rights of the client."""
    try:
        content = await client.describe(PROXY)
        return Answer(history=msgspec.convert(content, TeamDays))
    except NotFound:
        return Answer(NOT_INSTALLED)
    except Forbidden:
        return not_allowed(f"get services/proxy of {names.LEDGER} in {names.SYSTEM_NAMESPACE}")
    except ApiError as error:
        return _unreadable(failure_sentence(error))
    except msgspec.ValidationError as error:
        return _unreadable(str(error))


async def from_ledger(address: str) -> Answer:
    """From its own address, such as `http://cede-ledger:8080`; empty: it is not installed."""
    try:
        async with (
            asyncio.timeout(LEDGER_S),
            aiohttp.ClientSession(timeout=TIMEOUT) as session,
            session.get(address + PATH) as response,
        ):
            response.raise_for_status()
            return Answer(history=msgspec.json.decode(await response.read(), type=TeamDays))
    except aiohttp.ClientConnectorDNSError:
        # there is no such Service
        return Answer(NOT_INSTALLED)
    except TimeoutError as error:
        return _unreadable(str(error) or f"within {LEDGER_S:g} s")
    except (aiohttp.ClientError, msgspec.DecodeError) as error:
        return _unreadable(str(error) or type(error).__name__)


def not_allowed(right: str = "list computeallocations") -> Answer:
    return Answer(
        f"You may not read the history: ask an admin for the right to {right} (docs/dashboard.md)."
    )


def _unreadable(reason: str) -> Answer:
    return Answer(f"The history cannot be read now: the ledger does not answer ({reason}).")
