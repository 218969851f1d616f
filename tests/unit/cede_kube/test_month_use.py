"""The note of what was used: a process that was slow never replaces a newer one."""

import logging

import pytest

from cede.api import names
from cede.api.budget import MonthUse, noted_use
from cede.api.objects import CONFIG_MAPS
from cede.kube import month_use
from tests.fakes.api_server import ApiServer

OLDER = MonthUse("2026-11", "2026-11-20T12:00:00Z")
NEWER = MonthUse("2026-11", "2026-11-20T12:01:00Z")


def put_notes(server: ApiServer) -> None:
    namespace, name = names.LEDGER_NOTES
    metadata = {"name": name, "namespace": namespace, "annotations": {names.AUDIT_HEAD: "1:a"}}
    server.put(CONFIG_MAPS, {"metadata": metadata})


async def count_newer() -> MonthUse:
    return NEWER


async def test_a_note_leaves_the_other_notes_as_they_are() -> None:
    async with ApiServer() as server, server.client(manager=names.LEDGER) as client:
        put_notes(server)
        assert await month_use.note(client, count_newer)
        config_map = server.get(CONFIG_MAPS, names.LEDGER_NOTES)
        assert config_map is not None
        assert noted_use(config_map) == NEWER
        assert config_map["metadata"]["annotations"] == {names.AUDIT_HEAD: "1:a"}


async def test_a_slow_process_does_not_replace_a_newer_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ApiServer() as server, server.client(manager=names.LEDGER) as client:
        put_notes(server)

        async def count_while_another_notes() -> MonthUse:
            assert await month_use.note(client, count_newer)
            return OLDER

        assert not await month_use.note(client, count_while_another_notes)
        assert noted_use(server.get(CONFIG_MAPS, names.LEDGER_NOTES)) == NEWER
    assert caplog.records[-1].levelno == logging.WARNING


async def test_without_the_config_map_it_is_noted_later() -> None:
    async with ApiServer() as server, server.client(manager=names.LEDGER) as client:
        assert not await month_use.note(client, count_newer)
