"""What scripts get wrong is said in one line that names it and what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.training.step import Batch, Step
from tests.harness.local_job import Job


def model() -> torch.nn.Linear:
    return torch.nn.Linear(2, 1)


def session(**more: Any) -> Session:
    own = more.pop("model", None) or model()
    optimizer = more.pop("optimizer", None) or torch.optim.SGD(own.parameters())
    return Session(own, optimizer, **{"samples": 10, "micro_batches": 2, **more})


def frozen() -> torch.nn.Linear:
    return model().requires_grad_(False)


def plateau() -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    return torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(model().parameters()))


def wrapped() -> torch.nn.Module:
    return torch.nn.DataParallel(model())


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        pytest.param(
            {"samples": 0},
            "samples is 0: give the length of the dataset, at least 1",
            id="no samples",
        ),
        pytest.param({"samples": -3}, "samples is -3", id="fewer than no samples"),
        pytest.param(
            {"micro_batches": 0},
            "micro_batches is 0: give a whole number, at least 1",
            id="no micro-batches",
        ),
        pytest.param(
            {"micro_batches": 32 / 4},
            "micro_batches is 8.0: give a whole number",
            id="part of a micro-batch",
        ),
        pytest.param({"micro_batch_size": 0}, "micro_batch_size is 0", id="empty micro-batches"),
        pytest.param({"save_every": -1}, "save_every is -1", id="saves at a negative interval"),
        pytest.param(
            {"optimizer": torch.optim.SGD(model().parameters())},
            "2 of the optimizer's 2 tensors are not parameters",
            id="foreign",
        ),
        pytest.param({"model": frozen()}, "no parameter that requires a gradient", id="frozen"),
        pytest.param(
            {"model": wrapped()},
            "the model is wrapped in DataParallel: pass the model itself",
            id="wrapped",
        ),
        pytest.param(
            {"lr_schedulers": [plateau()]},
            "ReduceLROnPlateau needs a metric, .*: use a scheduler that depends on the step",
            id="plateau",
        ),
        pytest.param(
            {"samples": 0, "micro_batches": 0},
            "samples is 0.*; micro_batches is 0",
            id="all at once",
        ),
    ],
)
def test_a_session_says_what_is_wrong_with_what_it_is_given(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        session(**given)
    assert "\n" not in str(raised.value)


def moved(own: Session) -> None:
    own.model.to(torch.float64)


def rebuilt(own: Session) -> None:
    own.model.weight = torch.nn.Parameter(torch.zeros(1, 2))


def grown(own: Session) -> None:
    own.model.register_parameter("more", torch.nn.Parameter(torch.zeros(1)))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(
            moved,
            (
                "was torch.float32 on cpu when the session was created and is now torch.float64 on "
                "cpu: move or convert it before"
            ),
            id="moved",
        ),
        pytest.param(rebuilt, "other parameters than when the session was created", id="rebuilt"),
        pytest.param(grown, "other parameters than when the session was created", id="grown"),
    ],
)
def test_what_changed_before_the_first_step_is_said(
    change: Callable[[Session], None], complaint: str
) -> None:
    own = session()
    change(own)
    with pytest.raises(ValueError, match=complaint):
        next(own.steps(1))


def test_a_session_needs_data() -> None:
    with pytest.raises(ValueError, match="the session has no data: give samples=len"):
        next(session(samples=None).steps(1))


def train(own: Session, body: Callable[[Session, Step], None]) -> None:
    for step in own.steps(1):
        body(own, step)


def loss_of(own: Session, batch: Batch) -> torch.Tensor:
    loss: torch.Tensor = own.model(torch.ones(len(batch.indices), 2)).square().mean()
    return loss


def fine(own: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(own, batch))


def leaves_at_once(own: Session, step: Step) -> None:
    """`for batch in step` is not even begun."""


def leaves_early(own: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(own, batch))
        break


def forgets(own: Session, step: Step) -> None:
    for _ in step:
        pass


def forgets_the_last(own: Session, step: Step) -> None:
    for batch in step:
        if batch.number:
            break
        step.backward(loss_of(own, batch))


def calls_the_loss(own: Session, step: Step) -> None:
    for batch in step:
        loss_of(own, batch).backward()  # type: ignore[no-untyped-call]


def twice(own: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(own, batch))
        step.backward(loss_of(own, batch))


def outside(own: Session, step: Step) -> None:
    step.backward(loss_of(own, Batch(0, [1])))


def after_the_loop(own: Session, step: Step) -> None:
    fine(own, step)
    outside(own, step)


def no_scalar(own: Session, step: Step) -> None:
    for batch in step:
        step.backward(own.model(torch.ones(len(batch.indices), 2)).flatten())


def steps_the_optimizer(own: Session, step: Step) -> None:
    fine(own, step)
    own.optimizer.step()


def detached(own: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(own, batch).detach())


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(
            leaves_at_once, "step 0 ended with 2 of its micro-batches not taken", id="no loop"
        ),
        pytest.param(
            leaves_early,
            (
                "step 0 ended with 1 of its micro-batches not taken: run `for batch in step` to its "
                "end"
            ),
            id="break",
        ),
        pytest.param(
            forgets, r"micro-batch 0 of step 0 had no step.backward\(loss\)", id="no backward"
        ),
        pytest.param(
            forgets_the_last,
            r"micro-batch 1 of step 0 had no step.backward\(loss\)",
            id="break in the last",
        ),
        pytest.param(calls_the_loss, r"in place of loss.backward\(\)", id="loss.backward"),
        pytest.param(twice, "no micro-batch pending", id="backward twice"),
        pytest.param(outside, "called in step 0 with no micro-batch pending", id="before the loop"),
        pytest.param(after_the_loop, "no micro-batch pending", id="after the loop"),
        pytest.param(
            no_scalar, r"loss of micro-batch 0 has shape \(3,\): pass its mean", id="no scalar"
        ),
        pytest.param(detached, "does not depend on any parameter", id="detached"),
        pytest.param(
            steps_the_optimizer,
            "optimizer.step was called by the script: remove the call",
            id="optimizer.step",
        ),
    ],
)
def test_a_step_says_what_the_script_did_wrong(
    body: Callable[[Session, Step], None], complaint: str
) -> None:
    own = session(micro_batch_size=3)
    with pytest.raises(ValueError, match=complaint) as raised:
        train(own, body)
    assert "\n" not in str(raised.value)
    assert own.step == 0


def test_a_last_state_that_cannot_be_saved_ends_a_plain_run_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "save").write_text("a file, where there should be a directory")
    with pytest.raises(
        OSError, match="the state after the last step, 1, could not be saved: the log says why"
    ):
        train(session(checkpoint=tmp_path / "save"), fine)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_a_schedule_that_the_script_steps_is_said() -> None:
    own_model = model()
    optimizer = torch.optim.SGD(own_model.parameters())
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)

    def body(own: Session, step: Step) -> None:
        fine(own, step)
        schedule.step()

    with pytest.raises(
        ValueError, match=r"ConstantLR.step was called by the script: remove the call"
    ):
        train(session(model=own_model, optimizer=optimizer, lr_schedulers=[schedule]), body)


def test_a_second_loop_over_steps_is_said() -> None:
    train(own := session(), fine)
    with pytest.raises(
        ValueError, match=r"session.steps was called a second time, .* use one loop over all steps"
    ):
        train(own, fine)


def test_what_has_no_state_is_no_part_of_it() -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"dict in stateful=\[...\] has no state_dict and load_state_dict: pass an object that "
            r"has both"
        ),
    ):
        next(session(stateful=[{"best": 1.0}]).steps(1))


class Holds:
    def __init__(self, held: Any) -> None:
        self.held = held

    def state_dict(self) -> dict[str, Any]:
        return {"held": self.held}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.held = state_dict["held"]


@pytest.mark.parametrize("held", [Holds(1), lambda: 1], ids=["an object", "what no pickle takes"])
def test_a_state_that_could_be_saved_and_never_loaded_is_said_before_the_first_step(
    held: Any,
) -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"the state of Holds is not plain data .*: use numbers, strings, lists, dicts and "
            r"tensors only"
        ),
    ):
        next(session(stateful=[Holds(held)]).steps(1))


@pytest.mark.parametrize(
    "held", [{"a": [1, 2.5, "x", None, (True,)]}, torch.ones(2)], ids=["plain data", "a tensor"]
)
def test_a_state_that_can_be_loaded_is_no_mistake(held: Any) -> None:
    next(session(stateful=[Holds(held)]).steps(1))


def test_nothing_is_said_of_a_script_that_is_right() -> None:
    own = session()
    for step in own.steps(3):
        fine(own, step)
    assert (own.step, own.loss is not None) == (3, True)


def generator() -> Iterator[int]:
    yield 1


def test_a_stream_given_to_the_loader_is_said() -> None:
    with pytest.raises(
        TypeError,
        match=(
            r"generator has no length or no \[index\]: give what can only be iterated to "
            r"session.streams"
        ),
    ):
        session().loader(generator())  # type: ignore[arg-type]


def test_leaving_the_steps_by_break_is_said(caplog: pytest.LogCaptureFixture) -> None:
    own = session()
    for step in own.steps(3):
        fine(own, step)
        if step.number == 1:
            break
    assert own.step == 1
    assert [record.getMessage() for record in caplog.records] == [
        (
            "step 1 is not committed: the script left the loop over session.steps(3) by break, "
            "return or an error; to end earlier, pass a smaller number to session.steps"
        )
    ]


@pytest.mark.processes
def test_a_job_whose_script_ends_before_its_last_step_has_failed(tmp_path: Path) -> None:
    job = Job(tmp_path, ENDS_EARLY)
    job.start(0)
    assert job.pods[0].wait(60) == 1
    assert "the script ended before its last step" in job.said()


ENDS_EARLY = """
import torch
from elastic_runtime import Session
model = torch.nn.Linear(1, 1)
for step in Session(model, torch.optim.SGD(model.parameters()), samples=9, micro_batches=1).steps(5):
    break
"""
