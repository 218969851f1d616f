"""What a directory of checkpoints holds, in words and for programs. Reads no tensor."""

import json
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.checkpointing import best_mark
from elastic_runtime.checkpointing.checkpoint_directory import checkpoints
from elastic_runtime.checkpointing.save_format import MANIFEST, step_of


@dataclass(frozen=True, slots=True)
class Save:
    """A checkpoint by its name. `size_bytes`: None if its manifest cannot be read."""

    step: int
    path: str
    size_bytes: int | None
    # What the script measured; None if it is not the best.
    best_value: float | None


def saves(directory: Path) -> list[Save]:
    """Newest first; not verified. Raises OSError if the directory cannot be listed."""
    best = best_mark.read(directory)
    return [
        Save(
            step,
            str(path),
            _size_bytes(path),
            best.value if best and best.step == step else None,
        )
        for path in checkpoints(directory)
        for step in [step_of(path.name)]
    ]


def _size_bytes(path: Path) -> int | None:
    try:
        files = json.loads((path / MANIFEST).read_bytes())["files"]
        return sum(int(entry["bytes"]) for entry in files.values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def as_json(listed: list[Save]) -> str:
    """A list of objects, with `null` for what is not known."""
    return json.dumps(
        [
            {
                "step": save.step,
                "path": save.path,
                "bytes": save.size_bytes,
                "bestValue": save.best_value,
            }
            for save in listed
        ]
    )


def table(listed: list[Save], directory: Path) -> str:
    if not listed:
        return f"there is no checkpoint in {directory}"
    lines = [f"{'step':>9}  {'size':>10}  checkpoint"]
    for save in listed:
        size = "?" if save.size_bytes is None else f"{save.size_bytes / 1e6:.1f} MB"
        best = "" if save.best_value is None else f"  best: {save.best_value:g}"
        lines.append(f"{save.step:>9}  {size:>10}  {save.path}{best}")
    return "\n".join(lines)
