"""What would let replicas drift apart ends the script before the step is committed."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.parameter_checks import replicas_differ
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.fsdp2_internals import drop_mesh
from elastic_runtime.training.rank_lifecycle import RankLifecycle

Change = Callable[[torch.nn.Sequential, torch.optim.Optimizer], None]


def train(change: Change, strategy: Strategy | None = None) -> Session:
    """Two steps; `change` is called in the first, before its passes."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = Session(model, optimizer, samples=8, micro_batches=2, strategy=strategy)
    for step in session.steps(2):
        if not step.number:
            change(model, optimizer)
        for _ in step:
            step.backward(model(torch.ones(1, 4)).square().mean())
    return session


def unfreeze(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model[0].weight.requires_grad_(True)


def add_only(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model.append(torch.nn.Linear(1, 1))


def add_a_layer(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    add_only(model, optimizer)
    optimizer.add_param_group({"params": list(model[2].parameters())})


def replace_only(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model[1] = torch.nn.Linear(4, 1)


def replace_in_a_module(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model[1].weight = torch.nn.Parameter(torch.zeros(1, 4))


def load_by_assignment(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model[1].load_state_dict(torch.nn.Linear(4, 1).state_dict(), assign=True)


def remove_only(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    del model[1]


def unfreeze_and_replace(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    unfreeze(model, optimizer)
    replace_only(model, optimizer)


def replace_a_layer(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    replace_only(model, optimizer)
    optimizer.param_groups[0]["params"] = list(model.parameters())


def give_the_optimizer_more(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})


def step_a_second_optimizer(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    torch.optim.Adam(model[1].parameters()).step()


def wrap(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


ADDED = r"parameter 2.(weight|bias) was added after the session was created, and a session trains"
REPLACED = r"parameter 1.(weight|bias) was replaced after the session was created, .*: create all"
REMOVED = r"parameter 1.(weight|bias) was removed after the session was created"
STRATEGIES: dict[str, Callable[[], Strategy | None]] = {
    "replicated": lambda: None,
    "deterministic": Deterministic,
    "sharded": lambda: Sharded(wrap),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Iterator[Strategy | None]:
    yield STRATEGIES[request.param]()
    drop_mesh()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(add_a_layer, ADDED, id="added"),
        pytest.param(add_only, ADDED, id="added, and not to the optimizer"),
        pytest.param(replace_a_layer, REPLACED, id="replaced"),
        pytest.param(replace_only, REPLACED, id="replaced, and not in the optimizer"),
        pytest.param(unfreeze_and_replace, REPLACED, id="unfrozen and replaced"),
        pytest.param(remove_only, REMOVED, id="removed"),
        pytest.param(
            give_the_optimizer_more, "the optimizer was given a parameter", id="of no model"
        ),
        pytest.param(
            step_a_second_optimizer, "optimizer.step was called by the script", id="optimizer"
        ),
    ],
)
def test_parameters_whose_gradients_are_not_summed_are_a_mistake(
    change: Change, message: str, strategy: Strategy | None
) -> None:
    with pytest.raises(ValueError, match=message):
        train(change, strategy)


@pytest.mark.parametrize("strategy", ["replicated", "deterministic"], indirect=True)
@pytest.mark.parametrize("change", [replace_in_a_module, load_by_assignment])
def test_a_parameter_that_is_replaced_within_its_module_is_a_mistake(
    change: Change, strategy: Strategy | None
) -> None:
    with pytest.raises(ValueError, match=REPLACED):
        train(change, strategy)


@pytest.mark.parametrize("strategy", ["replicated", "deterministic"], indirect=True)
def test_a_parameter_that_is_unfrozen_later_is_a_mistake(strategy: Strategy | None) -> None:
    with pytest.raises(ValueError, match=r"a parameter of shape \(4, 4\) was frozen when"):
        train(unfreeze, strategy)


@pytest.mark.parametrize("strategy", ["sharded"], indirect=True)
def test_a_sharded_parameter_may_be_unfrozen_later(strategy: Strategy | None) -> None:
    rows = list[torch.Tensor]()

    def note(model: torch.nn.Module) -> None:
        weight: Any = model.get_parameter("0.weight")
        rows.append(weight.to_local().clone())

    def unfreeze_and_note(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
        unfreeze(model, optimizer)
        note(model)

    note(train(unfreeze_and_note, strategy).model)
    assert not torch.equal(*rows)


def test_a_parameter_may_be_frozen_later(strategy: Strategy | None) -> None:
    def freeze(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
        model[1].bias.requires_grad_(False)

    assert train(freeze, strategy).step == 2


def replace_what_has_no_parameters(
    model: torch.nn.Sequential, optimizer: torch.optim.Optimizer
) -> None:
    model.append(torch.nn.Tanh())
    model[2] = torch.nn.ReLU()


def rename(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    torch.nn.utils.parametrize.register_parametrization(model[1], "weight", torch.nn.Identity())


def tie_again(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model[1].weight = model[1].weight


def load_in_place(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})


@pytest.mark.parametrize("strategy", ["replicated", "deterministic"], indirect=True)
@pytest.mark.parametrize(
    "change", [replace_what_has_no_parameters, rename, tie_again, load_in_place]
)
def test_a_model_that_keeps_its_parameters_may_change(
    change: Change, strategy: Strategy | None
) -> None:
    assert train(change, strategy).step == 2


class CountingModel(torch.nn.Sequential):
    walks = 0

    def named_parameters(self, *args: Any, **options: Any) -> Iterator[Any]:
        self.walks += 1
        return super().named_parameters(*args, **options)


@pytest.mark.parametrize("strategy", ["replicated", "deterministic"], indirect=True)
def test_a_step_does_not_walk_through_the_modules(strategy: Strategy | None) -> None:
    """It would take a millisecond for a thousand parameters."""
    model = CountingModel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = Session(model, optimizer, samples=8, micro_batches=2, strategy=strategy)
    walks = list[int]()
    for step in session.steps(4):
        walks.append(model.walks)
        for _ in step:
            step.backward(model(torch.ones(1, 4)).square().mean())
    assert walks == walks[:1] * 4


@pytest.mark.parametrize("rank", [0, 1])
def test_an_optimizer_of_other_tensors_is_warned_of_once_by_the_leading_worker(
    rank: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step_twice(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
        other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
        with monkeypatch.context() as patch:
            patch.setattr(RankLifecycle, "rank", property(lambda _: rank), raising=False)
            other.step()
            other.step()

    with caplog.at_level(logging.WARNING):
        train(step_twice)
    warnings = [text for text in caplog.messages if text.startswith("another optimizer than")]
    assert len(warnings) == 1 - rank


def test_after_the_loop_any_optimizer_may_step() -> None:
    session = train(lambda model, optimizer: None)
    torch.optim.Adam(session.model.parameters()).step()


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        pytest.param([1], "worker 1 has other parameters than the rest at step 50,", id="one"),
        pytest.param([1, 2], "workers 1, 2 have other parameters than the rest at", id="some"),
        pytest.param(
            [0, 1, 2, 3, 4],
            "the parameters of workers 0, 1, 2, 3, 4 differ from each other at step 50,",
            id="no majority",
        ),
    ],
)
def test_workers_that_differ_are_named(ranks: list[int], text: str) -> None:
    assert replicas_differ(ranks, 5, 50).startswith(text)
