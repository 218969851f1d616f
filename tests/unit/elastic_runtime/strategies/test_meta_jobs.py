"""Jobs whose model was built on the meta device, from the first step and from a checkpoint."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Session, Sharded
from elastic_runtime.strategies import fsdp2_internals

SEED = 7


@pytest.fixture
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


def losses(model: nn.Module, until: int, **options: Any) -> list[float]:
    def wrap(model: Any, mesh: DeviceMesh) -> None:
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)

    session = Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=0.1),
        samples=9,
        micro_batches=2,
        seed=SEED,
        strategy=Sharded(wrap),
        **options,
    )
    result = []
    for step in session.steps(until):
        for batch in step:
            inputs = torch.full((4, 8), float(batch.indices[0]))
            step.backward(model(inputs).square().mean())
        result.append(float(step.loss))
    return result


def build_small() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))


@pytest.mark.usefixtures("_no_default_group")
def test_a_job_from_meta_trains_as_one_that_was_built_whole(tmp_path: Path) -> None:
    torch.manual_seed(SEED)
    expected = losses(build_small(), until=6)
    with torch.device("meta"):
        first = build_small()
        second = build_small()
    begun = losses(first, 3, checkpoint=tmp_path)
    assert begun + losses(second, 6, checkpoint=tmp_path) == expected


@pytest.mark.usefixtures("_no_default_group")
def test_a_checkpoint_on_the_disks_of_pods_is_loaded_into_a_model_from_meta(
    tmp_path: Path,
) -> None:
    torch.manual_seed(SEED)
    expected = losses(build_small(), until=6)
    options = {
        "checkpoint": tmp_path / "shared",
        "local_checkpoint": tmp_path / "disk",
        "local_save_every": 1,
    }
    with torch.device("meta"):
        first = build_small()
        second = build_small()
    losses(first, 3, **options)
    # As if its last save were lost.
    shutil.rmtree(tmp_path / "shared" / "step-000000003")
    # A pod's disk may be too slow for every step.
    continued = losses(second, 6, **options)
    assert 3 <= len(continued) < 6
    assert continued == expected[-len(continued) :]
