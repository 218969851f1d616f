"""Pages are made for those who look, and bounded."""

import pytest

from cede.dashboard.metrics import Limit
from cede.dashboard.people import audiences as audiences_module
from cede.dashboard.people.audiences import Audiences, TooMany
from cede.dashboard.people.person import Rights
from cede.dashboard.view import View
from tests.fakes.people import People
from tests.unit.cede_cli.dashboard.people.conftest import Site, bearer
from tests.unit.cede_cli.dashboard.test_metrics import refused


def rights(*namespaces: str) -> Rights:
    return Rights(frozenset(), frozenset(namespaces))


async def test_a_page_that_nobody_asks_for_is_not_made_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audiences = Audiences("here")
    feed = await audiences.feed(rights("a"))
    await audiences.update(View(), 0.0)
    assert await audiences.feed(rights("a")) is feed
    monkeypatch.setattr(audiences_module, "UNUSED_S", -1.0)
    await audiences.update(View(), 0.0)
    assert [message async for message in feed.after(0)] == []
    assert await audiences.feed(rights("a")) is not feed


async def test_more_pages_than_a_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audiences_module, "MAX_AUDIENCES", 1)
    audiences = Audiences("here")
    await audiences.feed(rights("a"))
    await audiences.feed(rights("a"))
    for namespace in "bcd":
        with pytest.raises(TooMany):
            await audiences.feed(rights(namespace))
    # nobody is remembered who has no page
    assert list(audiences._used) == [rights("a")]


@pytest.mark.usefixtures("quick")
async def test_people_of_too_many_different_rights_are_refused_and_counted(
    site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audiences_module, "MAX_AUDIENCES", 1)
    before = refused(Limit.AUDIENCES)
    await site.page(people.add("ada", ("",)))
    status, _ = await site.get("api/page", **bearer(people.add("bob", ("vision",))))
    assert (status, refused(Limit.AUDIENCES)) == (503, before + 1)


async def test_nobody_is_shown_anything_before_the_cluster_was_read() -> None:
    audiences = Audiences("here")
    assert not audiences.is_ready
    await audiences.update(View(), 0.0)
    assert audiences.is_ready
