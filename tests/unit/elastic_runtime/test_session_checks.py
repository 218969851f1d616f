"""Mistakes in what a session is created with are reported in one line that names the cure."""

import inspect
import re
from typing import Any

import pytest
import torch

from elastic_runtime import Session, Sharded, session_checks
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.step import Step
from tests.builders.sessions import small_model, small_session


def frozen_model() -> torch.nn.Module:
    return small_model().requires_grad_(False)


def trained_by(optimizer: Any, model: torch.nn.Module) -> dict[str, Any]:
    return {"model": model, "optimizer": optimizer(model.parameters())}


def plateau_scheduler() -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    optimizer = torch.optim.SGD(small_model().parameters())
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


@pytest.mark.parametrize(
    ("options", "message"),
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
        pytest.param(
            {"save_every": -1},
            "save_every is -1: give a number of steps, or 0",
            id="a negative interval",
        ),
        pytest.param(
            {"local_checkpoint": "disk", "checkpoint": "shared"},
            "local_save_every is 0: give the number of steps between two saves",
            id="a local directory without an interval",
        ),
        pytest.param({"keep": 0}, "keep is 0: give how many of the newest", id="no checkpoint"),
        pytest.param({"keep": 2.0}, "keep is 2.0: give how many", id="part of a checkpoint"),
        pytest.param({"keep_every": None}, "keep_every is None: give a number", id="no number"),
        pytest.param({"keep_every": -1}, "keep_every is -1: give a number of steps", id="no steps"),
        pytest.param(
            {"keep_every": 100}, "keep_every is 100 without checkpoint", id="nothing to keep"
        ),
        pytest.param(
            {"save_every": 2, "keep": 5},
            "save_every is 2 without checkpoint: set checkpoint to a directory that all pods "
            "share, or leave save_every out; keep is 5 without checkpoint: set checkpoint to a "
            "directory that all pods share, or leave keep out",
            id="nowhere to save",
        ),
        pytest.param(
            {"local_save_every": 5},
            "local_save_every is 5 without local_checkpoint: set local_checkpoint",
            id="an interval without a local directory",
        ),
        pytest.param(
            {"local_checkpoint": "save", "checkpoint": "save", "local_save_every": 5},
            "checkpoint and local_checkpoint are both save: set checkpoint",
            id="one directory for both",
        ),
        pytest.param(
            {"local_checkpoint": "disk", "local_save_every": 5},
            "local_checkpoint is set without checkpoint",
            id="a local directory alone",
        ),
        pytest.param(
            {"optimizer": torch.optim.SGD(small_model().parameters())},
            "2 of the optimizer's 2 tensors are not parameters of the model",
            id="another model's optimizer",
        ),
        pytest.param(
            {"model": frozen_model()}, "no parameter that requires a gradient", id="frozen model"
        ),
        pytest.param(
            {"model": small_model().to("meta")}, "tensors on the meta device", id="meta device"
        ),
        pytest.param(
            {"model": torch.nn.DataParallel(small_model())},
            "the model is wrapped in DataParallel: pass the model itself",
            id="wrapped model",
        ),
        pytest.param(
            {"model": torch.optim.SGD(small_model().parameters()), "optimizer": small_model()},
            "the session is given SGD and Linear: give it the model first, then its optimizer",
            id="swapped",
        ),
        pytest.param(
            {"lr_schedulers": plateau_scheduler()},
            r"lr_schedulers is a ReduceLROnPlateau: give a list, lr_schedulers=\[...\]",
            id="no list of schedulers",
        ),
        pytest.param(
            {"lr_schedulers": [plateau_scheduler()]},
            "ReduceLROnPlateau needs a metric, .*: use a scheduler that depends on the step",
            id="plateau",
        ),
        pytest.param(
            {"checkpoint": f"{__file__}/save"},
            r"checkpoint is .*/save, but .*.py is a file: give the path of a directory",
            id="a checkpoint below a file",
        ),
        pytest.param(
            trained_by(torch.optim.LBFGS, small_model()),
            "LBFGS computes the loss several times in a step, .*: use an optimizer that needs no",
            id="LBFGS",
        ),
        pytest.param(
            trained_by(torch.optim.SparseAdam, torch.nn.Embedding(4, 2, sparse=True)),
            "SparseAdam needs sparse .*; Embedding has sparse=True, .* build it with sparse=False",
            id="sparse gradients",
        ),
        pytest.param(
            {"samples": 0, "micro_batches": 0},
            "samples is 0.*; micro_batches is 0",
            id="all mistakes at once",
        ),
    ],
)
def test_mistakes_in_the_arguments_are_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        small_session(**options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"scheduler": None}, "no argument scheduler: use lr_schedulers=[...]", id="scheduler"
        ),
        pytest.param(
            {"batch_size": 8}, "no argument batch_size: use micro_batch_size=...", id="batch size"
        ),
        pytest.param({"steps": 8}, "no argument steps: use session.steps(number)", id="steps"),
        pytest.param(
            {"micro_batche": 8}, "no argument micro_batche: use micro_batches", id="misspelt"
        ),
        pytest.param(
            {"quiet": True}, "no argument quiet: remove it; it has model, optimizer, ", id="unknown"
        ),
    ],
)
def test_an_argument_that_a_session_does_not_have_names_the_one_it_has(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Mistake, match=re.escape(message)):
        small_session(**options)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        pytest.param(
            (None, None, 16, 4),
            {},
            "Session was given 4 arguments without names, and takes model and optimizer: name the "
            "others, such as micro_batches=16",
            id="positional",
        ),
        pytest.param(
            (None, None),
            {},
            "Session needs micro_batches: give micro_batches=..., how many a step has at every "
            "size of the job",
            id="no micro_batches",
        ),
        pytest.param(
            (),
            {"optimizer": None, "micro_batches": 2},
            "Session needs model: give it the model first",
            id="no model",
        ),
        pytest.param(
            (None,),
            {"scheduler": None},
            "Session has no argument scheduler: use lr_schedulers=[...]; Session needs optimizer: "
            "give it the optimizer of the model's parameters second; Session needs micro_batches: "
            "give micro_batches=..., how many a step has at every size of the job",
            id="several",
        ),
    ],
)
def test_arguments_that_a_session_cannot_take_are_all_reported(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    make: Any = Session
    with pytest.raises(Mistake) as raised:
        make(*arguments, **options)
    assert str(raised.value) == message


def test_a_function_that_passes_options_on_is_checked_as_a_method_is() -> None:
    @session_checks.checks_arguments("fit")
    def fit(model: Any, data: Any = None, *, micro_batches: int, **options: Any) -> dict[str, Any]:
        return options

    assert fit(None, None, micro_batches=2, seed=3) == {"seed": 3}
    wrong: Any = fit
    with pytest.raises(Mistake, match=r"^fit needs micro_batches: give micro_batches=[^;]*$"):
        wrong(None, seed=3)
    with pytest.raises(Mistake, match="given 3 arguments without names, and takes model and data:"):
        wrong(None, None, 2)


def test_steps_needs_its_end() -> None:
    steps: Any = small_session().steps
    with pytest.raises(Mistake, match=r"session.steps needs until: give the step at which the job"):
        steps()


def test_every_argument_that_must_be_given_has_its_sentence() -> None:
    methods = (Session, Session.steps, Session.evaluate, Session.keep_best, Sharded, Step.clip)
    calls = [inspect.signature(method) for method in methods]
    parameters = {name: p for call in calls for name, p in call.parameters.items()}
    needed = {name for name, p in parameters.items() if p.default is p.empty}
    assert needed - {"self"} == {*session_checks.NEEDED}


def test_what_is_named_in_place_of_another_argument_is_none_itself() -> None:
    names = [name for others in session_checks.OTHER_NAMES.values() for name in others]
    assert not {*names} & {*inspect.signature(Session).parameters}
    assert len(names) == len({*names})


@pytest.mark.parametrize(
    ("micro_batches", "largest", "is_refused"),
    [
        pytest.param(8, 8, False, id="one for each worker"),
        pytest.param(7, 8, True, id="one worker would have none"),
        pytest.param(1, 1, False, id="a local job, or one of a single worker"),
        pytest.param(0, 8, False, id="another mistake, which is reported by itself"),
        pytest.param("7", 8, False, id="no number"),
    ],
)
def test_each_worker_of_the_largest_size_needs_a_micro_batch(
    micro_batches: Any, largest: int, is_refused: bool
) -> None:
    messages = [*session_checks.job_mistakes(micro_batches, largest, has_session=False)]
    assert ["the job may have 8 workers" in message for message in messages] == [True] * is_refused
