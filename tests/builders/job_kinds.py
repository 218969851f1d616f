"""One object of every kind Kueue queues, as its user writes it, with a given pod in it; real CRDs
accept them."""

from typing import Any

from cede.api.objects import Json

IMAGE = "registry.example/none"


def a_pod(requests: Json | None = None, **more: Any) -> Json:
    """A pod's spec."""
    return {
        "containers": [
            {
                "name": "main",
                "image": IMAGE,
                "resources": {"requests": requests or {}, "limits": requests or {}},
            }
        ],
        **more,
    }


def of_every_kind(
    pod: Json, namespace: str = "vision", **labels: str
) -> dict[str, tuple[Json, list[str]]]:
    """Kind → (the object, where its pods' specs stand)."""
    template = {"metadata": {"labels": {"app": "it"}}, "spec": pod}
    job_pod = {"spec": pod | {"restartPolicy": "Never"}}
    replicas = {"replicas": 1, "restartPolicy": "Never", "template": template}
    ray = {
        "headGroupSpec": {"rayStartParams": {}, "template": template},
        "workerGroupSpecs": [
            {
                "groupName": name,
                "replicas": 1,
                "minReplicas": 1,
                "maxReplicas": 1,
                "rayStartParams": {},
                "template": template,
            }
            for name in ("small", "large")
        ],
    }
    serving = {"selector": {"matchLabels": {"app": "it"}}, "template": template}
    jobset = [
        {"name": name, "template": {"spec": {"template": job_pod}}}
        for name in ("driver", "workers")
    ]
    wrapped = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "it"},
        "spec": {"template": job_pod},
    }

    def of_ray(where: str) -> list[str]:
        return [
            f"{where}.{group}.template.spec"
            for group in ("headGroupSpec", "workerGroupSpecs[0]", "workerGroupSpecs[1]")
        ]

    def kubeflow(kind: str, replica_specs: str, *roles: str) -> tuple[str, str, Json, list[str]]:
        version = "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1"
        where = [f"spec.{replica_specs}.{role}.template.spec" for role in roles]
        return version, kind, {replica_specs: dict.fromkeys(roles, replicas)}, where

    rows: list[tuple[str, str, Json, list[str]]] = [
        ("batch/v1", "Job", {"template": job_pod}, ["spec.template.spec"]),
        ("v1", "Pod", pod, ["spec"]),
        ("apps/v1", "Deployment", serving, ["spec.template.spec"]),
        ("apps/v1", "StatefulSet", serving | {"serviceName": "it"}, ["spec.template.spec"]),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {
                "replicas": 1,
                "rolloutStrategy": {"type": "RollingUpdate"},
                "leaderWorkerTemplate": {
                    "size": 2,
                    "leaderTemplate": template,
                    "workerTemplate": template,
                },
            },
            [
                f"spec.leaderWorkerTemplate.{each}.spec"
                for each in ("leaderTemplate", "workerTemplate")
            ],
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": jobset},
            [f"spec.replicatedJobs[{i}].template.spec.template.spec" for i in (0, 1)],
        ),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {
                "runtimeRef": {"name": "torch"},
                "trainer": {
                    "numNodes": 2,
                    "resourcesPerNode": pod["containers"][0].get("resources", {}),
                },
            },
            ["spec.trainer.resourcesPerNode"],
        ),
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"),
        kubeflow("JAXJob", "jaxReplicaSpecs", "Worker"),
        kubeflow("TFJob", "tfReplicaSpecs", "Chief", "Worker"),
        kubeflow("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
        kubeflow("PaddleJob", "paddleReplicaSpecs", "Worker"),
        kubeflow("MPIJob", "mpiReplicaSpecs", "Launcher", "Worker"),
        ("ray.io/v1", "RayCluster", ray, of_ray("spec")),
        (
            "ray.io/v1",
            "RayJob",
            {
                "entrypoint": "true",
                "shutdownAfterJobFinishes": True,
                "rayClusterSpec": ray,
                "submitterPodTemplate": job_pod,
            },
            [*of_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate.spec"],
        ),
        ("ray.io/v1", "RayService", {"rayClusterConfig": ray}, of_ray("spec.rayClusterConfig")),
        (
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            {"components": [{"template": wrapped}]},
            ["spec.components[0].template.spec.template.spec"],
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {
                "type": "Python",
                "sparkVersion": "4.0.0",
                "mainApplicationFile": "local:///x.py",
                "driver": {},
                "executor": {"instances": 1},
            },
            [],
        ),
    ]
    meta = {"name": "it", "namespace": namespace} | ({"labels": labels} if labels else {})
    return {
        kind: ({"apiVersion": version, "kind": kind, "metadata": dict(meta), "spec": spec}, where)
        for version, kind, spec, where in rows
    }
