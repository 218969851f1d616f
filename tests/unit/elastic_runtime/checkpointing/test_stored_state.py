"""The bytes of a checkpoint go to where a destination wants them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from elastic_runtime.checkpointing import direct_io, restore
from elastic_runtime.checkpointing.save_format import Checkpoint
from elastic_runtime.checkpointing.stored_state import StateReader
from elastic_runtime.state.destination import WholeTensors
from elastic_runtime.state.state_tree import State
from tests.builders.saves import save

# One is read into place, one is unpacked.
ROWS = [50_000, 9]


class FewRows(WholeTensors):
    """Rows 3 to 6 of each tensor, negated."""

    def rows(self, name: str, shape: Sequence[int]) -> tuple[int, int]:
        return 3, 7

    def place(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return -rows


def read(checkpoint: Checkpoint, destination: WholeTensors) -> State:
    _, manifest = restore.read_manifest(checkpoint.path)
    reader = StateReader(manifest, destination)
    for file, targets in reader.targets.items():
        direct_io.read(checkpoint.path / file, targets)
    return reader.state()


@pytest.mark.parametrize("count", ROWS)
def test_only_the_rows_that_are_wanted_are_in_memory(tmp_path: Path, count: int) -> None:
    whole = torch.arange(count * 2.0).view(count, 2)
    state = read(save(tmp_path, 1, {"step": 1, "model": {"w": whole}}), FewRows())
    assert torch.equal(state["model"]["w"], -whole[3:7])
    assert state["step"] == 1


@pytest.mark.parametrize("count", ROWS)
def test_live_tensors_are_filled_where_they_fit(tmp_path: Path, count: int) -> None:
    whole = torch.arange(float(count))
    live = {"model.w": torch.zeros(4), "model.v": torch.zeros(count)}
    checkpoint = save(tmp_path, 1, {"step": 1, "model": {"w": whole, "v": whole}})
    state = read(checkpoint, FewRows(live))
    assert torch.equal(live["model.w"], whole[3:7])
    assert not live["model.v"].any()
    assert torch.equal(state["model"]["v"], -whole[3:7])


def test_a_tensor_without_dimensions_is_one_row(tmp_path: Path) -> None:
    state = read(save(tmp_path, 1, {"step": 1, "model": {"w": torch.tensor(5)}}), WholeTensors())
    assert torch.equal(state["model"]["w"], torch.tensor(5))
