"""Loops that are not ours drive the steps by begin and commit, as the generator does."""

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elastic_runtime import Session, restore, script_checks
from elastic_runtime.messages import Failed
from elastic_runtime.training import step_loop
from elastic_runtime.training.transaction import Outcome
from tests.builders.sessions import run_passes, small_model, small_session


def train(session: Session, until: int) -> list[int]:
    """The numbers of the steps."""
    numbers = []
    while step := session.begin(until):
        numbers.append(step.number)
        run_passes(session, step)
        assert session.commit()
    return numbers


def begun(until: int = 3) -> Session:
    """A session with a step in flight whose passes are done."""
    session = small_session()
    step = session.begin(until)
    assert step
    run_passes(session, step)
    return session


# --- as the generator -----------------------------------------------------------------------------


def test_steps_that_are_begun_and_committed_are_those_of_the_generator() -> None:
    parameters = []
    for driven_from_outside in (True, False):
        torch.manual_seed(0)
        session = small_session()
        if driven_from_outside:
            assert train(session, until=3) == [0, 1, 2]
        else:
            for step in session.steps(3):
                run_passes(session, step)
        assert session.step == 3
        parameters.append(next(session.model.parameters()).detach())
    assert torch.equal(*parameters)


def test_the_call_that_ends_the_loop_saves_and_later_calls_return_none(tmp_path: Path) -> None:
    session = small_session(checkpoint=tmp_path)
    assert train(session, until=2) == [0, 1]
    newest = restore.newest_intact(tmp_path)
    assert newest
    assert newest.step == 2
    assert session.begin(2) is None
    assert session.begin() is None


def test_the_end_may_be_given_in_the_first_call_only() -> None:
    session = small_session()
    numbers = []
    step = session.begin(2)
    while step:
        numbers.append(step.number)
        run_passes(session, step)
        session.commit()
        step = session.begin()
    assert numbers == [0, 1]


@pytest.mark.parametrize("between_steps", [True, False])
def test_a_loop_without_an_end_is_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, between_steps: bool
) -> None:
    session = small_session(checkpoint=tmp_path)
    while step := session.begin():
        if step.number == 2 and not between_steps:
            session.stop()
        run_passes(session, step)
        session.commit()
        if step.number == 1 and between_steps:
            session.stop()
    assert session.step == 3
    assert not caplog.messages
    again = small_session(checkpoint=tmp_path)
    assert again.begin() is None
    assert "the job has ended already, at step 3, so session.begin() has no steps" in caplog.text


def test_after_the_loop_the_model_is_an_ordinary_one_again() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(2):
        assert train(small_session(model=model, optimizer=optimizer), until=1) == [0]
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def test_a_failed_step_is_begun_again_and_a_resize_is_part_of_the_next_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = begun()
    outcomes = iter([Outcome.FAILED, Outcome.RESIZE])
    monkeypatch.setattr(session._transaction, "commit", lambda step: next(outcomes))
    changes = list[str]()
    for name in ("recover", "resize"):
        monkeypatch.setattr(session._generations, name, lambda name=name: changes.append(name))
    assert not session.commit()
    step = session.begin()
    assert step
    assert step.number == 0
    run_passes(session, step)
    session.commit()
    # Ranks that join begin the next step, so the others are among themselves until then.
    assert changes == ["recover"]
    session.begin()
    assert changes == ["recover", "resize"]


def test_a_failed_step_that_another_rank_had_committed_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = small_session()
    begun_step = session.begin(3)
    assert begun_step
    run_passes(session, begun_step)
    numbers = begun_step.losses.to_sum()
    transaction = session._transaction
    monkeypatch.setattr(transaction, "commit", lambda step: Outcome.FAILED)

    def recover() -> None:
        assert session.strategy.reduce(numbers, None)
        transaction.gradients_reduced = True
        transaction.apply()

    monkeypatch.setattr(session._generations, "recover", recover)
    assert session.commit()
    step = session.begin()
    assert step
    assert step.number == 1


# --- mistakes -------------------------------------------------------------------------------------


def begin_twice(session: Session) -> None:
    session.begin(3)
    session.begin(3)


def commit_twice(session: Session) -> None:
    step = session.begin(3)
    assert step
    run_passes(session, step)
    session.commit()
    session.commit()


def commit_after_the_end(session: Session) -> None:
    train(session, until=1)
    session.commit()


def change_the_end(session: Session) -> None:
    step = session.begin(3)
    assert step
    run_passes(session, step)
    session.commit()
    session.begin(4)


def begin_in_the_generator(session: Session) -> None:
    for _ in session.steps(3):
        session.begin(3)


def commit_in_the_generator(session: Session) -> None:
    for step in session.steps(3):
        run_passes(session, step)
        session.commit()


def use_the_generator_after_begin(session: Session) -> None:
    session.begin(3)
    next(iter(session.steps(3)))


def begin_after_the_generator(session: Session) -> None:
    for step in session.steps(1):
        run_passes(session, step)
    session.begin(3)


def commit_without_passes(session: Session) -> None:
    session.begin(3)
    session.commit()


def go_on_after_a_mistake(session: Session) -> None:
    with pytest.raises(ValueError, match="not taken"):
        commit_without_passes(session)
    with pytest.raises(ValueError, match="cannot go on after an error: let it end the script"):
        session.commit()
    session.begin(3)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(
            begin_twice,
            r"begin was called while step 0 is not committed: call session.commit\(\) after",
            id="begin twice",
        ),
        pytest.param(
            lambda session: session.commit(),
            r"commit was called with no step in flight: call session.begin\(\) first",
            id="commit first",
        ),
        pytest.param(commit_twice, "commit was called with no step in flight", id="commit twice"),
        pytest.param(commit_after_the_end, "with no step in flight", id="commit after the end"),
        pytest.param(
            change_the_end,
            r"session.begin\(4\) follows session.begin\(3\): give the same number",
            id="another end",
        ),
        pytest.param(begin_in_the_generator, "drive the same loop: use either", id="both: begin"),
        pytest.param(commit_in_the_generator, "drive the same loop: use either", id="both: commit"),
        pytest.param(use_the_generator_after_begin, "drive the same loop", id="both: steps"),
        pytest.param(begin_after_the_generator, "drive the same loop", id="both: one by one"),
        pytest.param(
            commit_without_passes,
            "step 0 ended with 2 of its micro-batches not taken",
            id="no micro-batches",
        ),
        pytest.param(go_on_after_a_mistake, "cannot go on after an error", id="after a mistake"),
        pytest.param(
            lambda session: session.begin(steps=4),
            "session.begin has no argument steps",
            id="another argument",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_cure(
    script: Callable[[Session], None], message: str
) -> None:
    session = small_session()
    with pytest.raises(ValueError, match=message) as raised:
        script(session)
    assert "\n" not in str(raised.value)


def test_a_session_that_is_dropped_within_a_step_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a notebook's cell that is run again."""
    # Those of earlier tests, which wait for the collector.
    gc.collect()
    caplog.clear()
    session = begun()
    model = session.model
    del session
    gc.collect()
    [message] = caplog.messages
    assert message == (
        "step 0 is not committed: the script ended between session.begin and session.commit; to "
        "end the job early, call session.stop() and commit the step"
    )
    assert train(small_session(model=model), until=1) == [0]


def test_a_loop_that_ended_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()
    caplog.clear()
    train(small_session(), until=1)
    gc.collect()
    assert not caplog.messages


@pytest.mark.parametrize("is_reported", [False, True], ids=["it just ended", "by an exception"])
def test_the_agent_learns_of_a_session_without_a_step_unless_an_exception_ended_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, is_reported: bool
) -> None:
    if is_reported:
        monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    sent = list[Failed]()
    # In a process that the script has started.
    step_loop._report_unused(sent.append, os.getpid() + 1)
    step_loop._report_unused(sent.append, os.getpid())
    assert sent == ([] if is_reported else [Failed(script_checks.NEVER_BEGAN, may_heal=True)])
    assert caplog.messages == ([] if is_reported else [script_checks.NEVER_BEGAN])
