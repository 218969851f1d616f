"""States, savers, and checkpoints on a disk."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing.partition import Writer
from elastic_runtime.checkpointing.save_format import Checkpoint, folder_name
from elastic_runtime.checkpointing.saver import Saver


def ignore_report(**_: Any) -> None:
    """A report that nobody reads."""


def save(directory: Path, step: int, state: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint of a job of one. Raises OSError with the status message if it failed."""
    status: dict[str, Any] = {}
    Saver(directory, 0, status.update).save_and_wait(step, lambda: dict(state))
    if status["save_message"]:
        raise OSError(status["save_message"])
    return Checkpoint(status["durable_step"], status["digest"], directory / folder_name(step))


def small_state(step: int, numbers: int = 1000) -> dict[str, Any]:
    return {
        "step": step,
        "model": {"w": torch.arange(float(numbers))},
        "also": [(1, 2.5, "x", None)],
    }


def steps_in(directory: Path) -> list[int]:
    """The steps of all checkpoints in a directory, by their names."""
    return sorted(int(path.name.removeprefix("step-")) for path in directory.glob("step-*"))


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model and its optimizer after one step; always the same."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(300, 301), torch.nn.BatchNorm1d(301), torch.nn.Linear(301, 7)
    ).to(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 300)).sum().backward()
    optimizer.step()
    return model, optimizer


def trained_state() -> dict[str, Any]:
    model, optimizer = trained()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3, "also": []}


def savers(directory: Path, world: int, report: Callable[..., None] = ignore_report) -> list[Saver]:
    """One for each rank of a generation, by rank."""
    by_rank = [Saver(directory, 0, report) for _ in range(world)]
    for rank, saver in enumerate(by_rank):
        saver.enter_generation(Writer(rank, world, 0, "1-5000"), writer_left=False)
    return by_rank


def save_on_all_ranks(by_rank: list[Saver], step: int, state: dict[str, Any] | None = None) -> None:
    """Save the state, of a trained model if none is given, on all ranks at once."""
    live = state or trained_state()
    threads = [
        threading.Thread(target=saver.save_and_wait, args=(step, lambda: live)) for saver in by_rank
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
