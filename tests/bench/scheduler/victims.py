"""Times the plan of one claim that needs all of many jobs to stop or shrink."""

import time
from dataclasses import replace

from cede.api.policy import PolicySpec
from cede.api.resources import Resources
from scheduler.actions import OpenCession
from scheduler.plan import plan
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    NOW,
    admitted,
    cohort_quota,
    pending,
    queue,
    snapshot,
)

COUNTS = (100, 300, 600, 1000)
SIZE = 4
"""Pods of each victim. An elastic one gives half of them, another one all."""


def picture(count: int, *, elastic: bool) -> Snapshot:
    """`vision` owns all that `research` uses, and claims what all of its jobs can give."""
    sizes = (SIZE // 2, SIZE) if elastic else ()
    jobs = [victim(number, sizes) for number in range(count)]
    nodes = tuple(NodeRoom(f"node-{n}", {"type": FLAVOR}, Resources()) for n in range(count))
    claim = count * SIZE // (2 if elastic else 1)
    used = count * SIZE
    quota = cohort_quota(queue("vision", nominal=used), queue("research", nominal=0, used=used))
    return snapshot(quota, pending=[pending(pods=claim)], admitted=jobs, nodes=nodes)


def victim(number: int, sizes: tuple[int, ...]) -> AdmittedWorkload:
    """A job on a node of its own."""
    node = f"node-{number}"
    requested = {node: {GPU: SIZE}}
    job = admitted(f"job-{number:04}", size=SIZE, allowed_sizes=sizes, requested_per_node=requested)
    return replace(job, node_of_index=dict.fromkeys(range(SIZE), node))


def measure(count: int, *, elastic: bool, times: int = 5) -> list[float]:
    """Milliseconds of each plan. Raises AssertionError if it does not take from all jobs, and
    whatever the plan raises."""
    state = picture(count, elastic=elastic)
    durations = list[float]()
    for _ in range(times):
        start = time.perf_counter()
        decision = plan(state, PolicySpec(), NOW)
        durations.append(1000 * (time.perf_counter() - start))
        [opened] = [action for action in decision.actions if isinstance(action, OpenCession)]
        assert len(opened.cession.spec.targets) == count, decision.why
    return durations
