"""How a job of one starts and ends. Changes of generation: tests/processes."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.mistake import Mistake


def make_session(checkpoint: Path, **options: Any) -> Session:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    return Session(model, optimizer, samples=10, micro_batches=2, checkpoint=checkpoint, **options)


def become_read_only(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """From now on no file is created in it."""
    open_plainly = os.open

    def refuse(path: Any, flags: int, *others: Any, **named: Any) -> int:
        if flags & os.O_CREAT and Path(path).parent == directory:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return open_plainly(path, flags, *others, **named)

    monkeypatch.setattr(os, "open", refuse)


def train(session: Session, steps: int) -> None:
    for step in session.steps(steps):
        for _ in step:
            step.backward(session.model(torch.ones(1, 2)).square().mean())


def test_a_last_state_that_cannot_be_saved_ends_a_script_without_an_agent(tmp_path: Path) -> None:
    session = make_session(tmp_path / "save")
    (tmp_path / "save").write_text("a file in place of the directory")
    with pytest.raises(
        OSError, match=r"the state after the last step, 1, could not be saved: the log says why"
    ):
        train(session, steps=1)


@pytest.mark.parametrize("name", ["checkpoint", "local_checkpoint"])
def test_a_job_that_could_never_save_ends_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directories = {"checkpoint": tmp_path / "save", "local_checkpoint": tmp_path / "disk"}
    for directory in directories.values():
        directory.mkdir()
    become_read_only(monkeypatch, directories[name])
    with pytest.raises(Mistake, match=f"{name} is .*Read-only file system.*without readOnly"):
        next(make_session(**directories, local_save_every=1).steps(1))


def test_a_job_that_has_saved_goes_on_though_its_directory_became_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does one that has ended, and only reads."""
    train(make_session(tmp_path), steps=3)
    become_read_only(monkeypatch, tmp_path)
    session = make_session(tmp_path)
    assert next(session.steps(4)).number == 3


def test_the_last_state_is_durable_when_the_loop_ends(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    train(session, steps=3)
    assert session._parts.saver.durable_step == 3


def test_a_failed_step_ends_a_job_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session(tmp_path)
    monkeypatch.setattr(session.strategy, "reduce", lambda loss, max_norm: False)
    with pytest.raises(RuntimeError, match="a step failed in a job of one"):
        train(session, steps=1)


@pytest.mark.parametrize(
    ("recovery", "step"),
    [
        pytest.param(
            RecoveryPlan(1, (0,), (), ()), 1, id="a lost rank may have committed the step"
        ),
        pytest.param(RecoveryPlan(0, (), (0,), ()), 0, id="no rank can have committed the step"),
        pytest.param(RecoveryPlan(0, (), (), (0,)), 0, id="cold start"),
    ],
)
def test_the_step_in_flight_is_committed_only_if_the_plan_says_so(
    tmp_path: Path, recovery: RecoveryPlan, step: int
) -> None:
    session = make_session(tmp_path)
    for _ in (in_flight := next(session.steps(2))):
        in_flight.backward(session.model(torch.ones(1, 2)).square().mean())
    assert session._transaction._reduce(in_flight)
    session._transaction.gradients_reduced = True
    session._generations._restore(None, recovery)
    assert session.step == step
    assert not session._transaction.gradients_reduced
    assert session._state.is_complete
