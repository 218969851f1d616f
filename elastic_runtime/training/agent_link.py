"""A rank's line to its parent: JSON lines over one socket, read by a thread."""

import faulthandler
import json
import logging
import os
import signal
import socket
import threading
from typing import Any

from elastic_runtime.agent.membership import Record
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group

log = logging.getLogger(__name__)


class Link:
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

    def say(self, what: str, **facts: Any) -> None:
        with self._sending:
            self._socket.sendall(json.dumps({"say": what, **facts}).encode() + b"\n")

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
                told = json.loads(line)
                match told["tell"]:
                    case "record":
                        self._hear(told)
                    case "save":
                        self._saves += 1
                    case "ping":
                        self.say("pong")
                    # when asked by this signal, without Python's lock: it may be what we hang on
                    case "stacks":
                        faulthandler.register(signal.SIGRTMIN, file=told["file"])
        # the parent is gone: nobody would ever reap or stop us
        os._exit(1)

    def _hear(self, told: dict[str, Any]) -> None:
        record = Record.read(told["record"])
        with self._changed:
            self.index = told["index"]
            self._record = record
            self._cut_if_lost()
            self._changed.notify_all()
        first = bool(record.members) and record.members[0] == self.index and self.local == 0
        if first and not record.store and not record.stop and record.generation not in self._stores:
            store, port = open_store()
            self._stores = {g: s for g, s in self._stores.items() if g >= record.generation - 1} | {
                record.generation: store
            }
            self.say("store", generation=record.generation, port=port)
