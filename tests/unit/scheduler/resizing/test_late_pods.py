"""The pods that a finished job has left get the report that pod 0 has succeeded."""

from typing import Literal

import pytest

from cede.api.policy import PolicySpec
from elastic_runtime.contract import Status
from scheduler.finish_actions import ReportFinish
from scheduler.plan import plan
from scheduler.resizing.late_pods import REPEAT_S, finish_late
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, runtime_status, snapshot

LATE = "10.0.0.9"


LEADERLESS = Observed(is_leaderless=True)
JUST_REPORTED = Observed(is_leaderless=True, finish_reported=NOW - REPEAT_S + 1)
REPORTED = Observed(is_leaderless=True, finish_reported=NOW - REPEAT_S)


def has_finished(
    completed: tuple[int, ...] = (0, 1),
    observed: Observed = LEADERLESS,
    *,
    runs: bool = True,
    runtime: Status | None = None,
) -> AdmittedWorkload:
    """A Job of four pods."""
    return admitted(
        size=4 - len(completed),
        parallelism=4,
        ended_pods=len(completed),
        completed=completed,
        observed=observed,
        runtime=runtime,
        addresses=(LATE,) if runs else (),
    )


@pytest.mark.parametrize(
    ("job", "addresses"),
    [
        pytest.param(has_finished(), [LATE], id="its pods find no coordinator"),
        pytest.param(has_finished((0, 3)), [LATE], id="whichever others have succeeded"),
        pytest.param(has_finished((1, 2)), [], id="pod 0 has not: it may begin the job with them"),
        pytest.param(has_finished(()), [], id="none has succeeded: it has not begun"),
        pytest.param(has_finished(observed=Observed()), [], id="nobody knows what they do"),
        pytest.param(
            has_finished(observed=Observed(), runtime=runtime_status()), [], id="they train"
        ),
        pytest.param(has_finished(runs=False), [], id="none runs"),
        pytest.param(has_finished(observed=JUST_REPORTED), [], id="they had the report just now"),
        pytest.param(has_finished(observed=REPORTED), [LATE], id="again after a while"),
    ],
)
def test_late_pods_get_the_report(job: AdmittedWorkload, addresses: list[str]) -> None:
    actions = finish_late(snapshot(admitted=[job]), NOW)
    assert [address for action in actions for address in action.addresses] == addresses


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
def test_a_pass_in_any_mode_reports_and_does_nothing_else(
    mode: Literal["Enforce", "Observe"],
) -> None:
    actions = plan(snapshot(admitted=[has_finished()]), PolicySpec(mode=mode), NOW).actions
    assert actions == (ReportFinish(("research", "gpt"), "job-uid-gpt", (LATE,)),)
