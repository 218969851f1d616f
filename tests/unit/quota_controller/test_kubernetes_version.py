"""The version of Kubernetes is read from time to time, and no pass fails by it."""

from cede.api.support import Kubernetes
from quota_controller.kubernetes_version import REFRESH_S, KubernetesVersion
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer


async def test_it_is_read_again_when_it_is_old() -> None:
    async with ApiServer() as server, server.client() as client:
        version = KubernetesVersion(client)
        for now in (0.0, REFRESH_S - 1, REFRESH_S):
            await version.refresh(now)
        assert server.requests.count(("GET", "/version")) == 2
        assert version.value == Kubernetes("v1.36.0")


async def test_a_server_that_does_not_tell_is_asked_again_soon_and_the_last_answer_stays() -> None:
    async with ApiServer() as server, server.client() as client:
        version = KubernetesVersion(client)
        server.script("GET", "/version", refuses(500, "InternalError"))
        await version.refresh(0.0)
        assert version.value is None
        await version.refresh(1.0)
        server.script("GET", "/version", refuses(500, "InternalError"))
        await version.refresh(REFRESH_S + 1)
        assert version.value == Kubernetes("v1.36.0")
