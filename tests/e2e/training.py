"""A training job in the local cluster, observed through its pods and through the journal that it
keeps beside its saves."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cede.api.objects import condition
from deploy.demo.figures import account, merged
from deploy.demo.kubectl import parse_lines, print_files
from deploy.demo.record import Line, Step

STEPS = "steps-*.jsonl"
SAMPLES = "samples-*.jsonl"
INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Any) -> int:
    """The pod's completion index."""
    return int(pod["metadata"]["labels"][INDEX])


@dataclass(frozen=True)
class LastStep:
    # 0 if none was done
    step: int = 0
    # when the first pod committed it, in Unix seconds
    time: float = 0.0
    # the indexes of those that did
    pods: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Training:
    """One Job; `cluster` is the fixture of tests/conftest.py."""

    cluster: Any
    namespace: str
    job: str

    def pods(self, phase: str = "Running") -> list[Any]:
        """The Job's pods in this phase that are not being deleted."""
        return [
            pod
            for pod in self._all_pods()
            if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
        ]

    def _all_pods(self) -> list[Any]:
        selector = ("-n", self.namespace, "-l", f"batch.kubernetes.io/job-name={self.job}")
        return list(self.cluster.kubectl_json("get", "pods", *selector)["items"])

    def pod_of(self, index: int) -> str:
        """The name of the running pod with this index. Raises AssertionError if there is none."""
        return str(self._running(index)["metadata"]["name"])

    def uid(self) -> str:
        """Of the Job."""
        job = self.cluster.kubectl_json("get", "job", "-n", self.namespace, self.job)
        return str(job["metadata"]["uid"])

    def node_of(self, index: int) -> str:
        """The node of that pod."""
        return str(self._running(index)["spec"]["nodeName"])

    def _running(self, index: int) -> Any:
        for pod in self.pods():
            if index_of(pod) == index:
                return pod
        raise AssertionError(f"{self.job} has no running pod of index {index}")

    def signal_worker(self, index: int, signal: str) -> None:
        """To the only worker of that pod. Its parent, the agent, is process 1."""
        command = f"kill -{signal} $(cat /proc/1/task/1/children)"
        self._exec(self.pod_of(index), "sh", "-c", command)

    def _exec(self, pod: str, *command: str) -> str:
        return str(self.cluster.kubectl("exec", "-n", self.namespace, pod, "--", *command))

    def read_all(self, path: str) -> list[str]:
        """The file in each running pod, without blanks around it."""
        return [self._exec(pod["metadata"]["name"], "cat", path).strip() for pod in self.pods()]

    def journal(self, files: str) -> list[Line]:
        """Lines of the job's journal, which any of its running pods can read; none if none runs."""
        running = self.pods()
        if not running:
            return []
        pod = running[0]["metadata"]
        folder = f"/shared/{pod['labels']['batch.kubernetes.io/controller-uid']}"
        return parse_lines(self._exec(pod["name"], *print_files(f"{folder}/{files}")))

    def steps(self) -> list[Step]:
        return [Step.read(line) for line in self.journal(STEPS)]

    def last_step(self) -> LastStep:
        """By the last lines of the journal, which this machine can read whoever runs."""
        folder = Path(self.cluster.kubeconfig).parent / "shared" / self.uid()
        by_pod = dict[int, Step]()
        for path in folder.glob(STEPS):
            # the last one may not be whole yet
            ends = path.read_text().splitlines()[-2:]
            if lines := parse_lines("\n".join(ends)):
                by_pod[int(path.stem.split("-")[1])] = Step.read(lines[-1])
        if not by_pod:
            return LastStep()
        # a job that has lost its state does some numbers again
        order = {pod: (step.generation, step.step) for pod, step in by_pod.items()}
        last = max(order.values())
        did = {pod: by_pod[pod] for pod in order if order[pod] == last}
        return LastStep(last[1], min(step.time for step in did.values()), frozenset(did))

    def why_it_stands(self) -> dict[str, Any]:
        """What its Workload, its pods and their agents say."""
        workloads = self.cluster.kubectl_json("get", "workloads", "-n", self.namespace)["items"]
        return {
            "workload": {
                condition["type"]: f"{condition['status']}: {condition['message']}"
                for workload in workloads
                if workload["metadata"]["name"].startswith(f"job-{self.job}-")
                for condition in workload.get("status", {}).get("conditions", [])
            },
            "pods": {pod["metadata"]["name"]: self._describe(pod) for pod in self._all_pods()},
        }

    def _describe(self, pod: Any) -> dict[str, Any]:
        metadata = pod["metadata"]
        try:
            log = self.cluster.kubectl("logs", "-n", self.namespace, metadata["name"], "--tail=4")
        except AssertionError as error:
            log = str(error)[-200:]
        return {
            "node": pod["spec"].get("nodeName", ""),
            "phase": pod["status"].get("phase", ""),
            "since": metadata["creationTimestamp"],
            "deleted": metadata.get("deletionTimestamp", ""),
            "log": log.splitlines(),
        }

    def trains_on(self, size: int, after: int = 0) -> Callable[[], bool]:
        """Whether `size` pods did the last step, and whether it is later than step `after`."""

        def probe() -> bool:
            log = merged(self.steps())
            return bool(log) and log[-1].size == size and log[-1].step > after

        return probe

    def check_undisturbed(self, repeated: int = 0) -> None:
        """Nobody evicted the job, its Job counts no failure, no sample is lost, and at most so many
        steps were done twice."""
        job = self.cluster.kubectl_json("get", "job", "-n", self.namespace, self.job)
        assert not job["status"].get("failed"), "no failure of the script"
        for workload in self.cluster.kubectl_json("get", "workloads", "-n", self.namespace)[
            "items"
        ]:
            evicted = condition(workload.get("status", {}).get("conditions", []), "Evicted")
            assert evicted is None, workload["metadata"]["name"]
        self.check_nothing_lost(repeated)

    def check_nothing_lost(self, repeated: int = 0) -> int:
        """No sample is lost, and at most so many steps were done twice. Returns the number of
        steps."""
        steps = self.steps()
        run = self.journal("run.json")[0]
        samples = self.journal(SAMPLES)
        micro_batch_size = run["micro_batch_size"]
        dataset_size = run["samples"]
        # the samples of a stream have no index: its micro-batch is counted instead
        if not dataset_size:
            samples = [
                {**line, "samples": [_micro_batch_number(line, run["micro_batches"])]}
                for line in samples
            ]
            micro_batch_size = 1
            dataset_size = sys.maxsize
        counts = account(steps, samples, run["micro_batches"], micro_batch_size, dataset_size)
        assert not counts.samples_lost, f"{counts}"
        assert counts.steps_lost <= repeated, f"{counts}"
        assert repeated or not counts.samples_seen_twice, f"{counts}"
        return counts.steps


def _micro_batch_number(line: Line, micro_batches: int) -> int:
    """Counted from the first step of the job."""
    return int((line["step"] - 1) * micro_batches + line["micro_batch"])
