"""A session hands out steps, and reports when the script leaves them."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime import Session, restore
from elastic_runtime.mistake import Mistake
from tests.builders.sessions import loss_of, run_passes, small_model, small_session
from tests.harness.local_job import Job
from tests.paths import TREE


def train(session: Session, steps: int) -> None:
    for step in session.steps(steps):
        run_passes(session, step)


def test_every_step_is_committed_once() -> None:
    session = small_session()
    numbers = []
    for step in session.steps(3):
        numbers.append(step.number)
        run_passes(session, step)
    assert numbers == [0, 1, 2]
    assert session.step == 3
    assert session.loss is not None
    assert session.gradient_norm is None, "no step was clipped"


def test_a_second_loop_over_steps_is_reported() -> None:
    session = small_session()
    train(session, steps=1)
    with pytest.raises(
        ValueError,
        match=r"session.steps was called a second time, .* use one loop over all steps",
    ):
        train(session, steps=2)


def test_a_loop_that_is_left_early_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    # Sessions of earlier tests wait for the collector.
    gc.collect()
    caplog.clear()
    session = small_session()
    for step in session.steps(3):
        run_passes(session, step)
        if step.number == 1:
            break
    assert session.step == 1
    del session, step
    gc.collect()
    assert caplog.messages == [
        "step 1 is not committed: the script left the loop over session.steps(3) before its end; "
        "to end the job early, call session.stop() in place of break, and let the body run to its "
        "end"
    ]


def test_a_script_that_only_evaluates_has_no_steps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(small_session(checkpoint=tmp_path), steps=2)
    session = small_session(checkpoint=tmp_path)
    train(session, steps=0)
    assert session.step == 2
    assert session.evaluate(7, lambda indices: {"count": len(indices)}) == {"count": 7}
    assert "the job has ended already" not in caplog.text


def test_a_script_ends_its_job_early_with_the_step_in_flight(tmp_path: Path) -> None:
    session = small_session(checkpoint=tmp_path)
    for step in session.steps(9):
        if step.number == 1:
            session.stop()
        run_passes(session, step)
    assert session.step == 2
    newest = restore.newest_intact(tmp_path)
    assert newest
    assert newest.step == 2


def test_a_job_that_was_ended_early_trains_on_only_with_a_later_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod that is started again after the end must not train alone."""
    # A save of the same step is the last one too.
    first = small_session(checkpoint=tmp_path, save_every=1)
    for step in first.steps(9):
        first.stop()
        run_passes(first, step)
    again = small_session(checkpoint=tmp_path)
    train(again, steps=9)
    assert again.step == 1
    assert "the job has ended already, at step 1, so session.steps(9) has no steps" in caplog.text
    longer = small_session(checkpoint=tmp_path)
    train(longer, steps=10)
    assert longer.step == 10


@pytest.mark.parametrize("ends", ["at its last step", "by break"])
def test_after_its_loop_a_model_is_an_ordinary_one_again(ends: str) -> None:
    """A notebook's cell is run again; or training goes on without us."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(2):
        session = small_session(model=model, optimizer=optimizer)
        for step in session.steps(2):
            run_passes(session, step)
            if ends == "by break" and step.number == 1:
                break
        assert session.step == (1 if ends == "by break" else 2)
    before = model.weight.detach().clone()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight, before)


def test_a_model_that_another_session_trains_is_refused() -> None:
    first = small_session()
    loop = first.steps(2)
    next(loop)
    second = small_session(model=first.model)
    with pytest.raises(ValueError, match=r"another session trains this model, .*: end that loop"):
        next(second.steps(2))
    loop.close()  # type: ignore[attr-defined]
    train(small_session(model=first.model), steps=1)


def test_a_compiled_model_is_saved_as_the_plain_one() -> None:
    model = small_model()
    compiled = torch.compile(model, backend="eager")
    session = small_session(model=compiled)
    assert session.model is model
    assert session._state.state_dict()["model"].keys() == model.state_dict().keys()


def compile_first(model: Any) -> None:
    model[0] = torch.compile(model[0], backend="eager")


def two_layers() -> torch.nn.Sequential:
    return torch.nn.Sequential(small_model(), torch.nn.Linear(1, 1))


@pytest.mark.parametrize("is_before", [True, False], ids=["before the session", "after it"])
def test_a_compiled_part_of_a_model_is_refused(is_before: bool) -> None:
    """A checkpoint would have its names, which fit no plain model."""
    model = two_layers()
    if is_before:
        compile_first(model)
    session = small_session(model=model)
    if not is_before:
        compile_first(model)
    with pytest.raises(
        Mistake, match=r"^0 was replaced by torch.compile, .*: use module.compile\(\) in place of"
    ):
        next(session.steps(1))


@pytest.mark.parametrize("is_whole", [True, False], ids=["and the whole", "alone"])
def test_the_cure_of_a_compiled_part_keeps_the_names(is_whole: bool) -> None:
    plain = two_layers()
    model = two_layers()
    model[0].compile(backend="eager")
    given = torch.compile(model, backend="eager") if is_whole else model
    session = small_session(model=given, optimizer=torch.optim.SGD(model.parameters()))
    train(session, steps=1)
    assert session._state.state_dict()["model"].keys() == plain.state_dict().keys()


def test_an_lr_scheduler_that_the_session_does_not_know_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(small_session(model=model, optimizer=optimizer, lr_schedulers=[scheduler]), steps=1)
    assert caplog.text == ""
    train(small_session(model=model, optimizer=optimizer), steps=1)
    assert "pass it in lr_schedulers=[...] and do not step it" in caplog.text


def test_sync_batch_norm_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Sequential(small_model(), torch.nn.SyncBatchNorm(1).eval())
    next(small_session(model=model).steps(1))
    assert "SyncBatchNorm does not see the samples of other workers here: use " in caplog.text


def test_draws_in_the_body_follow_from_the_seed_and_the_step() -> None:
    def draws(disturbance: int) -> list[float]:
        torch.manual_seed(disturbance)
        session = small_session()
        drawn = list[float]()
        for step in session.steps(2):
            drawn.append(torch.rand(1).item())
            for batch in step:
                torch.rand(disturbance)
                step.backward(loss_of(session, batch))
            drawn.append(torch.rand(1).item())
        return drawn

    assert draws(1) == draws(2)
    assert len({*draws(1)}) == 4


def generator() -> Iterator[int]:
    yield 1


def test_a_stream_that_is_given_to_the_loader_is_refused() -> None:
    with pytest.raises(ValueError, match=r"generator has no length .*session.streams"):
        small_session().loader(generator())  # type: ignore[arg-type]


class TwoRows:
    """Both are one tensor until the first is written anew."""

    def __init__(self) -> None:
        self.a = self.b = torch.zeros(3)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"a": self.a, "b": self.b}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.a, self.b = state["a"], state["b"]


def test_what_shares_memory_when_a_job_starts_is_loaded_apart(tmp_path: Path) -> None:
    rows = TwoRows()
    rows.a = torch.ones(3)
    train(small_session(checkpoint=tmp_path, stateful=[rows]), steps=1)
    again = TwoRows()
    train(small_session(checkpoint=tmp_path, stateful=[again]), steps=1)
    assert torch.equal(again.a, torch.ones(3))
    assert torch.equal(again.b, torch.zeros(3))


ENDS_EARLY = """
import torch
from elastic_runtime import Session
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
for step in Session(model, optimizer, samples=9, micro_batches=1).steps(5):
    break
"""


@pytest.mark.processes
def test_a_job_whose_script_ends_before_its_last_step_has_failed(tmp_path: Path) -> None:
    job = Job(tmp_path, ENDS_EARLY)
    job.start(0)
    assert job.pods[0].wait(60) == 1
    assert "the script ended before its last step" in job.output()


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        pytest.param("step.backward(1)", "elastic_runtime: train.py, line 7: ", id="a mistake"),
        pytest.param("1 / 0", "Traceback", id="any other error"),
    ],
)
def test_an_error_in_the_body_is_the_only_message(tmp_path: Path, error: str, begins: str) -> None:
    (tmp_path / "train.py").write_text(ENDS_EARLY.replace("break", error))
    result = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr.startswith(begins)
    assert "not committed" not in result.stderr
