"""A Cession with many targets on the wire, from its record to the preemptor's pods."""

import pytest

from cede.api.objects import CESSIONS, CLUSTER_QUEUES, WORKLOADS
from tests.fakes.api_server import ApiServer
from tests.harness.scheduler import TwoTeams, leading
from tests.marks import LONG

pytestmark = pytest.mark.slow

LONGEST_NAME = 63
TIMEOUT_S = 600


def phase(server: ApiServer) -> str:
    (cession,) = server.objects(CESSIONS) or [{}]
    return str(cession.get("status", {}).get("phase", ""))


@pytest.mark.parametrize("count", [1, 40, 257, pytest.param(1000, marks=LONG)])
async def test_a_take_back_from_many_jobs_with_long_names_completes(
    server: ApiServer, count: int
) -> None:
    """Every job is stopped, and free to run again at the end."""
    teams = TwoTeams(server, total=count)
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = str(count)
    server.put(CLUSTER_QUEUES, queue)
    queue = server.get(CLUSTER_QUEUES, ("", "research")) or {}
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    server.put(CLUSTER_QUEUES, queue)
    for number in range(count):
        teams.put_job("research", f"{number:04}".ljust(LONGEST_NAME, "n"), 1)
    teams.kueue.reconcile()
    teams.job("vision", "inference", count)
    async with leading(server):
        await teams.until(lambda: phase(server) == "Completed", "the preemptor's pods", TIMEOUT_S)
    (cession,) = server.objects(CESSIONS)
    assert len(cession["spec"]["targets"]) == count
    assert len(cession["spec"]["why"]) <= 2048
    assert all(workload["spec"].get("active", True) for workload in server.objects(WORKLOADS))
