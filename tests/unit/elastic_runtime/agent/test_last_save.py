"""Pods that are told to end while they have no coordinator save what they have."""

from dataclasses import replace

import pytest

from elastic_runtime.agent import succession
from elastic_runtime.agent.coordination import CoordinatorState, Standing
from elastic_runtime.agent.succession import Answers, Knowledge, Reason
from tests.builders.standings import LIMITS, NOW, member, standing


def stopped(*standings: Standing, index: int = 2, **more: object) -> Knowledge:
    """A member that received SIGTERM, and what those answered that it reaches. Pod 0 or another one
    is silent."""
    facts: dict[str, object] = {
        "answers": Answers(standings, frozenset({0} - {index} or {1})),
        "leaving": True,
        "asking_since": NOW - LIMITS.cut_off_s,
    }
    return member(index, **facts | more)  # type: ignore[arg-type]


def ending(index: int, **more: object) -> Standing:
    return replace(standing(index), leaving=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "saves"),
    [
        pytest.param(stopped(ending(3)), True, id="the first of two that are left"),
        pytest.param(stopped(), True, id="the only one that is left"),
        pytest.param(stopped(ending(1)), False, id="one before it does it"),
        pytest.param(stopped(index=0), True, id="pod 0 too"),
        pytest.param(
            stopped(ending(1, is_member=False)), True, id="one before it that is no member"
        ),
        pytest.param(
            stopped(ending(1, generation=2)), True, id="one before it with an older record"
        ),
        pytest.param(stopped(ending(3, generation=4)), False, id="another has a newer record"),
        pytest.param(stopped(standing(3)), False, id="another one stays"),
        pytest.param(stopped(ending(1), ending(3)), False, id="a majority elects"),
        pytest.param(stopped(leaving=False), False, id="it stays itself"),
        pytest.param(
            stopped(asking_since=NOW - LIMITS.cut_off_s + 1), False, id="a link may be cut"
        ),
        pytest.param(
            stopped(asking_since=NOW, answers=Answers()), True, id="the others certainly do not run"
        ),
        pytest.param(stopped(answers=None), False, id="it has not asked"),
        pytest.param(stopped(life="restarted"), False, id="it is no member"),
        pytest.param(stopped(answered_at=NOW), False, id="it has a coordinator"),
    ],
)
def test_pods_that_end_without_a_coordinator_save_under_the_first_of_them(
    known: Knowledge, saves: bool
) -> None:
    assert (succession.plan(known, NOW, LIMITS) is Reason.LAST_SAVE) == saves


def test_whoever_saves_last_does_not_wait_for_pods_that_have_not_answered() -> None:
    view = succession.inherited(stopped(ending(3)), CoordinatorState(), 9, smallest=1, largest=4)
    assert view.gone == {"a", "b"}
    elected = succession.inherited(
        stopped(answers=None), CoordinatorState(), 9, smallest=1, largest=4
    )
    assert not elected.gone, "a majority reports to one that was elected"
