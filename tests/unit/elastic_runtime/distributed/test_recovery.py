"""Who is where when a generation meets."""

import pytest

from elastic_runtime.distributed.recovery import Said, Standing, compare


def at(step: int, *, full: bool = False) -> Said:
    return Said(step, full, has_state=True)


NEW = Said(0, full=False, has_state=False)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            [NEW, NEW], Standing(0, (), (), (0, 1)), id="at the beginning nobody has anything"
        ),
        pytest.param(
            [at(4), at(4)], Standing(4, (), (0, 1), ()), id="a planned change: everybody is level"
        ),
        pytest.param(
            [at(4), NEW, at(4)], Standing(4, (), (0, 2), (1,)), id="who comes needs the state"
        ),
        pytest.param(
            [at(5), at(4, full=True)],
            Standing(5, (1,), (0,), ()),
            id="somebody has committed: the others can",
        ),
        pytest.param(
            [at(4, full=True), at(4)],
            Standing(4, (), (0, 1), ()),
            id="nobody can have committed: the step is done again",
        ),
        pytest.param(
            [at(4, full=True)] * 2,
            Standing(5, (0, 1), (), ()),
            id="one that was lost may have committed",
        ),
        pytest.param(
            [at(4, full=True), at(2)],
            Standing(5, (0,), (), (1,)),
            id="who was away has no say in it",
        ),
        pytest.param(
            [NEW, at(3), at(7)], Standing(7, (), (2,), (0, 1)), id="the newest step is everybody's"
        ),
    ],
)
def test_the_newest_step_that_anybody_may_have_committed_is_everybodys(
    said: list[Said], expected: Standing
) -> None:
    assert compare(said) == expected


def test_only_a_job_without_any_state_is_fresh() -> None:
    assert compare([NEW, NEW]).fresh
    assert not compare([NEW, at(1)]).fresh
    assert not compare([at(1, full=True), NEW]).fresh
