"""Evaluations of two ranks, of which one has the results already and has gone on.

As after a loss in the last sum of an evaluation: some ranks had received all of it. With processes:
tests/processes/test_evaluate_between_steps.py.
"""

import threading
from collections.abc import Callable

import pytest

from elastic_runtime import Session
from elastic_runtime.distributed import meetings
from elastic_runtime.distributed.group import Group
from elastic_runtime.training.generation_change import GenerationChange
from tests.builders.sessions import join, run_passes, small_session
from tests.harness.thread_ranks import run_ranks

# Until a rank that waits in vain gives up.
LIMIT_S = 50.0
KNOWN = [7, 8]


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "LOOK_INTERVAL_S", 0.05)


def train_next(session: Session, until: int | None = None) -> None:
    step = session.begin(until)
    assert step
    run_passes(session, step)
    assert session.commit()


def count(session: Session, samples: int = 10, share: int = 1) -> int:
    number: int = session.evaluate(samples, lambda _: {"count": share})["count"]
    return number


def run_between_steps(body: Callable[[Session], list[int]], until: int) -> list[list[int]]:
    """What `body` returns on each rank, after the first step. Rank 0 has evaluated twice there."""

    def run(group: Group) -> list[int]:
        session = small_session()
        train_next(session, until)
        if group.rank == 0:
            for known in KNOWN:
                assert count(session, 1, known) == known
        join(session, group)
        timer = threading.Timer(LIMIT_S, group.abort)
        timer.start()
        try:
            return body(session)
        finally:
            timer.cancel()

    return run_ranks(2, run)


def test_a_rank_that_is_given_results_takes_part_in_the_next_evaluation() -> None:
    def body(session: Session) -> list[int]:
        given = [count(session) for _ in range(2 * session.rank)]
        train_next(session)
        return [*given, count(session)]

    assert run_between_steps(body, until=3) == [[10], [*KNOWN, 10]]


def test_a_rank_that_has_evaluated_the_last_state_gives_its_results_before_the_loop_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def save_last(generations: GenerationChange) -> bool:
        """Of a session with a directory, whose state is saved already."""
        return not generations._parts.lifecycle.leader_decides(False)

    monkeypatch.setattr(GenerationChange, "_save_last", save_last)

    def body(session: Session) -> list[int]:
        given = [count(session) for _ in range(2 * session.rank)]
        assert session.begin() is None
        return [*given, count(session)]

    assert run_between_steps(body, until=1) == [[10], [*KNOWN, 10]]
