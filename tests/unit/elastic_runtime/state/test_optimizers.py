"""Several optimizers, each of its own parameters, are saved and stepped as one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded, restore
from elastic_runtime.state.optimizers import Optimizers, by_name
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.base import Strategy


def wrap(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Callable[[], Strategy | None]] = {
    "replicated": lambda: None,
    "deterministic": Deterministic,
    "sharded": lambda: Sharded(wrap),
}


def model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))


def two_of(model: torch.nn.Sequential) -> dict[str, torch.optim.Optimizer]:
    return {
        "body": torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9),
        "head": torch.optim.AdamW(model[1].parameters(), lr=0.01),
    }


def schedulers_of(optimizers: dict[str, torch.optim.Optimizer]) -> list[Any]:
    return [
        torch.optim.lr_scheduler.StepLR(optimizers["body"], 1, 0.5),
        torch.optim.lr_scheduler.StepLR(optimizers["head"], 2, 0.1),
    ]


def loss_of(model: torch.nn.Module, step: int) -> torch.Tensor:
    loss: torch.Tensor = model(torch.ones(1, 4) * (step + 1)).square().mean()
    return loss


def session_of(model: torch.nn.Sequential, optimizer: Any, **options: Any) -> Session:
    return Session(model, optimizer, **{"samples": 9, "micro_batches": 2, **options})


def train(session: Session, until: int) -> None:
    for step in session.steps(until):
        for _ in step:
            step.backward(loss_of(session.model, step.number))
    fsdp2_internals.drop_mesh()


def values(model: torch.nn.Module) -> list[list[float]]:
    parameters: Any = model.parameters()
    return [getattr(p, "to_local", lambda p=p: p)().flatten().tolist() for p in parameters]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_steps_its_own_parameters_with_its_own_schedule(strategy: str) -> None:
    plain = model()
    optimizers = two_of(plain)
    schedulers = schedulers_of(optimizers)
    for step in range(4):
        plain.zero_grad()
        loss_of(plain, step).backward()  # type: ignore[no-untyped-call]
        for stepped in (*optimizers.values(), *schedulers):
            stepped.step()
    trained = model()
    given = two_of(trained)
    session = session_of(
        trained, given, lr_schedulers=schedulers_of(given), strategy=STRATEGIES[strategy]()
    )
    train(session, until=4)
    assert session.optimizers == given
    for now, expected in zip(values(trained), values(plain), strict=True):
        assert now == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("second", STRATEGIES)
@pytest.mark.parametrize("first", ["replicated", "sharded"])
def test_they_are_restored_under_another_strategy(tmp_path: Path, first: str, second: str) -> None:
    def make(strategy: str, checkpoint: Path | None = tmp_path) -> Session:
        made = model()
        given = two_of(made)
        return session_of(
            made,
            given,
            lr_schedulers=schedulers_of(given),
            checkpoint=checkpoint,
            strategy=STRATEGIES[strategy](),
        )

    undisturbed = make("replicated", None)
    train(undisturbed, until=5)
    train(make(first), until=2)
    resumed = make(second)
    train(resumed, until=5)
    for now, expected in zip(values(resumed.model), values(undisturbed.model), strict=True):
        assert now == pytest.approx(expected, rel=1e-5)


def test_a_list_is_named_by_its_order() -> None:
    trained = model()
    given = list(two_of(trained).values())
    session = session_of(trained, given)
    assert session.optimizers == {"0": given[0], "1": given[1]}
    with pytest.raises(ValueError, match=r"use session.optimizers\[name\] in place of session.opt"):
        _ = session.optimizer


@pytest.mark.parametrize(
    "give", [lambda adam: adam, lambda adam: [adam], lambda adam: {"adam": adam}]
)
def test_an_only_optimizer_is_saved_as_torch_saves_it(
    tmp_path: Path, give: Callable[[Any], Any]
) -> None:
    trained = model()
    adam = torch.optim.AdamW(trained.parameters())
    session = session_of(trained, give(adam), checkpoint=tmp_path)
    train(session, until=1)
    assert session.optimizer is adam
    newest = restore.newest_intact(tmp_path)
    assert newest
    saved = restore.load(newest)["optimizer"]
    again = torch.optim.AdamW(model().parameters())
    again.load_state_dict(saved)
    assert again.state_dict()["param_groups"] == adam.state_dict()["param_groups"]


@pytest.mark.parametrize(
    ("saved", "given", "message"),
    [
        pytest.param(
            ["body", "head"],
            ["body", "tail"],
            "the saved state has the optimizers body, head, the session has the optimizers body, "
            "tail: give the optimizers of the script that saved it",
            id="other names",
        ),
        pytest.param(
            ["0"], ["0", "1"], "has one optimizer, the session has the optimizers 0, 1", id="more"
        ),
        pytest.param(
            ["0", "1"], ["0"], "has the optimizers 0, 1, the session has one optimizer", id="fewer"
        ),
    ],
)
def test_a_state_of_other_optimizers_is_refused(
    saved: list[str], given: list[str], message: str
) -> None:
    def make(names: list[str]) -> Optimizers:
        return Optimizers({name: torch.optim.SGD(model().parameters()) for name in names})

    with pytest.raises(ValueError, match=message):
        make(given).load_state_dict(make(saved).state_dict())


def test_the_order_of_names_does_not_matter_when_a_state_is_loaded() -> None:
    made = model()
    given = two_of(made)
    state = Optimizers(given).state_dict()
    other = two_of(model())
    Optimizers({"head": other["head"], "body": other["body"]}).load_state_dict(state)
    assert other["body"].param_groups[0]["momentum"] == 0.9


# --- mistakes -------------------------------------------------------------------------------------


def shared(model: torch.nn.Sequential) -> Any:
    return {
        "all": torch.optim.SGD(model.parameters()),
        "head": torch.optim.SGD(model[1].parameters()),
    }


@pytest.mark.parametrize(
    ("give", "message"),
    [
        pytest.param(
            shared,
            r"parameter 1.weight is in more than one optimizer \(all, head\): leave each",
            id="in two",
        ),
        pytest.param(
            lambda model: [
                torch.optim.SGD([model[0].weight]),
                torch.optim.SGD([model[1].weight, model[1].bias]),
            ],
            r"parameter 0.bias is in no optimizer: add it to one, or freeze it by requires_grad_",
            id="in none",
        ),
        pytest.param(
            lambda model: [torch.optim.SGD([model[i].weight]) for i in range(2)],
            "parameter 0.bias is in no optimizer, and 1 more are not: add it to one",
            id="several in none",
        ),
        pytest.param(
            lambda model: [*two_of(model).values(), torch.optim.SGD([torch.ones(1)])],
            "1 of the optimizer's 5 tensors are not parameters of the model",
            id="of no model",
        ),
        pytest.param(
            lambda model: [two_of(model)["body"], "AdamW"],
            "the session is given Sequential and str: give it the model first, then its optimizer",
            id="no optimizer",
        ),
        pytest.param(
            lambda model: [], "is given Sequential and list: give it the model first", id="empty"
        ),
    ],
)
def test_optimizers_that_do_not_fit_the_model_are_one_line(
    give: Callable[[Any], Any], message: str
) -> None:
    made = model()
    with pytest.raises(ValueError, match=message) as raised:
        session_of(made, give(made))
    assert "\n" not in str(raised.value)


def test_a_frozen_parameter_needs_no_optimizer() -> None:
    made = model()
    made.get_parameter("0.bias").requires_grad_(False)
    given = [
        torch.optim.SGD([made.get_parameter("0.weight")]),
        torch.optim.SGD(made[1].parameters()),
    ]
    train(session_of(made, given), until=1)


def test_a_scheduler_that_only_one_of_two_optimizers_has_given_the_session_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = model()
    given = two_of(made)
    first, _ = schedulers_of(given)
    train(session_of(made, given, lr_schedulers=[first]), until=1)
    assert "an optimizer has an lr_scheduler that the session does not know" in caplog.text


def test_names_follow_from_what_the_script_gives() -> None:
    assert by_name("a") == {"0": "a"}
    assert by_name(("a", "b")) == {"0": "a", "1": "b"}
    assert by_name({"x": "a"}) == {"x": "a"}
