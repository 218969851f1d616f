"""Metrics of torchmetrics whose states are sums, so that all workers can compute them together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from elastic_runtime.integrations.lightning import mistakes
from elastic_runtime.mistake import Mistake

COUNT = "count"


class MetricStates:
    """Of all metrics inside a module. The states of training metrics stay as they are."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._metrics: dict[str, Any] = {
            name: part
            for name, part in module.named_modules()
            if hasattr(part, "metric_state") and hasattr(part, "update_called")
        }
        for metric in self._metrics.values():
            # It would reduce by collectives of its own.
            metric.sync_on_compute = False

    @contextmanager
    def empty(self) -> Iterator[None]:
        """Every metric is empty inside; afterwards each has the state that it had before."""
        before = {name: _read(metric) for name, metric in self._metrics.items()}
        for metric in self._metrics.values():
            metric.reset()
        try:
            yield
        finally:
            for name, metric in self._metrics.items():
                _write(metric, *before[name])

    def sums(self, logged: dict[str, Any]) -> dict[str, Any]:
        """The states by key, for `total`. `logged`: metrics by the name under which they are.

        Raises Mistake if a metric was updated and its states are no sums.
        """
        paths = {id(metric): path for path, metric in self._metrics.items()}
        sums: dict[str, Any] = {
            f"metric {paths[id(metric)]} {name}": 0 for name, metric in logged.items()
        }
        for name, metric in self._metrics.items():
            states, count = _read(metric)
            sums[f"state {name} {COUNT}"] = count
            if count:
                _check_sums(metric)
            sums |= {
                f"state {name} {key}": value.detach().clone()
                for key, value in states.items()
                if isinstance(value, torch.Tensor)
            }
        return sums

    def logged(self, sums: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The metrics that were logged, by name."""
        for key in sums:
            kind, _, place = key.partition(" ")
            if kind == "metric":
                path, _, name = place.partition(" ")
                yield name, self._metrics[path]

    def total(self, sums: dict[str, Any]) -> None:
        """Give the metrics the sums over all micro-batches."""
        for name, metric in self._metrics.items():
            states = {
                key: torch.as_tensor(sums[f"state {name} {key}"]).to(value).reshape(value.shape)
                for key, value in metric.metric_state.items()
                if isinstance(value, torch.Tensor)
            }
            _write(metric, states, int(sums[f"state {name} {COUNT}"]))


def add_states(states: dict[str, Any], sums: dict[str, Any]) -> dict[str, Any]:
    """The states and logged metrics of `sums` added to those of other data."""
    kept = {key: value for key, value in sums.items() if key.startswith(("state ", "metric "))}
    return states | {key: value + states.get(key, 0) for key, value in kept.items()}


def _check_sums(metric: Any) -> None:
    others = [
        key
        for key, reduction in metric._reductions.items()
        if getattr(reduction, "__name__", "") != "dim_zero_sum"
    ]
    if others:
        raise Mistake(mistakes.NOT_SUMS % (type(metric).__name__, ", ".join(others)))


def _read(metric: Any) -> tuple[dict[str, Any], int]:
    """Its states, and how often it was updated."""
    # `reset` empties lists in place.
    states = {
        key: list(value) if isinstance(value, list) else value
        for key, value in metric.metric_state.items()
    }
    return states, metric.update_count


def _write(metric: Any, states: dict[str, Any], count: int) -> None:
    # Forgets what was computed of the states before.
    metric.reset()
    for key, value in states.items():
        setattr(metric, key, value)
    metric._update_count = count
