"""A page for those who may see the same."""

import pytest

from cede.api.objects import CESSIONS
from cede.dashboard import audience
from cede.dashboard.page import Page
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import Reader


async def test_a_page_that_cannot_be_made_ends_nothing(
    server: ApiServer, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Page:
        raise ValueError("no page")

    with monkeypatch.context() as patch:
        patch.setattr(audience, "page", fail)
        server.remove(CESSIONS, ("", "vision-detector-77hqz"))
        trouble = "the page cannot be made (ValueError: no page)"
        await reader.until("cluster", "cluster", trouble=trouble)
    server.remove(CESSIONS, ("", "speech-asr-large-m2m4w"))
    await reader.until("cluster", "cluster", trouble="")
