"""Doubles of torch's Work and group, and of threads."""

import datetime
import threading

from elastic_runtime.distributed.group import Group


class AbandonedWork:
    """A collective whose data gloo was sending when the connection closed: it never ends.

    The second poll aborts the group. With `completes_late` it completes at the third poll instead.
    """

    def __init__(self, group: Group, *, completes_late: bool = False) -> None:
        self.group = group
        self.completes_late = completes_late
        self.polls = 0

    def is_completed(self) -> bool:
        return self.completes_late and self.polls >= 2

    def wait(self, timeout: datetime.timedelta | None = None) -> None:
        if timeout is None:
            threading.Event().wait()
        self.polls += 1
        if self.polls == 2 and not self.completes_late:
            self.group.abort()
        if self.polls < 3 or not self.completes_late:
            raise RuntimeError("Operation timed out!")


class SlowToDrop:
    """Whoever drops the last reference waits. `dropped_on`: gets the name of that thread."""

    def __init__(self, dropped_on: list[str]) -> None:
        self._dropped_on = dropped_on

    def __del__(self) -> None:
        self._dropped_on.append(threading.current_thread().name)


_start = threading.Thread.start


def run_to_its_end(thread: threading.Thread) -> None:
    """In place of `start`: a thread may be that fast."""
    _start(thread)
    thread.join()
