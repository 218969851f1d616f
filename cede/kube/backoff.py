"""How long to wait after a watch that failed."""

import random
from dataclasses import dataclass

MAX_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after a failed watch, by client-go's rules.

    The delay doubles from `initial_s` to `max_s`, with jitter down to half. A watch that lasted
    `healthy_s` resets it.
    """

    initial_s: float = 0.8
    max_s: float = 30.0
    healthy_s: float = 120.0
    # a watch that ends sooner than this counts as failed, even if it brought events
    min_watch_s: float = 1.0

    def seconds(self, failures: int) -> float:
        delay_s = min(self.max_s, self.initial_s * 2.0 ** min(failures, MAX_DOUBLINGS))
        return random.uniform(0.5, 1.0) * delay_s  # noqa: S311
