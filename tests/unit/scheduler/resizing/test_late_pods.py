"""A pod that first runs when its job has finished keeps no accelerators, and the Job completes."""

import pytest

from cede.api.policy import PolicySpec
from scheduler.actions import ResizeJob
from scheduler.plan import plan
from scheduler.resizing.late_pods import LAST_REPORTS_S, remove_late
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, snapshot

KNOWN = Observed(since=NOW - 600)
LEADERLESS = Observed(leaderless_since=NOW - LAST_REPORTS_S)
JUST_LEADERLESS = Observed(since=NOW - 600, leaderless_since=NOW - LAST_REPORTS_S + 1)
HAS_A_LEADER = Observed(since=NOW - 600)


def has_finished(
    completed: tuple[int, ...] = (0, 1),
    observed: Observed = LEADERLESS,
    *,
    runs: bool = True,
    active: bool = True,
    is_evicting: bool = False,
) -> AdmittedWorkload:
    """A Job of four pods. Kueue counts no quota for those that have succeeded."""
    return admitted(
        size=4 - len(completed),
        parallelism=4,
        allowed_sizes=(1, 2, 3, 4),
        completed=completed,
        observed=observed,
        addresses=("10.0.0.9",) if runs else (),
        active=active,
        is_evicting=is_evicting,
    )


@pytest.mark.parametrize(
    ("job", "sizes"),
    [
        pytest.param(has_finished(), [2], id="pods that say that they know no coordinator"),
        pytest.param(has_finished((0, 1, 3)), [2], id="what remains begins at index 0"),
        pytest.param(has_finished(observed=JUST_LEADERLESS), [], id="for a moment only"),
        pytest.param(has_finished(observed=HAS_A_LEADER), [], id="pods that do not say so"),
        pytest.param(has_finished((1, 2)), [], id="pod 0 is late: it ends the job by itself"),
        pytest.param(has_finished(()), [], id="no pod has succeeded: it has not begun"),
        pytest.param(has_finished((0, 1, 2, 3)), [], id="all have succeeded"),
        pytest.param(has_finished(observed=KNOWN, runs=False), [2], id="pods that do not run"),
        pytest.param(has_finished(observed=Observed(), runs=False), [], id="without a runtime"),
        pytest.param(has_finished(active=False), [], id="it is stopped"),
        pytest.param(has_finished(is_evicting=True), [], id="Kueue evicts it"),
    ],
)
def test_a_job_that_has_finished_keeps_the_pods_that_have_succeeded(
    job: AdmittedWorkload, sizes: list[int]
) -> None:
    assert [action.size for action in remove_late(snapshot(admitted=[job]), NOW)] == sizes


def test_a_pass_lowers_the_job_once_and_says_why() -> None:
    [action] = plan(snapshot(admitted=[has_finished()]), PolicySpec(), NOW).actions
    assert isinstance(action, ResizeJob)
    assert action.spec == {"parallelism": 2, "completions": 2}
    assert "the job has finished" in action.why


def test_a_job_whose_pods_have_succeeded_is_not_growing() -> None:
    """It has more pods than quota, because Kueue counts no quota for those."""
    assert not has_finished().is_growing
    assert admitted(size=2, parallelism=4, allowed_sizes=(1, 2, 3, 4)).is_growing
