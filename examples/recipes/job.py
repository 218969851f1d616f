"""Prints the objects of a cluster's job for a recipe and its values, as kubectl takes them.

    python job.py fine_tune.py values/llama-lora.toml | kubectl apply -f -

The ConfigMap has the values and the recipe itself, so the image needs neither.
"""

import json
import sys
from pathlib import Path
from typing import Any

from values import Job, read_job

RECIPE = "/recipe"
SHARED = "/shared"


def objects(recipe: Path, values: Path, job: Job) -> dict[str, Any]:
    name = f"{job.name}-recipe"
    code = {path.name: path.read_text() for path in sorted(recipe.parent.glob("*.py"))}
    files = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": job.namespace},
        "data": code | {"values.toml": values.read_text()},
    }
    container = {
        "name": "train",
        "image": job.image,
        "command": ["python", "-m", "elastic_runtime", f"{RECIPE}/{recipe.name}"],
        "args": [f"{RECIPE}/values.toml"],
        "env": [{"name": key, "value": str(value)} for key, value in job.env.items()],
        "resources": {"limits": {"nvidia.com/gpu": job.gpus}},
        "volumeMounts": [
            {"name": "recipe", "mountPath": RECIPE},
            {"name": "shared", "mountPath": SHARED},
        ],
    }
    volumes = [
        {"name": "recipe", "configMap": {"name": name}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": job.claim}},
    ]
    pods = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    training = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "annotations": {"cede.dev/sizes": job.sizes},
        },
        "spec": {
            "completionMode": "Indexed",
            "parallelism": job.size(),
            "completions": job.size(),
            "template": {"spec": pods},
        },
    }
    return {"apiVersion": "v1", "kind": "List", "items": [files, training]}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("give a recipe and its values: job.py fine_tune.py values/NAME.toml")
    recipe, values = map(Path, sys.argv[1:])
    try:
        job = read_job(values)
        text = json.dumps(objects(recipe, values, job), indent=2)
    except (OSError, ValueError) as error:
        sys.exit(f"{error}")
    print(text)
