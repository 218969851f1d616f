"""Process groups over NCCL: sums and gathers of tensors on a GPU.

Written from the source of torch; tried with groups of one on a GPU (docs/limitations.md).

- A communicator connects when its group forms, on the thread that forms it. It is non-blocking: if
  a peer dies meanwhile, we get an error after at most `TORCH_NCCL_NONBLOCKING_TIMEOUT`.
- torch ends nothing on its own: its watchdog only reports and its monitor is off (the agent sets
  these defaults in worker_process.py). The agents report a lost rank, and then every communicator
  of the generation is aborted.
- All are aborted at once, each on its own thread: an abort frees memory, so a kernel of another
  communicator that still spins can hold it up. One ncclGroup around the aborts would do the same,
  but `ProcessGroupNCCL.abort` runs on a thread of torch's (2.13 to 2.15), and an ncclGroup belongs
  to one thread.
- An aborted collective looks like a completed one. A query of its state waits for the abort and
  holds Python's lock, which the other aborts need. So an aborted group is never queried:
  `Group.unless_aborted`.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from elastic_runtime.distributed.gloo import COLLECTIVE_TIMEOUT, Abortable, PeerLost

POLL_INTERVAL_S = 0.0001
# Until a rank that waits looks whether the others wait elsewhere, and between two looks.
LOOK_INTERVAL_S = 0.1


class Work:
    """A collective that has been started on the GPU."""

    def __init__(self, group: Abortable, torch_work: Any) -> None:
        self._group = group
        self._torch_work = torch_work

    def wait(self) -> None:
        """Block until the GPU has completed it and everything before it on its stream.

        So a rank that votes for a step has its gradients. Raises PeerLost when the group was
        aborted or a peer is lost. It does not use torch's `wait(timeout)`, which aborts the
        communicator when time is up.
        """
        look_at = time.monotonic() + LOOK_INTERVAL_S
        while not self._group.unless_aborted(self._torch_work.is_completed):
            time.sleep(POLL_INTERVAL_S)
            if time.monotonic() > look_at:
                look_at += LOOK_INTERVAL_S
                self._group.keep_waiting()
        # It does not block any more; it orders the stream and raises the error that NCCL has found.
        self._wait()

    def block_current_stream(self) -> None:
        """What is queued from now on runs after it; nothing waits on the host.

        Whether it succeeded is known after a later collective of the same step was waited for.
        Raises PeerLost when the group was aborted.
        """
        if self._group.is_aborted:
            raise PeerLost("the group was aborted")
        self._wait()

    def _wait(self) -> None:
        try:
            self._torch_work.wait()
        except dist.DistBackendError as error:
            # Any other error is one of this GPU.
            self._group.failure = self._group.failure or str(error)
            raise PeerLost(str(error)) from error

    @property
    def may_write(self) -> bool:
        """Always true: an aborted one looks completed while its kernel may still run."""
        return True


class CompletedWork:
    """torch's side of a collective that has nothing to do."""

    def is_completed(self) -> bool:
        return True

    def wait(self) -> None:
        """It is completed."""


class SingleRankGroup:
    """Stands in for torch's process group of one rank: each collective copies input to output."""

    def allreduce(self, tensors: Sequence[torch.Tensor]) -> CompletedWork:
        return CompletedWork()

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor) -> CompletedWork:
        output.copy_(source)
        return CompletedWork()

    _reduce_scatter_base = _allgather_base

    def alltoall_base(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        output_sizes: list[int],
        source_sizes: list[int],
    ) -> CompletedWork:
        return self._allgather_base(output, source)

    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], tensors: Sequence[torch.Tensor]
    ) -> CompletedWork:
        return self._allgather_base(outputs[0][0], tensors[0])


def device_uuid(device: torch.device) -> str:
    """A name of the GPU that is unique in the cluster; empty for the CPU."""
    if device.type != "cuda":
        return ""
    return str(torch.cuda.get_device_properties(device).uuid)


def check_devices(uuids: Sequence[str]) -> None:
    """Raise ValueError if NCCL could never connect these devices. `uuids`: by rank."""
    if not dist.is_nccl_available():
        raise ValueError(
            f"the model is on a GPU and torch {torch.__version__} has no NCCL: use a build that "
            f"has it, or train on the CPU"
        )
    rank_of: dict[str, int] = {}
    for rank, uuid in enumerate(uuids):
        if not uuid:
            raise ValueError(
                f"the model is on the CPU in rank {rank} and on a GPU in others: put it on the "
                f"same kind of device in all ranks"
            )
        if uuid in rank_of:
            raise ValueError(
                f"ranks {rank_of[uuid]} and {rank} have their model on the same GPU, {uuid}: give "
                f"each rank its own GPU"
            )
        rank_of[uuid] = rank


def make(store: Any, rank: int, world: int) -> Any:
    """A process group of the ranks that meet at `store`, not connected yet."""
    nccl: Any = dist.ProcessGroupNCCL
    options = nccl.Options()
    options.config.blocking = 0
    options._timeout = COLLECTIVE_TIMEOUT
    return nccl(store, rank, world, options)


def connect(communicator: Any, device: torch.device, group: Abortable) -> None:
    """Afterwards a first sum has completed.

    Raises PeerLost when a peer is lost or the group was aborted.
    """
    communicator.eager_connect_single_device(device)
    Work(group, communicator.allreduce([torch.ones(1, device=device)])).wait()


def abort(communicators: Sequence[Any]) -> None:
    """Free every call that waits for one of them. Returns at once."""
    for communicator in communicators:
        threading.Thread(
            target=_abort_quietly, args=[communicator], daemon=True, name="abort-nccl"
        ).start()


def _abort_quietly(communicator: Any) -> None:
    # Nothing else could be tried.
    with suppress(RuntimeError):
        communicator.abort()
