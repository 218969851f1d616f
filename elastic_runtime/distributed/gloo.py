"""Process groups over gloo: votes, state transfer, and training on the CPU.

In torch 2.13 to 2.15 gloo's `abort()` and `shutdown()` do not free blocked calls: only ranks that
talk to the lost peer notice, the others wait until the timeout. shutdown(2) on the group's sockets
frees every blocked call within milliseconds. Each rank listens at a port of its own for one group,
and the ranks exchange these addresses before gloo connects them. So a connection is the group's if
one of its ends is such an address; those of the script are left alone.

There is one exception: when a connection closes, gloo never ends the call whose data it is just
sending (tcp/pair.cc, signalException). So no call waits longer than `POLL_INTERVAL` without looking
whether its group was aborted.
"""

import datetime
import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
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
# For a rank to reach the store.
RENDEZVOUS_TIMEOUT = datetime.timedelta(seconds=20)
# For the others to reach it: one may evaluate for hours. A lost rank leads to `abort` instead.
MEETING_TIMEOUT = datetime.timedelta(days=7)
# For ranks that have reached the store to connect: milliseconds, unless one is lost just then.
# Each connects to every other one: all of a large job on few cores need longer.
CONNECT_TIMEOUT = datetime.timedelta(seconds=5)
CONNECT_TIMEOUT_OF_RANK = datetime.timedelta(seconds=0.05)
MAX_ATTEMPTS = 10
POLL_INTERVAL = datetime.timedelta(seconds=0.1)
# Two threads that open a device at once could not tell their sockets apart.
_opening_device = threading.Lock()
Address = tuple[str, int]
"""Host and port."""


class PeerLost(RuntimeError):
    """A rank of the group is lost, or the group was aborted: the ranks that are left form another.

    Every other error would come again in every group, so it ends the process.
    """


@contextmanager
def reporting_lost_peers() -> Iterator[None]:
    """An error of a collective is a lost peer, except one of memory or of this rank's own GPU.

    NCCL's errors, such as "unhandled cuda error", count as a lost peer: they do not tell whose GPU
    failed.
    """
    try:
        yield
    except (torch.OutOfMemoryError, torch.AcceleratorError):
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
    def keep_waiting(self) -> None: ...


class Work:
    """A collective that has been started."""

    def __init__(self, group: Abortable, torch_work: Any) -> None:
        self._group = group
        self._torch_work = torch_work

    def wait(self) -> None:
        """Block until it has completed on this rank.

        Raises PeerLost when the group was aborted or a peer is lost, and Mistake if peers wait
        elsewhere.
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
                self._group.keep_waiting()
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


def open_device() -> tuple[Any, Address]:
    """A device, through which the process groups of one generation connect, and where it listens.

    gloo does not tell the address: it is the one socket that listens from now on. Raises OSError if
    the machine has no address to listen at, or the script opens such sockets all the time.
    """
    # As torch reads it, but of several names only the first.
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    with _opening_device:
        for _ in range(MAX_ATTEMPTS):
            before = listening_at()
            try:
                if interface:
                    device = ProcessGroupGloo.create_device(interface=interface, lazy_init=False)
                else:
                    device = ProcessGroupGloo.create_default_device(lazy_init=False)
            except RuntimeError as error:
                raise OSError(f"gloo cannot listen: {error}") from error
            opened = listening_at() - before
            if len(opened) == 1:
                return device, opened.pop()
    raise OSError("the socket at which gloo listens cannot be told from those of the script")


def make(device: Any, store: Any, rank: int, world: int) -> Any:
    """A connected process group of the ranks that meet at `store`."""
    options = ProcessGroupGloo._Options()
    options._devices = [device]
    options._timeout = CONNECT_TIMEOUT + world * CONNECT_TIMEOUT_OF_RANK
    group = ProcessGroupGloo(store, rank, world, options)
    group._set_default_timeout(COLLECTIVE_TIMEOUT)
    return group


def shut_down_connections(listeners: Collection[Address]) -> None:
    """Free every call that is blocked on a connection with one of these, here and at the peers."""
    for duplicate in _tcp_sockets():
        # It may end meanwhile, or listen itself: then it has no peer.
        with suppress(OSError):
            if duplicate.getpeername()[:2] in listeners or duplicate.getsockname()[:2] in listeners:
                duplicate.shutdown(socket.SHUT_RDWR)


def listening_at() -> set[Address]:
    """Where this process listens."""
    addresses = set()
    for duplicate in _tcp_sockets():
        with suppress(OSError):
            if duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                host, port, *_ = duplicate.getsockname()
                addresses.add((host, port))
    return addresses


def _tcp_sockets() -> Iterator[socket.socket]:
    """Duplicates of this process's TCP sockets, each open until the next one is asked for."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            duplicate = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            # It was closed meanwhile.
            continue
        with duplicate:
            is_internet = duplicate.family in (socket.AF_INET, socket.AF_INET6)
            if is_internet and duplicate.type == socket.SOCK_STREAM:
                yield duplicate


def drop_on_thread(references: list[Any]) -> None:
    """Empty the list, which holds groups, or collectives of groups that are closed.

    The last reference to one of these may not be dropped where somebody waits: it takes 10 ms for
    each connection (gloo's loop tick), and has no end if a call has none.
    """
    threading.Thread(target=references.clear, daemon=True, name="drop-group").start()


def open_store(host: str | None = None) -> tuple[Any, int]:
    """A store where the ranks of one generation meet, and its port.

    A rank serves it, for this generation only. `host`: at this address only; None: at all.
    """
    # torch does not know the pod's own address.
    any_address = "0.0.0.0"  # noqa: S104
    # torch itself would listen at all addresses, whatever it is told.
    listener = socket.create_server((host, 0)) if host else None
    store = TCPStore(
        host or any_address,
        listener.getsockname()[1] if listener else 0,
        None,
        True,
        RENDEZVOUS_TIMEOUT,
        wait_for_workers=False,
        master_listen_fd=listener.detach() if listener else None,
    )
    return store, int(store.port)
