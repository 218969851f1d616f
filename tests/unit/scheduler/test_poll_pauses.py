"""A job that changes is polled often, a dead address rarely."""

import pytest

from scheduler.poll_pauses import MAX_FAST_S, PATIENT_FAILURES, poll_pause_s


@pytest.mark.parametrize(
    ("failures", "changing_s", "pause_s"),
    [
        pytest.param(0, None, 2.0, id="a job that does not change"),
        pytest.param(0, 0.0, 0.1, id="a job that changes"),
        pytest.param(0, MAX_FAST_S, 1.0, id="a job that changes for long"),
        pytest.param(PATIENT_FAILURES, None, 2.0, id="a job that starts"),
        pytest.param(PATIENT_FAILURES + 1, None, 4.0, id="a dead address"),
        pytest.param(PATIENT_FAILURES + 50, None, 16.0, id="a dead address, for long"),
        pytest.param(PATIENT_FAILURES + 50, 0.0, 1.0, id="a dead address of a target"),
    ],
)
def test_the_pause_until_the_next_poll(
    failures: int, changing_s: float | None, pause_s: float
) -> None:
    assert poll_pause_s(failures, changing_s) == pause_s
