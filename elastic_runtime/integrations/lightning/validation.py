"""`validation_step` over all workers, by `session.evaluate`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from elastic_runtime.data.map_dataset import RequestDataset
from elastic_runtime.integrations.lightning import mistakes
from elastic_runtime.integrations.lightning.hooks import Hooks, call_step
from elastic_runtime.integrations.lightning.logged_values import LoggedValues
from elastic_runtime.integrations.lightning.metric_states import MetricStates, add_states
from elastic_runtime.mistake import Mistake
from elastic_runtime.session import Session
from elastic_runtime.training.evaluation import contributes
from elastic_runtime.training.evaluation_sums import Sums


class Validation:
    """All validation data of a module; nothing happens if there are none."""

    def __init__(
        self,
        hooks: Hooks,
        loaders: list[Any],
        logged: LoggedValues,
        autocast: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._hooks = hooks
        self._loaders = loaders
        self._logged = logged
        self._autocast = autocast
        self._metrics = MetricStates(hooks.module)
        # Whether the first micro-batch has been looked at.
        self._is_checked = False

    def run(self, session: Session) -> bool:
        """False if there is no result, because the step is lost or `session.stop` was called.

        Afterwards `LoggedValues.metrics` has what was logged, alike on all workers.
        """
        if not self._loaders:
            return True
        self._hooks.call("on_validation_start")
        self._hooks.call("on_validation_epoch_start")
        with self._metrics.empty():
            states = dict[str, Any]()
            for number in range(len(self._loaders)):
                sums = self._evaluate(session, number)
                if not sums.is_complete:
                    return False
                self._logged.take(sums)
                states = add_states(states, sums)
            self._metrics.total(states)
            for name, metric in self._metrics.logged(states):
                self._logged.metrics[name] = float(metric.compute())
            with self._logged.validated():
                self._hooks.call("on_validation_epoch_end")
        return True

    def _evaluate(self, session: Session, number: int) -> Sums:
        loader = self._loaders[number]
        data = RequestDataset(loader.dataset, loader.collate_fn)
        suffix = f"/dataloader_idx_{number}" if len(self._loaders) > 1 else ""

        def sums_of(indices: list[int]) -> dict[str, Any]:
            with self._metrics.empty(), self._logged.validation(len(indices), suffix):
                batch = self._hooks.on_device(data.collate(data.fetch(indices)), number)
                place = indices[0] // loader.batch_size, number
                self._step(batch, *place, has_hooks=contributes(session))
                return self._logged.sums | self._metrics.sums(self._logged.metric_objects)

        size = int(loader.batch_size)
        return session.evaluate(len(loader.dataset), sums_of, micro_batch_size=size)

    def _step(self, batch: Any, batch_idx: int, loader_idx: int, *, has_hooks: bool) -> None:
        """`has_hooks`: False if another pass over the micro-batch calls them."""
        module = self._hooks.module
        own = _collections(module)
        more = [loader_idx] if len(self._loaders) > 1 else []
        if has_hooks:
            self._hooks.call("on_validation_batch_start", batch, batch_idx, loader_idx)
        with self._autocast():
            outputs = call_step(module.validation_step, batch, batch_idx, *more)
        if has_hooks:
            self._hooks.call("on_validation_batch_end", outputs, batch, batch_idx, loader_idx)
        if not self._is_checked:
            self._is_checked = True
            for name, length in _collections(module).items():
                if length > own.get(name, length):
                    raise Mistake(mistakes.COLLECTS % name)


def _collections(module: torch.nn.Module) -> dict[str, int]:
    """The lengths of the module's own lists and dicts, by name."""
    return {
        name: len(value)
        for name, value in vars(module).items()
        if isinstance(value, list | dict) and not name.startswith("_")
    }
