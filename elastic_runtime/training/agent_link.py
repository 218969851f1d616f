"""A rank's end of the socket to its agent. A thread receives the agent's messages."""

import faulthandler
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from elastic_runtime import contract, messages, script_checks, session_checks
from elastic_runtime.agent.settings import (
    AGENT_FD_ENV,
    AGENT_PID_ENV,
    LOCAL_HOST_ENV,
    LOCAL_RANK_ENV,
    allowed_sizes,
)
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group
from elastic_runtime.launchers import launcher_mistakes
from elastic_runtime.messages import (
    AgentMessage,
    Record,
    WorkerMessage,
    decode_agent_message,
)
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.failure_report import report_failures, without_secrets
from elastic_runtime.training.outbox import Outbox

# From Python 3.14 on, a loader worker of the script's own imports its main module again.
SCRIPT_RUNS_AGAIN = (
    "a process that the script has started runs the script again: call "
    "multiprocessing.set_start_method('fork') first in it, or put all but its classes and "
    'functions below `if __name__ == "__main__":`'
)
SESSION_ELSEWHERE = (
    "a process that the script has started creates a session, but only a process that "
    "elastic_runtime has started is a worker of the job: create the session there, and start the "
    "script that does so with `python -m elastic_runtime`"
)
JOB_OF_ITS_OWN = (
    "this session is in a process that the script has started, so it is a job of its own, and so "
    "is each other one: to train one model in several processes, remove mp.spawn and start "
    "`python -m elastic_runtime --local N %s` on this machine, or `python -m elastic_runtime %s` "
    "in the pods of an elastic job"
)
log = logging.getLogger(__name__)
# A process has one agent, and one socket to it.
_link: "AgentLink | None" = None


def connect() -> "AgentLink | None":
    """The link to this process's agent; None if the script runs without one.

    Raises ValueError if another launcher has started the script several times, or if the script
    runs, or a part of it, in a process that it has started itself: the socket is not there.
    """
    global _link
    if _link:
        return _link
    descriptor = os.environ.get(AGENT_FD_ENV)
    if not descriptor:
        script_checks.raise_mistakes(launcher_mistakes(os.environ, _script()))
        return None
    if os.environ.get(AGENT_PID_ENV) != str(os.getppid()):
        raise Mistake(SCRIPT_RUNS_AGAIN if _is_import() else SESSION_ELSEWHERE)
    _link = AgentLink(int(descriptor), *_local_rank_and_ranks())
    _link.largest = most_workers(os.environ, _link.ranks_per_pod)
    report_failures(_link.send)
    return _link


def warn_in_child() -> None:
    """If a process without an agent is one that the script has started. It may be meant: a notebook
    or a search for parameters starts several jobs."""
    if multiprocessing.parent_process():
        own_job = JOB_OF_ITS_OWN % (_script(), _script())
        log.warning("%s", SCRIPT_RUNS_AGAIN if _is_import() else own_job)


def _script() -> str:
    return os.path.basename(sys.argv[0]) or "train.py"


def _is_import() -> bool:
    """multiprocessing imports the main module of its parent, as it does in a loader worker."""
    return getattr(multiprocessing.current_process(), "_inheriting", False)


def _local_rank_and_ranks() -> tuple[int, int]:
    """This process among those of its pod, and how many they are."""
    environment = os.environ
    return int(environment.get(LOCAL_RANK_ENV, "0")), int(environment.get(contract.RANKS_ENV, "1"))


def most_workers(environment: Mapping[str, str], ranks_per_pod: int) -> int:
    """Of the allowed sizes; 1 for a local job, whose size is whatever its user starts."""
    is_local = LOCAL_HOST_ENV in environment
    return 1 if is_local else max(allowed_sizes(environment)) * ranks_per_pod


def number_on_machine() -> int:
    """The number of this process among the job's processes that share a machine's devices."""
    local_rank, ranks = _local_rank_and_ranks()
    # In a cluster the containers of two pods do not share devices.
    is_local = LOCAL_HOST_ENV in os.environ
    pod_index = int(os.environ.get(contract.INDEX_ENV, "0")) if is_local else 0
    return pod_index * ranks + local_rank


class AgentLink:
    """`record`: the newest record received. `save_requests`: how many saves were requested.

    `has_session`: a session uses this link. `largest`: of the allowed sizes, in workers.
    """

    def __init__(self, descriptor: int, local_rank: int, ranks_per_pod: int) -> None:
        self.local_rank = local_rank
        self.ranks_per_pod = ranks_per_pod
        # -1 until the first record has arrived.
        self.pod_index = -1
        self.record = Record()
        self.save_requests = 0
        self.has_session = False
        self.largest = 1
        self._socket = socket.socket(fileno=descriptor)
        self._changed = threading.Condition()
        self._outbox = Outbox(self._socket)
        self._group: Group | None = None
        # Generation → the store where its ranks meet, if this rank holds it.
        self._stores: dict[int, Any] = {}
        threading.Thread(target=self._listen, daemon=True, name="agent").start()

    def send(self, message: WorkerMessage) -> None:
        if isinstance(message, messages.Progress):
            message = without_secrets(message)
        self._outbox.send(message)

    def job_mistakes(self, micro_batches: int) -> Iterator[str]:
        """Of a session that is to be created for this job."""
        return session_checks.job_mistakes(
            micro_batches, self.largest, has_session=self.has_session
        )

    def wait_for_newer(self, generation: int) -> Record:
        """The first record above `generation` that this rank can act on.

        It waits without a limit: the agent ends this process if it should stop.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._can_act_above(generation))
            return self.record

    def _can_act_above(self, generation: int) -> bool:
        record = self.record
        if self.pod_index < 0 or record.generation <= generation:
            return False
        return record.stop or bool(record.store) or self.pod_index not in record.members

    def abort_on_loss(self, group: Group | None) -> None:
        """Abort this group as soon as a member is lost; at once if one is lost already.

        A group that still connects is also aborted by any other newer generation: some member will
        never come. It replaces the group before. None: no group is to be aborted.
        """
        with self._changed:
            self._group = group
            self._abort_if_lost()

    def _abort_if_lost(self) -> None:
        record = self.record
        group = self._group
        is_newer = group and record.generation > group.generation
        if group and is_newer and (record.abrupt or not group.is_connected):
            group.abort()

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                try:
                    self._receive(decode_agent_message(line))
                except (RuntimeError, ValueError, OSError) as error:
                    # Without this thread the process would pass for one that hangs.
                    sys.excepthook(type(error), error, error.__traceback__)
                    break
        # Also when the agent has ended: no process would ever reap or stop this one.
        os._exit(1)

    def _receive(self, message: AgentMessage) -> None:
        match message:
            case messages.NewRecord():
                self._set_record(message.record, message.index)
            case messages.SaveRequested():
                self.save_requests += 1
            case messages.Ping():
                self.send(messages.Pong())
            case messages.StacksFile():
                # The handler runs without Python's lock, which may be what this process hangs on.
                faulthandler.register(signal.SIGRTMIN, file=message.descriptor)

    def _set_record(self, record: Record, pod_index: int) -> None:
        with self._changed:
            self.pod_index = pod_index
            self.record = record
            self._abort_if_lost()
            self._changed.notify_all()
        if self._must_open_store(record):
            store, port = open_store(os.environ.get(LOCAL_HOST_ENV))
            # A rank may still be leaving the generation before.
            kept = {
                generation: other
                for generation, other in self._stores.items()
                if generation >= record.generation - 1
            }
            self._stores = kept | {record.generation: store}
            self.send(messages.StoreOpened(record.generation, port))

    def _must_open_store(self, record: Record) -> bool:
        """The first rank of a generation opens the store where its ranks meet."""
        if record.store or record.stop or record.generation in self._stores or not record.members:
            return False
        return record.members[0] == self.pod_index and self.local_rank == 0
