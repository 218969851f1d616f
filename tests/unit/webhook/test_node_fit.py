"""A pod that no node could ever hold: refused with what it asks, the most there is, and the
cure."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.objects import Json
from cede.api.resources import Resources, parse
from tests.builders.job_kinds import a_pod, of_every_kind
from tests.unit.webhook.test_rules import TEAM
from webhook.admission import Asked, Team
from webhook.node_fit import asked_in, too_large
from webhook.rules import complaints

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
BIG = parse({GPU: "8", "cpu": "190", "memory": "1900Gi"})
CPU = parse({GPU: "0", "cpu": "60", "memory": "240Gi"})
PARTED = parse({GPU: "0", MIG: "28", "cpu": "90", "memory": "900Gi"})
NODES = {"p5.48xlarge": BIG, "c7.16xlarge": CPU}
WHERE = "spec.template.spec asks for"
CURE = "ask for less in each pod, and for more pods"


def team(**nodes: Resources) -> Team:
    return replace(TEAM, nodes=nodes or NODES)


def job(*containers: Json, init: tuple[Json, ...] = (), **pod: Any) -> Json:
    """A Job whose containers request these."""
    spec = {
        "containers": [
            {"name": f"c{i}", "resources": {"requests": each}} for i, each in enumerate(containers)
        ],
        "initContainers": [
            {"name": f"i{i}", "resources": {"requests": each}} for i, each in enumerate(init)
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "it"},
        "spec": {"template": {"spec": spec | pod}},
    }


@pytest.mark.parametrize(
    ("found", "nodes", "said"),
    [
        pytest.param(job({GPU: "8", "cpu": "190"}), NODES, [], id="all of the largest"),
        pytest.param(
            job({GPU: "16"}),
            NODES,
            [
                (
                    f"{WHERE} 16 {GPU} in one pod, and the largest node here has 8 {GPU} "
                    f"(p5.48xlarge): {CURE}"
                )
            ],
            id="more accelerators than a node has",
        ),
        pytest.param(
            job({GPU: "6"}, {GPU: "3"}),
            NODES,
            [
                (
                    f"{WHERE} 9 {GPU} in one pod, and the largest node here has 8 {GPU} "
                    f"(p5.48xlarge): {CURE}"
                )
            ],
            id="containers together",
        ),
        pytest.param(
            job({"cpu": "1"}, init=({"cpu": "200"},)),
            NODES,
            [
                (
                    f"{WHERE} 200 cpu in one pod, and the largest node here has 190 cpu "
                    f"(p5.48xlarge): {CURE}"
                )
            ],
            id="while it starts",
        ),
        pytest.param(
            job({GPU: "9", "memory": "2Ti"}),
            NODES,
            [
                f"{WHERE} 9 {GPU} in one pod, and the largest node here has 8 {GPU} (p5.48xlarge), "
                f"and 2 TiB memory in one pod, and the largest node here has 1900 GiB memory "
                f"(p5.48xlarge): {CURE}"
            ],
            id="all that is too much, at once",
        ),
        pytest.param(
            job({MIG: "1"}),
            NODES,
            [f"{WHERE} 1 {MIG} in one pod, and no node here has any: ask for {GPU}"],
            id="an accelerator nobody has: those there are",
        ),
        pytest.param(
            job({"nvidia.com/mig-3g.40gb": "1"}),
            NODES | {"parted": PARTED},
            [
                (
                    f"{WHERE} 1 nvidia.com/mig-3g.40gb in one pod, and no node here has any: ask "
                    f"for "
                    f"{GPU} or {MIG}"
                )
            ],
            id="a partition nobody has",
        ),
        pytest.param(
            job({MIG: "29"}),
            NODES | {"parted": PARTED},
            [
                (
                    f"{WHERE} 29 {MIG} in one pod, and the largest node here has 28 {MIG} "
                    f"(parted): "
                    f"{CURE}"
                )
            ],
            id="more partitions than a node has",
        ),
        pytest.param(
            job({GPU: "8", MIG: "1"}),
            {"p5": BIG, "parted": PARTED},
            [
                f"{WHERE} 8 {GPU}, 1 {MIG} in one pod, and no node here has all of that at once "
                f"(p5 has 8 {GPU}, 190 cpu, 1900 GiB memory; parted has 28 {MIG}, 90 cpu, 900 GiB "
                f"memory): {CURE}"
            ],
            id="each fits somewhere, both nowhere",
        ),
        pytest.param(job({GPU: "16"}), {}, [], id="no policy yet"),
        pytest.param(
            job({GPU: "16"}),
            NODES | {"ordered": Resources()},
            [],
            id="a type of which nothing is known might hold it",
        ),
        pytest.param(
            job({"cpu": "500"}),
            {"p5": parse({GPU: "8", "cpu": "0"})},
            [],
            id="an amount nobody has declared",
        ),
        pytest.param(
            job({"ephemeral-storage": "9Ti", "example.com/fpga": "1"}),
            NODES,
            [],
            id="what no type counts",
        ),
        pytest.param(job({GPU: "many"}), NODES, [], id="no quantity: the API server says it"),
        pytest.param(
            job({"cpu": "1"}, resources={"requests": {"cpu": "300"}}),
            NODES,
            [
                (
                    f"{WHERE} 300 cpu in one pod, and the largest node here has 190 cpu "
                    f"(p5.48xlarge): {CURE}"
                )
            ],
            id="what the pod says as a whole",
        ),
    ],
)
def test_a_pod_that_no_node_could_hold(
    found: Json, nodes: dict[str, Resources], said: list[str]
) -> None:
    assert list(too_large(found, replace(TEAM, nodes=nodes))) == said


LARGE = of_every_kind(a_pod({GPU: "9"}))


@pytest.mark.parametrize("name", LARGE)
def test_it_is_refused_in_every_kind_where_its_user_wrote_it(name: str) -> None:
    found, where = LARGE[name]
    said = complaints(Asked(found, team=team()))
    assert [each.partition(" asks for ")[0] for each in said] == where


def test_a_job_that_was_there_before_the_nodes_shrank_may_still_be_changed() -> None:
    old = job({GPU: "16"})
    new = job({GPU: "16"}, nodeSelector={"a": "b"})
    assert complaints(Asked(new, old, "ada", team())) == []
    assert complaints(Asked(job({GPU: "32"}), old, "ada", team())) != []


AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        GPU: st.integers(0, 12),
        "cpu": st.integers(0, 250),
        "memory": st.integers(0, 1 << 42),
    },
)


@given(st.lists(AMOUNTS, min_size=1, max_size=3), AMOUNTS, AMOUNTS)
def test_refused_exactly_when_no_type_holds_it(
    containers: list[dict[str, int]], one: dict[str, int], other: dict[str, int]
) -> None:
    nodes = {"one": parse(one), "other": parse(other)}
    found = job(*({name: str(value) for name, value in each.items()} for each in containers))
    asks = Resources(sum((parse(each) for each in containers), Resources()))

    def holds(node: Resources) -> bool:
        return all(
            value <= node[name] or (name != GPU and not node[name]) for name, value in asks.items()
        )

    unknown = any(not any(node.values()) for node in nodes.values())
    assert (not list(too_large(found, replace(TEAM, nodes=nodes)))) is (
        unknown or any(map(holds, nodes.values()))
    )


@pytest.mark.parametrize(
    "odd",
    [None, 1, "x", [], {"cpu": None}, {"cpu": {}}, {"cpu": True}, {"cpu": 1e300}, {"cpu": "-1"}],
)
def test_requests_of_any_shape_are_read_or_passed_over(odd: Any) -> None:
    for pod in (
        {"containers": [{"resources": {"requests": odd}}]},
        {"overhead": odd},
        {"resources": {"limits": odd}},
    ):
        asked_in(pod)
        list(too_large(job(**pod), team()))
