"""From the annotation of a user to the answer, by a scheduler and a runtime over real HTTP."""

from dataclasses import replace
from functools import partial

import pytest

from cede.api import names
from cede.api.objects import EVENTS, JOBS
from cede.api.reasons import SaveState
from cede.api.save_request import SaveAnswer, read
from elastic_runtime.contract import State, Status
from tests.fakes.api_server import ApiServer
from tests.harness.scheduler import TwoTeams, leading
from tests.harness.two_teams import GPT, gpt, size

pytestmark = pytest.mark.slow


def request(server: ApiServer, text: str) -> None:
    """As a user's patch."""
    job = server.get(JOBS, GPT)
    assert job is not None
    job["metadata"]["annotations"][names.SAVE_REQUESTED] = text
    server.put(JOBS, job)


def answer(server: ApiServer) -> SaveAnswer:
    """An empty one while there is none."""
    job = server.get(JOBS, GPT)
    assert job is not None
    request = read(job["metadata"]["annotations"])
    return request.answer if request and request.answer else SaveAnswer("", SaveState.PENDING, "")


def events(server: ApiServer) -> list[str]:
    reasons = [event["reason"] for event in server.objects(EVENTS)]
    return [reason for reason in reasons if "aved" in reason]


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
async def test_a_job_is_asked_once_for_each_request_and_keeps_its_size(
    server: ApiServer, mode: str
) -> None:
    teams = TwoTeams(server)
    teams.configure(mode)

    def is_saved(text: str) -> bool:
        return (answer(server).request, answer(server).state) == (text, SaveState.SAVED)

    async with gpt(teams) as runtime, leading(server):
        for number, text in enumerate(("first", "second"), 1):
            request(server, text)
            await teams.until(partial(is_saved, text), f"the {text} request to be answered")
            assert (runtime.saves, answer(server).step) == (number, runtime.status.durableStep)
        # an event follows the answer that it is about
        await teams.until(lambda: len(events(server)) == 2, "an event of each answer")
    assert events(server) == ["Saved", "Saved"]
    assert size(server) == (8, 8)


async def test_why_a_save_fails_reaches_the_user(server: ApiServer) -> None:
    teams = TwoTeams(server)

    def fails(status: Status) -> Status:
        step = status.step + 1
        return replace(status, step=step, saveMessage=f"saving step {step} failed: No space left")

    async with gpt(teams) as runtime, leading(server):
        runtime.on_save = fails
        request(server, "r")
        await teams.until(lambda: answer(server).is_final, "the failure")
        await teams.until(lambda: bool(events(server)), "its event")
    assert answer(server).state == SaveState.NOT_SAVED
    assert answer(server).message == runtime.status.saveMessage
    assert (runtime.saves, events(server)) == (1, ["NotSaved"])


async def test_the_next_leader_continues_from_the_answer(server: ApiServer) -> None:
    teams = TwoTeams(server)
    async with gpt(teams) as runtime:
        # it saves only while the next one leads
        runtime.on_save = lambda status: status
        request(server, "r")
        async with leading(server):
            await teams.until(lambda: runtime.saves > 0, "the job to be asked")
        assert answer(server).state == SaveState.ASKED
        runtime.status = replace(runtime.status, step=12, durableStep=12)
        async with leading(server):
            await teams.until(lambda: answer(server).is_final, "the answer")
    assert (answer(server).state, answer(server).attempts, answer(server).step) == ("Saved", 1, 12)


async def test_a_job_that_finishes_meanwhile_has_saved_its_last_step(server: ApiServer) -> None:
    teams = TwoTeams(server)
    async with gpt(teams) as runtime, leading(server):
        runtime.on_save = lambda status: replace(
            status, state=State.FINISHED, durableStep=status.step
        )
        request(server, "r")
        await teams.until(lambda: answer(server).is_final, "the answer")
    assert (answer(server).state, answer(server).step) == ("Saved", runtime.status.step)
