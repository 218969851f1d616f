"""Jobs of several kinds that know nothing of Cede, and what their programs logged."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from cede.api import names
from cede.api.objects import Json
from deploy.demo.kubectl import parse_lines
from deploy.demo.record import Line
from tests.e2e.conftest import EXAMPLES, IMAGE, RESEARCH
from tests.e2e.gentle_programs import LAUNCHERS, WITH_FRAMEWORK, processes_per_pod

GRACE_S = 45
JOB_SET = "jobset.x-k8s.io/v1alpha2"
TRAINER = "trainer.kubeflow.org/v1alpha1"
RESTARTED = "restarted"
ARGUMENTS = ("1000000", "0.02")
"""Of the script: its steps, and the seconds of a micro-batch."""
BEGINS_AT_0 = ("begins after step", 0)


@dataclass(frozen=True)
class GentleJob:
    """A job that knows nothing of Cede; `cluster` is the fixture of tests/conftest.py."""

    cluster: Any
    kind: str
    launcher: str
    # how long a save takes
    save_s: float = 3.0
    after_preemption: str = names.REQUEUE
    accelerators: int = 4

    @property
    def name(self) -> str:
        return f"{self.kind.lower()}-{self.launcher}"

    @property
    def pod_count(self) -> int:
        """One where each would be a job of its own, or is large."""
        return 1 if self.kind == "Deployment" or self.launcher in WITH_FRAMEWORK else 2

    @property
    def ranks(self) -> int:
        return self.pod_count * processes_per_pod(self.launcher)

    def create(self, run: str) -> str:
        """What kubectl prints. The maker of a group makes its pods again when they are gone."""
        file = _as_list(self._objects(run))
        return str(self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=file))

    def _objects(self, run: str) -> list[Json]:
        match self.kind:
            case "Job":
                return [self._object("batch/v1", self._indexed(run))]
            case "Deployment":
                labels = {"app": self.name}
                template = {"metadata": {"labels": labels}, "spec": self.pod_spec(run)}
                template["spec"]["restartPolicy"] = "Always"
                spec = {"selector": {"matchLabels": labels}, "template": template}
                return [self._object("apps/v1", spec)]
            case "JobSet":
                replicated = {"name": "node", "template": {"spec": self._indexed(run)}}
                return [self._object(JOB_SET, {"replicatedJobs": [replicated]})]
            case "TrainJob":
                return self._train_job(run)
            case "Pod":
                return [self._member(run, index) for index in range(self.pod_count)]
        raise ValueError(self.kind)

    def _indexed(self, run: str) -> Json:
        """The spec of an Indexed Job."""
        counts = {"parallelism": self.pod_count, "completions": self.pod_count}
        template = {"spec": self.pod_spec(run)}
        return {**counts, "completionMode": "Indexed", "backoffLimit": 0, "template": template}

    def _train_job(self, run: str) -> list[Json]:
        """With the runtime that has its pods. No plug-in of Trainer is used."""
        pod = self.pod_spec(run)
        pod["containers"][0]["name"] = "node"
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
        replicated = {
            "name": "node",
            "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}},
        }
        spec = {
            "mlPolicy": {"numNodes": self.pod_count},
            "template": {"spec": {"replicatedJobs": [replicated]}},
        }
        runtime = {
            "apiVersion": TRAINER,
            "kind": "TrainingRuntime",
            "metadata": {"name": self.name, "namespace": RESEARCH},
            "spec": spec,
        }
        reference = {"name": self.name, "kind": "TrainingRuntime"}
        return [runtime, self._object(TRAINER, {"runtimeRef": reference})]

    def _object(self, api_version: str, spec: Json) -> Json:
        annotations = {names.GRACE: f"{GRACE_S}s", names.SAVE_TIME: "40s"}
        if self.after_preemption != names.REQUEUE:
            annotations[names.AFTER_PREEMPTION] = self.after_preemption
        metadata = {"name": self.name, "namespace": RESEARCH, "annotations": annotations}
        return {"apiVersion": api_version, "kind": self.kind, "metadata": metadata, "spec": spec}

    def _member(self, run: str, index: int) -> Json:
        """A pod of a group."""
        member = self._object("v1", self.pod_spec(run, index))
        metadata = member["metadata"]
        metadata["name"] += f"-{index}-{uuid4().hex[:6]}"
        metadata["labels"] = {names.POD_GROUP: self.name, names.QUEUE_NAME: names.LOCAL_QUEUE}
        count = "kueue.x-k8s.io/pod-group-total-count"
        metadata["annotations"][count] = str(self.pod_count)
        return member

    def pod_spec(self, run: str, index: int = 0) -> Json:
        command, program = LAUNCHERS[self.launcher]
        torch = "/shared/integrations" if self.launcher in WITH_FRAMEWORK else "/torch"
        env = {
            "RUN": run,
            "PROGRAM": program,
            "SAVE_S": str(self.save_s),
            "MEMBER": str(index),
            "PYTHONPATH": torch,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        container = {
            "name": "train",
            "image": IMAGE,
            "command": ["sh", "-c", command],
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "resources": {
                "requests": {"cpu": "20m", "memory": "64Mi"},
                "limits": {names.GPU: str(self.accelerators // self.pod_count)},
            },
            "volumeMounts": [
                {"name": "torch", "mountPath": "/torch", "readOnly": True},
                {"name": "shared", "mountPath": "/shared"},
            ],
        }
        folders = {"torch": "/var/lib/torch", "shared": "/var/lib/shared"}
        volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
        return {"restartPolicy": "Never", "containers": [container], "volumes": volumes}

    def pods(self) -> list[Json]:
        """Its pods that run and are not being deleted."""
        items = self.cluster.kubectl_json("get", "pods", "-n", RESEARCH)["items"]
        return [
            pod
            for pod in items
            if pod["metadata"]["name"].startswith(f"{self.name}-")
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def logs(self, run: str) -> list[str]:
        """The log of each rank, as any running pod reads it. Raises AssertionError before all ranks
        have one."""
        pods = self.pods()
        assert pods, f"no pod of {self.name} runs"
        show = f"for file in /shared/{run}/log-*; do cat $file; echo; done"
        name = pods[0]["metadata"]["name"]
        text = self.cluster.kubectl("exec", "-n", RESEARCH, name, "--", "sh", "-c", show)
        logs = [log for log in text.split("\n\n") if log.strip()]
        assert len(logs) == self.ranks, f"{len(logs)} of {self.ranks} ranks have begun"
        return logs


def of_cede_torch(folder: Path, gpus: int, annotations: dict[str, str], image: str = IMAGE) -> Json:
    """A TrainJob of two pods with the runtime of deploy/components/trainer. Its script is that of
    the examples for torchrun, and saves in this folder, which it makes."""
    script = write_script(folder)
    [container] = (pod := GentleJob(None, "TrainJob", "python").pod_spec(folder.name))["containers"]
    mounts = {"containers": [{"name": "node", "volumeMounts": container["volumeMounts"]}]}
    template = {"spec": {"volumes": pod["volumes"]} | mounts}
    patch = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": template}}}]}
    trainer = {
        "image": image,
        "numNodes": 2,
        "args": [script, *ARGUMENTS],
        "env": container["env"],
        "resourcesPerNode": container["resources"] | {"limits": {names.GPU: str(gpus)}},
    }
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {"name": RESTARTED, "namespace": RESEARCH, "annotations": annotations},
        "spec": {
            "runtimeRef": {"name": "cede-torch"},
            "trainer": trainer,
            "runtimePatches": [
                {
                    "manager": "tests.cede.dev/volumes",
                    "trainingRuntimeSpec": {"template": {"spec": patch}},
                }
            ],
        },
    }


def write_script(folder: Path) -> str:
    """Makes a folder that pods share, with a script that saves and logs there. Returns the path
    that the script has in the pods."""
    folder.mkdir()
    text = (EXAMPLES / "porting" / "restarted.py").read_text()
    (folder / "train.py").write_text(f"import os\nos.chdir('/shared/{folder.name}')\n{text}")
    return f"/shared/{folder.name}/train.py"


def restarted_steps(folder: Path) -> list[Line]:
    """What the script has written."""
    journal = folder / "steps.jsonl"
    return parse_lines(journal.read_text()) if journal.exists() else []


def _as_list(objects: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def check_nothing_lost(log: str, repeated: int = 0) -> None:
    """The program was told to end once, saved, and continued after that. Its last step is the one
    that it saved, or one of so many `repeated` after it."""
    lines = [line.rpartition(" ") for line in log.splitlines()]
    events = [(what, int(number)) for what, _, number in lines if what != "step"]
    steps = [int(number) for what, _, number in lines if what == "step"]
    saved = events[1][1]
    assert events == [BEGINS_AT_0, ("saved step", saved), ("begins after step", saved)], log
    before, after = log.split("begins after step")[1:]
    last = before.count("\nstep ")
    assert saved <= last <= saved + repeated, log
    again = range(saved + 1, saved + 1 + after.count("\nstep "))
    assert steps == [*range(1, last + 1), *again], log
