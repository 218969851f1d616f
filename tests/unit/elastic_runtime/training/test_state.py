"""The training state: saved and loaded, sent and received."""

from pathlib import Path

import numpy
import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.distributed import state_transfer
from elastic_runtime.json_logging import CONTINUES
from elastic_runtime.training.state import FOREVER, TrainingState
from tests.fakes.state_wire import StateWire


def make_session(checkpoint: Path | None = None, seed: int = 0, micro_batches: int = 1) -> Session:
    model = torch.nn.Linear(3, 2)
    return Session(
        model,
        torch.optim.AdamW(model.parameters()),
        samples=10,
        micro_batches=micro_batches,
        seed=seed,
        checkpoint=checkpoint,
    )


def make_state() -> TrainingState:
    return make_session()._state


def train(session: Session, steps: int) -> None:
    for step in session.steps(steps):
        for _ in step:
            step.backward(session.model(torch.ones(3)).sum())


def send_trained_state(wire: StateWire) -> TrainingState:
    """The state after 7 steps, on the wire."""
    session = make_session()
    train(session, steps=7)
    state_transfer.send(wire.group, session._state.state_dict(), 1)
    return session._state


# --- received -------------------------------------------------------------------------------------


def test_a_received_state_is_the_sent_one() -> None:
    wire = StateWire()
    receiver = make_state()
    sender = send_trained_state(wire)
    receiver.receive(wire.group, 0)
    assert receiver.step == 7
    parameters = zip(receiver.model.parameters(), sender.model.parameters(), strict=True)
    assert all(torch.equal(received, sent) for received, sent in parameters)
    # It is complete, so a job without checkpoints can start from it.
    assert not receiver.load_newest(None)


def test_a_state_that_was_lost_while_it_was_sent_is_not_used() -> None:
    wire = StateWire(tensors_until_loss=4)
    receiver = make_state()
    receiver.mark_complete()
    send_trained_state(wire)
    with pytest.raises(RuntimeError, match="a peer is lost"):
        receiver.receive(wire.group, 0)
    assert not receiver.is_complete
    with pytest.raises(
        LookupError,
        match="the state was lost while it was sent, and there is no checkpoint: set save_every",
    ):
        receiver.load_newest(None)
    # What is still being written may not pass for the same state as another rank's.
    assert receiver.digest() == b""
    second_wire = StateWire()
    send_trained_state(second_wire)
    receiver.receive(second_wire.group, 0)
    assert not receiver.load_newest(None)
    assert receiver.digest()


# --- loaded ---------------------------------------------------------------------------------------


def test_a_job_continues_from_its_checkpoint_and_logs_other_data_options(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = make_session(tmp_path, micro_batches=numpy.int64(2))  # type: ignore[arg-type]
    train(before, steps=1)
    caplog.set_level("INFO")
    after = make_session(tmp_path, micro_batches=2, seed=3)
    next(after.steps(2))
    [line] = [vars(r) for r in caplog.records if r.msg.startswith(CONTINUES)]
    assert (line["step"], line["path"]) == (1, str(tmp_path))
    assert (after.step, after.loss, after.gradient_norm) == (1, before.loss, before.gradient_norm)
    expected = (
        "seed was 0 and is 3: samples are counted by steps, so some samples may be repeated or "
        "skipped"
    )
    assert expected in caplog.text


@pytest.mark.parametrize(
    ("saved", "own", "warns"),
    [
        pytest.param(1, 2, True, id="other samples"),
        pytest.param(1, 1, False, id="the same"),
        pytest.param(0, 2, False, id="not known when it was saved"),
        pytest.param(1, 0, False, id="not known now"),
    ],
)
def test_a_job_that_continues_with_other_samples_logs_it(
    saved: int, own: int, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = make_state(), make_state()
    before.samples_digest, after.samples_digest = saved, own
    after.set_extra_state(before.extra_state())
    assert ("the dataset had other samples" in caplog.text) == warns


def test_a_state_with_other_stateful_objects_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=(
            "the saved state has 1 lr_schedulers, streams and other stateful objects, the session "
            "has 0: pass as many"
        ),
    ):
        make_state().set_extra_state({"step": 1, "also": [{}]})


def test_memory_that_runs_out_while_loading_is_no_mistake_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is just ending may still hold it, so the next start may go well."""
    train(make_session(tmp_path), steps=1)
    session = make_session(tmp_path)

    def run_out(_: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 20 MiB")

    monkeypatch.setattr(session.optimizer, "load_state_dict", run_out)
    with pytest.raises(LookupError, match="tried to allocate 20 MiB"):
        session._state.load_newest(None)


@pytest.mark.parametrize(
    ("stopped", "until", "is_last"),
    [
        pytest.param(0, 10, False, id="never stopped"),
        pytest.param(10, 10, True, id="stopped in the same loop"),
        pytest.param(10, 20, False, id="a larger number trains on"),
        pytest.param(FOREVER, FOREVER, True, id="stopped in a loop without an end"),
        pytest.param(FOREVER, 10, False, id="which ends no loop that has one"),
    ],
)
def test_a_loop_that_was_stopped_ends_at_once(stopped: int, until: int, is_last: bool) -> None:
    state = make_state()
    state.stopped_loop = stopped
    assert state.is_last_step(until) is is_last
