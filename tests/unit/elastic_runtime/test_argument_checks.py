"""A value that an argument cannot have is named in one line, with what to give in its place."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime import Deterministic, Sharded
from elastic_runtime.mistake import Mistake
from tests.builders.sessions import run_passes, small_model, small_session

LEAVE_OUT = "give the path of a directory, or leave the argument out"
MOUNT = "mount it as a directory, and give the path where it is mounted"
NORM = "give the norm to which the gradient is clipped, a number above 0"
END = "give the step at which the job ends, a whole number such as 1000"
STRATEGY = "give Sharded(wrap) or Deterministic(), or leave it out for replicas"
WRAP = "give a function wrap(model, mesh) that calls fully_shard"


class Directory(os.PathLike[str]):
    """A path of some other library, which does not show it as text."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return self.path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"checkpoint": ""}, f"checkpoint is '': {LEAVE_OUT}", id="no directory"),
        pytest.param(
            {"checkpoint": "s3://bucket/x"},
            f"checkpoint is 's3://bucket/x': {MOUNT}",
            id="an address",
        ),
        pytest.param(
            {"journal": Path("gs://bucket")}, f"journal is 'gs:/bucket': {MOUNT}", id="as a path"
        ),
        pytest.param(
            {"checkpoint": Directory("s3://bucket")},
            f"checkpoint is 's3://bucket': {MOUNT}",
            id="as a path of another library",
        ),
        pytest.param(
            {"checkpoint": "save", "local_checkpoint": "~/save", "local_save_every": 1},
            "local_checkpoint is '~/save': only a shell replaces ~, so give "
            "os.path.expanduser('~/save')",
            id="a home directory",
        ),
        pytest.param(
            {"samples": torch.zeros(10, 2)},
            "samples is a Tensor of shape (10, 2): give the length of the dataset, at least 1",
            id="the samples themselves",
        ),
        pytest.param(
            {"samples": [1, 2]},
            "samples is a list: give the length of the dataset, at least 1",
            id="a list of samples",
        ),
        pytest.param({"seed": None}, "seed is None: give a whole number", id="no seed"),
        pytest.param({"seed": "a"}, "seed is 'a': give a whole number", id="a word as seed"),
        pytest.param(
            {"save_every": "2", "local_save_every": 0.5},
            "save_every is '2': give a number of steps, or 0 to save only on request, after a "
            "shrink and before a stop; local_save_every is 0.5: give a number of steps, or 0 to "
            "save no local parts",
            id="no numbers of steps",
        ),
        pytest.param(
            {"stateful": torch.nn.Sequential()},
            "stateful is a Sequential: give a list, stateful=[...]",
            id="a state without its list",
        ),
        pytest.param(
            {"lr_schedulers": iter(())},
            "lr_schedulers is a tuple_iterator: give a list, lr_schedulers=[...]",
            id="what is used up",
        ),
        pytest.param(
            {"lr_schedulers": {"main": None}, "stateful": "ema"},
            "lr_schedulers is a dict: give a list, lr_schedulers=[...]; stateful is 'ema': give a "
            "list, stateful=[...]",
            id="names",
        ),
        pytest.param(
            {"strategy": Deterministic},
            f"strategy is the class Deterministic: {STRATEGY}",
            id="a class",
        ),
        pytest.param({"strategy": "ddp"}, f"strategy is 'ddp': {STRATEGY}", id="a name"),
        pytest.param({"clip": 0}, f"clip is 0: {NORM}", id="a gradient of zeros"),
        pytest.param({"clip": -1.0}, f"clip is -1.0: {NORM}", id="a norm below 0"),
        pytest.param({"clip": "1.0"}, f"clip is '1.0': {NORM}", id="a norm as text"),
        pytest.param(
            {"clip": torch.tensor(1.0)}, f"clip is a Tensor of shape (): {NORM}", id="a tensor"
        ),
        pytest.param(
            {"checkpoint": 5}, "checkpoint is 5: give the path of a directory", id="no path"
        ),
    ],
)
def test_a_value_that_a_session_cannot_take_is_reported(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Mistake) as raised:
        small_session(**options)
    assert str(raised.value) == message


@pytest.mark.parametrize("directory", ["new", "./~", "a:b", "run/s3://", Path("new")])
def test_a_directory_that_does_not_exist_yet_is_no_mistake(
    directory: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_session(checkpoint=directory)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda: small_session().steps("5"),  # type: ignore[arg-type]
            f"until of session.steps is '5': {END}",
            id="the end as a text",
        ),
        pytest.param(
            lambda: small_session().steps(until=-1), f"until is -1: {END}", id="an end before 0"
        ),
        pytest.param(
            lambda: small_session().steps(1e3),  # type: ignore[arg-type]
            f"until of session.steps is 1000.0: {END}",
            id="the end as a float",
        ),
        pytest.param(
            lambda: small_session().begin(2.5),  # type: ignore[arg-type]
            f"until of session.begin is 2.5: {END}",
            id="an end within a step",
        ),
        pytest.param(
            lambda: Sharded("full"),  # type: ignore[arg-type]
            f"wrap of Sharded is 'full': {WRAP}",
            id="the name of a sharding",
        ),
        pytest.param(
            lambda: Sharded(small_model),  # type: ignore[arg-type]
            f"wrap of Sharded is a function: {WRAP}",
            id="a function of something else",
        ),
        pytest.param(
            lambda: Sharded(lambda model, mesh: None, shard_group_size=0, peer_copy_every=-1),
            "shard_group_size is 0: give a number of workers, at least 1, or leave it out; "
            "peer_copy_every is -1: give a number of steps, or 0 for no copies",
            id="groups of nobody",
        ),
    ],
)
def test_a_value_without_its_name_is_reported_by_the_call(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(Mistake) as raised:
        call()
    assert str(raised.value) == message


def test_a_step_is_clipped_to_a_norm_above_zero() -> None:
    """An infinite one only measures it."""
    session = small_session()
    for step in session.steps(1):
        run_passes(session, step)
        for norm in (-1, 0, math.nan, "1"):
            with pytest.raises(Mistake, match=f"^max_norm of step.clip is {norm!r}: {NORM}$"):
                step.clip(norm)  # type: ignore[arg-type]
        step.clip(math.inf)
    assert session.gradient_norm
