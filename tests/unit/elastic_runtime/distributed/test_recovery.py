"""Which step, and whose state, a new generation goes on with."""

from typing import Any

import pytest

from elastic_runtime.distributed.recovery import (
    RankState,
    RecoveryPlan,
    misfits,
    plan_recovery,
)


def at_step(
    step: int, *, reduced: bool = False, newest_save: int = -1, stopped_loop: int = 0
) -> RankState:
    return RankState(step, reduced, True, newest_save, stopped_loop)


NEW = RankState(0, gradients_reduced=False, has_state=False)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        pytest.param([NEW, NEW], RecoveryPlan(0, (), (), (0, 1)), id="a new job has no state"),
        pytest.param(
            [at_step(4), at_step(4)],
            RecoveryPlan(4, (), (0, 1), ()),
            id="after a planned resize all ranks are at one step",
        ),
        pytest.param(
            [at_step(4), NEW, at_step(4)],
            RecoveryPlan(4, (), (0, 2), (1,)),
            id="a rank that joins receives the state",
        ),
        pytest.param(
            [at_step(5), at_step(4, reduced=True)],
            RecoveryPlan(5, (1,), (0,), ()),
            id="one rank has committed, so the others do",
        ),
        pytest.param(
            [at_step(5, stopped_loop=9), at_step(4, reduced=True)],
            RecoveryPlan(5, (1,), (0,), (), stopped_loop=9),
            id="a committer learns that its step was the last one",
        ),
        pytest.param(
            [at_step(4, reduced=True), at_step(4)],
            RecoveryPlan(4, (), (0, 1), ()),
            id="no rank can have committed, so the step is repeated",
        ),
        pytest.param(
            [at_step(4, reduced=True)] * 2,
            RecoveryPlan(5, (0, 1), (), ()),
            id="a lost rank may have committed",
        ),
        pytest.param(
            [at_step(4, reduced=True), at_step(2)],
            RecoveryPlan(5, (0,), (), (1,)),
            id="a rank at an older step has no vote on the newest one",
        ),
        pytest.param(
            [NEW, at_step(3), at_step(7)],
            RecoveryPlan(7, (), (2,), (0, 1)),
            id="all ranks go to the newest step",
        ),
    ],
)
def test_all_ranks_go_to_the_newest_step_that_may_be_committed(
    ranks: list[RankState], expected: RecoveryPlan
) -> None:
    assert plan_recovery(ranks) == expected


def test_only_a_job_without_any_state_starts_cold() -> None:
    assert plan_recovery([NEW, NEW]).cold_start
    assert not plan_recovery([NEW, at_step(1)]).cold_start
    assert not plan_recovery([at_step(1, reduced=True), NEW]).cold_start


def test_a_state_older_than_the_newest_checkpoint_is_dropped() -> None:
    parked = at_step(40, newest_save=90)
    new = NEW._replace(newest_save=90)
    assert plan_recovery([parked, new]).cold_start
    assert plan_recovery([new, at_step(40)]).cold_start
    assert not plan_recovery([at_step(90, newest_save=90), new]).cold_start


@pytest.mark.parametrize(
    ("ranks", "mistaken"),
    [
        pytest.param([NEW._replace(layout=1), at_step(7), at_step(7)], [0], id="one that joins"),
        pytest.param([NEW, NEW._replace(layout=1), NEW], [1], id="a new job: rank 0 decides"),
        pytest.param([at_step(3)._replace(layout=1), at_step(7)], [0], id="an older state"),
        pytest.param([NEW, at_step(7)], [], id="all alike"),
    ],
)
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param("layout", "start all pods from one image", id="model"),
        pytest.param("samples_digest", "give train_test_split, shuffle and the like a", id="data"),
        pytest.param("samples", "on this worker and 1 in the job", id="length of the data"),
        pytest.param("micro_batches", "used twice or never", id="micro-batches"),
        pytest.param("micro_batch_size", "used twice or never", id="size of a micro-batch"),
        pytest.param("seed", "with the same script, arguments and data", id="seed"),
    ],
)
def test_a_rank_with_another_model_or_other_data_than_the_job_is_refused(
    field: str, expected: str, ranks: list[RankState], mistaken: list[int]
) -> None:
    changes: list[dict[str, Any]] = [{"layout": 0, field: 1 + state.layout} for state in ranks]
    marked = [state._replace(**change) for state, change in zip(ranks, changes, strict=True)]
    mistakes = {rank: list(misfits(marked, rank)) for rank in range(len(ranks))}
    assert [rank for rank, lines in mistakes.items() if lines] == mistaken
    assert all(expected in text for rank in mistaken for text in mistakes[rank])


def test_a_rank_with_other_data_names_each_number_that_differs() -> None:
    ranks = [NEW._replace(samples=97, seed=1337), NEW._replace(samples=90, seed=-1)]
    assert list(misfits(ranks, 1)) == [
        "samples is 90 on this worker and 97 in the job, seed is -1 on this worker and 1337 in the "
        "job, so samples would be used twice or never: start all pods with the same script, "
        "arguments and data"
    ]


def test_samples_that_are_not_known_fit() -> None:
    ranks = [NEW._replace(samples_digest=7), NEW]
    assert not any(list(misfits(ranks, rank)) for rank in range(2))
