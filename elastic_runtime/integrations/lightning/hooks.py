"""Calls the hooks of a module, of its callbacks and of its data."""

from collections.abc import Callable, Sequence
from typing import Any

from elastic_runtime.integrations.lightning import mistakes
from elastic_runtime.integrations.signatures import signature

# After the module's own, whose values callbacks monitor.
AFTER_MODULE = frozenset({"on_train_epoch_end"})
TRANSFER_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


class Hooks:
    """`trainer`: the one that callbacks are given. `datamodule`: None if there is none."""

    def __init__(
        self, trainer: Any, module: Any, callbacks: Sequence[Any], datamodule: Any
    ) -> None:
        self.module = module
        self.datamodule = datamodule
        self._trainer = trainer
        self._callbacks = callbacks

    def call(self, hook: str, *args: Any) -> None:
        """Call a hook of the callbacks and of the module."""
        if hook in AFTER_MODULE:
            getattr(self.module, hook)(*args)
        for callback in self._callbacks:
            mistakes.raise_first(
                _skip_mistakes(getattr(callback, hook)(self._trainer, self.module, *args), callback)
            )
        if hook not in AFTER_MODULE:
            result = getattr(self.module, hook)(*args)
            mistakes.raise_first(_skip_mistakes(result, self.module))

    def stateful(self) -> list[Any]:
        """Callbacks and data that have a state."""
        return [
            owner
            for owner in [*self._callbacks, self.datamodule]
            if owner is not None and mistakes.overridden(owner, "state_dict")
        ]

    def call_stage(self, hook: str) -> None:
        """`setup` or `teardown`, which the data has too."""
        if self.datamodule is not None:
            getattr(self.datamodule, hook)("fit")
        for callback in self._callbacks:
            getattr(callback, hook)(self._trainer, self.module, "fit")
        getattr(self.module, hook)("fit")

    def on_device(self, batch: Any, loader_idx: int = 0) -> Any:
        """The micro-batch on the module's device, by the hooks that transfer it."""
        before, transfer, after = (self._of_data(hook) for hook in TRANSFER_HOOKS)
        batch = transfer(before(batch, loader_idx), self.module.device, loader_idx)
        return after(batch, loader_idx)

    def _of_data(self, hook: str) -> Any:
        """That of the datamodule if it has its own."""
        is_own = self.datamodule is not None and mistakes.overridden(self.datamodule, hook)
        return getattr(self.datamodule if is_own else self.module, hook)


def _skip_mistakes(result: Any, instance: Any) -> list[str]:
    return [mistakes.SKIPPED % type(instance).__name__] if result == -1 else []


def call_step(function: Callable[..., Any], *args: Any) -> Any:
    """Call `training_step` or `validation_step` with as many arguments as it takes."""
    parameters = signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return function(*args)
    return function(*args[: len(parameters)])
