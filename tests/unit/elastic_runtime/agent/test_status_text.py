"""The status names the pods that the job waits for."""

from dataclasses import replace

import pytest

from elastic_runtime.agent.membership_view import Member, View
from elastic_runtime.agent.status_text import describe, message, shorten, slow_pod
from elastic_runtime.contract import State
from elastic_runtime.messages import Record

NOW = 100.0


def member(
    index: int,
    *,
    generation: int = 3,
    ready: bool = True,
    parked: bool = False,
    reported_at: float = NOW,
) -> Member:
    return Member(
        index,
        f"life-{index}",
        generation=generation,
        ready=ready,
        parked=parked,
        reported_at=reported_at,
    )


def view(*pods: Member, size: int = 3, abrupt: bool = False) -> View:
    record = Record(3, tuple(range(size)), ("",) * size, "here", abrupt)
    return View(record, {pod.index: pod for pod in pods}, smallest=2)


THREE = [member(index) for index in range(3)]


@pytest.mark.parametrize(
    ("state", "job", "sentence"),
    [
        pytest.param(
            State.STARTING, view(member(1)), "waiting for pod 0", id="start: one is missing"
        ),
        pytest.param(
            State.STARTING,
            view(member(0), member(1)),
            "gathering the pods that are ready",
            id="start: enough are ready",
        ),
        pytest.param(
            State.STARTING,
            view(member(3)),
            "waiting for 1 of pods 0, 1, or others",
            id="start: a later one is ready",
        ),
        pytest.param(
            State.STARTING,
            replace(view(member(3), member(2)), wanted=2),
            "waiting for pods 0, 1",
            id="start: the later ones are not wanted",
        ),
        pytest.param(
            State.STARTING,
            view(replace(member(0), leaving=True), member(1)),
            "waiting for pod 0",
            id="start: one leaves",
        ),
        pytest.param(
            State.STARTING,
            replace(view(member(0), member(2)), base=2),
            "waiting for pod 1",
            id="start: the base of a surplus is not whole",
        ),
        pytest.param(
            State.STARTING,
            replace(view(member(2)), base=2),
            "waiting for pods 0, 1",
            id="start: the base of a surplus is not there",
        ),
        pytest.param(
            State.RESIZING,
            view(member(2), size=0),
            "starting from the newest checkpoint: waiting for 1 of pods 0, 1, or others",
            id="start: no pod has the state any more",
        ),
        pytest.param(
            State.STARTING,
            view(member(1), member(3)),
            "gathering the pods that are ready",
            id="start: enough of the later ones are ready",
        ),
        pytest.param(State.TRAINING, view(*THREE), "training", id="training"),
        pytest.param(
            State.TRAINING,
            view(member(5, ready=False)),
            "training; getting ready to join: pod 5",
            id="training: another pod imports torch",
        ),
        pytest.param(
            State.RESIZING,
            view(member(0), member(1, generation=2), member(2, reported_at=0.0)),
            "changing size: generation 3 waits for pods 1, 2",
            id="resize: one moves, another is silent",
        ),
        pytest.param(
            State.RESIZING,
            view(*THREE, abrupt=True),
            "recovering from a loss: at the end of this step",
            id="recovery",
        ),
        pytest.param(
            State.STOPPING,
            view(*THREE[:2], member(2, parked=True)),
            "saving before it stops: waiting for pods 0, 1",
            id="last save",
        ),
        pytest.param(
            State.STOPPED, view(), "nothing: saved at step 7, all pods may go", id="stopped"
        ),
        pytest.param(State.FINISHED, view(), "nothing: the last step is done", id="finished"),
    ],
)
def test_description(state: str, job: View, sentence: str) -> None:
    assert describe(state, job, NOW - 3.0, durable_step=7) == sentence


def test_pods_that_were_requested_and_are_not_there_are_named() -> None:
    job = replace(view(member(0), member(1), member(2, reported_at=0.0)), wanted=5)
    sentence = describe(State.TRAINING, job, NOW - 3.0, durable_step=7)
    assert sentence == "training with 3; not there: pods 2, 3, 4"


def test_a_script_that_ends_before_others_is_named() -> None:
    job = view(replace(member(0), ended=True), member(1), member(2))
    sentence = describe(State.TRAINING, job, NOW - 3.0, durable_step=7)
    assert sentence == "training; the script has ended in pod 0, not in all"


def test_stop_without_a_save_is_described() -> None:
    sentence = describe(State.STOPPED, view(), NOW, durable_step=0)
    assert sentence == "nothing: all pods may go, nothing is saved"


def test_large_job_does_not_name_every_pod() -> None:
    sentence = describe(State.RESIZING, view(size=4096), NOW, 0)
    assert sentence.endswith("7 and 4088 more")
    assert len(sentence) < 200


def test_message_is_shortened_to_500_characters() -> None:
    assert shorten("x" * 500) == "x" * 500
    assert shorten("x" * 501) == "x" * 499 + "…"


@pytest.mark.parametrize(
    ("own_seconds", "text"),
    [
        pytest.param({}, "", id="nobody"),
        pytest.param({0: 5.0}, "", id="alone"),
        pytest.param({0: 0.1, 1: 0.2, 2: 0.1}, "", id="uneven micro-batches"),
        pytest.param({0: 0.0, 1: 0.2}, "", id="unknown"),
        pytest.param(
            {0: 0.1, 1: 0.2, 2: 0.84, 3: 0.3},
            "; waits for pod 2: its part of a step takes 0.84 s, that of others 0.2 s",
            id="slow",
        ),
        pytest.param(
            {3: 0.5, 7: 0.1},
            "; waits for pod 3: its part of a step takes 0.5 s, that of others 0.1 s",
            id="one of two",
        ),
    ],
)
def test_a_pod_is_slow_compared_with_others(own_seconds: dict[int, float], text: str) -> None:
    assert slow_pod(own_seconds) == text


def test_pods_that_gave_up_for_one_reason_are_named_together() -> None:
    failures = {2: "gave up: no 'x'", 1: "gave up: no disk", 0: "gave up: no 'x'"}
    assert message(failures, "", "") == "pods 0, 2 gave up: no 'x'; pod 1 gave up: no disk"


def test_three_long_messages_fit_into_a_status() -> None:
    assert len(message({0: "x" * 400}, "y" * 500, "z" * 500)) == 500
