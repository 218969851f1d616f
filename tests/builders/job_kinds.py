"""One object of every kind that Kueue queues, with a given pod in it; the real CRDs accept them."""

from typing import Any

from cede.api.objects import Json
from webhook.kinds import KNOWN_OWNERS, get_pod_templates

IMAGE = "registry.example/none"
JobAndPaths = tuple[Json, list[str]]
"""The object, and the field paths of its pod specs."""
OWNERS = [(f"{group}/v1" if group else "v1", kind) for group, kind in sorted(KNOWN_OWNERS)]
"""(API version, kind) of every owner that the webhook knows; versions do not matter."""


def pod_spec(requests: Json | None = None, **more: Any) -> Json:
    """A pod spec with one container; the limits equal the requests."""
    resources = {"requests": requests or {}, "limits": requests or {}}
    return {"containers": [{"name": "main", "image": IMAGE, "resources": resources}], **more}


def job_of_kind(kind: str, pod: Json, namespace: str = "vision", **labels: str) -> Json:
    """The object of this kind. No two of its parts are the same Python object."""
    job, _ = jobs_of_every_kind(pod, namespace, **labels)[kind]
    unshared: Json = unshare(job)
    return unshared


def with_uid(job: Json, api_version: str, kind: str, uid: str = "1") -> Json:
    """The job, with this controller."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": uid, "controller": True}
    metadata = {"name": "it", "namespace": "vision"} | job["metadata"]
    return job | {"metadata": metadata | {"ownerReferences": [owner]}}


def unshare(value: Any) -> Any:
    """A copy in which no dict or list appears twice, unlike `deepcopy`."""
    if isinstance(value, dict):
        return {name: unshare(item) for name, item in value.items()}
    if isinstance(value, list):
        return [unshare(item) for item in value]
    return value


def kinds_with_templates() -> list[str]:
    """Those in which the webhook finds pod templates."""
    jobs = jobs_of_every_kind(pod_spec()).items()
    return [kind for kind, (job, _) in jobs if list(get_pod_templates(job))]


def jobs_of_every_kind(
    pod: Json, namespace: str = "vision", **labels: str
) -> dict[str, JobAndPaths]:
    """Kind → the object and the field paths of its pod specs. Parts may be shared."""
    template = {"metadata": {"labels": {"app": "it"}}, "spec": pod}
    specs = _kubernetes_specs(pod, template) | _kubeflow_specs(pod, template)
    specs |= _ray_specs(pod, template) | _wrapper_specs(pod)
    jobs: dict[str, JobAndPaths] = {}
    for (api_version, kind), (spec, paths) in specs.items():
        metadata: Json = {"name": "it", "namespace": namespace}
        if labels:
            metadata["labels"] = labels
        jobs[kind] = (
            {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec},
            paths,
        )
    return jobs


Specs = dict[tuple[str, str], JobAndPaths]
"""(apiVersion, kind) → the spec and the field paths of its pod specs."""


def _batch_template(pod: Json) -> Json:
    return {"spec": pod | {"restartPolicy": "Never"}}


def _kubernetes_specs(pod: Json, template: Json) -> Specs:
    serving = {"selector": {"matchLabels": {"app": "it"}}, "template": template}
    leader_worker_set = {
        "replicas": 1,
        "rolloutStrategy": {"type": "RollingUpdate"},
        "leaderWorkerTemplate": {
            "size": 2,
            "leaderTemplate": template,
            "workerTemplate": template,
        },
    }
    replicated_jobs = [
        {"name": name, "template": {"spec": {"template": _batch_template(pod)}}}
        for name in ("driver", "workers")
    ]
    return {
        ("batch/v1", "Job"): ({"template": _batch_template(pod)}, ["spec.template.spec"]),
        ("v1", "Pod"): (pod, ["spec"]),
        ("apps/v1", "Deployment"): (serving, ["spec.template.spec"]),
        ("apps/v1", "StatefulSet"): (serving | {"serviceName": "it"}, ["spec.template.spec"]),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): (
            leader_worker_set,
            [
                "spec.leaderWorkerTemplate.leaderTemplate.spec",
                "spec.leaderWorkerTemplate.workerTemplate.spec",
            ],
        ),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"): (
            {"replicatedJobs": replicated_jobs},
            [f"spec.replicatedJobs[{i}].template.spec.template.spec" for i in (0, 1)],
        ),
    }


def _kubeflow_specs(pod: Json, template: Json) -> Specs:
    train_job = {
        "runtimeRef": {"name": "torch"},
        "trainer": {
            "numNodes": 2,
            "resourcesPerNode": pod["containers"][0].get("resources", {}),
        },
    }
    specs: Specs = {
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"): (
            train_job,
            ["spec.trainer.resourcesPerNode"],
        )
    }
    replicas = {"replicas": 1, "restartPolicy": "Never", "template": template}
    for kind, field, roles in (
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")),
        ("JAXJob", "jaxReplicaSpecs", ("Worker",)),
        ("TFJob", "tfReplicaSpecs", ("Chief", "Worker")),
        ("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
        ("PaddleJob", "paddleReplicaSpecs", ("Worker",)),
        ("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker")),
    ):
        api_version = "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1"
        specs[api_version, kind] = (
            {field: dict.fromkeys(roles, replicas)},
            [f"spec.{field}.{role}.template.spec" for role in roles],
        )
    return specs


def _ray_specs(pod: Json, template: Json) -> Specs:
    worker_groups = [
        {
            "groupName": name,
            "replicas": 1,
            "minReplicas": 1,
            "maxReplicas": 1,
            "rayStartParams": {},
            "template": template,
        }
        for name in ("small", "large")
    ]
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": template},
        "workerGroupSpecs": worker_groups,
    }
    ray_job = {
        "entrypoint": "true",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
        "submitterPodTemplate": _batch_template(pod),
    }
    job_paths = [*_ray_paths("spec.rayClusterSpec"), "spec.submitterPodTemplate.spec"]
    service_paths = _ray_paths("spec.rayClusterConfig")
    return {
        ("ray.io/v1", "RayCluster"): (cluster, _ray_paths("spec")),
        ("ray.io/v1", "RayJob"): (ray_job, job_paths),
        ("ray.io/v1", "RayService"): ({"rayClusterConfig": cluster}, service_paths),
    }


def _ray_paths(prefix: str) -> list[str]:
    groups = ("headGroupSpec", "workerGroupSpecs[0]", "workerGroupSpecs[1]")
    return [f"{prefix}.{group}.template.spec" for group in groups]


def _wrapper_specs(pod: Json) -> Specs:
    wrapped = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "it"},
        "spec": {"template": _batch_template(pod)},
    }
    spark = {
        "type": "Python",
        "sparkVersion": "4.0.0",
        "mainApplicationFile": "local:///x.py",
        "driver": {},
        "executor": {"instances": 1},
    }
    return {
        ("workload.codeflare.dev/v1beta2", "AppWrapper"): (
            {"components": [{"template": wrapped}]},
            ["spec.components[0].template.spec.template.spec"],
        ),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): (spark, []),
    }
