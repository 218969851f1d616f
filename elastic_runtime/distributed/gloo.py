"""Process groups over gloo: votes, state transfer, and training on the CPU.

In torch 2.13 to 2.15 gloo's `abort()` and `shutdown()` do not free blocked calls: only ranks that
talk to the lost peer notice, the others wait until the timeout. shutdown(2) on the group's sockets
frees every blocked call within milliseconds. So a group remembers which sockets it opened: those
that exist right after it was made and did not exist right before.

There is one exception: when a connection closes, gloo never ends the call whose data it is just
sending (tcp/pair.cc, signalException). So no call waits longer than `POLL_INTERVAL` without looking
whether its group was aborted.
"""

import datetime
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.distributed as dist

# torch's own stubs know neither these names nor their methods.
TCPStore: Any = dist.TCPStore  # type: ignore[attr-defined]
PrefixStore: Any = dist.PrefixStore  # type: ignore[attr-defined]
HashStore: Any = dist.HashStore  # type: ignore[attr-defined]
ProcessGroupGloo: Any = dist.ProcessGroupGloo

# Long, for a rank may load a checkpoint while others wait. A lost rank leads to `abort` instead.
COLLECTIVE_TIMEOUT = datetime.timedelta(hours=1)
# For all ranks of a generation to reach the store.
RENDEZVOUS_TIMEOUT = datetime.timedelta(seconds=20)
# For ranks that have reached the store to connect: milliseconds, unless one is lost just then.
CONNECT_TIMEOUT = datetime.timedelta(seconds=5)
POLL_INTERVAL = datetime.timedelta(seconds=0.1)
# Ports of the stores of this process: their connections belong to the peers.
_store_ports: deque[int] = deque(maxlen=8)


class PeerLost(RuntimeError):
    """A rank of the group is lost, or the group was aborted: the ranks that are left form another.

    Every other error would come again in every group, so it ends the process.
    """


@contextmanager
def reporting_lost_peers() -> Iterator[None]:
    """An error of a collective is a lost peer, except one of memory."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise PeerLost(str(error)) from error


class Abortable(Protocol):
    """What a collective needs to know about its group."""

    # Why its first collective failed.
    failure: str

    @property
    def is_aborted(self) -> bool: ...
    def unless_aborted(self, query: Callable[[], bool]) -> bool: ...


class Work:
    """A collective that has been started."""

    def __init__(self, group: Abortable, torch_work: Any) -> None:
        self._group = group
        self._torch_work = torch_work

    def wait(self) -> None:
        """Block until it has completed on this rank.

        Raises PeerLost when the group was aborted or a peer is lost.
        """
        while True:
            ended = self._group.is_aborted or self._torch_work.is_completed()
            try:
                self._torch_work.wait(POLL_INTERVAL)
            except RuntimeError as error:
                # It has failed, or it has not completed yet.
                if ended:
                    self._group.failure = self._group.failure or str(error)
                    raise PeerLost(str(error)) from error
            else:
                return

    def block_current_stream(self) -> None:
        """Let all later computations see its result. On the CPU that means to wait for it."""
        self.wait()

    @property
    def may_write(self) -> bool:
        """Whether it may still write to its tensors. It does not once it has completed or failed.

        gloo keeps no buffer beyond that (tcp/pair.cc, NonOwningPtr).
        """
        return not self._torch_work.is_completed()


def make(store: Any, rank: int, world: int) -> Any:
    """A connected process group of the ranks that meet at `store`."""
    group = ProcessGroupGloo(store, rank, world, CONNECT_TIMEOUT)
    group._set_default_timeout(COLLECTIVE_TIMEOUT)
    return group


class OpenedSockets:
    """The sockets that this process opens between construction and `remember`."""

    def __init__(self) -> None:
        self._before = connected_sockets()
        self._opened: dict[int, str] | None = None

    def remember(self) -> None:
        self._opened = self._new()

    def _new(self) -> dict[int, str]:
        return {
            descriptor: inode
            for descriptor, inode in connected_sockets().items()
            if self._before.get(descriptor) != inode
        }

    def shut_down(self) -> None:
        """Free every call that is blocked on one of them, here and at the peers."""
        opened = self._new() if self._opened is None else self._opened
        still_open = connected_sockets()
        for descriptor, inode in opened.items():
            if still_open.get(descriptor) != inode:
                # It was closed, and the number may belong to another file by now.
                continue
            try:
                with socket.socket(fileno=os.dup(descriptor)) as duplicate:
                    duplicate.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def connected_sockets() -> dict[int, str]:
    """Descriptor → inode of this process's connected TCP sockets, except those of its stores."""
    sockets = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            inode = os.readlink(f"/proc/self/fd/{name}")
            if inode.startswith("socket:") and _is_connection(int(name)):
                sockets[int(name)] = inode
        except OSError:
            # It was closed meanwhile.
            continue
    return sockets


def _is_connection(descriptor: int) -> bool:
    """Raises OSError for a socket that is not connected, such as a listening one.

    gloo ends the process when its listening socket is shut down, so that must be left out.
    """
    with socket.socket(fileno=os.dup(descriptor)) as duplicate:
        return bool(
            duplicate.family in (socket.AF_INET, socket.AF_INET6)
            and duplicate.getpeername()
            and duplicate.getsockname()[1] not in _store_ports
        )


def open_store() -> tuple[Any, int]:
    """A store where the ranks of one generation meet, and its port.

    A rank serves it, for this generation only.
    """
    # torch does not know the pod's own address.
    any_address = "0.0.0.0"  # noqa: S104
    store = TCPStore(any_address, 0, None, True, RENDEZVOUS_TIMEOUT, wait_for_workers=False)
    _store_ports.append(int(store.port))
    return store, int(store.port)
