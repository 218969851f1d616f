"""Trains a classifier of images, until it gets no better.

    python -m elastic_runtime --local 2 classify_images.py values/classify-images.toml

The values file says everything that is to be chosen; docs/recipes.md explains it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LinearLR
from values import Training, from_command_line

from elastic_runtime import Session, device

# The folders in `data`; each has a folder of images for every class.
TRAIN, VALIDATION = "train", "validation"
SMALL = "small"


@dataclass(kw_only=True)
class Values(Training):
    # small, or a name of torchvision such as resnet50, which begins with trained weights.
    model: str = SMALL
    # Width and height of an image.
    pixels: int
    weight_decay: float = 0.01
    # Steps between two evaluations.
    evaluate_every: int
    # Evaluations without a lower loss, after which the job ends.
    patience: int
    # Processes that read images, for each worker.
    loader_workers: int = 0

    def mistakes(self) -> Iterator[str]:
        yield from super().mistakes()
        for folder in (TRAIN, VALIDATION):
            if not list(Path(self.data, folder).glob("*/*")):
                yield f"data is {self.data!r}: give a directory with {folder}/CLASS/IMAGE"
        for name in ("pixels", "evaluate_every", "patience"):
            if not getattr(self, name):
                yield f"{name} is 0: give at least 1"


class Images(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """`classes`: their names. `flips`: whether every second image is mirrored, by chance."""

    def __init__(self, folder: Path, classes: list[str], pixels: int, *, flips: bool) -> None:
        self.classes = classes
        self.pixels = pixels
        self.flips = flips
        self.paths = sorted(path for name in classes for path in (folder / name).iterdir())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index]
        with Image.open(path) as file:
            image = file.convert("RGB").resize((self.pixels, self.pixels))
        colours = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        # (3, pixels, pixels), from -1 to 1
        pixels = colours.view(self.pixels, self.pixels, 3).permute(2, 0, 1) / 127.5 - 1
        if self.flips and torch.rand(()) < 0.5:
            pixels = pixels.flip(-1)
        return pixels.to(torch.get_default_dtype()), self.classes.index(path.parent.name)


class Residual(nn.Module):
    """Halves width and height."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layers(x) + self.shortcut(x))


def build(name: str, classes: int) -> nn.Module:
    if name == SMALL:
        widths = [3, 16, 32, 64]
        blocks = [Residual(inputs, outputs) for inputs, outputs in pairwise(widths)]
        return nn.Sequential(
            *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes)
        )
    from torchvision.models import get_model

    model: nn.Module = get_model(name, weights="DEFAULT")
    # The last layer is that of other classes.
    layers = {key: part for key, part in model.named_modules() if isinstance(part, nn.Linear)}
    key, last = layers.popitem()
    model.set_submodule(key, nn.Linear(last.in_features, classes))
    return model


class Best:
    """The lowest loss so far, and after which step."""

    def __init__(self) -> None:
        self.loss, self.step = float("inf"), 0

    def state_dict(self) -> dict[str, float]:
        return {"loss": self.loss, "step": self.step}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.loss, self.step = state["loss"], int(state["step"])


values = from_command_line(Values)
folder = Path(values.data)
classes = sorted(path.name for path in (folder / TRAIN).iterdir())
train = Images(folder / TRAIN, classes, values.pixels, flips=True)
validation = Images(folder / VALIDATION, classes, values.pixels, flips=False)
torch.manual_seed(values.seed)
model = build(values.model, len(classes)).to(device())
optimizer = torch.optim.AdamW(
    model.parameters(), lr=values.learning_rate, weight_decay=values.weight_decay
)
warmup = LinearLR(optimizer, 1 / max(1, values.warmup), total_iters=values.warmup)
best = Best()
session = Session(
    model,
    optimizer,
    lr_schedulers=[warmup],
    stateful=[best],
    **values.session_options(),
)


def quality(batch: list[torch.Tensor]) -> dict[str, torch.Tensor | int]:
    images, labels = (part.to(session.device) for part in batch)
    scores = model(images)
    return {
        "loss": functional.cross_entropy(scores, labels, reduction="sum"),
        "correct": (scores.argmax(1) == labels).sum(),
        "count": len(labels),
    }


loader = session.loader(train, num_workers=values.loader_workers)
for step in session.steps(values.steps):
    if step.number and step.number % values.evaluate_every == 0:
        sums = session.evaluate(validation, quality)
        loss = sums["loss"] / sums["count"]
        session.keep_best(loss)
        if loss < best.loss:
            best.loss, best.step = loss, step.number
        if step.number - best.step >= values.patience * values.evaluate_every:
            session.stop()
        if session.rank == 0:
            accuracy = sums["correct"] / sums["count"]
            print(f"step {step.number}: loss {loss:.4f}, accuracy {accuracy:.3f}")
    for images, labels in loader.batches(step):
        scores = model(images.to(session.device))
        step.backward(functional.cross_entropy(scores, labels.to(session.device)))
