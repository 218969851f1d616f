"""The status says what the job waits for, in words that name the pods."""

import pytest

from elastic_runtime.agent.membership import Member, Record, View
from elastic_runtime.agent.status_text import busy
from elastic_runtime.contract import State

NOW = 100.0


def member(
    index: int, *, generation: int = 3, ready: bool = True, parked: bool = False, heard: float = NOW
) -> Member:
    return Member(
        index, f"life-{index}", generation=generation, ready=ready, parked=parked, heard=heard
    )


def view(*members: Member, of: int = 3, abrupt: bool = False, smallest: int = 2) -> View:
    record = Record(3, tuple(range(of)), ("",) * of, "here", abrupt)
    return View(record, {m.index: m for m in members}, smallest=smallest)


@pytest.mark.parametrize(
    ("state", "seen", "said"),
    [
        pytest.param(State.STARTING, view(member(1)), "waiting for pod 0", id="one is missing"),
        pytest.param(
            State.STARTING,
            view(member(0), member(1)),
            "gathering whoever is ready",
            id="enough are there",
        ),
        pytest.param(State.TRAINING, view(*map(member, range(3))), "training", id="nothing else"),
        pytest.param(
            State.TRAINING,
            view(member(5, ready=False)),
            "training; getting ready to join: pod 5",
            id="one imports torch",
        ),
        pytest.param(
            State.RESIZING,
            view(member(0), member(1, generation=2), member(2, heard=0.0)),
            "changing size: generation 3 waits for pods 1, 2",
            id="a member moves, another is silent",
        ),
        pytest.param(
            State.RESIZING,
            view(*map(member, range(3)), abrupt=True),
            "recovering from a loss: at the end of this step",
            id="b",
        ),
        pytest.param(
            State.STOPPING,
            view(*map(member, range(2)), member(2, parked=True)),
            "saving before it stops: waiting for pods 0, 1",
            id="the last save",
        ),
        pytest.param(
            State.STOPPED, view(), "nothing: saved at step 7, all pods may go", id="stopped"
        ),
        pytest.param(State.FINISHED, view(), "nothing: the last step is done", id="finished"),
    ],
)
def test_what_it_is_busy_with(state: str, seen: View, said: str) -> None:
    assert busy(state, seen, NOW - 3.0, durable_step=7) == said


def test_a_large_job_does_not_name_every_pod() -> None:
    assert len(busy(State.RESIZING, view(of=4096), NOW, 0)) < 200
