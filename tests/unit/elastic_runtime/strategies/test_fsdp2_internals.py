"""What depends on the private names of torch's `fully_shard`."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Session, Sharded
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.strategies import fsdp2_internals

HOOKS = ("load_state_dict_post", "load_state_dict_pre", "state_dict_pre", "forward", "forward_pre")


@pytest.fixture(autouse=True)
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


def wrap(model: nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


def make_session(model: nn.Module) -> Session:
    optimizer = torch.optim.AdamW(model.parameters())
    return Session(model, optimizer, samples=9, micro_batches=1, strategy=Sharded(wrap))


def count_hooks(model: nn.Module) -> int:
    return sum(
        len(getattr(module, f"_{kind}_hooks")) for module in model.modules() for kind in HOOKS
    )


def test_a_torch_without_the_groups_of_a_state_is_refused_when_the_job_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fsdp2_internals, "_state_type", lambda: object)
    with pytest.raises(RuntimeError, match=r"no FSDPState\._fsdp_param_groups: .*torch 2\.13"):
        fsdp2_internals.check_torch()


def test_unwrapping_leaves_no_hook_behind() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    session = make_session(model)
    counts = []
    for step in session.steps(4):
        session.strategy.enter(None, RecoveryPlan(step.number, (), (0,), ()))
        counts.append(count_hooks(model))
        for _ in step:
            step.backward(model(torch.ones(1, 8)).square().mean())
    assert set(counts) == {counts[0]}


def test_an_evaluation_leaves_nothing_for_the_next_backward_pass() -> None:
    """Otherwise ranks that evaluated would gather more than ranks that were given the result."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    session = make_session(model)
    for step in session.steps(2):
        before = [p.full_tensor().clone() for p in model.parameters()]  # type: ignore[attr-defined]
        sums = session.evaluate(3, lambda indices: {"a": model(torch.ones(1, 8)).sum()})
        assert sums.is_complete
        states = [fully_shard.state(m) for m in fsdp2_internals.wrapped_modules(model)]  # type: ignore[attr-defined]
        groups = [group for state in states for group in state._fsdp_param_groups]
        assert groups
        assert not any(group.comm_ctx.post_forward_order for group in groups)
        assert not any(group._post_forward_indices for group in groups)
        after = [p.full_tensor() for p in model.parameters()]  # type: ignore[attr-defined]
        assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
        for _ in step:
            step.backward(model(torch.ones(1, 8)).square().mean())
    assert session.step == 2


def test_an_evaluation_may_leave_the_model_alone() -> None:
    """Also before the first forward pass."""
    session = make_session(nn.Linear(8, 2))
    step = next(session.steps(1))
    assert session.evaluate(3, lambda indices: {"count": len(indices)})["count"] == 3
    assert step.gather_batch(lambda batch: torch.ones(1)).tolist() == [1] * session.micro_batches


def test_a_torch_without_the_private_names_is_refused_when_the_session_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("torch.distributed._composable_state._module_state_mapping")
    with pytest.raises(RuntimeError, match="needs torch"):
        make_session(nn.Linear(2, 2))
