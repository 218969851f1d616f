"""Where a model is decides where its sums are."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.gradient_buckets import GradientBuckets

# tensors without memory, on devices that are not there
FAKE = FakeTensorMode()


def model(*devices: str) -> torch.nn.Module:
    """A layer on each."""
    with FAKE:
        return torch.nn.Sequential(*[torch.nn.Linear(2, 2, device=device) for device in devices])


def session(of: torch.nn.Module, strategy: Strategy | None = None) -> Session:
    return Session(
        of, torch.optim.SGD(of.parameters()), samples=10, micro_batches=2, strategy=strategy
    )


def buffers(of: torch.nn.Module) -> list[tuple[str, int]]:
    with FAKE:
        return [(str(buffer.device), buffer.numel()) for buffer in GradientBuckets(of)._memory]


def test_a_bucket_holds_gradients_of_one_device_and_is_there() -> None:
    """The last one, of the first parameters, has room for the loss."""
    assert buffers(model("cpu", "cpu")) == [("cpu", 13)]
    assert buffers(model("cuda:0", "cuda:0")) == [("cuda:0", 13)]
    assert buffers(model("cpu", "cuda:0")) == [("cuda:0", 6), ("cpu", 7)]
    assert buffers(model("cuda:0", "meta")) == [("meta", 6), ("cuda:0", 7)]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(["cpu"], "cpu"), (["cuda:1"], "cuda:1"), (["cpu", "cuda:1"], "cuda:1")],
)
def test_the_loss_is_added_up_where_the_model_is(devices: list[str], expected: str) -> None:
    with FAKE:
        assert str(session(model(*devices)).device) == expected


@pytest.mark.parametrize(
    ("devices", "strategy"),
    [
        pytest.param(["cuda:0", "cuda:1"], None, id="two GPUs"),
        pytest.param(["cpu", "cuda:0"], Deterministic(), id="a tree over two"),
        pytest.param(["cpu", "cuda:0"], Sharded(lambda model, mesh: None), id="shards of two"),
    ],
)
def test_a_model_on_two_devices_is_refused_where_it_cannot_be_trained(
    devices: list[str], strategy: Strategy | None
) -> None:
    with (
        FAKE,
        pytest.raises(
            ValueError,
            match=f"the model is on {devices[0]} and on {devices[1]}: put it on one device",
        ),
    ):
        session(model(*devices), strategy)
