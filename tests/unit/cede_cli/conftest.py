"""A cluster with Cede in it behind real HTTP, and the `cede` command that is run against it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from cede.api import names
from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, LEASES, POLICIES
from cede.cli import main
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig

Run = Callable[..., Coroutine[None, None, tuple[int, str, str]]]
MANAGED = {names.MANAGED_BY: names.MANAGED_BY_CEDE}


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """The command turns logs off for its whole process."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A policy, an allocation, a leading scheduler, two queues of Cede and one of somebody else."""
    async with ApiServer() as server:
        never = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
        for name, labels in (("vision", MANAGED), ("research", MANAGED), ("theirs", {})):
            spec = {"queueingStrategy": "StrictFIFO", "preemption": never, "cohortName": "cede"}
            server.put(CLUSTER_QUEUES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        policy = {
            "metadata": {"name": "default"},
            "spec": {"mode": "Enforce"},
            "status": {"preemption": "Cede"},
        }
        server.put(POLICIES, policy)
        allocation = {
            "metadata": {"name": "vision"},
            "spec": {},
            "status": {"owns": "4 gpu", "observedGeneration": 1},
        }
        server.put(ALLOCATIONS, allocation)
        lease = {
            "metadata": {"name": "cede-scheduler", "namespace": "cede-system"},
            "spec": {
                "holderIdentity": "s-1",
                "renewTime": "2090-01-01T00:00:00.000000Z",
                "leaseDurationSeconds": 15,
            },
        }
        server.put(LEASES, lease)
        yield server


@pytest.fixture
def cede(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command: exit code, standard output, standard error."""

    async def run(*words: str) -> tuple[int, str, str]:
        config = kubeconfig(tmp_path / "config", server.url, "vision")
        code = await asyncio.to_thread(main, [*words, "--kubeconfig", config])
        stdout, stderr = capsys.readouterr()
        return code, stdout, stderr

    return run
