"""torch.distributed.checkpoint loads our checkpoints without us."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

from elastic_runtime.checkpointing import restore
from elastic_runtime.checkpointing.dcp_metadata import dcp_metadata
from elastic_runtime.checkpointing.save_format import StoredTensor
from tests.builders.saves import save_on_all_ranks, savers, trained, trained_state


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("world", [1, 3])
def test_what_several_ranks_wrote_is_loaded_by_us_and_by_torch_alone(
    tmp_path: Path, world: int
) -> None:
    status: dict[str, Any] = {}
    save_on_all_ranks(savers(tmp_path, world, lambda **facts: status.update(facts)), 3)
    checkpoint = restore.newest_intact(tmp_path)
    assert checkpoint
    assert (checkpoint.step, checkpoint.digest) == (status["durable_step"], status["digest"])
    assert len(list(checkpoint.path.glob("*.distcp"))) == world
    before = trained_state()
    by_us = restore.load(checkpoint)
    assert by_us["optimizer"]["param_groups"] == before["optimizer"]["param_groups"]
    model, optimizer = trained()
    by_torch: dict[str, Any] = {
        "model": {name: torch.zeros_like(value) for name, value in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "step": 0,
    }
    dcp_load(by_torch, checkpoint_id=str(checkpoint.path), no_dist=True)
    assert by_torch["step"] == by_us["step"] == 3
    for name, tensor in before["model"].items():
        assert torch.equal(by_us["model"][name], tensor)
        assert torch.equal(by_torch["model"][name], tensor)
    for number, values in before["optimizer"]["state"].items():
        for kind, tensor in values.items():
            assert torch.equal(by_us["optimizer"]["state"][number][kind], tensor)


def test_a_tensor_of_which_rows_are_missing_is_an_error() -> None:
    rows = StoredTensor("model.w", "__0_0.distcp", 0, 900, (0, 0), (4, 3), (2, 3), "float32", -1)
    with pytest.raises(OSError, match=r"6 of the 12 elements of model\.w were written"):
        dcp_metadata([rows])
