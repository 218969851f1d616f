"""A rank's end of the socket to its agent: a thread receives the messages."""

import faulthandler
import logging
import os
import signal
import socket
import threading
from typing import Any

from elastic_runtime import messages
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group
from elastic_runtime.messages import (
    AGENT_FD_ENV,
    LOCAL_RANK_ENV,
    LOCAL_WORLD_SIZE_ENV,
    AgentMessage,
    Record,
    WorkerMessage,
    decode_agent_message,
    encode_line,
)

log = logging.getLogger(__name__)


def connect() -> "AgentLink | None":
    """The link to this process's agent; None if the script runs without one."""
    descriptor = os.environ.get(AGENT_FD_ENV)
    if not descriptor:
        return None
    local_rank = int(os.environ.get(LOCAL_RANK_ENV, "0"))
    ranks = int(os.environ.get(LOCAL_WORLD_SIZE_ENV, "1"))
    return AgentLink(int(descriptor), local_rank, ranks)


class AgentLink:
    """What the parent last told: the newest record, and how often a save was asked for."""

    def __init__(self, descriptor: int, local: int, ranks: int) -> None:
        self.local = local
        self.ranks = ranks
        self.index = -1
        self._socket = socket.socket(fileno=descriptor)
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._record = Record()
        self._saves = 0
        self._group: Group | None = None
        # generation → the store it meets at, if it is ours
        self._stores: dict[int, Any] = {}
        threading.Thread(target=self._listen, daemon=True, name="parent").start()

    def send(self, message: WorkerMessage) -> None:
        with self._sending:
            self._socket.sendall(encode_line(message))

    @property
    def record(self) -> Record:
        return self._record

    @property
    def saves(self) -> int:
        return self._saves

    def newer_than(self, generation: int) -> Record:
        """The first record newer than `generation` that can be acted on. Waits for as long as it
        takes: the parent ends us if need be."""

        def complete() -> bool:
            record = self._record
            return (
                self.index >= 0
                and record.generation > generation
                and bool(record.stop or record.store or self.index not in record.members)
            )

        with self._changed:
            self._changed.wait_for(complete)
            return self._record

    def guard(self, group: Group | None) -> None:
        """Cut this group as soon as a newer generation starts abruptly; at once if it has."""
        with self._changed:
            self._group = group
            self._cut_if_lost()

    def _cut_if_lost(self) -> None:
        if self._group and self._record.generation > self._group.generation and self._record.abrupt:
            self._group.abort()

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                self._receive(decode_agent_message(line))
        # The agent is gone: no process would ever reap or stop this one.
        os._exit(1)

    def _receive(self, message: AgentMessage) -> None:
        match message:
            case messages.NewRecord():
                self._set_record(message.record, message.index)
            case messages.SaveRequested():
                self._saves += 1
            case messages.Ping():
                self.send(messages.Pong())
            case messages.StacksFile():
                # The handler runs without Python's lock, which may be what this process hangs on.
                faulthandler.register(signal.SIGRTMIN, file=message.descriptor)

    def _set_record(self, record: Record, index: int) -> None:
        with self._changed:
            self.index = index
            self._record = record
            self._cut_if_lost()
            self._changed.notify_all()
        first = bool(record.members) and record.members[0] == self.index and self.local == 0
        if first and not record.store and not record.stop and record.generation not in self._stores:
            store, port = open_store()
            self._stores = {g: s for g, s in self._stores.items() if g >= record.generation - 1} | {
                record.generation: store
            }
            self.send(messages.StoreOpened(record.generation, port))
