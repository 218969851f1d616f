"""Epochs and their ends, as hooks and schedulers of a LightningModule see them.

`make test-integrations` runs this, in an environment that has their packages.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset

# With an import of Lightning, warnings of others are errors here.
pytestmark = pytest.mark.filterwarnings("ignore")
lightning = pytest.importorskip("lightning.pytorch", reason="run make test-integrations")
from elastic_runtime import contract  # noqa: E402  # needs the package above
from elastic_runtime.integrations.lightning import fit  # noqa: E402
from tests.harness.local_job import Job  # noqa: E402
from tests.paths import TREE  # noqa: E402

SCRIPT = (TREE / "tests" / "frameworks" / "scripts" / "lightning_sharded.py").read_text()
# Of micro-batches of 2, three of which are a step.
MICRO_BATCHES = 3


def loader(samples: int) -> "DataLoader[Any]":
    return DataLoader(TensorDataset(torch.randn(samples, 4)), batch_size=2)


class Module(lightning.LightningModule):  # type: ignore[name-defined]  # a package that is skipped if it is not there
    """Notes its hooks, each with the epoch and how many steps are committed."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.noted = list[tuple[str, int, int]]()

    def note(self, hook: str) -> None:
        self.noted.append((hook, self.trainer.current_epoch, self.trainer.global_step))

    def places(self, hook: str) -> list[tuple[int, int]]:
        return [(epoch, step) for name, epoch, step in self.noted if name == hook]

    def training_step(self, batch: Any) -> Any:
        return self.net(batch[0]).square().mean()

    def validation_step(self, batch: Any) -> None:
        self.log("loss", self.net(batch[0]).square().mean())

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.note(f"batch {batch_idx}")

    def on_train_epoch_start(self) -> None:
        self.note("start")

    def on_train_epoch_end(self) -> None:
        self.note("end")

    def on_validation_end(self) -> None:
        self.note(f"validated {sorted(self.trainer.callback_metrics)}")

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        return [optimizer], [ExponentialLR(optimizer, 0.5)]


class Stops(lightning.Callback):  # type: ignore[name-defined]  # as above
    """Ends the job inside a validation. `stop`: what it does to the trainer."""

    def __init__(self, stop: Any) -> None:
        self.stop = stop

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        self.stop(trainer)


def set_should_stop(trainer: Any) -> None:
    trainer.should_stop = True


def test_all_samples_of_an_epoch_are_used_in_it() -> None:
    """A batch continues in the next epoch: those of 10 samples end in the steps 2, 4 and 5."""
    module = Module()
    session = fit(module, loader(10), micro_batches=MICRO_BATCHES, max_epochs=3)
    assert session.step == 5
    assert module.places("end") == [(0, 2), (1, 4), (2, 5)]
    assert module.places("start") == [(0, 0), (1, 2), (2, 4)]
    # In the last epoch is one step.
    assert module.places("batch 5") == [(0, 1), (1, 3)]
    assert module.places("batch 2") == [(0, 0), (1, 2), (2, 4)]
    assert session.optimizer.param_groups[0]["lr"] == 0.5**3


def test_a_stop_in_a_validation_lets_it_be_completed() -> None:
    """As in Lightning: callbacks and schedulers read what was validated."""
    module = Module()
    session = fit(
        module,
        loader(12),
        loader(40),
        micro_batches=MICRO_BATCHES,
        max_epochs=9,
        callbacks=Stops(set_should_stop),
    )
    assert module.places("validated ['loss']") == [(0, 2)]
    assert module.places("end") == [(0, 2)]
    assert session.step == 3


def test_an_epoch_has_its_end_also_if_its_validation_has_none() -> None:
    module = Module()
    session = fit(
        module,
        loader(12),
        loader(40),
        micro_batches=MICRO_BATCHES,
        max_epochs=9,
        callbacks=Stops(lambda trainer: trainer.session.stop()),
    )
    assert module.places("end") == [(0, 2)]
    assert session.step == 3


@pytest.mark.processes
def test_hooks_of_a_sharded_model_have_each_micro_batch_once(tmp_path: Path) -> None:
    """Two workers share three micro-batches, and the one with fewer computes one more in vain."""
    job = Job(tmp_path, SCRIPT, arguments=("4",))
    job.env[contract.SIZES_ENV] = "2,8"
    try:
        job.start(0, 1)
        assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()
    finally:
        job.kill()
    noted = [
        tuple(json.loads(line))
        for path in tmp_path.glob("hooks-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    expected = [
        (hook, step, number)
        for step in range(4)
        for hook in ("on_train_batch_start", "on_train_batch_end")
        for number in range(step % 2 * 3, step % 2 * 3 + 3)
    ]
    expected += [
        (hook, step, number)
        for step in (2, 4)
        for hook in ("on_validation_batch_start", "on_validation_batch_end")
        for number in range(3)
    ]
    assert sorted(noted) == sorted(expected)
