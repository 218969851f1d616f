"""Collectives of the script's own: what they return, and where they are refused."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from elastic_runtime import Session, messages
from elastic_runtime.distributed import meetings
from elastic_runtime.distributed.group import Group
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.step import Step
from tests.builders.sessions import join, loss_of, run_passes, small_session
from tests.fakes.rank_lifecycle import RecordingLink
from tests.harness.thread_ranks import run_ranks


def step_in(group: Group) -> Step:
    """A step of a session whose rank is that of the group."""
    session = small_session()
    step: Step = next(session.steps(1))
    join(session, group)
    return step


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "expected"), [("sum", [3, 3]), ("min", [0, 1]), ("max", [2, 1])])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int16], ids=str)
def test_tensors_are_reduced_over_the_workers(
    op: str, expected: list[int], dtype: torch.dtype
) -> None:
    def body(group: Group) -> torch.Tensor:
        own = torch.tensor([group.rank, 1]).to(dtype)
        reduced = step_in(group).all_reduce(own, op)
        assert own.tolist() == [group.rank, 1]
        return reduced

    for reduced in run_ranks(3, body):
        assert reduced.dtype == dtype
        assert reduced.tolist() == expected


def test_rows_are_gathered_by_rank_and_a_number_is_a_row() -> None:
    def body(group: Group) -> tuple[list[Any], list[Any]]:
        step = step_in(group)
        rows = step.all_gather(torch.full((group.rank, 2), group.rank))
        return rows.tolist(), step.all_gather(torch.tensor(group.rank)).tolist()

    assert run_ranks(3, body) == [([[1, 1], [2, 2], [2, 2]], [0, 1, 2])] * 3


def test_a_job_of_one_has_its_own_values() -> None:
    step: Step = next(small_session().steps(1))
    own = torch.ones(2, requires_grad=True)
    for result in (step.all_reduce(own), step.all_reduce(own, "max"), step.all_gather(own)):
        assert result.tolist() == [1, 1]
        assert not result.requires_grad


# --- faults ---------------------------------------------------------------------------------------


def test_a_lost_worker_costs_the_step_and_raises_no_error() -> None:
    def body(group: Group) -> None:
        step = step_in(group)
        if group.rank == 1:
            return
        # As its agent does.
        threading.Timer(0.1, group.abort).start()
        assert step.all_reduce(torch.ones(2)).tolist() == [1, 1]
        assert step.broken
        # From now on nothing waits.
        assert step.all_gather(torch.ones(1, 3)).tolist() == [[1, 1, 1]]
        assert [*step] == []
        assert step.all_reduce(torch.ones(2), "max").tolist() == [1, 1]

    run_ranks(2, body)


def test_the_agent_learns_that_a_worker_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "ABORT_INTERVAL_S", 0.001)

    def body(group: Group) -> list[Any]:
        step = step_in(group)
        link = RecordingLink()
        step._parts.lifecycle.link = cast(AgentLink, link)
        if group.rank == 1:
            # Until the other one waits.
            while not group.meetings._store.check([f"{meetings.before_passes_of(0)}/0"]):
                pass
        step.all_reduce(torch.ones(1))
        return link.sent

    first, _ = run_ranks(2, body)
    assert first in ([], [messages.Waiting(waits=True), messages.Waiting(waits=False)])


# --- mistakes -------------------------------------------------------------------------------------

Body = Callable[[Session, Step], object]


def call_inside(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch))
        step.all_reduce(torch.ones(1))


def call_after_the_step(session: Session, step: Step) -> None:
    run_passes(session, step)
    session._transaction.commit(step)
    step.all_gather(torch.ones(1))


def evaluate_afterwards(session: Session, step: Step) -> None:
    step.all_reduce(torch.ones(1))
    session.evaluate(4, lambda indices: {"count": len(indices)})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(call_inside, "step.all_reduce was called inside the loop over", id="inside"),
        pytest.param(call_after_the_step, "called after the end of step 0: call it", id="too late"),
        pytest.param(evaluate_afterwards, "evaluate was called after a collective", id="evaluate"),
        pytest.param(
            lambda _, step: step.all_reduce(1.5), "was given a float: give it a", id="a number"
        ),
        pytest.param(
            lambda _, step: step.all_reduce(torch.ones(1), "mean"),
            "was given op='mean': give",
            id="another op",
        ),
        pytest.param(
            lambda _, step: step.all_reduce(torch.ones(1) > 0), "truth values or", id="bool"
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_cure(body: Body, message: str) -> None:
    session = small_session()
    with pytest.raises(Mistake, match=message) as raised:
        body(session, next(session.steps(1)))
    assert "\n" not in str(raised.value)


def test_behind_the_loop_every_worker_has_launched_the_same_sums_before() -> None:
    """The passes of one reached no gradient, those of the other all of them."""

    def body(group: Group) -> list[float]:
        session = small_session(model=torch.nn.Linear(2, 1, bias=group.world > 0))
        session._parts.lifecycle.group = group
        step: Step = next(session.steps(1))
        session._parts.lifecycle.rank, session._parts.lifecycle.world = group.rank, group.world
        session._parts.strategy.begin_step(group)
        if group.rank == 0:
            run_passes(session, step)
        else:
            # As a worker that has no micro-batch.
            session._parts.strategy.passes = lambda *_: []  # type: ignore[method-assign]
            run_passes(session, step)
        return step.all_reduce(torch.ones(3)).tolist()

    assert run_ranks(2, body) == [[2, 2, 2]] * 2
