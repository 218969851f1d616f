"""What `fit` does not do, it refuses in one line; what configure_optimizers may return, it takes.

`make test-integrations` runs this, in an environment that has their packages.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

# With an import of Lightning, warnings of others are errors here.
pytestmark = pytest.mark.filterwarnings("ignore")
lightning = pytest.importorskip("lightning.pytorch", reason="run make test-integrations")
torchmetrics = pytest.importorskip("torchmetrics", reason="run make test-integrations")
from elastic_runtime.integrations.lightning import fit  # noqa: E402  # needs the packages above
from elastic_runtime.integrations.lightning.metric_states import MetricStates  # noqa: E402

DATA = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
LOADER = DataLoader(DATA, batch_size=2)


class Module(lightning.LightningModule):  # type: ignore[name-defined]  # a package that is skipped if it is not there
    """Four steps are an epoch of `LOADER` in micro-batches of 2."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.rates = list[float]()
        self.curve = torchmetrics.CatMetric()

    def error(self, batch: Any) -> Any:
        return (self.net(batch[0]) - batch[1]).square().mean()

    def training_step(self, batch: Any) -> Any:
        return self.error(batch)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.rates.append(self.optimizers().param_groups[0]["lr"])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1.0)


def run(module: Any, loader: Any = LOADER, validation: Any = None, **options: Any) -> Any:
    defaults = {"micro_batches": 3, "max_steps": 9}
    return fit(module, loader, validation, **(defaults | options))


def changed(**methods: Any) -> Any:
    """A module with other methods."""
    return type("Changed", (Module,), methods)()


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def returned(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def late(module: Module, batch: Any, batch_idx: int) -> None:
    module.curve.update(module.error(batch))


def collecting(module: Module, batch: Any, batch_idx: int) -> None:
    module.rates.append(0.0)


def maximum(module: Module, batch: Any, batch_idx: int) -> None:
    module.log("loss", module.error(batch), reduce_fx="max")


def reading(name: str) -> Callable[..., Any]:
    return lambda module: getattr(module.trainer, name)


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        pytest.param(
            changed(automatic_optimization=False), {}, "automatic_optimization is", id="manual"
        ),
        pytest.param(changed(optimizer_step=returned(None)), {}, "optimizer_step would", id="hook"),
        pytest.param(Module(), {"max_steps": None}, "max_epochs or max_steps", id="no end"),
        pytest.param(Module(), {"devices": 2}, "has no argument devices", id="Trainer's option"),
        pytest.param(Module(), {"stategy": None}, "no argument stategy", id="unknown option"),
        pytest.param(Module(), {"clip": 1.0}, "use gradient_clip_val", id="a session's clipping"),
        pytest.param(Module(), {"data": LOADER}, "use train_dataloaders", id="a session's data"),
        pytest.param(Module(), {"strategy": "ddp"}, "strategy is 'ddp'", id="Trainer's strategy"),
        pytest.param(Module(), {"precision": "64-true"}, "precision is '64-true'", id="precision"),
        pytest.param(Module(), {"loader": DATA}, "is a TensorDataset", id="no loader"),
        pytest.param(
            Module(), {"loader": DataLoader(Endless())}, "session.streams", id="iterable data"
        ),
        pytest.param(
            Module(),
            {"loader": DataLoader(DATA, sampler=WeightedRandomSampler([1.0], 4))},
            "has a WeightedRandomSampler",
            id="sampler",
        ),
        pytest.param(changed(training_step=returned(None)), {}, "returned NoneType", id="no loss"),
        pytest.param(
            changed(on_train_batch_start=returned(-1)), {}, "returned -1", id="skipped epoch"
        ),
        pytest.param(
            changed(on_fit_start=reading("profiler")), {}, "trainer.profiler", id="trainer's part"
        ),
        pytest.param(
            changed(setup=lambda module, stage: module.trainer.world_size),
            {},
            "known in the loop",
            id="world before the loop",
        ),
        pytest.param(
            Module(),
            {"callbacks": lightning.callbacks.ModelCheckpoint()},
            "ModelCheckpoint without monitor",
            id="checkpoint without monitor",
        ),
        pytest.param(
            Module(),
            {"callbacks": lightning.callbacks.ModelCheckpoint(monitor="loss")},
            "needs a place",
            id="checkpoint without directory",
        ),
        pytest.param(
            Module(),
            {"callbacks": lightning.callbacks.StochasticWeightAveraging(0.1)},
            "trainer",
            id="callback that reads Lightning's Trainer",
        ),
        pytest.param(
            changed(validation_step=late), {"validation": LOADER}, "more than sums", id="metric"
        ),
        pytest.param(
            changed(validation_step=collecting), {"validation": LOADER}, "self.rates", id="collects"
        ),
        pytest.param(
            changed(validation_step=maximum), {"validation": LOADER}, "'max'", id="reduction"
        ),
        pytest.param(
            changed(configure_optimizers=returned(None)), {}, "returned a NoneType", id="none"
        ),
        pytest.param(
            changed(
                configure_optimizers=lambda module: [
                    torch.optim.SGD(module.parameters(), lr=1.0),
                    torch.optim.SGD(module.parameters(), lr=1.0),
                ]
            ),
            {},
            "2 optimizers",
            id="two optimizers",
        ),
    ],
)
def test_what_is_not_supported_is_refused_with_a_cure(
    module: Module, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        run(copy.deepcopy(module), **options)
    assert "\n" not in str(error.value)


def test_a_call_as_of_trainer_fit_names_the_argument_that_is_missing() -> None:
    with pytest.raises(ValueError, match=r"^fit needs micro_batches: give micro_batches="):
        fit(Module(), datamodule=None)  # type: ignore[call-arg]  # the mistake


def by_step(optimizer: Any) -> Any:
    scheduler = ExponentialLR(optimizer, 0.5)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def every_second_step(optimizer: Any) -> Any:
    config = {"scheduler": ExponentialLR(optimizer, 0.5), "interval": "step", "frequency": 2}
    return [optimizer], [config]


def on_plateau(optimizer: Any) -> Any:
    scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "loss"}}


def test_what_one_worker_logs_between_two_steps_is_monitored_by_nobody() -> None:
    """Each would have another learning rate."""

    def on_train_epoch_end(module: Module) -> None:
        module.log("own", 1.0)

    def configure_optimizers(module: Module) -> Any:
        configured = on_plateau(torch.optim.SGD(module.parameters(), lr=1.0))
        configured["lr_scheduler"]["monitor"] = "own"
        return configured

    module = changed(
        on_train_epoch_end=on_train_epoch_end, configure_optimizers=configure_optimizers
    )
    with pytest.raises(ValueError, match="own"):
        run(module, max_steps=None, max_epochs=1)


def test_a_metric_that_keeps_a_list_has_it_after_a_validation() -> None:
    module = Module()
    module.curve.update(3.0)
    with MetricStates(module).empty():
        module.curve.update(4.0)
    assert module.curve.compute() == 3.0


@pytest.mark.parametrize(
    ("shape", "rates"),
    [
        pytest.param(lambda o: o, [1.0] * 9, id="optimizer"),
        pytest.param(lambda o: [o], [1.0] * 9, id="list"),
        pytest.param(
            lambda o: ([o], [ExponentialLR(o, 0.5)]),
            [1.0] * 4 + [0.5] * 4 + [0.25],
            id="two lists, by epoch",
        ),
        pytest.param(
            lambda o: {"optimizer": o, "lr_scheduler": ExponentialLR(o, 0.5)},
            [1.0] * 4 + [0.5] * 4 + [0.25],
            id="dict, by epoch",
        ),
        pytest.param(by_step, [0.5**step for step in range(9)], id="by step"),
        pytest.param(
            every_second_step, [0.5 ** (step // 2) for step in range(9)], id="every second step"
        ),
        pytest.param(on_plateau, [1.0] * 8 + [0.5], id="on a plateau"),
    ],
)
def test_every_shape_of_configure_optimizers_is_taken(
    shape: Callable[[Any], Any], rates: list[float]
) -> None:
    module = changed(
        configure_optimizers=lambda module: shape(torch.optim.SGD(module.parameters(), lr=1.0)),
        validation_step=lambda module, batch: module.log("loss", 1.0),
        # The rate alone is of interest.
        error=lambda module, batch: module.net(batch[0]).mean() * 0,
    )
    run(module, validation=LOADER)
    assert module.rates[::3] == pytest.approx(rates)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_the_steps_run_in_the_precision_and_a_clip_of_0_clips_nothing(precision: str) -> None:
    kinds = set[torch.dtype]()

    def training_step(module: Module, batch: Any) -> Any:
        answers = module.net(batch[0])
        kinds.add(answers.dtype)
        return (answers.float() - batch[1]).square().mean()

    session = run(changed(training_step=training_step), precision=precision, gradient_clip_val=0)
    assert session.gradient_norm is None
    assert kinds == {torch.bfloat16 if precision == "bf16-mixed" else torch.float16}


def test_hooks_are_called_in_lightnings_order() -> None:
    calls = list[str]()

    def noting(name: str) -> Callable[..., None]:
        return lambda *_: calls.append(name)

    names = [
        *("setup", "on_fit_start", "on_train_start", "on_train_epoch_start"),
        *("on_validation_start", "on_validation_epoch_start", "on_validation_epoch_end"),
        *("on_validation_end", "on_train_epoch_end", "on_train_end", "on_fit_end", "teardown"),
    ]
    hooks = {name: noting(name) for name in names}
    run(
        changed(validation_step=lambda module, batch: None, **hooks),
        validation=LOADER,
        max_steps=None,
        max_epochs=1,
    )
    assert calls == names


def test_a_batch_is_moved_by_the_hooks_of_the_data() -> None:
    class Data(lightning.LightningDataModule):  # type: ignore[name-defined]  # as above
        def train_dataloader(self) -> Any:
            return LOADER

        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            return SimpleNamespace(points=batch[0], targets=batch[1])

    def training_step(module: Module, batch: Any, batch_idx: int) -> Any:
        return (module.net(batch.points) - batch.targets).square().mean()

    assert run(changed(training_step=training_step), Data()).step == 9
