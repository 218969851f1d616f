"""A save by one writer, as a job of one makes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elastic_runtime.checkpointing.save_format import Saved, folder
from elastic_runtime.checkpointing.saver import Saver


def save(directory: Path, step: int, state: Mapping[str, Any]) -> Saved:
    """Raises OSError with what the status would say."""
    said: dict[str, Any] = {}
    Saver(directory, 0, said.update).save_and_wait(step, lambda: dict(state))
    if said["message"]:
        raise OSError(said["message"])
    return Saved(said["durable_step"], said["digest"], directory / folder(step))
