"""The file that names the best checkpoint of a directory.

It is replaced as a whole, and only once that checkpoint is durable. No checkpoint that it names is
removed to make room.
"""

import json
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from elastic_runtime.checkpointing.durable_files import sync_directory, write_durably
from elastic_runtime.checkpointing.save_format import folder_name

MARK = "best.json"


@dataclass(frozen=True, slots=True)
class BestMark:
    """The step of a checkpoint, and what the script measured of that state."""

    step: int
    value: float
    lower_is_better: bool = True

    def is_better_than(self, other: "BestMark | None") -> bool:
        """NaN never is. Of values that cannot be compared the newer one counts."""
        if math.isnan(self.value):
            return False
        if other is None or other.lower_is_better != self.lower_is_better:
            return True
        difference = self.value - other.value
        return difference < 0 if self.lower_is_better else difference > 0


def read(directory: Path) -> BestMark | None:
    """None if there is no mark, it is damaged, or its checkpoint is not there.

    Raises OSError if it cannot be read: there may be one.
    """
    try:
        fields = json.loads((directory / MARK).read_bytes())
        mark = BestMark(
            int(fields["step"]), float(fields["value"]), bool(fields["lower_is_better"])
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, LookupError, TypeError):
        return None
    return mark if (directory / folder_name(mark.step)).is_dir() else None


def write(directory: Path, mark: BestMark) -> None:
    """Durably. Raises OSError; then the mark before is still there."""
    draft = directory / f".{MARK}"
    try:
        write_durably(draft, json.dumps(asdict(mark)).encode())
        os.rename(draft, directory / MARK)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_directory(directory)


def remove(directory: Path, step: int) -> None:
    """The checkpoint of this step goes away: if the mark names it, there is none any more."""
    mark = read(directory)
    if mark and mark.step == step:
        (directory / MARK).unlink()
