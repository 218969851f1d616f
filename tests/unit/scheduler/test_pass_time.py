"""What users write makes no pass long: a leader whose passes are long loses its lease."""

import time

from scheduler.plan import plan
from tests.builders.plans import POLICY
from tests.builders.scheduler import NOW, admitted, runtime_status, snapshot

JOBS = 40
SIZES = tuple(range(1, 4097))
PASS_S = 1.0
"""Of a core. With a search through all sizes it was 13 s."""


def test_jobs_of_thousands_of_sizes_do_not_slow_a_pass() -> None:
    jobs = [
        admitted(f"gpt-{number}", size=1, allowed_sizes=SIZES, runtime=runtime_status(1))
        for number in range(JOBS)
    ]
    current = snapshot(admitted=jobs)
    began = time.thread_time()
    plan(current, POLICY, NOW)
    assert time.thread_time() - began < PASS_S
