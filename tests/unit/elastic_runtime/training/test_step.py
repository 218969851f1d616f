"""A step: its micro-batches, and the mistakes in a script's body that it reports."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.training.step import Batch, Step
from tests.builders.sessions import loss_of, run_passes, small_model, small_session

Body = Callable[[Session, Step], None]


def run_one_step(session: Session, body: Body) -> None:
    for step in session.steps(1):
        body(session, step)


# --- micro-batches --------------------------------------------------------------------------------


def test_a_step_hands_out_its_micro_batches() -> None:
    session = small_session(micro_batches=3, micro_batch_size=2)
    step = next(session.steps(1))
    batches = []
    for batch in step:
        batches.append(batch)
        step.backward(loss_of(session, batch))
    assert [batch.number for batch in batches] == [0, 1, 2]
    assert len({index for batch in batches for index in batch.indices}) == 6
    assert all(batch.contributes for batch in batches)


def test_the_loss_is_the_mean_over_all_micro_batches() -> None:
    session = small_session(micro_batches=4)
    step = next(session.steps(1))
    losses = []
    for batch in step:
        loss = loss_of(session, batch)
        losses.append(loss.item())
        step.backward(loss)
    assert float(step.loss) == pytest.approx(sum(losses) / 4)


def test_what_a_script_computes_in_a_broken_step_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Collectives return at once there, so that a mean may be that of nothing."""
    session = small_session(samples=4)
    step: Step = next(session.steps(1))
    batch = next(iter(step))
    monkeypatch.setattr(Step, "broken", True)
    step.backward(loss_of(session, batch), weight=math.nan)
    step.clip(math.nan)


def test_clip_bounds_the_norm_of_the_whole_gradient() -> None:
    session = small_session(samples=4)

    def body(session: Session, step: Step) -> None:
        run_passes(session, step)
        step.clip(1e-3)

    before = torch.cat([p.detach().flatten() for p in session.model.parameters()])
    session.optimizer.param_groups[0]["lr"] = 1.0
    run_one_step(session, body)
    after = torch.cat([p.detach().flatten() for p in session.model.parameters()])
    assert float((after - before).norm()) == pytest.approx(1e-3, rel=1e-2)
    assert session.gradient_norm is not None
    assert session.gradient_norm > 1e-3


# --- mistakes -------------------------------------------------------------------------------------


def skip_all(session: Session, step: Step) -> None:
    """`for batch in step` is missing."""


def break_early(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch))
        break


def forget_backward(session: Session, step: Step) -> None:
    for _ in step:
        pass


def forget_last_backward(session: Session, step: Step) -> None:
    for batch in step:
        if batch.number:
            break
        step.backward(loss_of(session, batch))


def call_loss_backward(session: Session, step: Step) -> None:
    for batch in step:
        loss_of(session, batch).backward()  # type: ignore[no-untyped-call]


def call_backward_twice(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch))
        step.backward(loss_of(session, batch))


def call_backward_outside(session: Session, step: Step) -> None:
    step.backward(loss_of(session, Batch(0, [1])))


def call_backward_after_the_loop(session: Session, step: Step) -> None:
    run_passes(session, step)
    call_backward_outside(session, step)


def pass_a_vector(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(session.model(torch.ones(len(batch.indices), 2)).flatten())


def step_the_optimizer(session: Session, step: Step) -> None:
    run_passes(session, step)
    session.optimizer.step()


def detach_the_loss(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch).detach())


def clip_the_gradient(session: Session, step: Step) -> None:
    run_passes(session, step)
    torch.nn.utils.clip_grad_norm_(session.model.parameters(), 1e-3)


def clip_in_every_micro_batch(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch))
        torch.nn.utils.clip_grad_norm_(session.model.parameters(), 1e-3)


def zero_the_gradients(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch))
        session.optimizer.zero_grad(set_to_none=False)


def pass_a_number(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(session, batch).item())  # type: ignore[arg-type]


def pass_an_output(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(SimpleNamespace(loss=loss_of(session, batch)))  # type: ignore[arg-type]


def use_the_step_as_a_batch(session: Session, step: Step) -> None:
    loss_of(session, step)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(clip_the_gradient, r"use step.clip\(norm\)", id="clip_grad_norm_"),
        pytest.param(clip_in_every_micro_batch, r"use step.clip\(norm\)", id="clipped each time"),
        pytest.param(zero_the_gradients, r"remove zero_grad\(\)", id="zero_grad to zeros"),
        pytest.param(
            pass_a_number, r"is a float: pass the tensor, without .item\(\)", id="loss.item"
        ),
        pytest.param(
            pass_an_output, r"is a SimpleNamespace: pass its \.loss", id="a model's output"
        ),
        pytest.param(use_the_step_as_a_batch, "iterate over its micro-batches", id="no inner loop"),
        pytest.param(skip_all, "step 0 ended with 2 of its micro-batches not taken", id="no loop"),
        pytest.param(
            break_early,
            "step 0 ended with 1 of its micro-batches not taken: run `for batch in step` to its "
            "end",
            id="break",
        ),
        pytest.param(
            forget_backward, r"micro-batch 0 of step 0 had no step.backward\(loss\)", id="none"
        ),
        pytest.param(
            forget_last_backward,
            r"micro-batch 1 of step 0 had no step.backward\(loss\)",
            id="break in the last",
        ),
        pytest.param(call_loss_backward, r"in place of loss.backward\(\)", id="loss.backward"),
        pytest.param(call_backward_twice, "no micro-batch pending", id="backward twice"),
        pytest.param(
            call_backward_outside, "called in step 0 with no micro-batch pending", id="no batch"
        ),
        pytest.param(call_backward_after_the_loop, "no micro-batch pending", id="after the loop"),
        pytest.param(
            pass_a_vector, r"loss of micro-batch 0 has shape \(3,\): pass its mean", id="vector"
        ),
        pytest.param(detach_the_loss, "does not depend on any parameter", id="detached"),
        pytest.param(
            step_the_optimizer,
            "optimizer.step was called by the script: remove the call",
            id="optimizer.step",
        ),
    ],
)
def test_a_mistake_in_the_body_is_reported_and_the_step_is_not_committed(
    body: Body, message: str
) -> None:
    session = small_session(micro_batch_size=3)
    with pytest.raises(ValueError, match=message) as raised:
        run_one_step(session, body)
    assert "\n" not in str(raised.value)
    assert session.step == 0


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_an_lr_scheduler_that_the_script_steps_is_reported() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters())
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)

    def body(session: Session, step: Step) -> None:
        run_passes(session, step)
        scheduler.step()

    session = small_session(model=model, optimizer=optimizer, lr_schedulers=[scheduler])
    with pytest.raises(
        ValueError, match=r"ConstantLR.step was called by the script: remove the call"
    ):
        run_one_step(session, body)


def test_a_scaled_loss_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    session = small_session(micro_batches=4)
    for step in session.steps(3):
        for batch in step:
            step.backward(loss_of(session, batch) / 4)
    assert len(caplog.messages) == 1
    assert "the loss is divided by 4, which may be for gradient accumulation" in caplog.messages[0]
