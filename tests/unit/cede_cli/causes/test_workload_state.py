"""Whether a job waits, runs, is stopped or has finished."""

import pytest

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.causes.workload_state import current, state, stopped_for
from tests.builders.reports import ADMITTED, condition, stopping_cession, workload

FINISHED = condition(names.FINISHED, True)
CESSION = Cession.model_validate(stopping_cession())


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(workload(), "Waiting", id="no quota"),
        pytest.param(workload(ADMITTED, admitted=True), "Running", id="admitted"),
        pytest.param(workload(ADMITTED), "Waiting", id="it lost its quota"),
        pytest.param(workload(active=False), "Stopped", id="not active"),
        pytest.param(workload(ADMITTED, FINISHED, admitted=True), "Finished", id="finished"),
    ],
)
def test_state(item: Workload, expected: str) -> None:
    assert state(item, [CESSION]) == expected


def test_a_workload_that_finished_is_not_the_current_one() -> None:
    waiting = workload()
    assert current([workload(FINISHED, admitted=True), waiting]) is waiting


def test_the_slice_with_quota_is_the_current_one() -> None:
    running = workload(ADMITTED, admitted=True)
    assert current([running, workload()]) is running


def test_a_workload_without_the_label_was_stopped_for_nobody() -> None:
    assert stopped_for(workload(active=False), [CESSION]) is None
