"""What a scheduler with two teams has done, as the objects of the fake API server show it."""

from collections.abc import Callable

from cede.api import names
from cede.api.objects import CESSIONS, CLUSTER_QUEUES, JOBS, WORKLOADS, Json
from tests.fakes.api_server import ApiServer
from tests.fakes.runtime import Runtime, loopback_address
from tests.harness.scheduler import TwoTeams

ADDRESS = loopback_address(1)
GPT = ("research", "gpt")


def gpt(teams: TwoTeams, polls_until_ceded: float = 2) -> Runtime:
    """An elastic job of research that uses all eight accelerators, and its runtime."""
    uid = teams.job("research", "gpt", 8, "2-8", ADDRESS)
    return Runtime(ADDRESS, "research", uid, 8, polls_until_ceded)


def cessions(server: ApiServer) -> list[Json]:
    return sorted(server.objects(CESSIONS), key=lambda cession: str(cession["metadata"]["name"]))


def phases(server: ApiServer) -> list[str]:
    return [cession.get("status", {}).get("phase", "Pending") for cession in cessions(server)]


def size(server: ApiServer, job: tuple[str, str] = GPT) -> tuple[int, int]:
    spec = (server.get(JOBS, job) or {})["spec"]
    return spec["parallelism"], spec["completions"]


def strategy(server: ApiServer, queue: str = "vision") -> str:
    return str((server.get(CLUSTER_QUEUES, ("", queue)) or {})["spec"]["queueingStrategy"])


def active(server: ApiServer) -> set[str]:
    return {
        workload["metadata"]["name"]
        for workload in server.objects(WORKLOADS)
        if workload["spec"].get("active", True)
    }


def labels(server: ApiServer) -> dict[str, str]:
    """By Workload: the Cession that it was stopped for."""
    workloads = [workload["metadata"] for workload in server.objects(WORKLOADS)]
    return {
        metadata["name"]: metadata["labels"][names.STOPPED_FOR]
        for metadata in workloads
        if names.STOPPED_FOR in metadata.get("labels", {})
    }


def ended(server: ApiServer, phase: str = "Completed") -> Callable[[], bool]:
    """Whether the last Cession has this phase and the queue is restored."""
    return lambda: phases(server)[-1:] == [phase] and strategy(server) == "BestEffortFIFO"
