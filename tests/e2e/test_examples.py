"""The scripts of examples/porting as elastic Jobs of the cluster: each grows, cedes half to an
owner, and loses nothing by either."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.training import Training
from tests.paths import TREE

pytestmark = pytest.mark.cluster
EXAMPLES = TREE / "examples"
PORTED = sorted(
    path.stem
    for path in (EXAMPLES / "porting").glob("*.py")
    if path.with_name(f"{path.stem}_before.py").exists()
)


@pytest.fixture(scope="module")
def team(cluster: Any) -> Iterator[Any]:
    """Vision owns both nodes; research owns nothing and borrows."""
    cluster.kubectl(
        "apply", "-f", str(EXAMPLES / "policy.yaml"), "-f", str(EXAMPLES / "allocations.yaml")
    )
    for name, amount in (("vision", {"count": 2}), ("research", {"accelerators": 0})):
        spec = json.dumps(
            {
                "spec": {
                    "quotas": [{"instanceType": "local-4gpu", **amount}],
                    "sharing": {"borrowLimitPercent": None},
                }
            }
        )
        cluster.kubectl("patch", "computeallocation", name, "--type=merge", "-p", spec)
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


def claim() -> Any:
    """Vision's job, wanting six of its eight."""
    found = yaml.safe_load(
        (EXAMPLES / "claim.yaml").read_text().replace("time.sleep(15)", "time.sleep(3600)")
    )
    found["spec"] |= {"parallelism": 6, "completions": 6}
    return found


@pytest.mark.parametrize("name", PORTED)
def test_a_ported_script_grows_cedes_and_loses_nothing(team: Any, name: str) -> None:
    training = Training(team, "research", name)
    team.kubectl("create", "-f", "-", stdin=json.dumps(job_of(name)))
    try:
        team.until(training.trains_on(4), "it to start at two and to grow to four", 180)
        team.kubectl("create", "-f", "-", stdin=json.dumps(claim()))
        team.until(training.trains_on(2, training.steps()[-1].step), "it to train on at two", 120)
        assert {step.size for step in training.steps()} == {2, 4}
        assert training.check_nothing_lost() > 0
    finally:
        team.kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
        team.kubectl("delete", "job", "-n", "research", name, "--wait=true")
