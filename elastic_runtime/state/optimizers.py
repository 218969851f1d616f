"""The optimizers of a job as one. Each parameter belongs to one of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from elastic_runtime.mistake import Mistake


def by_name(given: Any) -> dict[str, Any]:
    """What a script gives as `optimizer`; those without a name are named "0", "1" and so on."""
    if isinstance(given, Mapping):
        return {str(name): optimizer for name, optimizer in given.items()}
    several = given if isinstance(given, list | tuple) else [given]
    return {str(number): optimizer for number, optimizer in enumerate(several)}


class Optimizers:
    """`by_name`: in the order in which they step; at least one.

    The state of an only one is saved as that of torch's optimizer, whatever its name is.
    """

    def __init__(self, by_name: Mapping[str, torch.optim.Optimizer]) -> None:
        self.by_name = dict(by_name)

    def __iter__(self) -> Iterator[torch.optim.Optimizer]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The live groups of all, one optimizer after the other."""
        return [group for optimizer in self for group in optimizer.param_groups]

    @property
    def owners(self) -> dict[torch.nn.Parameter, torch.optim.Optimizer]:
        """By parameter."""
        return {
            parameter: optimizer
            for optimizer in self
            for group in optimizer.param_groups
            for parameter in group["params"]
        }

    @property
    def by_state_name(self) -> dict[str, torch.nn.Parameter]:
        """The parameters, by the place of their state in `state_dict`."""
        parameters = {}
        for name, optimizer in self.by_name.items():
            own = [p for group in optimizer.param_groups for p in group["params"]]
            prefix = f"{name}." if len(self) > 1 else ""
            parameters.update({f"{prefix}state.{number}": p for number, p in enumerate(own)})
        return parameters

    def step(self) -> None:
        for optimizer in self:
            optimizer.step()

    def clear_state(self) -> None:
        for optimizer in self:
            optimizer.state.clear()

    def state_dict(self) -> dict[str, Any]:
        """The tensors are the live ones."""
        states = {name: optimizer.state_dict() for name, optimizer in self.by_name.items()}
        return states if len(self) > 1 else next(iter(states.values()))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises Mistake if the state is of other optimizers."""
        is_of_one = "param_groups" in state
        saved = [] if is_of_one else list(state)
        own = list(self.by_name) if len(self) > 1 else []
        if sorted(saved) != sorted(own):
            raise Mistake(
                f"the saved state has {_listed(saved)}, the session has {_listed(own)}: give the "
                "optimizers of the script that saved it, by the same names or in the same order"
            )
        for name, optimizer in self.by_name.items():
            optimizer.load_state_dict(dict(state) if is_of_one else state[name])


def mistakes(model: torch.nn.Module, optimizers: Mapping[str, Any]) -> Iterator[str]:
    """If a parameter is not in exactly one of several optimizers, or a tensor is of no model."""
    parameters: dict[torch.Tensor, str] = {p: name for name, p in model.named_parameters()}
    owned = {name: _tensors(optimizer) for name, optimizer in optimizers.items()}
    tensors = [tensor for own in owned.values() for tensor in own]
    if foreign := sum(tensor not in parameters for tensor in tensors):
        yield (
            f"{foreign} of the optimizer's {len(tensors)} tensors are not parameters of the "
            "model: create the optimizer with model.parameters()"
        )
    if len(optimizers) < 2:
        return
    shared = [tensor for tensor, count in Counter(tensors).items() if count > 1]
    if shared:
        owners = [name for name, own in owned.items() if _contains(own, shared[0])]
        yield (
            f"parameter {parameters.get(shared[0], 'of no model')} is in more than one optimizer "
            f"({', '.join(owners)}): leave each parameter in one"
        )
    optimized = {*tensors}
    left = [name for p, name in parameters.items() if p.requires_grad and p not in optimized]
    if left:
        yield (
            f"parameter {left[0]} is in no optimizer{_and_more(left)}: add it to one, or freeze it "
            "by requires_grad_(False)"
        )


def _tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def _listed(names: Sequence[str]) -> str:
    """`names`: of several optimizers; empty for one."""
    return f"the optimizers {', '.join(names)}" if names else "one optimizer"


def _contains(tensors: Sequence[torch.Tensor], tensor: torch.Tensor) -> bool:
    """By identity: tensors compare their values."""
    return any(other is tensor for other in tensors)


def _and_more(names: Sequence[str]) -> str:
    return f", and {len(names) - 1} more are not" if names[1:] else ""
