"""Every kind that Kueue queues, with its real CRD: Kueue reads the labels that we set."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.local.binaries import module_folder
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE
from tests.integration.user import expect_refusal
from webhook.gentle_stop import RUNTIME_PATCH, TORCHRUN_TIMEOUT
from webhook.kinds import get_pod_templates

pytestmark = pytest.mark.cluster
TRAINING_RUNTIME: Json = {
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
"""Kinds that Kueue is not configured for here. Our labels do no harm to them."""
KUEUE = ("-n", "kueue-system", "deployment/kueue-controller-manager")


def find_crd_files() -> list[Path]:
    """The CRDs from the Go modules that Kueue is built with, in the order of their references."""
    trainer = module_folder("github.com/kubeflow/trainer/v2") / "manifests/base/crds"
    kubeflow = module_folder("github.com/kubeflow/training-operator") / "manifests/base/crds"
    ray = module_folder("github.com/ray-project/kuberay/ray-operator") / "config/crd/bases"
    jobset = module_folder("sigs.k8s.io/jobset") / "config/components/crd/bases"
    leader_worker_set = module_folder("sigs.k8s.io/lws") / "config/crd/bases"
    mpi = module_folder("github.com/kubeflow/mpi-operator") / "manifests/base"
    app_wrapper = module_folder("github.com/project-codeflare/appwrapper") / "config/crd/bases"
    spark = module_folder("github.com/kubeflow/spark-operator/v2") / "config/crd/bases"
    files = [
        jobset / "jobset.x-k8s.io_jobsets.yaml",
        leader_worker_set / "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    ]
    for plural in ("clustertrainingruntimes", "trainingruntimes", "trainjobs"):
        files.append(trainer / f"trainer.kubeflow.org_{plural}.yaml")
    for framework in ("pytorch", "jax", "tf", "xgboost", "paddle"):
        files.append(kubeflow / f"kubeflow.org_{framework}jobs.yaml")
    files.append(mpi / "kubeflow.org_mpijobs.yaml")
    for suffix in ("clusters", "jobs", "services"):
        files.append(ray / f"ray.io_ray{suffix}.yaml")
    files.append(app_wrapper / "workload.codeflare.dev_appwrappers.yaml")
    files.append(spark / "sparkoperator.k8s.io_sparkapplications.yaml")
    return files


@pytest.fixture(scope="module")
def cluster_with_kinds(cluster: Any, team: str) -> Iterator[Any]:
    """The cluster with every CRD. Afterwards the CRDs are removed and Kueue is restarted."""
    files = [word for path in find_crd_files() for word in ("-f", str(path))]
    cluster.kubectl("apply", "--server-side", *files)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
    cluster.until(
        lambda: cluster.kubectl("apply", "-f", "-", stdin=json.dumps(TRAINING_RUNTIME)),
        "the runtime of TrainJobs",
        120,
    )
    yield cluster
    cluster.kubectl("delete", "clustertrainingruntime", "torch")
    for kind in KINDS:
        cluster.kubectl("delete", kind, "--all", "-n", team, "--timeout=30s")
    cluster.kubectl("delete", *files, "--timeout=120s")
    # Kueue would watch the removed kinds until it is restarted
    cluster.kubectl("rollout", "restart", *KUEUE)
    cluster.kubectl("rollout", "status", *KUEUE, "--timeout=120s")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_queued_in_its_teams_queue_with_the_default_priority(
    cluster_with_kinds: Any, team: str, kind: str
) -> None:
    cluster = cluster_with_kinds
    file = json.dumps(job_of_kind(kind, pod_spec({"cpu": "1"}), team))
    output = cluster.until(
        lambda: cluster.kubectl("create", "-f", "-", "-o", "json", stdin=file), f"a {kind}", 120
    )
    labels = json.loads(output)["metadata"]["labels"]
    assert labels.items() >= {QUEUE: "default", PRIORITY: "training"}.items()
    if kind not in NOT_QUEUED:
        cluster.until(
            lambda: has_workload(cluster, team, kind),
            f"a Workload for the {kind} in the team's queue",
            120,
        )


def has_workload(cluster: Any, team: str, kind: str) -> bool:
    """True when Kueue has created the Workload, with the values of both labels."""
    prefix = "pod-it-" if kind == "Deployment" else f"{kind.lower()}-it-"
    workloads = cluster.kubectl_json("get", "workloads", "-n", team)["items"]
    return any(
        workload["metadata"]["name"].startswith(prefix)
        and workload["spec"]["queueName"] == "default"
        and workload["spec"]["priorityClassRef"]["name"] == "training"
        for workload in workloads
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_pods_of_a_kind_get_the_grace_of_the_job(
    cluster_with_kinds: Any, team: str, kind: str
) -> None:
    job = job_of_kind(kind, pod_spec({"cpu": "1"}), team)
    job["metadata"] |= {"name": "gentle", "annotations": {names.GRACE: "2m"}}
    file = json.dumps(job)
    create = ("create", "--dry-run=server", "-f", "-", "-o", "json")
    output = cluster_with_kinds.until(
        lambda: cluster_with_kinds.kubectl(*create, stdin=file), f"a {kind}", 120
    )
    created = json.loads(output)
    for _, template in get_pod_templates(created):
        assert template["spec"]["terminationGracePeriodSeconds"] == 120
        for container in template["spec"]["containers"]:
            assert {"name": TORCHRUN_TIMEOUT, "value": "115"} in container["env"]
    if kind == "TrainJob":
        # Kueue adds its own
        patches = {patch["manager"]: patch for patch in created["spec"]["runtimePatches"]}
        patch = patches[RUNTIME_PATCH]
        annotations = patch["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
        assert annotations == {names.GRACE: "2m"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_refused_with_all_complaints_at_their_field_paths(
    cluster_with_kinds: Any, team: str, kind: str
) -> None:
    labels = {PRIORITY: "urgent", QUEUE: "research"}
    job, paths = jobs_of_every_kind(pod_spec({"nvidia.com/gpu": "99"}), team, **labels)[kind]
    file = json.dumps(job)
    message = cluster_with_kinds.until(
        lambda: expect_refusal(
            cluster_with_kinds, "create", "--dry-run=server", "-f", "-", stdin=file
        ),
        f"a {kind}",
        120,
    )
    assert (
        f"metadata.labels[{PRIORITY}] is 'urgent', which is not a priority class of this cluster: "
        f"use training"
    ) in message
    assert (
        f"metadata.labels[{QUEUE}] is 'research', which is not a queue of team {team}: use default"
    ) in message
    for path in paths:
        assert (
            f"{path} requests 99 nvidia.com/gpu in one pod, but the largest node has 4 "
            f"nvidia.com/gpu"
        ) in message


def test_a_replica_set_cannot_bypass_the_highest_class(cluster_with_kinds: Any, team: str) -> None:
    template = {"metadata": {"labels": {"app": "high", PRIORITY: "inference"}}, "spec": pod_spec()}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "high", "namespace": team},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "high"}},
            "template": template,
        },
    }
    cluster_with_kinds.kubectl("create", "-f", "-", stdin=json.dumps(replica_set))
    selector = "--field-selector=reason=FailedCreate,involvedObject.name=high"

    def get_failures() -> str:
        events = cluster_with_kinds.kubectl_json("get", "events", "-n", team, selector)
        return " ".join(event["message"] for event in events["items"])

    failures = cluster_with_kinds.until(get_failures, "an event of the ReplicaSet", 120)
    assert f"above what team {team} may use" in failures
    cluster_with_kinds.kubectl("delete", "replicaset", "high", "-n", team)
