"""What users write makes no pass long: a leader whose passes are long loses its lease."""

import time
from dataclasses import replace

import pytest

from cede.api.cession_status import MAX_TARGETS
from scheduler.plan import plan
from scheduler.snapshot.snapshot import Memory, take
from tests.builders.pictures import ClusterOf, JobOf
from tests.builders.plans import POLICY, opened
from tests.builders.scheduler import (
    NOW,
    admitted,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)

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


@pytest.mark.parametrize(
    ("count", "size", "allowed_sizes", "taken"),
    [
        pytest.param(MAX_TARGETS, 1, (), MAX_TARGETS, id="stops"),
        pytest.param(MAX_TARGETS, 2, (1, 2), MAX_TARGETS, id="shrinks"),
        pytest.param(2 * MAX_TARGETS, 1, (), 2 * MAX_TARGETS, id="more than a Cession holds"),
        pytest.param(JOBS, SIZES[-1], SIZES, JOBS * 2000, id="thousands of sizes"),
        pytest.param(JOBS, SIZES[-1], SIZES, JOBS * 4095, id="down to the smallest one"),
    ],
)
def test_a_claim_on_very_many_jobs_does_not_slow_a_pass(
    count: int, size: int, allowed_sizes: tuple[int, ...], taken: int
) -> None:
    """A choice among 512 jobs took 7 s."""
    jobs = [
        admitted(f"gpt-{number}", size=size, allowed_sizes=allowed_sizes) for number in range(count)
    ]
    used = count * size
    quota = cohort_quota(queue("vision", taken), queue("research", used - taken, used))
    current = snapshot(quota, admitted=jobs, pending=[pending(pods=taken)])
    began = time.thread_time()
    decision = plan(current, POLICY, NOW)
    assert time.thread_time() - began < PASS_S
    assert decision.faults == ()
    assert opened(list(decision.actions)) or decision.oversized


def test_a_pod_of_a_job_of_thousands_does_not_slow_a_pass() -> None:
    """All of them are read again when one of them changes."""
    gpt = JobOf("research", "gpt", len(SIZES), ["n1"] * len(SIZES), "1-4096")
    objects = ClusterOf([gpt]).objects()
    memory = Memory()
    take(objects, memory)
    pods = list(objects.pods)
    pods[7] = replace(pods[7], metadata=replace(pods[7].metadata, resourceVersion="2"))
    began = time.thread_time()
    current = take(replace(objects, pods=pods), memory)
    assert time.thread_time() - began < PASS_S
    assert current.elastic[0].ready_pods == len(SIZES)
