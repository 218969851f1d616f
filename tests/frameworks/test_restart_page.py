"""The changes in docs/torchrun.md are small, and the scripts run before and after them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("transformers", reason="run make test-integrations")

import torch
from accelerate import Accelerator
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer as TransformersTrainer
from transformers import TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from elastic_runtime import restart
from tests.frameworks import tiny
from tests.unit.docs.pages import Block, after, before, blocks_of

pytestmark = [
    pytest.mark.processes,
    # Of a machine without a GPU, and of what Lightning finds in tests.
    pytest.mark.filterwarnings("ignore"),
]
LOOP, TRANSFORMERS, LIGHTNING, ACCELERATE = blocks_of("docs/torchrun.md", "diff")
MAX_NEW_LINES = 5
STEPS = 3


@pytest.fixture(autouse=True)
def _one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(restart, "_signals", None)
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("diff", [LOOP, TRANSFORMERS, LIGHTNING, ACCELERATE], ids=str)
def test_at_most_five_lines_are_new(diff: Block) -> None:
    new = [line for line in diff.text.splitlines() if line.startswith("+") and line != "+"]
    assert 0 < len(new) <= MAX_NEW_LINES


def run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(text, names)  # noqa: S102
    return names


def test_a_loop_saves_every_hundredth_step_and_the_last() -> None:
    shares, saved = list[int](), list[str]()
    names: dict[str, Any] = {"step": 0, "steps": 150, "state": {}, "device": "cpu"}
    names["dcp"] = SimpleNamespace(save=lambda _, checkpoint_id: saved.append(checkpoint_id))
    names["train_one_step"] = shares.append
    run(before(LOOP), {**names})
    assert (shares, saved) == ([8] * 150, ["out/100"])
    run(after(LOOP), {**names})
    assert (shares[150:], saved[1:]) == ([16] * 150, ["out/100", "out/150"])


def test_transformers_trains_and_saves(tmp_path: Path) -> None:
    names: dict[str, Any] = {"os": os, "dataset": tiny.Tokens(64), "Trainer": TransformersTrainer}
    names |= {"TrainingArguments": TrainingArguments, "get_last_checkpoint": get_last_checkpoint}
    for text, share in ((before(TRANSFORMERS), 8), (after(TRANSFORMERS), 16)):
        trainer = run(text, {**names, "model": tiny.model()})["trainer"]
        assert trainer.args.gradient_accumulation_steps == share
        assert get_last_checkpoint("out")


class Line(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


@pytest.fixture
def environment() -> Iterator[None]:
    """Lightning leaves its process group and a rank and a port, which later tests would take."""
    with mock.patch.dict(os.environ, {"GROUP_WORLD_SIZE": "1"}):
        yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("environment")
def test_lightning_trains() -> None:
    loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=2)
    names: dict[str, Any] = {"os": os, "loader": loader, "steps": STEPS, "Trainer": Trainer}
    names["ModelCheckpoint"] = ModelCheckpoint
    # One process alone has no second node.
    alone = before(LIGHTNING).replace("num_nodes=2", "num_nodes=1")
    for text, share in ((alone, 8), (after(LIGHTNING), 16)):
        trainer = run(text, {**names, "module": Line()})["trainer"]
        assert (trainer.global_step, trainer.accumulate_grad_batches) == (STEPS, share)


def test_accelerate_trains_and_saves() -> None:
    model = torch.nn.Linear(8, 1)
    saved, shares = list[int](), list[int]()
    names: dict[str, Any] = {"model": model, "optimizer": torch.optim.AdamW(model.parameters())}
    names |= {"loader": DataLoader(TensorDataset(torch.randn(64, 8))), "steps": STEPS}
    names |= {"Accelerator": Accelerator, "load_newest": lambda _: 0}
    names["train_one_step"] = lambda used: shares.append(used.gradient_accumulation_steps)
    names["save"] = lambda _, step: saved.append(step)
    run(before(ACCELERATE), {**names})
    run(after(ACCELERATE), {**names})
    assert (shares, saved) == ([8] * STEPS + [16] * STEPS, [STEPS])
