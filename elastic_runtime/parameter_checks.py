"""Mistakes that would let the replicas of a model drift apart, each in one line with the cure."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from elastic_runtime import script_checks
from elastic_runtime.mistake import Mistake
from elastic_runtime.state.optimizers import Optimizers

OPTIMIZER_STEPPED = (
    "optimizer.step was called by the script: remove the call, the session steps the optimizer "
    "when all ranks commit a step; if there are several, give it all of them, optimizer=[...]; if "
    "a GradScaler did it, pass that too, grad_scaler=scaler"
)
FOREIGN_OPTIMIZER = (
    "another optimizer than the session's steps inside the loop, on tensors that are not in the "
    "model: put them into the model and its optimizer, or make sure that every worker computes the "
    "same with them"
)
OPTIMIZER_CHANGED = (
    "the optimizer was given a parameter that the model did not have when the session was created: "
    "add it to both before"
)
NOT_COMPARED = (
    "the parameters of the workers are not compared: their bits cannot be read (%s), so replicas "
    "that drift apart would not be seen"
)


@contextmanager
def no_optimizer_step(
    model: torch.nn.Module, is_session_step: Callable[[], bool], warn: Callable[[str], None]
) -> Iterator[None]:
    """Inside, `step` of an optimizer of the model's parameters raises Mistake, unless
    `is_session_step` returns True.

    Ranks that step with their own gradients would diverge. `warn` is called when an optimizer of
    other tensors steps. An object that only behaves like an optimizer is not covered.
    """

    def check(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if is_session_step():
            return
        own = set(model.parameters())
        if any(p in own for group in optimizer.param_groups for p in group["params"]):
            raise Mistake(OPTIMIZER_STEPPED)
        warn(FOREIGN_OPTIMIZER)

    hook = register_optimizer_step_pre_hook(check)
    try:
        yield
    finally:
        hook.remove()


class KnownParameters:
    """Those of a model when its session was created."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._by_name = dict(model.named_parameters())
        self._required_gradient = {p: p.requires_grad for p in self._by_name.values()}
        self._note_structure()

    def _note_structure(self) -> None:
        # Those that are held keep their ids.
        self._modules = [*self._model.modules()]
        self._structure = self._present_structure()

    def _present_structure(self) -> list[int]:
        """Of what each module has."""
        return [
            id(item)
            for module in self._modules
            for items in (module._parameters, module._modules)
            for item in items.values()
        ]

    def mistakes(self, optimizers: Optimizers) -> Iterator[str]:
        """Parameters that a joining rank would not have, or that an optimizer steps though their
        gradients are not summed over the ranks.

        Called in every step: 0.4 ms for a thousand parameters, of which half is to see that no
        module was changed. A walk through the modules takes 0.8 ms.
        """
        if self._present_structure() != self._structure:
            changes = [
                *script_checks.change_mistakes(self._by_name, dict(self._model.named_parameters()))
            ]
            if changes:
                yield from changes
                return
            # Such as another activation function.
            self._note_structure()
        yield from self._optimizer_mistakes(optimizers)

    def _optimizer_mistakes(self, optimizers: Optimizers) -> Iterator[str]:
        before = self._required_gradient
        for parameter in (p for group in optimizers.param_groups for p in group["params"]):
            if parameter not in before:
                yield OPTIMIZER_CHANGED
                return
            if parameter.requires_grad and not before[parameter]:
                yield (
                    f"a parameter of shape {tuple(parameter.shape)} was frozen when the session "
                    "was created and requires a gradient now: unfreeze it before, and give its "
                    "param_group a learning rate of 0 until it is to be trained"
                )
                return


def replicas_differ(ranks: Sequence[int], world: int, step: int) -> str:
    """`ranks`: those that differ from most of the `world`; all if there is no majority."""
    names = ", ".join(map(str, ranks))
    if len(ranks) == world:
        what = f"the parameters of workers {names} differ from each other"
    elif ranks[1:]:
        what = f"workers {names} have other parameters than the rest"
    else:
        what = f"worker {names} has other parameters than the rest"
    return (
        f"{what} at step {step}, but all must have the same: remove what writes parameters on some "
        "workers only; if there is no such thing, check the machines of these workers"
    )
