"""Who may connect to the pods of a team's elastic jobs, as Kubernetes reads a NetworkPolicy."""

import pytest

from cede.api import names
from cede.api.objects import Json
from elastic_runtime import contract
from quota_controller.desired.plan import make_plan
from tests.builders.quotas import allocation, find_object, policy, snapshot
from tests.harness.network_policies import Peer, opens

ANY_PORT = 41234
"""Of the store and of gloo: the kernel chooses it."""


ELASTIC = {names.ELASTIC_POD: "true"}
SCHEDULER = {"app.kubernetes.io/name": "cede-scheduler"}


def may_connect(spec: Json, peer: Peer, port: int) -> bool:
    """For a policy in namespace vision."""
    return any(opens(rule, "vision", peer, port) for rule in spec["ingress"])


@pytest.mark.parametrize(
    ("peer", "control_port", "any_port"),
    [
        pytest.param(Peer("vision", ELASTIC), True, True, id="an elastic pod of the team"),
        pytest.param(Peer("vision"), False, False, id="another pod of the team"),
        pytest.param(Peer("research", ELASTIC), False, False, id="a pod of another team"),
        pytest.param(Peer("cede-system", SCHEDULER), True, False, id="the scheduler"),
        pytest.param(Peer("research", SCHEDULER), False, False, id="who only has its label"),
        pytest.param(Peer("cede-system"), False, False, id="another pod of cede-system"),
        pytest.param(Peer("monitoring"), True, False, id="who reads metrics"),
    ],
)
def test_who_reaches_the_pods_of_an_elastic_job(
    peer: Peer, control_port: bool, any_port: bool
) -> None:
    """A pod of another team could take all connections of pod 0, and read and write the store in
    which ranks meet."""
    plan = make_plan(snapshot([allocation()]))
    spec = find_object(plan, "NetworkPolicy", "cede-elastic").body["spec"]
    assert spec["podSelector"] == {"matchLabels": ELASTIC}
    assert spec["policyTypes"] == ["Ingress"]
    assert may_connect(spec, peer, contract.PORT) is control_port
    assert may_connect(spec, peer, ANY_PORT) is any_port


def test_an_admin_names_who_reads_metrics() -> None:
    security = {"metricsNamespaces": ["observability"]}
    plan = make_plan(snapshot([allocation()], cluster_policy=policy(security=security)))
    spec = find_object(plan, "NetworkPolicy", "cede-elastic").body["spec"]
    assert may_connect(spec, Peer("observability"), contract.PORT)
    assert not may_connect(spec, Peer("monitoring"), contract.PORT)
