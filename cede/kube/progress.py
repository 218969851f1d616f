"""Whether a leader makes progress: a lease that is renewed proves nothing about its work."""

import asyncio
import time


class Progress:
    """When the last whole pass ended. Without one for `limit_s`, the leader is stalled."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        # Unix seconds; 0.0 before the first pass
        self.last_pass = 0.0
        # by the event loop's clock: the last pass, or when we began to lead
        self._since = 0.0

    def begin(self) -> None:
        """We lead from now on."""
        self._since = asyncio.get_running_loop().time()

    def finish_pass(self) -> None:
        self.last_pass = time.time()
        self._since = asyncio.get_running_loop().time()

    @property
    def is_stalled(self) -> bool:
        return asyncio.get_running_loop().time() - self._since > self.limit_s
