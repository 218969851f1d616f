"""Which checkpoints are removed when another one is durable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.checkpointing.retention import Retention


@pytest.mark.parametrize(
    ("retention", "steps", "best", "expected"),
    [
        pytest.param(Retention(), [10, 20], None, [], id="not more than two"),
        pytest.param(Retention(), [10, 20, 30, 40], None, [20, 10], id="all but the newest two"),
        pytest.param(Retention(), [10, 20, 30, 40], 10, [20], id="the best stays"),
        pytest.param(Retention(keep=1), [10, 20, 30], None, [20, 10], id="the newest only"),
        pytest.param(Retention(keep=3), [10, 20, 30, 40], None, [10], id="the newest three"),
        pytest.param(Retention(2, 100), [50, 100, 150, 199], None, [50], id="before the first"),
        pytest.param(
            Retention(1, 100), [100, 150, 200, 250, 300], None, [250, 150], id="every hundredth"
        ),
        pytest.param(
            Retention(1, 100), [103, 150, 205, 300], None, [150], id="a save that came later counts"
        ),
    ],
)
def test_what_no_longer_stays(
    retention: Retention, steps: list[int], best: int | None, expected: list[int]
) -> None:
    assert list(retention.superseded(steps, best)) == expected


@given(
    st.builds(Retention, st.integers(1, 4), st.integers(0, 30)),
    st.lists(st.integers(1, 20), min_size=1, max_size=30),
)
def test_of_every_window_that_had_a_checkpoint_one_stays_for_ever(
    retention: Retention, distances: list[int]
) -> None:
    steps = list[int]()
    saved = list[int]()
    for distance in distances:
        step = (saved[-1] if saved else 0) + distance
        saved.append(step)
        steps.append(step)
        for old in list(retention.superseded(steps, None)):
            steps.remove(old)
    assert steps[-retention.keep :] == saved[-retention.keep :]
    if retention.keep_every:
        windows = {step // retention.keep_every for step in saved} - {0}
        assert windows <= {step // retention.keep_every for step in steps}
        assert len(steps) <= len(windows) + retention.keep
