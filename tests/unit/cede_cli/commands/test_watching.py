"""`--watch` of the commands that show the cluster. What happens while the API server does not
answer is in test_jobs.py."""

import time
from collections.abc import Callable

import pytest

from cede.api.objects import CESSIONS, POLICIES, rfc3339
from tests.builders.reports import stopping_cession
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run

Watch = Callable[[Callable[[], object]], None]
COMMANDS = [["status"], ["history"], ["explain", "inference"]]


@pytest.fixture
def before_second_look(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """What happens between the first look and the second; after the third the user presses
    Ctrl-C."""

    def prepare(change: Callable[[], object]) -> None:
        looks = 1

        async def next_look(_: float) -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                change()
            if looks > 3:
                raise KeyboardInterrupt

        monkeypatch.setattr("cede.commands.watching.sleep", next_look)

    return prepare


@pytest.fixture(autouse=True)
async def cession(server: ApiServer) -> None:
    """For vision/inference, an hour ago."""
    put_cession(server, "Released")


def put_cession(server: ApiServer, phase: str) -> None:
    body = stopping_cession()
    body["metadata"]["creationTimestamp"] = rfc3339(time.time() - 3600)
    body["status"]["phase"] = phase
    server.put(CESSIONS, body)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
async def test_it_prints_again_when_something_has_changed(
    server: ApiServer, cede: Run, before_second_look: Watch, command: list[str]
) -> None:
    before_second_look(lambda: put_cession(server, "Completed"))
    code, text, _ = await cede(*command, "--watch")
    assert code == 130
    assert (text.count("Released"), text.count("Completed")) == (1, 1)
    assert text.index("Released") < text.index("Completed")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
async def test_it_prints_nothing_when_only_time_has_passed(
    cede: Run, monkeypatch: pytest.MonkeyPatch, before_second_look: Watch, command: list[str]
) -> None:
    later = time.time() + 7200
    before_second_look(lambda: monkeypatch.setattr("time.time", lambda: later))
    _, text, _ = await cede(*command, "-w")
    assert text.count("Released") == 1


async def test_a_take_back_that_becomes_too_old_leaves_the_history(
    cede: Run, monkeypatch: pytest.MonkeyPatch, before_second_look: Watch
) -> None:
    later = time.time() + 7200
    before_second_look(lambda: monkeypatch.setattr("time.time", lambda: later))
    _, text, _ = await cede("history", "--since", "2h", "-w")
    assert text.splitlines()[-1] == "no Cessions"


async def test_status_names_once_what_it_cannot_read_any_more(
    server: ApiServer, cede: Run, before_second_look: Watch
) -> None:
    newer = {"metadata": {"name": "default"}, "spec": {"mode": "Newer"}}
    before_second_look(lambda: server.put(POLICIES, newer))
    _, text, _ = await cede("status", "-w")
    assert text.count("cannot read ClusterPolicy default") == 1
