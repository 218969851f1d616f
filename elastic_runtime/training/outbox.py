"""A rank's messages to its agent: sending never blocks training, even if the agent is frozen."""

import select
import socket
import threading
from collections import deque

from elastic_runtime import messages
from elastic_runtime.messages import WorkerMessage, encode_line

# Messages that wait for an agent that reads nothing. Beyond it the oldest that newer ones repeat
# are dropped: how far a step or an evaluation is.
MAX_WAITING = 4096
REPEATED = (messages.Arrived, messages.Evaluating, messages.StepCommitted)
# The script ends after these: they are waited for.
LAST = (messages.Finished, messages.Failed, messages.CommandEnded)


class Outbox:
    """Messages arrive in the order in which they were sent, each whole."""

    def __init__(self, agent: socket.socket) -> None:
        self._socket = agent
        # Guards the rest, and is notified when nothing waits any more.
        self._changed = threading.Condition()
        # The message and what is left of its line; the first may have been sent in part.
        self._waiting = deque[tuple[WorkerMessage, bytes]]()
        self._is_flushing = False

    def send(self, message: WorkerMessage) -> None:
        """Send as much as the agent takes now, and the rest when it reads again.

        Raises OSError if the agent has ended.
        """
        with self._changed:
            self._waiting.append((message, encode_line(message)))
            if not self._is_flushing and not self._send_waiting():
                self._is_flushing = True
                threading.Thread(target=self._flush, daemon=True, name="outbox").start()
            if len(self._waiting) > MAX_WAITING:
                self._drop_one()
            if isinstance(message, LAST):
                self._changed.wait_for(lambda: not self._is_flushing)

    def _send_waiting(self) -> bool:
        """Whether nothing waits any more. Raises OSError if the agent has ended."""
        while self._waiting:
            message, line = self._waiting[0]
            try:
                sent = self._socket.send(line, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            if sent < len(line):
                self._waiting[0] = (message, line[sent:])
            else:
                self._waiting.popleft()
        return True

    def _flush(self) -> None:
        """Send what waits as the agent reads, until nothing does."""
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        while True:
            poll.poll()
            with self._changed:
                try:
                    is_done = self._send_waiting()
                except OSError:
                    # The agent has ended: the thread that listens to it ends this process.
                    self._waiting.clear()
                    is_done = True
                if is_done:
                    self._is_flushing = False
                    self._changed.notify_all()
                    return

    def _drop_one(self) -> None:
        for position in range(1, len(self._waiting)):
            if isinstance(self._waiting[position][0], REPEATED):
                del self._waiting[position]
                return
