"""The rows of a sharded state, read and moved between ranks."""

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.state import reshard_plan
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import sharded_state
from elastic_runtime.strategies.sharded_state import TensorTable
from tests.harness.thread_ranks import run_ranks

TABLE = TensorTable([("w", ""), ("w", "exp_avg")], [(5, 2), (5, 2)], [torch.float32] * 2)


def test_a_model_is_read_with_the_optimizer_state_of_its_shape() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    state = sharded_state.read(model, Optimizers({"0": optimizer}), Shard(0, 1))
    kinds = ["", "exp_avg", "exp_avg_sq"]
    assert state.table.keys == [(name, kind) for name in ("weight", "bias") for kind in kinds]
    assert state.table.row_counts == [2] * 6
    assert state.table.row_bytes == [12, 12, 12, 4, 4, 4]
    assert state.tensors[0].data_ptr() == model.weight.data_ptr(), "tensors are not copied"
    assert [name for name, *_ in state.unsplit["small"]] == ["weight", "bias"]
    assert list(state.parameters()) == ["weight", "bias"]


def test_memory_for_a_shard_has_the_rows_of_the_shard() -> None:
    def shapes(shard: Shard) -> list[tuple[int, ...]]:
        return [tuple(t.shape) for t in TABLE.allocate(shard, "cpu")]

    assert shapes(Shard(0, 2)) == [(3, 2), (3, 2)]
    assert shapes(Shard(1, 2)) == [(2, 2), (2, 2)]


def test_rows_arrive_in_the_shards_of_another_size() -> None:
    """Two shards become three; the new ranks are 1, 2 and 0."""
    whole = [torch.arange(10.0).view(5, 2), torch.arange(10.0, 20.0).view(5, 2)]
    sources = {0: [Shard(0, 2)], 1: [Shard(1, 2)]}
    needed = {1: [Shard(0, 3)], 2: [Shard(1, 3)], 0: [Shard(2, 3)]}
    moves = reshard_plan.plan_moves(TABLE.row_counts, sources, needed, TABLE.row_bytes)
    assert moves is not None

    def rows(shard: Shard) -> list[torch.Tensor]:
        return [tensor[slice(*shard.rows(5))].clone() for tensor in whole]

    def move(group: Group) -> list[torch.Tensor]:
        own = {shard: rows(shard) for shard in sources.get(group.rank, [])}
        (shard,) = needed[group.rank]
        tensors = TABLE.allocate(shard, "cpu")
        sharded_state.move_rows(group, moves, TABLE.row_counts, own, {shard: tensors})
        return tensors

    for rank, tensors in enumerate(run_ranks(3, move)):
        (shard,) = needed[rank]
        assert all(torch.equal(got, right) for got, right in zip(tensors, rows(shard), strict=True))
