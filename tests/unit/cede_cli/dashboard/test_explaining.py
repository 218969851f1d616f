"""An explanation that cannot be read says why."""

from cede.api.objects import WORKLOADS
from cede.dashboard.explaining import explained
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer


async def test_a_missing_right_becomes_the_explanation() -> None:
    async with ApiServer() as server, server.client() as client:
        path = WORKLOADS.path(namespace="research")
        server.script("GET", path, refuses(403, "Forbidden"))
        explanation = await explained(client, ("research", "gpt"))
    assert explanation.state == "Unknown"
    assert explanation.sentences[0].startswith("you are not allowed to do this: ")
