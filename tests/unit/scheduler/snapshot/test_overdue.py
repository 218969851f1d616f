"""For how long the scheduler waits for what Kueue should do in a moment."""

import asyncio
from dataclasses import replace

import pytest

from scheduler.controller import Controller
from scheduler.leader_clock import LeaderClock
from scheduler.snapshot import overdue as module
from scheduler.snapshot.memory import remember
from scheduler.snapshot.overdue import OVERDUE_S, find_expected, overdue
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import NOW, admitted, cohort_quota, pending, queue, snapshot
from tests.fakes.api_server import ApiServer
from tests.harness.scheduler import TwoTeams


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(snapshot(pending=[pending()]), {"uid-claim"}, id="a Workload that fits"),
        pytest.param(snapshot(pending=[pending(pods=9)]), set(), id="not one that does not fit"),
        pytest.param(
            snapshot(pending=[pending(ineligible="its queue is held")]),
            set(),
            id="not one that Kueue would not try",
        ),
        pytest.param(
            snapshot(pending=[pending("a", pods=1), pending("b", pods=1)]),
            {"uid-a", "uid-b"},
            id="all that are alike",
        ),
    ],
)
def test_what_is_expected_of_kueue(current: Snapshot, expected: set[str]) -> None:
    assert find_expected(current) == expected


def test_a_slice_is_expected_of_a_job_that_grows_and_then_its_admission() -> None:
    growing = admitted(size=2, parallelism=8)
    its_slice = pending("slice", "research", 6, job_uid="job-uid-gpt", is_scale_up=True)
    assert find_expected(snapshot(admitted=[growing])) == {"job-uid-gpt"}
    its_slice_fits = snapshot(admitted=[growing], pending=[its_slice])
    assert find_expected(its_slice_fits) == {"uid-slice"}
    assert find_expected(replace(its_slice_fits, quota=cohort_quota(queue("research")))) == set()


def test_what_kueue_has_not_done_for_a_minute_is_overdue() -> None:
    since = remember({}, {"u"}, NOW)
    since = remember(since, {"u", "v"}, NOW + 1)
    assert overdue(since, NOW + OVERDUE_S) == set()
    assert overdue(since, NOW + OVERDUE_S + 0.5) == {"u"}


def test_what_did_not_fit_in_between_is_waited_for_anew() -> None:
    since = remember({}, {"u"}, NOW)
    since = remember(since, (), NOW + 30)
    since = remember(since, {"u"}, NOW + 40)
    assert overdue(since, NOW + OVERDUE_S + 1) == set()


async def test_the_scheduler_remembers_from_pass_to_pass_what_it_expects(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OVERDUE_S", -1.0)
    teams = TwoTeams(server)
    # a Kueue that does nothing
    monkeypatch.setattr(teams.kueue, "reconcile", lambda: None)
    teams.job("vision", "fits", 4)
    teams.job("research", "too-large", 99)
    async with server.client("cede-scheduler") as client:
        controller = Controller(client, asyncio.Event(), LeaderClock())
        async with controller.runtimes, asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(cache.run()) for cache in controller.caches]
            for cache in controller.caches:
                await cache.synced.wait()
            await controller.reconcile()
            (uid,) = controller.observe().overdue
            for task in running:
                task.cancel()
    (workload,) = (w for w in controller.observe().workloads if w.metadata.uid == uid)
    assert workload.metadata.name == "job-fits"
