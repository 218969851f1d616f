"""The scripts of examples/porting as elastic Jobs of the cluster: each grows, is asked to shrink, and loses nothing by either."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.training import Training

pytestmark = pytest.mark.cluster
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PORTED = sorted(path.stem for path in (EXAMPLES / "porting").glob("*.py") if path.with_name(f"{path.stem}_before.py").exists())


@pytest.fixture(scope="module")
def team(cluster: Any) -> Iterator[Any]:
    """The teams of examples/allocations.yaml; research may use all eight accelerators."""
    cluster.kubectl("apply", "-f", str(EXAMPLES / "policy.yaml"), "-f", str(EXAMPLES / "allocations.yaml"))
    cluster.kubectl("wait", "computeallocation/vision", "computeallocation/research", "--for=condition=Ready", "--timeout=60s")
    yield cluster
    cluster.without_teams()


@pytest.mark.parametrize("name", PORTED)
def test_a_ported_script_grows_and_shrinks_in_the_cluster_and_loses_nothing(team: Any, name: str) -> None:
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"] |= {"name": name, "annotations": {"cede.dev/sizes": "2-4"}}
    job["spec"] |= {"parallelism": 4, "completions": 4}
    script = [f"/examples/porting/{name}.py", "--steps", "1000000", "--out", "/shared/$(JOB_UID)"]
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["python", "-m", "elastic_runtime", *script]
    team.kubectl("create", "-f", "-", stdin=json.dumps(job))
    training = Training(team, "research", name)
    try:
        team.until(training.trains_on(4), "it to start at two and to grow to four", 180)
        team.kubectl("patch", "job", "-n", "research", name, "--type=merge", "-p", '{"spec": {"parallelism": 2, "completions": 2}}')
        team.until(training.trains_on(2, training.steps()[-1].step), "it to shrink to two", 120)
        assert {step.size for step in training.steps()} == {2, 4}
        assert training.check_nothing_lost() > 0
    finally:
        team.kubectl("delete", "job", "-n", "research", name, "--wait=true")
