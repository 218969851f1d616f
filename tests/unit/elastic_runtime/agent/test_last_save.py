"""Pods that are told to end while they have no coordinator save what they have."""

from dataclasses import replace

import pytest

from elastic_runtime.agent import succession
from elastic_runtime.agent.coordination import CoordinatorState, Leader, Standing
from elastic_runtime.agent.knowledge import Answers, Knowledge
from elastic_runtime.agent.succession import Reason
from tests.builders.standings import LIMITS, LONG_AGO, NOW, RECORD, member, standing

WAITED = NOW - LIMITS.cut_off_s


def stopped(
    *standings: Standing, index: int = 2, silent_since: float = WAITED, **more: object
) -> Knowledge:
    """A member that received SIGTERM, and the answers to it. Pod 0, or 1, is silent."""
    answers = Answers(standings, frozenset({0} - {index} or {1}), silent_since)
    facts: dict[str, object] = {"answers": answers, "leaving": True, "asking_since": LONG_AGO}
    return member(index, **facts | more)  # type: ignore[arg-type]


def ending(index: int, **more: object) -> Standing:
    return replace(standing(index), leaving=True, **more)  # type: ignore[arg-type]


LEADER = Leader(0, "a", "10.0.0.1:1", 1)
LAST_SAVE = Leader(2, "c", "10.0.0.3:1", 9, is_last_save=True)
UNCONFIRMED = replace(
    RECORD,
    members=(1,),
    incarnations=("b.2",),
    electors=(0, 1, 2, 3),
    elector_lives=("a", "b", "c", "d"),
)
OLD_MEMBER = {"members": 1, "is_member": False, "electors": 4, "is_elector": True}


@pytest.mark.parametrize(
    ("known", "saves"),
    [
        pytest.param(stopped(ending(3)), True, id="the first of two that are left"),
        pytest.param(stopped(), True, id="the only one that is left"),
        pytest.param(stopped(index=0), True, id="pod 0 too"),
        pytest.param(stopped(ending(1)), False, id="one before it does it"),
        pytest.param(
            stopped(ending(1, is_member=False)), True, id="one before it that is no member"
        ),
        pytest.param(
            stopped(ending(1, generation=2)), True, id="one before it with an older record"
        ),
        pytest.param(stopped(ending(3, generation=4)), False, id="another has a newer record"),
        pytest.param(stopped(ending(1), ending(3)), False, id="a majority elects"),
        pytest.param(
            stopped(ending(3, **OLD_MEMBER), record=UNCONFIRMED),
            True,
            id="of those before, who elect too, half are left",
        ),
        pytest.param(
            stopped(ending(1, **OLD_MEMBER), ending(3, **OLD_MEMBER), record=UNCONFIRMED),
            False,
            id="one of those before does it",
        ),
        pytest.param(stopped(standing(3)), False, id="another member stays"),
        pytest.param(
            stopped(Standing(0, "new")), True, id="a new pod 0, which has no state, stays"
        ),
        pytest.param(stopped(ending(3, leader=LEADER)), False, id="another one has a coordinator"),
        pytest.param(stopped(leaving=False), False, id="it stays itself"),
        pytest.param(stopped(silent_since=WAITED + 1), False, id="a link may be cut"),
        pytest.param(stopped(answers=Answers()), True, id="the others certainly do not run"),
        pytest.param(stopped(voted_at=NOW - 0.5), False, id="whom it voted for may be elected"),
        pytest.param(
            stopped(record=replace(RECORD, stop=True)), False, id="a last save is under way"
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


def test_whoever_saves_last_does_not_wait_for_those_that_have_not_answered() -> None:
    replaced = replace(ending(3), life="new")
    known = stopped(replaced)
    view = succession.inherited(known, CoordinatorState(), LAST_SAVE, smallest=1, largest=4)
    assert view.gone == {"a", "b", "d"}


def test_another_coordinator_waits_for_the_reports_of_all() -> None:
    view = succession.inherited(stopped(), CoordinatorState(), LEADER, smallest=1, largest=4)
    assert not view.gone


@pytest.mark.parametrize(
    ("known", "leader", "follows"),
    [
        pytest.param(stopped(), LAST_SAVE, True, id="it ends too, and has no coordinator"),
        pytest.param(stopped(leaving=False), LAST_SAVE, False, id="it stays"),
        pytest.param(stopped(answered_at=NOW), LAST_SAVE, False, id="it has a coordinator"),
        pytest.param(stopped(leads=True), LAST_SAVE, False, id="it coordinates"),
        pytest.param(
            stopped(leads=True, misses_majority=True),
            LAST_SAVE,
            True,
            id="it coordinates, and others may have elected another",
        ),
        pytest.param(stopped(epoch=10), LAST_SAVE, False, id="it voted for a higher epoch"),
        pytest.param(
            stopped(answered_at=NOW),
            replace(LAST_SAVE, is_last_save=False),
            True,
            id="the leader was elected",
        ),
    ],
)
def test_a_last_save_takes_no_pod_away_from_training(
    known: Knowledge, leader: Leader, follows: bool
) -> None:
    assert succession.may_follow(known, leader, NOW, LIMITS) == follows


@pytest.mark.parametrize(
    ("known", "asks"),
    [
        pytest.param(stopped(), True, id="a member that ends"),
        pytest.param(stopped(asking_since=NOW - 0.5), False, id="while the members may elect"),
        pytest.param(
            stopped(leaving=False, asking_since=NOW - 1),
            False,
            id="a member that stays, while the members may elect",
        ),
        pytest.param(stopped(leaving=False), True, id="a member that stays"),
        pytest.param(stopped(life="restarted"), False, id="one that has no state"),
        pytest.param(stopped(index=0, leaving=False), True, id="pod 0"),
        pytest.param(stopped(leads=True), False, id="a coordinator asks those that it misses"),
    ],
)
def test_only_those_ask_all_pods_that_may_act_by_the_answers(known: Knowledge, asks: bool) -> None:
    assert succession.asks_all(known, NOW, LIMITS) == asks
