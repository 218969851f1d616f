"""Times the passes of the scheduler on a cluster of a given size, in a process of its own.

`python -m tests.bench.scheduler.passes WORKLOADS SCENARIO [--seconds S]` prints one JSON object.
"""

import argparse
import asyncio
import gc
import json
import random
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cede.api.policy import PolicySpec
from cede.kube.decoding import decoder
from cede.kube.service import GC_THRESHOLDS
from scheduler.plan import plan
from scheduler.snapshot import snapshot
from scheduler.snapshot.kinds import KINDS
from scheduler.snapshot.snapshot import RawObjects
from tests.bench.scheduler import answers, pictures
from tests.bench.scheduler.pictures import NOW, SCENARIOS, SIZES, Scenario, Size

CHANGED = {"pods": 10, "workloads": 3}
"""Objects with a new version at every pass: what is computed once for each version is not free."""
MIN_PASSES = 5


def decoded(size: Size, scenario: Scenario) -> dict[str, Any]:
    """By the field of RawObjects: the objects as the caches hold them."""
    decoders = {name: decoder(cls) for name, (_, cls) in KINDS.items()}
    fields: dict[str, Any] = {name: [] for name in KINDS}
    for name, obj in pictures.objects(size, scenario):
        if name in fields:
            fields[name].append(decoders[name](msgspec.json.encode(obj)))
    return fields


class FakeCluster:
    """The caches of the scheduler, and passes over them."""

    def __init__(self, size: Size, scenario: Scenario) -> None:
        self.fields = decoded(size, scenario)
        # milliseconds of the picture and of the plan, for each pass
        self.timings = list[tuple[float, float]]()
        # processor time of each pass, which other load of the machine hardly changes
        self.cpu_ms = list[float]()
        self._statuses = pictures.statuses(size, scenario)
        self._policy = PolicySpec()
        self._memory = snapshot.Memory()
        self._chance = random.Random(0)  # noqa: S311
        self._version = 2000

    def run_pass(self) -> None:
        self._change()
        cpu = time.thread_time()
        start = time.perf_counter()
        objects = RawObjects(**self.fields, statuses=self._statuses)
        picture = snapshot.take(objects, self._memory)
        taken = time.perf_counter()
        plan(picture, self._policy, NOW)
        planned = time.perf_counter()
        self.timings.append((1000 * (taken - start), 1000 * (planned - taken)))
        self.cpu_ms.append(1000 * (time.thread_time() - cpu))

    def _change(self) -> None:
        """Some objects get a new version, as if another condition had changed."""
        self._version += 1
        for name, count in CHANGED.items():
            objects = self.fields[name]
            for index in self._chance.sample(range(len(objects)), min(count, len(objects))):
                metadata = replace(objects[index].metadata, resourceVersion=str(self._version))
                objects[index] = replace(objects[index], metadata=metadata)


def peak_memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def quantile(values: Sequence[float], fraction: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * fraction))]


def measure(size: Size, scenario: Scenario, seconds: float) -> dict[str, object]:
    """Passes for as long as `seconds`, at least `MIN_PASSES`, after one that is not counted."""
    gc.set_threshold(*GC_THRESHOLDS)
    cluster = FakeCluster(size, scenario)
    objects_mb = peak_memory_mb()
    cluster.run_pass()
    cluster.timings.clear()
    cluster.cpu_ms.clear()
    end = time.perf_counter() + seconds
    while len(cluster.timings) < MIN_PASSES or time.perf_counter() < end:
        cluster.run_pass()
    takes, plans = zip(*cluster.timings, strict=True)
    passes = [take + plan for take, plan in cluster.timings]
    cpu_ms = list(cluster.cpu_ms)
    peak_mb = peak_memory_mb()
    with answers.runtimes() as endpoints:
        lost, pause_ms = asyncio.run(answers.measure(endpoints, cluster.run_pass, seconds))
    return {
        "workloads": size.workloads,
        "pods": len(cluster.fields["pods"]),
        "scenario": scenario,
        "passes": len(passes),
        "take_p50_ms": round(quantile(takes, 0.5), 1),
        "plan_p50_ms": round(quantile(plans, 0.5), 1),
        "pass_p50_ms": round(quantile(passes, 0.5), 1),
        "pass_p99_ms": round(quantile(passes, 0.99), 1),
        "cpu_p50_ms": round(quantile(cpu_ms, 0.5), 1),
        "cpu_p99_ms": round(quantile(cpu_ms, 0.99), 1),
        "objects_mb": round(objects_mb),
        "peak_mb": round(peak_mb),
        "answers_lost": lost,
        "loop_max_ms": round(pause_ms),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler.passes")
    parser.add_argument("workloads", type=int, choices=[size.workloads for size in SIZES])
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    [size] = [size for size in SIZES if size.workloads == arguments.workloads]
    print(json.dumps(measure(size, arguments.scenario, arguments.seconds)))


if __name__ == "__main__":
    main()
