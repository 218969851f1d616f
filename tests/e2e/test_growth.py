"""An elastic job takes back what its team owns: first its smallest size, then by growth."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import EXAMPLES, create, elastic_job
from tests.e2e.training import Training
from tests.marks import LONG

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any


@pytest.fixture
def lent(cluster: Cluster) -> Iterator[Training]:
    """Research trains on all eight accelerators, four of which vision owns."""
    for name in ("policy.yaml", "allocations.yaml"):
        cluster.kubectl("apply", "-f", str(EXAMPLES / name))
    settings = '{"spec": {"mode": "Enforce", "preemption": {"minRuntimeSeconds": 0}}}'
    cluster.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", settings)
    allocations = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *allocations, "--for=condition=Ready", "--timeout=60s")
    create(cluster, elastic_job("research", "2-8", 8))
    borrower = Training(cluster, "research", "gpt")
    cluster.until(borrower.trains_on(8), "research to train on 8", 300)
    yield borrower
    cluster.without_teams()


@LONG
def test_the_growth_of_an_owner_is_a_claim(cluster: Cluster, lent: Training) -> None:
    create(cluster, elastic_job("vision", "2-4", 4))
    owner = Training(cluster, "vision", "gpt")
    cluster.until(owner.trains_on(4), "vision to train on the four that it owns", 180)
    cluster.until(lent.trains_on(4), "research to train on its own four", 60)

    def phases() -> list[str]:
        items = cluster.kubectl_json("get", "cessions")["items"]
        return [item["status"].get("phase", "") for item in items]

    def both_completed() -> bool:
        assert phases() == ["Completed"] * 2, f"the phases are {phases()}"
        return True

    cluster.until(both_completed, "both Cessions to be Completed", 60)
    lent.check_nothing_lost()
    owner.check_nothing_lost()
