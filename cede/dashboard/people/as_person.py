"""Requests to the API server with the token of a person, and none of our own rights."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from kubernetes.aio.client.configuration import Configuration

from cede.api import names
from cede.api.objects import Key
from cede.dashboard.explaining import explained
from cede.dashboard.questions import Predictions, Question
from cede.kube.client import HttpClient
from cede.kube.connection import open_session, trust
from cede.prediction import Prediction, in_memory, path_of
from cede.report.explanation import Explanation

MANAGER = names.DASHBOARD
CLUSTER = "cluster"


class AsPerson:
    """`own` says where the API server is, and how it is known."""

    def __init__(self, session: aiohttp.ClientSession, own: Configuration) -> None:
        self._session = session
        self._own = own
        self._predictions = Predictions()

    def client(self, token: str) -> HttpClient:
        configuration = Configuration(
            host=self._own.host,
            api_key={"BearerToken": token},
            api_key_prefix={"BearerToken": "Bearer"},
        )
        configuration.tls_server_name = self._own.tls_server_name
        return HttpClient(self._session, configuration, MANAGER)

    async def explain(self, token: str, key: Key) -> Explanation:
        return await explained(self.client(token), key)

    async def predict(self, token: str, question: Question) -> Prediction:
        """The program reads a kubeconfig with the token, which is on no disk and in no argument."""
        with in_memory(self._kubeconfig(token)) as descriptor:
            return await self._predictions.answer(
                question, path_of(descriptor), open_files=(descriptor,)
            )

    def _kubeconfig(self, token: str) -> bytes:
        own = self._own
        cluster = {
            "server": own.host,
            "insecure-skip-tls-verify": not own.verify_ssl,
            **({"certificate-authority": own.ssl_ca_cert} if own.ssl_ca_cert else {}),
            **({"tls-server-name": own.tls_server_name} if own.tls_server_name else {}),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": CLUSTER,
            "clusters": [{"name": CLUSTER, "cluster": cluster}],
            "users": [{"name": CLUSTER, "user": {"token": token}}],
            "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": CLUSTER}}],
        }
        return json.dumps(content).encode()


@asynccontextmanager
async def as_person(own: Configuration) -> AsyncIterator[AsPerson]:
    """A certificate of our own would be stronger than the person's token: these connections have
    none."""
    # a cookie of the API server, or of a proxy before it, would be everybody's
    no_cookies = aiohttp.DummyCookieJar()
    async with open_session(own, trust(own), no_cookies) as session:
        yield AsPerson(session, own)
