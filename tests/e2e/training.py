"""A training job in the local cluster, seen by its pods and by the journal that it keeps beside its
saves."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deploy.demo.figures import Step, account, merged
from deploy.demo.kubectl import parsed, reading

STEPS = "steps-*.jsonl"
SAMPLES = "samples-*.jsonl"


@dataclass(frozen=True)
class Training:
    """One Job; `cluster` is the fixture of tests/conftest.py."""

    cluster: Any
    namespace: str
    job: str

    def pods(self, phase: str = "Running") -> list[Any]:
        chosen = ("-n", self.namespace, "-l", f"batch.kubernetes.io/job-name={self.job}")
        items = self.cluster.kubectl_json("get", "pods", *chosen)["items"]
        return [
            pod
            for pod in items
            if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
        ]

    def pod_of(self, index: int) -> str:
        for pod in self.pods():
            if pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(index):
                return str(pod["metadata"]["name"])
        raise AssertionError(f"{self.job} has no running pod of index {index}")

    def signal_rank(self, index: int, signal: str) -> None:
        """To the one rank of that pod; its parent is process 1."""
        command = f"kill -{signal} $(cat /proc/1/task/1/children)"
        self.cluster.kubectl(
            "exec", "-n", self.namespace, self.pod_of(index), "--", "sh", "-c", command
        )

    def logged(self, files: str) -> list[Any]:
        """The job's own journal; any running pod of it can read it."""
        running = self.pods()
        if not running:
            return []
        pod = running[0]["metadata"]
        folder = f"/shared/{pod['labels']['batch.kubernetes.io/controller-uid']}"
        return parsed(
            self.cluster.kubectl(
                "exec", "-n", self.namespace, pod["name"], "--", *reading(f"{folder}/{files}")
            )
        )

    def steps(self) -> list[Step]:
        return [Step.read(line) for line in self.logged(STEPS)]

    def trains_on(self, size: int, beyond: int = 0) -> Callable[[], bool]:
        """Whether its last step was done by `size` pods, and is one after `beyond`."""

        def probe() -> bool:
            log = merged(self.steps())
            return bool(log) and log[-1].size == size and log[-1].step > beyond

        return probe

    def check_nothing_lost(self) -> int:
        """No step and no sample is lost or used twice; how many steps there are."""
        log = self.steps()
        run = self.logged("run.json")[0]
        used = self.logged(SAMPLES)
        size = run["micro_batch_size"]
        dataset = run["samples"]
        # what a stream gives has no index: a micro-batch stands for its samples
        if not dataset:
            used = [
                line
                | {"samples": [(line["step"] - 1) * run["micro_batches"] + line["micro_batch"]]}
                for line in used
            ]
            size = 1
            dataset = sys.maxsize
        counted = account(log, used, run["micro_batches"], size, dataset)
        assert (counted.steps_lost, counted.samples_lost, counted.samples_seen_twice) == (0, 0, 0)
        return counted.steps
