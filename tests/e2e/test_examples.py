"""The scripts of examples/porting as elastic Jobs of the cluster: each grows, gives half to another
team, and loses nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.training import Training
from tests.harness.ported_scripts import counted_changes
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [pytest.mark.cluster, LONG]
EXAMPLES = TREE / "examples"
# The others need packages that the training image does not have (tests/frameworks).
PORTED = sorted(counted_changes("porting.md"))


@pytest.fixture(scope="module")
def teams(cluster: Any) -> Iterator[Any]:
    """Vision owns both nodes; research owns nothing and borrows."""
    manifests = (EXAMPLES / "policy.yaml", EXAMPLES / "allocations.yaml")
    cluster.kubectl("apply", *(argument for file in manifests for argument in ("-f", str(file))))
    for name, amount in (("vision", {"count": 2}), ("research", {"accelerators": 0})):
        quota = {"instanceType": "local-4gpu", **amount}
        spec = {"quotas": [quota], "sharing": {"borrowLimitPercent": None}}
        patch = json.dumps({"spec": spec})
        cluster.kubectl("patch", "computeallocation", name, "--type=merge", "-p", patch)
    cluster.kubectl(
        "wait",
        "computeallocation/vision",
        "computeallocation/research",
        "--for=condition=Ready",
        "--timeout=60s",
    )
    yield cluster
    cluster.without_teams()


def job_of(name: str) -> Any:
    """The script as a job of two to four pods."""
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"] |= {"name": name, "annotations": {"cede.dev/sizes": "2-4"}}
    job["spec"] |= {"parallelism": 4, "completions": 4}
    script = [f"/examples/porting/{name}.py", "--steps", "1000000", "--out", "/shared/$(JOB_UID)"]
    job["spec"]["template"]["spec"]["containers"][0]["command"] = [
        "python",
        "-m",
        "elastic_runtime",
        *script,
    ]
    return job


def preemptor() -> Any:
    """Vision's job, which requests six of the eight accelerators."""
    text = (EXAMPLES / "claim.yaml").read_text()
    job = yaml.safe_load(text.replace("time.sleep(15)", "time.sleep(3600)"))
    job["spec"] |= {"parallelism": 6, "completions": 6}
    return job


@pytest.mark.parametrize("name", PORTED)
def test_a_ported_script_grows_shrinks_and_loses_nothing(teams: Any, name: str) -> None:
    training = Training(teams, "research", name)
    teams.kubectl("create", "-f", "-", stdin=json.dumps(job_of(name)))
    try:
        teams.until(training.trains_on(4), "it to start at two and to grow to four", 300)
        teams.kubectl("create", "-f", "-", stdin=json.dumps(preemptor()))
        last_step = training.steps()[-1].step
        teams.until(training.trains_on(2, last_step), "it to train on at two", 120)
        # on a busy machine the two others may come one after the other
        assert {step.size for step in training.steps()} >= {2, 4}
        assert training.check_nothing_lost() > 0
    finally:
        teams.kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
        teams.kubectl("delete", "job", "-n", "research", name, "--wait=true")
