"""`session.evaluate` in a job of one. With several ranks: tests/processes/test_evaluate.py."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.data import random_state
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.step import Step
from tests.builders.sessions import loss_of, run_passes, small_session


def count(indices: list[int]) -> dict[str, Any]:
    return {"count": len(indices), "sum": torch.tensor(float(sum(indices)))}


def train(session: Session, steps: int, at_top: Callable[[Step], object]) -> None:
    for step in session.steps(steps):
        at_top(step)
        run_passes(session, step)


def evaluate_once(
    data: Any = 10, function: Callable[[Any], Any] = count, **options: Any
) -> dict[str, Any]:
    session = small_session(**options.pop("session", {}))
    results = list[dict[str, Any]]()
    train(session, 1, lambda _: results.append(session.evaluate(data, function, **options)))
    return results[0]


# --- what it returns ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 10, 99])
def test_every_sample_counts_once_in_micro_batches_of_any_size(size: int) -> None:
    assert evaluate_once(micro_batch_size=size) == {"count": 10, "sum": 45.0}


def test_micro_batches_are_as_large_as_those_of_the_training() -> None:
    sums = evaluate_once(10, lambda indices: {"squares": len(indices) ** 2})
    assert sums == {"squares": 10}
    sums = evaluate_once(
        10, lambda indices: {"squares": len(indices) ** 2}, session={"micro_batch_size": 4}
    )
    assert sums == {"squares": 16 + 16 + 4}


def test_the_function_gets_the_samples_of_a_dataset() -> None:
    given = list[list[int]]()

    def function(samples: torch.Tensor) -> dict[str, int]:
        given.append(samples.tolist())
        return {"a": 1}

    evaluate_once(torch.arange(5), function, micro_batch_size=2)
    assert given == [[0, 1], [2, 3], [4]]


def test_several_evaluations_in_one_step_and_behind_the_loop() -> None:
    session = small_session()
    sums = list[float]()

    def at_top(_: object) -> None:
        for samples in (3, 4):
            sums.append(session.evaluate(samples, count)["sum"])

    train(session, 2, at_top)
    sums.append(session.evaluate(5, count)["sum"])
    assert sums == [3, 6, 3, 6, 10]


def test_a_step_that_comes_again_is_given_the_results_it_had() -> None:
    """The body runs again, and must not decide otherwise."""
    session = small_session()
    steps = session.steps(2)
    next(steps)
    first = session.evaluate(3, count)
    session._transaction.begin()
    again = session.evaluate(3, lambda _: {"count": 100, "sum": 100.0})
    assert again == first


# --- what it leaves alone -------------------------------------------------------------------------


def test_the_model_is_evaluated_without_gradients_and_trains_on_afterwards() -> None:
    session = small_session()
    modes = list[tuple[bool, bool]]()

    def look(_: Any) -> dict[str, int]:
        modes.append((session.model.training, torch.is_grad_enabled()))
        return {"a": 1}

    def at_top(_: object) -> None:
        session.evaluate(2, look)
        assert session.model.training
        assert torch.is_grad_enabled()

    train(session, 2, at_top)
    assert modes == [(False, False)] * 4
    assert session.step == 2


def test_random_draws_behind_it_are_those_without_it() -> None:
    def draw(evaluates: bool) -> float:
        session = small_session()
        next(session.steps(1))
        if evaluates:
            session.evaluate(3, lambda _: {"a": torch.rand(())})
        return float(torch.rand(()))

    assert draw(True) == draw(False)


def test_draws_inside_depend_on_the_micro_batch_only() -> None:
    def draw(_: Any) -> dict[str, torch.Tensor]:
        return {"a": torch.rand(())}

    first = evaluate_once(3, draw)
    random_state.seed(17)
    assert evaluate_once(3, draw) == first


def test_an_exception_leaves_the_model_as_it_was_and_must_end_the_step() -> None:
    session = small_session()
    step = next(session.steps(1))

    def fail(_: Any) -> Any:
        session.model.train()
        raise KeyError("a")

    with pytest.raises(KeyError):
        session.evaluate(3, fail)
    assert session.model.training
    assert torch.is_grad_enabled()
    with pytest.raises(Mistake, match="was caught by the script"):
        next(iter(step))
    with pytest.raises(Mistake, match="was caught by the script"):
        session.evaluate(3, count)


# --- the end --------------------------------------------------------------------------------------


def test_stop_inside_ends_it_and_the_step_is_the_last() -> None:
    session = small_session()

    def stop(_: Any) -> dict[str, float]:
        session.stop()
        return {"loss": 1.0}

    sums = list[Any]()
    train(session, 9, lambda _: sums.append(session.evaluate(3, stop)))
    assert session.step == 1
    assert math.isnan(sums[0]["loss"])
    assert not sums[0].is_complete


def test_stop_before_it_lets_it_end() -> None:
    session = small_session()

    def at_top(_: object) -> None:
        session.stop()
        assert session.evaluate(10, count)["count"] == 10

    train(session, 9, at_top)
    assert session.step == 1


def test_a_step_that_was_superseded_changes_nothing() -> None:
    """The job went on to another step meanwhile, with other objects."""
    scheduled = torch.nn.Linear(1, 1)
    session = small_session(stateful=[scheduled])
    steps = session.steps(3)
    step = next(steps)
    weight = scheduled.weight.detach().clone()
    step.supersede()
    with torch.no_grad():
        scheduled.weight.zero_()
    assert not [*step]
    assert not session.evaluate(10, count).is_complete
    next(steps)
    assert torch.equal(scheduled.weight, weight)
    assert session.step == 0


# --- mistakes -------------------------------------------------------------------------------------


def test_before_the_loop_it_is_refused() -> None:
    with pytest.raises(Mistake, match="before the loop over steps"):
        small_session().evaluate(3, count)


def test_inside_a_step_it_is_refused() -> None:
    session = small_session()
    step = next(session.steps(1))
    for batch in step:
        with pytest.raises(Mistake, match="inside step 0, whose micro-batches have begun"):
            session.evaluate(3, count)
        step.backward(loss_of(session, batch))
        break


def test_inside_another_it_is_refused() -> None:
    session = small_session()
    next(session.steps(1))
    with pytest.raises(Mistake, match="by the function of another evaluation"):
        session.evaluate(3, lambda _: session.evaluate(3, count))


@pytest.mark.parametrize(
    ("data", "function", "text"),
    [
        pytest.param(0, count, "give it at least 1", id="no samples"),
        pytest.param([], count, "the dataset of session.evaluate is empty", id="empty dataset"),
        pytest.param(3, {}, "a dict as its function", id="no function"),
        pytest.param(3, lambda _: 1.0, "return a dict of sums", id="no dict"),
        pytest.param(3, lambda _: {0: 1.0}, "use strings, such as '0'", id="key"),
        pytest.param(3, lambda _: {"a": b"b"}, "returned a bytes for 'a'", id="value"),
    ],
)
def test_a_mistake_is_told_in_one_line(data: Any, function: Any, text: str) -> None:
    with pytest.raises(Mistake) as mistake:
        evaluate_once(data, function)
    assert text in str(mistake.value)
    assert "\n" not in str(mistake.value)


def test_missing_arguments_are_named() -> None:
    session: Any = small_session()
    with pytest.raises(Mistake, match=r"session.evaluate needs function: give it a function"):
        session.evaluate(3)
