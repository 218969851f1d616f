"""The page as it is sent: whole, then changes by version."""

import json
from dataclasses import replace

import pytest

from cede.dashboard import feed as feed_module
from cede.dashboard.feed import ALIVE, MAX_KEPT, Feed
from cede.dashboard.page import THE_CLUSTER, Page, with_trouble


@pytest.fixture(autouse=True)
def from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions begin anywhere."""
    monkeypatch.setattr("secrets.randbits", lambda _: 0)


def page(number: int) -> Page:
    return with_trouble(Page(), str(number))


async def feed_at(version: int) -> Feed:
    feed = Feed()
    for number in range(version):
        await feed.update(page(number))
    return feed


async def first(feed: Feed, after: int) -> list[str]:
    message = await anext(feed.after(after))
    return message.decode().strip().split("\n")


async def test_the_whole_page_has_its_version() -> None:
    whole = json.loads((await feed_at(3)).whole())
    assert whole["version"] == 3
    assert whole["cluster"][THE_CLUSTER]["trouble"] == "2"


async def test_an_equal_page_is_no_new_version() -> None:
    feed = await feed_at(3)
    await feed.update(page(2))
    assert json.loads(feed.whole())["version"] == 3


async def test_a_reader_gets_each_change_after_its_version() -> None:
    feed = await feed_at(3)
    stream = feed.after(1)
    versions = [(await anext(stream)).split(b"\n")[0] for _ in range(2)]
    assert versions == [b"id: 2", b"id: 3"]
    identity, event, data = await first(feed, 2)
    assert (identity, event) == ("id: 3", "event: change")
    assert json.loads(data.removeprefix("data: "))["cluster"]["set"][THE_CLUSTER]["trouble"] == "2"


@pytest.mark.parametrize(
    "after", [pytest.param(0, id="too long ago"), pytest.param(9999, id="of another server")]
)
async def test_a_reader_that_missed_too_much_reads_all_again(after: int) -> None:
    feed = await feed_at(MAX_KEPT + 2)
    assert await first(feed, after) == [f"id: {MAX_KEPT + 2}", "event: reload", "data: {}"]


async def test_a_quiet_stream_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "KEEP_ALIVE_S", 0.01)
    assert await anext((await feed_at(1)).after(1)) == ALIVE


async def test_streams_end_when_the_feed_is_closed() -> None:
    feed = await feed_at(1)
    await feed.close()
    assert [message async for message in feed.after(1)] == []


async def test_a_text_with_line_breaks_stays_one_line() -> None:
    feed = Feed()
    cluster = replace(Page().cluster[THE_CLUSTER], trouble="two\n\nlines\r")
    await feed.update(replace(Page(), cluster={THE_CLUSTER: cluster}))
    assert len(await first(feed, 0)) == 3


async def test_a_version_of_another_feed_is_none_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.randbits", lambda _: 7)
    version = json.loads((await feed_at(3)).whole())["version"]
    assert version < 2**53
    monkeypatch.setattr("secrets.randbits", lambda _: 8)
    assert (await first(await feed_at(3), version))[1] == "event: reload"
