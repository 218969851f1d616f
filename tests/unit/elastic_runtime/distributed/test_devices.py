"""The device of a model decides where its gradients and its loss are summed."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.gradient_buckets import GradientBuckets

# Tensors without memory, on devices that do not exist.
FAKE = FakeTensorMode()


def model_on(*devices: str) -> torch.nn.Module:
    """A layer on each device."""
    with FAKE:
        return torch.nn.Sequential(*[torch.nn.Linear(2, 2, device=device) for device in devices])


def make_session(model: torch.nn.Module, strategy: Strategy | None = None) -> Session:
    optimizer = torch.optim.SGD(model.parameters())
    return Session(model, optimizer, samples=10, micro_batches=2, strategy=strategy)


def bucket_sizes(model: torch.nn.Module) -> list[tuple[str, int]]:
    """Device and elements of each bucket."""
    with FAKE:
        return [(str(memory.device), memory.numel()) for memory in GradientBuckets(model)._memory]


def test_a_bucket_has_gradients_of_one_device_and_is_on_it() -> None:
    """The last one, of the first parameters, has one more element, for the loss."""
    assert bucket_sizes(model_on("cpu", "cpu")) == [("cpu", 13)]
    assert bucket_sizes(model_on("cuda:0", "cuda:0")) == [("cuda:0", 13)]
    assert bucket_sizes(model_on("cpu", "cuda:0")) == [("cuda:0", 6), ("cpu", 7)]
    assert bucket_sizes(model_on("cuda:0", "meta")) == [("meta", 6), ("cuda:0", 7)]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(["cpu"], "cpu"), (["cuda:1"], "cuda:1"), (["cpu", "cuda:1"], "cuda:1")],
)
def test_the_loss_is_summed_on_the_device_of_the_model(devices: list[str], expected: str) -> None:
    with FAKE:
        assert str(make_session(model_on(*devices)).device) == expected


@pytest.mark.parametrize(
    ("devices", "strategy"),
    [
        pytest.param(["cuda:0", "cuda:1"], None, id="two GPUs"),
        pytest.param(["cpu", "cuda:0"], Deterministic(), id="deterministic"),
        pytest.param(["cpu", "cuda:0"], Sharded(lambda model, mesh: None), id="sharded"),
    ],
)
def test_a_model_on_two_devices_is_refused_where_it_cannot_be_trained(
    devices: list[str], strategy: Strategy | None
) -> None:
    message = f"the model is on {devices[0]} and on {devices[1]}: put it on one device"
    with FAKE, pytest.raises(ValueError, match=message):
        make_session(model_on(*devices), strategy)
