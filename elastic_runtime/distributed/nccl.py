"""NCCL: how gradients and sharded parameters on a GPU are summed and gathered. Written to torch's
source, not tried on a GPU yet.

- A communicator is connected when its group forms, on the forming thread, and is non-blocking, so
  that a peer that dies meanwhile leaves
  us with an error after `TORCH_NCCL_NONBLOCKING_TIMEOUT` at the latest, not in a call that never
  ends.
- torch ends nothing on its own: its watchdog reports and its monitor is off (the defaults are in
  child.py). Who is lost is told by the
  parents, and then every communicator of the generation is aborted.
- All at once, each on a thread of its own: a kernel of one that still spins can hold up the abort
  of another, for that frees memory. One
  ncclGroup around them would do the same, but `ProcessGroupNCCL.abort` runs on a thread of torch's
  (2.13 to 2.15), and NCCL's groups are
  a thread's own.
- An aborted collective looks like one that is done, and to ask for it waits for the abort with
  Python's lock held, which the other aborts
  need. So nobody asks once the group is cut: `Group.unless_cut`.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from elastic_runtime.distributed.gloo import TIMEOUT, Cuttable

LOOK_S = 0.0001


class Call:
    """A collective under way on the GPU."""

    def __init__(self, group: Cuttable, work: Any) -> None:
        self._group = group
        self._work = work

    def wait(self) -> None:
        """Until the GPU has done it, and everything before it on its stream: who votes for a step
        holds its gradients.

        Raises RuntimeError when the group was cut or a peer is gone. Never by `work.wait(timeout)`,
        which aborts when time is up.
        """
        while not self._group.unless_cut(self._work.is_completed):
            time.sleep(LOOK_S)
        # for the stream, not here; raises what NCCL has found
        self._work.wait()

    def follow(self) -> None:
        """What is queued from now on comes after it. Whether it went well is known after a later
        call of the same step is waited for."""
        if self._group.is_cut:
            raise RuntimeError("the group was cut")
        self._work.wait()

    @property
    def may_write(self) -> bool:
        """Whether it may still write its tensors. Nobody can tell: one that was aborted looks done,
        and its kernel may still run."""
        return True


class Done:
    """The work of nothing to do."""

    def is_completed(self) -> bool:
        return True

    def wait(self) -> None:
        """It is done."""


class Alone:
    """A process group of one: what it gathers or scatters is what it was given."""

    def allreduce(self, tensors: Sequence[torch.Tensor]) -> Done:
        return Done()

    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor) -> Done:
        output.copy_(given)
        return Done()

    _reduce_scatter_base = _allgather_base

    def alltoall_base(
        self, output: torch.Tensor, given: torch.Tensor, taken: list[int], sent: list[int]
    ) -> Done:
        return self._allgather_base(output, given)

    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], tensors: Sequence[torch.Tensor]
    ) -> Done:
        return self._allgather_base(outputs[0][0], tensors[0])


def name(device: torch.device) -> str:
    """Of the GPU, wherever in the cluster it is; empty for the CPU."""
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""


def check(names: Sequence[str]) -> None:
    """`names`: of all ranks' devices. Raises ValueError where NCCL would hang or fail whatever is
    tried again."""
    if not dist.is_nccl_available():
        raise ValueError(
            f"the model is on a GPU and torch {torch.__version__} has no NCCL: take a build "
            f"that "
            f"has, or train on the CPU"
        )
    first: dict[str, int] = {}
    for rank, of in enumerate(names):
        if not of:
            raise ValueError(
                f"the model is on the CPU in rank {rank} and on a GPU in others: put it on the "
                f"same kind of device in all"
            )
        if of in first:
            raise ValueError(
                f"ranks {first[of]} and {rank} have their model on one GPU, {of}: give each "
                f"rank "
                f"one of its own"
            )
        first[of] = rank


def make(store: Any, rank: int, world: int) -> Any:
    """A process group of those who meet at `store`, to be connected."""
    nccl: Any = dist.ProcessGroupNCCL
    options = nccl.Options()
    options.config.blocking = 0
    options._timeout = TIMEOUT
    return nccl(store, rank, world, options)


def connect(made: Any, device: torch.device, group: Cuttable) -> None:
    """Afterwards its first sum is done. Raises RuntimeError when a peer is gone or the group was
    cut."""
    made.eager_connect_single_device(device)
    Call(group, made.allreduce([torch.ones(1, device=device)])).wait()


def abort(communicators: Sequence[Any]) -> None:
    """Let everybody go who waits for one of them. Returns at once."""
    for communicator in communicators:
        threading.Thread(target=_abort, args=[communicator], daemon=True, name="abort-nccl").start()


def _abort(communicator: Any) -> None:
    # there is nothing else to try
    with suppress(RuntimeError):
        communicator.abort()
