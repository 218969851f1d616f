"""`session.keep_best` in a job of one. With several ranks: tests/processes/test_keep_best.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Session, Sharded, restore
from elastic_runtime.checkpointing import best_mark
from elastic_runtime.checkpointing.best_mark import BestMark
from elastic_runtime.mistake import Mistake
from elastic_runtime.strategies.fsdp2_internals import drop_mesh
from elastic_runtime.training import keep_best
from tests.builders.sessions import run_passes, small_model, small_session


def train(session: Session, values: list[float], **options: Any) -> dict[int, torch.Tensor]:
    """One step for each value but the last. The weights that had each value, by step."""
    weights = dict[int, torch.Tensor]()

    def measure(step: int) -> None:
        [weight, _] = session.model.parameters()
        weights[step] = weight.detach().clone()
        session.keep_best(values[step], **options)

    for step in session.steps(len(values) - 1):
        measure(step.number)
        run_passes(session, step)
    measure(session.step)
    return weights


@pytest.mark.parametrize(
    ("values", "best"),
    [
        pytest.param([3.0, 1.0, 2.0, 4.0, 5.0], 1, id="in the middle"),
        pytest.param([1.0, 2.0, 3.0], 0, id="the first"),
        pytest.param([3.0, 2.0, 1.0], 2, id="the last, behind the loop"),
        pytest.param([3.0, float("nan"), 4.0], 0, id="NaN is never the best"),
    ],
)
def test_the_state_that_was_measured_is_kept_as_it_was(
    tmp_path: Path, values: list[float], best: int
) -> None:
    session = small_session(checkpoint=tmp_path, save_every=1)
    weights = train(session, values)
    kept = restore.best(tmp_path)
    assert kept
    assert kept.step == best
    assert torch.equal(restore.load(kept)["model"]["weight"], weights[best])
    assert best_mark.read(tmp_path) == BestMark(best, values[best])


def test_the_best_state_is_loaded_whichever_is_the_newest(tmp_path: Path) -> None:
    session = small_session(checkpoint=tmp_path, save_every=1)
    weights = train(session, [3.0, 1.0, 2.0])
    best = keep_best.load_best(session)
    assert best
    assert best["step"] == 1
    assert torch.equal(best["model"]["weight"], weights[1])


@pytest.fixture
def _no_default_group() -> Iterator[None]:
    yield
    drop_mesh()


@pytest.mark.usefixtures("_no_default_group")
def test_the_best_of_a_sharded_model_fits_a_plain_one(tmp_path: Path) -> None:
    def wrap(model: torch.nn.Module, mesh: DeviceMesh) -> None:
        fully_shard(model, mesh=mesh)

    session = small_session(checkpoint=tmp_path, save_every=1, strategy=Sharded(wrap))
    weights: dict[int, Any] = {**train(session, [3.0, 1.0, 2.0])}
    kept = restore.best(tmp_path)
    assert kept
    plain = small_model()
    plain.load_state_dict(restore.load(kept)["model"])
    assert torch.equal(plain.weight, weights[1].full_tensor())


def test_without_a_mark_there_is_no_best_state(tmp_path: Path) -> None:
    session = small_session(checkpoint=tmp_path)
    for step in session.steps(1):
        run_passes(session, step)
    assert keep_best.load_best(session) is None


def test_higher_may_be_better(tmp_path: Path) -> None:
    train(small_session(checkpoint=tmp_path), [1.0, 3.0, 2.0], lower_is_better=False)
    assert best_mark.read(tmp_path) == BestMark(1, 3.0, lower_is_better=False)


@pytest.mark.parametrize("value", [1, numpy.float32(1), torch.tensor(1.0), True])
def test_a_value_may_be_any_number(tmp_path: Path, value: Any) -> None:
    train(small_session(checkpoint=tmp_path), [value, 2.0])
    assert best_mark.read(tmp_path) == BestMark(0, 1.0)


def test_mistakes_are_told(tmp_path: Path) -> None:
    session: Any = small_session()
    with pytest.raises(Mistake) as mistake:
        session.keep_best({"loss": 1.0})
    for text in ("was given a dict", "checkpoint=DIRECTORY", "before the loop"):
        assert text in str(mistake.value)
    with pytest.raises(Mistake, match=r"session.keep_best needs value"):
        session.keep_best()
