"""A classifier as a LightningModule, with Lightning's Trainer: one process, or DDP by its flags."""

import argparse
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from made_up import Digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        images, labels = batch
        loss = functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        images, labels = batch
        scores = self.net(images)
        self.log("val_loss", functional.cross_entropy(scores, labels), sync_dist=True)
        self.log("val_accuracy", (scores.argmax(1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


torch.manual_seed(0)
trainer = Trainer(
    max_steps=args.steps,
    accumulate_grad_batches=8,
    gradient_clip_val=1.0,
    callbacks=[EarlyStopping("val_loss", patience=9), ModelCheckpoint(monitor="val_loss")],
    default_root_dir=args.out,
)
trainer.fit(
    Classifier(),
    DataLoader(Digits(), batch_size=4, shuffle=True, num_workers=2),
    DataLoader(Digits(), batch_size=50),
)
