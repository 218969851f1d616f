"""The shapes that `configure_optimizers` may return, as an optimizer and schedulers of steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from elastic_runtime.integrations.epochs import Epochs
from elastic_runtime.mistake import Mistake

ONE_OPTIMIZER = (
    "configure_optimizers returned %s: return one optimizer; several need manual optimization in "
    "Lightning, and here a Session with a loop of your own"
)


class AtSomeSteps:
    """Steps a scheduler after those committed steps, counted from 1, for which `is_due` holds."""

    def __init__(self, scheduler: Any, is_due: Callable[[int], bool]) -> None:
        self.scheduler = scheduler
        self._is_due = is_due
        self._steps = 0

    def step(self) -> None:
        self._steps += 1
        if self._is_due(self._steps):
            self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "scheduler": self.scheduler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = int(state["steps"])
        self.scheduler.load_state_dict(state["scheduler"])


@dataclass(frozen=True)
class Plateau:
    """A scheduler that is stepped by what was validated, every so many epochs."""

    scheduler: ReduceLROnPlateau
    monitor: str
    epochs: int


@dataclass(frozen=True)
class Optimization:
    optimizer: Optimizer
    # Of committed steps.
    schedulers: list[Any]
    plateaus: list[Plateau]

    def of_plateaus(self) -> list[Any]:
        return [plateau.scheduler for plateau in self.plateaus]

    def all_schedulers(self) -> list[Any]:
        """As configure_optimizers returned them."""
        inner = [getattr(scheduler, "scheduler", scheduler) for scheduler in self.schedulers]
        return inner + self.of_plateaus()


def parse(configured: Any, epochs: Epochs) -> Optimization:
    """Raises Mistake if it is no shape of one optimizer and its schedulers."""
    optimizer, schedulers = _optimizer_and_schedulers(configured)
    configs = [_config(scheduler) for scheduler in schedulers]
    return Optimization(
        optimizer,
        [
            _of_steps(config, epochs)
            for config in configs
            if not isinstance(config["scheduler"], ReduceLROnPlateau)
        ],
        [*_plateaus(configs)],
    )


def _optimizer_and_schedulers(configured: Any) -> tuple[Optimizer, list[Any]]:
    match configured:
        case Optimizer():
            return configured, []
        case {"optimizer": Optimizer() as optimizer}:
            scheduler = configured.get("lr_scheduler")
            return optimizer, [] if scheduler is None else [scheduler]
        case [[Optimizer() as optimizer], [*schedulers]]:
            return optimizer, schedulers
        case [only]:
            return _optimizer_and_schedulers(only)
        case [_, *_]:
            raise Mistake(ONE_OPTIMIZER % f"{len(configured)} optimizers")
    raise Mistake(ONE_OPTIMIZER % f"a {type(configured).__name__}")


def _config(scheduler: Any) -> dict[str, Any]:
    given = scheduler if isinstance(scheduler, dict) else {"scheduler": scheduler}
    config = {"interval": "epoch", "frequency": 1, "monitor": None} | given
    if config["interval"] not in ("step", "epoch"):
        raise Mistake(f"an lr_scheduler has interval {config['interval']!r}: use 'step' or 'epoch'")
    return config


def _of_steps(config: dict[str, Any], epochs: Epochs) -> Any:
    scheduler, every = config["scheduler"], int(config["frequency"])
    if config["interval"] == "epoch":
        return AtSomeSteps(scheduler, lambda step: epochs.ends(step, every))
    return scheduler if every == 1 else AtSomeSteps(scheduler, lambda step: step % every == 0)


def _plateaus(configs: list[dict[str, Any]]) -> Iterator[Plateau]:
    for config in configs:
        if not isinstance(config["scheduler"], ReduceLROnPlateau):
            continue
        if config["monitor"] is None or config["interval"] != "epoch":
            raise Mistake(
                "ReduceLROnPlateau is stepped after a validation: give it a monitor, and the "
                "interval 'epoch'"
            )
        yield Plateau(config["scheduler"], config["monitor"], int(config["frequency"]))
