"""The newest record of the audit, noted in an annotation."""

import pytest

from cede.api import names
from cede.api.audit_chain import FIRST, Head
from cede.api.objects import CONFIG_MAPS
from cede.kube import audit_head
from cede.kube.client import HttpClient
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer

HEAD = Head(3, FIRST)


def put(server: ApiServer, **annotations: str) -> None:
    namespace, name = names.LEDGER_NOTES
    metadata = {"namespace": namespace, "name": name, "annotations": annotations}
    server.put(CONFIG_MAPS, {"metadata": metadata, "data": {"of": "others"}})


async def test_what_was_noted_is_read(server: ApiServer, client: HttpClient) -> None:
    put(server, other="stays")
    assert await audit_head.read(client) is None
    await audit_head.note(client, HEAD)
    assert await audit_head.read(client) == HEAD
    config_map = server.get(CONFIG_MAPS, names.LEDGER_NOTES)
    assert config_map
    assert config_map["data"] == {"of": "others"}
    assert config_map["metadata"]["annotations"]["other"] == "stays"


async def test_without_the_object_nothing_was_noted(client: HttpClient) -> None:
    assert await audit_head.read_text(client) == ""
    # it is only logged
    await audit_head.note(client, HEAD)


async def test_what_somebody_else_wrote_is_no_head(server: ApiServer, client: HttpClient) -> None:
    put(server, **{"cede.dev/audit-head": "a text"})
    with pytest.raises(ValueError, match="is no head"):
        await audit_head.read(client)


async def test_a_refusal_is_only_reported(
    server: ApiServer, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    put(server)
    server.script("PATCH", CONFIG_MAPS.path(names.LEDGER_NOTES), refuses(403, "Forbidden"))
    await audit_head.note(client, HEAD)
    assert caplog.records[-1].message == "head of the audit not noted"
