"""Every kind Kueue queues, with its real CRD: queue and priority as its user would have written
them, and Kueue sees them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api.objects import Json
from deploy.local.binaries import module_folder
from tests.builders.job_kinds import jobs_of_every_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE
from tests.integration.user import refusal

pytestmark = pytest.mark.cluster
RUNTIME: Json = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {
                                    "spec": {
                                        "restartPolicy": "Never",
                                        "containers": [{"name": "node", "image": "none"}],
                                    }
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}
KINDS = list(jobs_of_every_kind(pod_spec()))
NOT_QUEUED = {"PyTorchJob", "JAXJob", "TFJob", "XGBoostJob", "PaddleJob", "SparkApplication"}
"""Kinds that Kueue, as it is set up here, does not manage: our labels mean nothing to anybody, and
do no harm."""


def definitions() -> list[Path]:
    """The CRDs, as the modules that Kueue is built with carry them; what others refer to first."""
    trainer = module_folder("github.com/kubeflow/trainer/v2") / "manifests/base/crds"
    kubeflow = module_folder("github.com/kubeflow/training-operator") / "manifests/base/crds"
    ray = module_folder("github.com/ray-project/kuberay/ray-operator") / "config/crd/bases"
    return [
        module_folder("sigs.k8s.io/jobset")
        / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        module_folder("sigs.k8s.io/lws")
        / "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        *(
            trainer / f"trainer.kubeflow.org_{each}.yaml"
            for each in ("clustertrainingruntimes", "trainingruntimes", "trainjobs")
        ),
        *(
            kubeflow / f"kubeflow.org_{each}jobs.yaml"
            for each in ("pytorch", "jax", "tf", "xgboost", "paddle")
        ),
        module_folder("github.com/kubeflow/mpi-operator") / "manifests/base/kubeflow.org_mpijobs.yaml",
        *(ray / f"ray.io_ray{each}.yaml" for each in ("clusters", "jobs", "services")),
        module_folder("github.com/project-codeflare/appwrapper")
        / "config/crd/bases/workload.codeflare.dev_appwrappers.yaml",
        module_folder("github.com/kubeflow/spark-operator/v2")
        / "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",
    ]


@pytest.fixture(scope="module")
def kinds(cluster: Any, team: str) -> Iterator[Any]:
    """The cluster knows every kind; afterwards none of them, and Kueue is as it was."""
    files = [word for path in definitions() for word in ("-f", str(path))]
    cluster.kubectl("apply", "--server-side", *files)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
    cluster.until(
        lambda: cluster.kubectl("apply", "-f", "-", stdin=json.dumps(RUNTIME)),
        "the runtime of TrainJobs",
        120,
    )
    yield cluster
    cluster.kubectl("delete", "clustertrainingruntime", "torch")
    for name in KINDS:
        cluster.kubectl("delete", name, "--all", "-n", team, "--timeout=30s")
    cluster.kubectl("delete", *files, "--timeout=120s")
    # it watches them for ever
    cluster.kubectl(
        "rollout", "restart", "-n", "kueue-system", "deployment/kueue-controller-manager"
    )
    cluster.kubectl(
        "rollout",
        "status",
        "-n",
        "kueue-system",
        "deployment/kueue-controller-manager",
        "--timeout=120s",
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_queued_in_its_teams_queue_with_the_default_priority(
    kinds: Any, team: str, name: str
) -> None:
    file = json.dumps(jobs_of_every_kind(pod_spec({"cpu": "1"}), team)[name][0])
    made = json.loads(
        kinds.until(
            lambda: kinds.kubectl("create", "-f", "-", "-o", "json", stdin=file), f"a {name}", 30
        )
    )
    assert made["metadata"]["labels"].items() >= {QUEUE: "default", PRIORITY: "training"}.items()
    if name not in NOT_QUEUED:
        kinds.until(
            lambda: has_workload(kinds, team, name),
            f"a Workload for the {name} in the team's queue",
            120,
        )


def has_workload(cluster: Any, team: str, name: str) -> bool:
    """Whether Kueue has read both labels: it made the Workload with them."""
    workloads = cluster.kubectl_json("get", "workloads", "-n", team)["items"]
    prefix = "pod-it-" if name == "Deployment" else f"{name.lower()}-it-"
    ours = [each["spec"] for each in workloads if each["metadata"]["name"].startswith(prefix)]
    return any(
        spec["queueName"] == "default" and spec["priorityClassRef"]["name"] == "training"
        for spec in ours
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_refused_with_all_that_is_wrong_where_its_user_wrote_it(
    kinds: Any, team: str, name: str
) -> None:
    found, where = jobs_of_every_kind(
        pod_spec({"nvidia.com/gpu": "99"}), team, **{PRIORITY: "urgent", QUEUE: "research"}
    )[name]
    file = json.dumps(found)
    said = kinds.until(
        lambda: refusal(kinds, "create", "--dry-run=server", "-f", "-", stdin=file),
        f"a {name}",
        120,
    )
    assert (
        f"metadata.labels[{PRIORITY}] is 'urgent', which is not a priority class of this cluster: use training"
        in said
    )
    assert (
        f"metadata.labels[{QUEUE}] is 'research', which is not a queue of team {team}: use default"
        in said
    )
    for each in where:
        assert (
            f"{each} asks for 99 nvidia.com/gpu in one pod, and the largest node here has 4 "
            f"nvidia.com/gpu"
        ) in said


def test_a_replica_set_is_no_way_past_the_ceiling(kinds: Any, team: str) -> None:
    template = {"metadata": {"labels": {"app": "past", PRIORITY: "inference"}}, "spec": pod_spec()}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "past"}}, "template": template}
    found = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "past", "namespace": team},
        "spec": spec,
    }
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(found))

    def why() -> str:
        events = kinds.kubectl_json(
            "get",
            "events",
            "-n",
            team,
            "--field-selector=reason=FailedCreate,involvedObject.name=past",
        )
        return " ".join(each["message"] for each in events["items"])

    assert f"above what team {team} may use" in kinds.until(
        why, "the ReplicaSet to say why it has no pod", 120
    )
    kinds.kubectl("delete", "replicaset", "past", "-n", team)
