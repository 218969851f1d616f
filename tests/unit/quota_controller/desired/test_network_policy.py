"""Who may connect to the pods of a team's elastic jobs, as Kubernetes reads a NetworkPolicy."""

import pytest

from cede.api import names
from cede.api.objects import Json
from elastic_runtime import contract
from quota_controller.desired.plan import make_plan
from tests.builders.quotas import allocation, find_object, policy, snapshot
from tests.harness.network_policies import Peer, may_be_reached_by, may_connect_to

ANY_PORT = 41234
"""Of the store and of gloo: the kernel chooses it."""

ELASTIC = {names.ELASTIC_POD: "true"}
SCHEDULER = {"app.kubernetes.io/name": "cede-scheduler"}


def may_connect(policy: Json, peer: Peer, port: int) -> bool:
    """Whether an elastic pod of vision lets the peer in."""
    return may_be_reached_by([policy], Peer("vision", ELASTIC), peer, port)


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
        pytest.param(Peer(address="203.0.113.7"), False, False, id="another machine"),
    ],
)
def test_who_reaches_the_pods_of_an_elastic_job(
    peer: Peer, control_port: bool, any_port: bool
) -> None:
    """A pod of another team could take all connections of pod 0, and read and write the store in
    which ranks meet."""
    plan = make_plan(snapshot([allocation()]))
    made = find_object(plan, "NetworkPolicy", "cede-elastic").body
    assert may_connect(made, peer, contract.PORT) is control_port
    assert may_connect(made, peer, ANY_PORT) is any_port


def test_it_closes_nothing_else_of_a_team() -> None:
    """Other pods serve whom they like, and elastic ones read data and write metrics elsewhere."""
    made = find_object(make_plan(snapshot([allocation()])), "NetworkPolicy", "cede-elastic").body
    stranger = Peer(address="203.0.113.7")
    assert may_be_reached_by([made], Peer("vision"), stranger, ANY_PORT)
    assert may_connect_to([made], Peer("vision", ELASTIC), stranger, 443)


def test_an_admin_names_who_reads_metrics() -> None:
    security = {"metricsNamespaces": ["observability"]}
    plan = make_plan(snapshot([allocation()], cluster_policy=policy(security=security)))
    made = find_object(plan, "NetworkPolicy", "cede-elastic").body
    assert may_connect(made, Peer("observability"), contract.PORT)
    assert not may_connect(made, Peer("monitoring"), contract.PORT)
