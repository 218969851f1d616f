"""The pods of a job that came when it had finished learn that another pod has succeeded."""

from typing import Literal

import pytest

from cede.api.policy import PolicySpec
from scheduler.finish_actions import ReportFinish
from scheduler.plan import plan
from scheduler.resizing.late_pods import finish_late
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, snapshot

LATE = "10.0.0.9"


def has_finished(
    completed: tuple[int, ...] = (0, 1), *, is_leaderless: bool = True, runs: bool = True
) -> AdmittedWorkload:
    """A Job of four pods."""
    return admitted(
        size=4 - len(completed),
        parallelism=4,
        ended_pods=len(completed),
        completed=completed,
        observed=Observed(is_leaderless=is_leaderless),
        addresses=(LATE,) if runs else (),
    )


@pytest.mark.parametrize(
    ("job", "addresses"),
    [
        pytest.param(has_finished(), [LATE], id="its pods find no coordinator"),
        pytest.param(has_finished((1, 3)), [LATE], id="whichever of its pods have succeeded"),
        pytest.param(has_finished(()), [], id="none has succeeded: it has not begun"),
        pytest.param(has_finished(is_leaderless=False), [], id="they have a coordinator"),
        pytest.param(has_finished(runs=False), [], id="none runs"),
    ],
)
def test_late_pods_are_told(job: AdmittedWorkload, addresses: list[str]) -> None:
    actions = finish_late(snapshot(admitted=[job]))
    assert [address for action in actions for address in action.addresses] == addresses


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
def test_a_pass_in_any_mode_tells_them_and_does_nothing_else(
    mode: Literal["Enforce", "Observe"],
) -> None:
    actions = plan(snapshot(admitted=[has_finished()]), PolicySpec(mode=mode), NOW).actions
    assert actions == (ReportFinish(("research", "gpt"), "job-uid-gpt", (LATE,)),)
