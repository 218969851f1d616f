"""Which statuses of a job wake the scheduler."""

import time
from dataclasses import replace

from aiohttp import web

from elastic_runtime import contract
from elastic_runtime.contract import State, Status
from scheduler.runtime_client import RuntimeClient
from scheduler.status_changes import BURST, INTERVAL_S, Changes, note
from tests.fakes.runtime import ROOT_KEY, answering, signed
from tests.unit.scheduler.test_runtime_client import ADDRESS, ENDPOINT

NOW = 1000.0
TRAINING = Status(state=State.TRAINING, size=8)


def wakes(statuses: list[Status], every_s: float, changes: Changes | None = None) -> list[int]:
    """The indexes of the statuses that wake the scheduler, if so much time is between two."""
    known, waking = changes or Changes(), list[int]()
    for index, status in enumerate(statuses):
        known, wakes_now = note(known, status, NOW + index * every_s)
        if wakes_now:
            waking.append(index)
    return waking


def test_every_change_in_a_resize_wakes_the_scheduler_at_once() -> None:
    resizing = replace(TRAINING, state=State.RESIZING, wanted=4, cession="c-1")
    ceded = replace(resizing, state=State.TRAINING, size=4)
    parked = replace(ceded, parked=(4, 5, 6, 7))
    in_order = [TRAINING, resizing, resizing, ceded, parked, parked]
    assert wakes(in_order, 0.1) == [0, 1, 3, 4]


def test_another_step_changes_no_plan() -> None:
    assert wakes([replace(TRAINING, step=step) for step in range(10)], 0.1) == [0]


def test_a_job_that_changes_without_end_wakes_the_scheduler_once_in_an_interval() -> None:
    flapping = [replace(TRAINING, parked=(index,)) for index in range(600)]
    assert wakes(flapping, 0.1)[:BURST] == list(range(BURST))
    assert len(wakes(flapping, 0.1)) <= BURST + 60 / INTERVAL_S


def test_the_last_of_many_changes_wakes_the_scheduler_in_the_end() -> None:
    flapping = [replace(TRAINING, parked=(index,)) for index in range(BURST + 10)]
    *_, last = wakes([*flapping, *[flapping[-1]] * 20], 0.1)
    assert len(flapping) <= last <= len(flapping) + INTERVAL_S / 0.1


def test_after_a_quiet_time_changes_wake_the_scheduler_at_once_again() -> None:
    flapping = [replace(TRAINING, parked=(index,)) for index in range(20)]
    assert wakes(flapping, INTERVAL_S) == list(range(20))


async def test_a_job_whose_status_changes_in_every_answer_wakes_the_scheduler_a_few_times() -> None:
    answers = 0
    wakes = list[float]()

    async def change(request: web.Request) -> web.Response:
        nonlocal answers
        answers += 1
        return signed(request, 200, contract.encode(Status(parked=(answers,))))

    async with (
        answering(ADDRESS, change),
        RuntimeClient(lambda: (ROOT_KEY,), lambda: wakes.append(time.monotonic())) as runtimes,
    ):
        runtimes.follow([ENDPOINT])
        for _ in range(30):
            await runtimes.poll_all()
    assert answers >= 30
    assert len(wakes) <= BURST + (wakes[-1] - wakes[0]) / INTERVAL_S
