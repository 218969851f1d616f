"""A Job whose training has ended completes, although one of its pods first runs after that."""

import json
from typing import Any

import pytest
import yaml

from tests.e2e.training import Training
from tests.marks import LONG
from tests.paths import TREE

JOB = TREE / "examples" / "gpt" / "job.yaml"
STEPS = 120
pytestmark = [pytest.mark.cluster, LONG]
# the fixture of tests/conftest.py
Cluster = Any


def short_job() -> Any:
    job = yaml.safe_load(JOB.read_text())
    job["metadata"]["annotations"]["cede.dev/sizes"] = "2-4"
    job["spec"] |= {"parallelism": 4, "completions": 4}
    job["spec"]["template"]["spec"]["containers"][0]["command"] += ["--steps", str(STEPS)]
    return job


def test_a_pod_that_first_runs_after_the_last_step_ends_with_success(growing: Cluster) -> None:
    """The namespace may have three pods at a time, and those that have ended do not count."""
    growing.kubectl("delete", "job", "-n", "research", "--all", "--wait=true")
    limit = ("quota", "three", "-n", "research")
    growing.kubectl("create", *limit, "--hard=pods=3")
    try:
        growing.kubectl("apply", "-f", "-", stdin=json.dumps(short_job()))
        gpt = Training(growing, "research", "gpt")
        growing.until(lambda: parallelism(growing) == 4, "Cede to raise it to 4", 120)
        growing.until(lambda: len(gpt.pods("Succeeded")) == 3, "the job to finish on 3", 400)
        growing.until(lambda: is_late(gpt), "the fourth pod to run", 120)
        complete = ("wait", "job/gpt", "-n", "research", "--for=condition=Complete")
        growing.kubectl(*complete, "--timeout=120s")
        job = growing.kubectl_json("get", "job", "-n", "research", "gpt")
        assert (job["spec"]["completions"], job["status"]["succeeded"]) == (4, 4)
    finally:
        growing.kubectl("delete", *limit)


def parallelism(cluster: Cluster) -> int:
    job = cluster.kubectl_json("get", "job", "-n", "research", "gpt")
    return int(job["spec"]["parallelism"])


def is_late(gpt: Training) -> bool:
    return len(gpt.pods()) == 1 and len(gpt.pods("Succeeded")) == 3
