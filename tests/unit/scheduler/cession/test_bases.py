"""A surplus waits while its base does not run."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.surplus import Base
from scheduler.actions import ResizeJob, SetWorkloadActive
from scheduler.cession.bases import follow_bases
from scheduler.cession.stopped_jobs import run_again
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.surpluses import Surplus
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import NOW, admitted, pending, snapshot

SURPLUS = Surplus("job-uid-more", Base("job-uid-base", "gpt-node-0", "child", 2), has_base=True)
RUNS = admitted("base", size=2, allowed_sizes=())
STOPPED = replace(RUNS, active=False)
MORE = admitted("more", size=4, allowed_sizes=(1, 2, 3, 4), priority=10)
WAITS = pending("more", "research", job_uid="job-uid-more")
HELD = replace(WAITS, active=False, stopped_for=names.NO_BASE)


def state(
    *jobs: AdmittedWorkload, waiting: PendingWorkload | None = None, surplus: Surplus = SURPLUS
) -> Snapshot:
    current = snapshot(admitted=list(jobs), pending=[waiting] if waiting else [])
    return replace(current, surpluses=(surplus,))


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(state(RUNS, MORE), id="both run"),
        pytest.param(state(RUNS, waiting=WAITS), id="it waits for quota"),
        pytest.param(state(waiting=HELD), id="it is held already"),
        pytest.param(
            state(RUNS, waiting=replace(WAITS, active=False, stopped_for="c-1")),
            id="it was stopped for a Cession",
        ),
        pytest.param(state(RUNS, waiting=replace(WAITS, active=False)), id="its user stopped it"),
        pytest.param(snapshot(admitted=[admitted()]), id="there is none"),
    ],
)
def test_nothing_is_done(current: Snapshot) -> None:
    assert list(follow_bases(current, NOW)) == []


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(state(MORE), id="the base lost its quota, or has ended"),
        pytest.param(state(STOPPED, MORE), id="the base is stopped"),
        pytest.param(state(replace(RUNS, is_evicting=True), MORE), id="Kueue evicts the base"),
        pytest.param(state(waiting=WAITS), id="both wait"),
        pytest.param(
            state(RUNS, MORE, surplus=replace(SURPLUS, has_base=False)),
            id="the Job of the base was made again",
        ),
    ],
)
def test_it_is_held_while_the_base_does_not_run(current: Snapshot) -> None:
    [action] = follow_bases(current, NOW)
    assert isinstance(action, SetWorkloadActive)
    assert (action.uid, action.active, action.cession) == ("uid-more", False, names.NO_BASE)


def test_its_growth_is_withdrawn_first() -> None:
    """Otherwise its new pods would run on without quota (Kueue 0.19.2)."""
    growth = replace(WAITS, is_scale_up=True)
    [action] = follow_bases(state(replace(MORE, parallelism=6), waiting=growth), NOW)
    assert isinstance(action, ResizeJob)
    assert (action.size, action.shrinks) == (4, True)


def test_it_goes_on_when_the_base_runs_again() -> None:
    current = state(RUNS, waiting=HELD)
    [action] = follow_bases(current, NOW)
    assert isinstance(action, SetWorkloadActive)
    assert (action.uid, action.active) == ("uid-more", True)


def test_nobody_else_lets_it_run_again() -> None:
    assert list(run_again(state(waiting=HELD), (), NOW)) == []
