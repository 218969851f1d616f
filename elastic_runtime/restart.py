"""For scripts under `--restart`: when all ranks are to save and end, and a batch that stays.

Such a script uses torch.distributed as under torchrun. At a new size every rank gets the signal,
but not in the same step: the ranks must agree on the last one.
"""

import faulthandler
import os
import signal
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist

from elastic_runtime.agent.rank_environment import share
from elastic_runtime.agent.settings import PROGRESS_FILE_ENV, STOP_SIGNAL_ENV

# Received since the handler is in place; None before.
_signals: list[int] | None = None
# Of `progress`, and the last step that it was given; -1 if it is unknown.
_calls = 0
_last_step = -1


def stop_requested(device: torch.device | str = "cpu", step: int | None = None) -> bool:
    """Whether the ranks are to save and end after this step: the same on all of them.

    Call it on every rank before the first step, and at the end of each. The first call takes the
    signal in hand, SIGTERM or that of `--signal`: until then it ends the process. It sums one
    number over the ranks of the default group, on `device`: that of a GPU with NCCL. Without a
    group it is this process's own answer.

    `step`: how many are done, for the status of the job.
    """
    signals = watch_signal()
    stopping = bool(signals)
    if dist.is_initialized():
        flag = torch.tensor([float(stopping)], device=device)
        dist.all_reduce(flag)
        stopping = bool(flag.item())
    progress(step)
    return stopping


def watch_signal() -> list[int]:
    """Take the signal in hand. Those that were received are added to the list."""
    global _signals
    if _signals is None:
        _signals = signals = []
        name = os.environ.get(STOP_SIGNAL_ENV, "SIGTERM")
        signal.signal(signal.Signals[name], lambda number, _: signals.append(number))
        if PROGRESS_FILE_ENV in os.environ:
            # The stacks of a script that hangs.
            faulthandler.register(signal.SIGRTMIN)
    return _signals


def progress(step: int | None = None) -> None:
    """Report that this rank does not hang: for what takes long between two steps."""
    global _calls, _last_step
    _calls += 1
    _last_step = _last_step if step is None else step
    if path := os.environ.get(PROGRESS_FILE_ENV):
        # A report that cannot be written must not end the training.
        with suppress(OSError):
            Path(path).write_text(f"{_calls} {_last_step}")


def accumulation_steps(micro_batches: int) -> int:
    """How many of the `micro_batches` of one step each rank computes, so that the batch stays.

    Raises ValueError if they cannot be shared evenly by WORLD_SIZE ranks.
    """
    return share(micro_batches, int(os.environ.get("WORLD_SIZE", "1")))
