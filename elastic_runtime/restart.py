"""For scripts under `--restart`: when all ranks are to save and end, and a batch that stays.

Such a script uses torch.distributed as under torchrun. At a new size every rank gets the signal,
but not in the same step: the ranks must agree on the last one.
"""

import os
import signal

import torch
import torch.distributed as dist

from elastic_runtime.agent.settings import STOP_SIGNAL_ENV

# Received since the handler is in place; None before.
_signals: list[int] | None = None


def stop_requested(device: torch.device | str = "cpu") -> bool:
    """Whether the ranks are to save and end after this step: the same on all of them.

    Call it on every rank before the first step, and at the end of each. The first call takes the
    signal in hand, SIGTERM or that of `--signal`: until then it ends the process. It sums one
    number over the ranks of the default group, on `device`: that of a GPU with NCCL. Without a
    group it is this process's own answer.
    """
    signals = _watch()
    if not dist.is_initialized():
        return bool(signals)
    flag = torch.tensor([float(bool(signals))], device=device)
    dist.all_reduce(flag)
    return bool(flag.item())


def _watch() -> list[int]:
    global _signals
    if _signals is None:
        _signals = signals = []
        name = os.environ.get(STOP_SIGNAL_ENV, "SIGTERM")
        signal.signal(signal.Signals[name], lambda number, _: signals.append(number))
    return _signals


def accumulation_steps(micro_batches: int) -> int:
    """How many of the `micro_batches` of one step each rank computes, so that the batch stays.

    Raises ValueError if they cannot be shared evenly by WORLD_SIZE ranks.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if micro_batches < 1 or micro_batches % world:
        raise ValueError(
            f"{micro_batches} micro-batches cannot be shared evenly by {world} ranks: allow only "
            f"sizes that divide their number, or choose another one"
        )
    return micro_batches // world
