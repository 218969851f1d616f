"""A take-back from a server on the wire, from the claim until it has its replicas again."""

import pytest

from cede.api import names
from cede.api.objects import DEPLOYMENTS, JOBS, LEADER_WORKER_SETS, PODS, WORKLOADS, Json
from tests.builders.kueue_objects import owner
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.job_controller import GPU, READY
from tests.fakes.kueue import workload_of
from tests.harness.scheduler import TwoTeams, leading
from tests.harness.two_teams import active, cessions, ended

pytestmark = pytest.mark.slow
CHAT = ("research", "chat")


class Chat:
    """The server `chat` of 2 to 4 replicas, and what Kubernetes does for it."""

    def __init__(self, teams: TwoTeams) -> None:
        self.teams = teams
        self.server = teams.server
        metadata = {"namespace": CHAT[0], "name": CHAT[1], "labels": {names.SERVER: names.WHOLE}}
        metadata |= {"annotations": {names.SIZES: "2-4"}}
        self.server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {"replicas": 4}})
        for index in range(4):
            self._make_pod(f"chat-{index}")
        teams.kueue.reconcile()

    def _make_pod(self, name: str) -> None:
        maker = owner("ReplicaSet", "chat-7d9", "uid-rs")
        labels = {names.POD_TEMPLATE_HASH: "7d9"}
        metadata = {
            "namespace": CHAT[0],
            "name": name,
            "labels": labels,
            "ownerReferences": [maker],
        }
        container = {"resources": {"requests": {GPU: "1"}}}
        spec = {"nodeName": "n1", "containers": [container]}
        status = {"phase": "Running", "conditions": [READY]}
        pod = self.server.put(PODS, {"metadata": metadata, "spec": spec, "status": status})
        job = {"metadata": {"namespace": CHAT[0], "name": name}, "spec": {"parallelism": 1}}
        workload = workload_of(job, f"pod-{name}")
        uid = pod["metadata"]["uid"]
        workload["metadata"]["ownerReferences"] = [owner("Pod", name, uid)]
        self.server.put(WORKLOADS, workload)

    @property
    def replicas(self) -> int:
        return int((self.server.get(DEPLOYMENTS, CHAT) or {})["spec"]["replicas"])

    @property
    def pods(self) -> list[Json]:
        return [pod for pod in self.server.objects(PODS) if "chat" in pod["metadata"]["name"]]

    def follow(self) -> list[str]:
        """Kubernetes deletes the pods that are too many, those with the lowest cost first. Kueue
        counts them no more. Returns their names."""

        def cost(pod: Json) -> int:
            return int(pod["metadata"].get("annotations", {}).get(names.POD_DELETION_COST, 0))

        pods = sorted(self.pods, key=cost)
        leaving = [pod["metadata"]["name"] for pod in pods[: len(pods) - self.replicas]]
        for name in leaving:
            self.server.remove(PODS, (CHAT[0], name))
            self.server.remove(WORKLOADS, (CHAT[0], f"pod-{name}"))
        return leaving


async def test_a_server_cedes_two_replicas_and_gets_them_back(server: ApiServer) -> None:
    teams = TwoTeams(server)
    teams.configure(growCooldownSeconds=0)
    teams.rigid("research", "filler", 2, "JobSet")
    chat = Chat(teams)
    async with leading(server):
        teams.job("vision", "claim", 4)
        await teams.until(lambda: chat.replicas == 2, "the server to be smaller")
        marked = [
            pod["metadata"]["name"]
            for pod in chat.pods
            if names.POD_DELETION_COST in pod["metadata"].get("annotations", {})
        ]
        assert sorted(chat.follow()) == sorted(marked)
        assert len(marked) == 2
        await teams.until(ended(server), "the end of the Cession")
        assert {target["how"] for target in cessions(server)[0]["spec"]["targets"]} == {"Drain"}
        assert len(active(server)) == 4, "nothing was stopped"
        server.remove(JOBS, ("vision", "claim"))
        server.remove(WORKLOADS, ("vision", "job-claim"))
        await teams.until(lambda: chat.replicas == 4, "its replicas again")
    metadata = (server.get(DEPLOYMENTS, CHAT) or {})["metadata"]
    assert metadata["labels"] == {names.SERVER: names.WHOLE}
    assert metadata["annotations"] == {names.SIZES: "2-4"}


async def test_a_kind_of_server_that_is_new_is_read_when_kueue_admits_its_first_group(
    server: ApiServer,
) -> None:
    """Until then it is looked for twice a minute: its groups would be stopped like other jobs."""
    teams = TwoTeams(server)
    path = LEADER_WORKER_SETS.path()
    server.script("GET", path, refuses(404, "NotFound"))

    def reads() -> int:
        return server.requests.count(("GET", path))

    async with leading(server):
        await teams.until(lambda: reads() == 1, "a look for it")
        job = {"metadata": {"namespace": CHAT[0], "name": "chat-0"}, "spec": {"parallelism": 2}}
        workload = workload_of(job, "leaderworkerset-chat-0")
        workload["metadata"]["ownerReferences"] = [owner("LeaderWorkerSet", "chat", "uid-chat")]
        server.put(WORKLOADS, workload)
        teams.kueue.reconcile()
        await teams.until(lambda: reads() >= 2, "another one")
