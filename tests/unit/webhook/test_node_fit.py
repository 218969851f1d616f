"""A pod that no node could run is refused: with its requests, the largest node, and the cure."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.objects import Json
from cede.api.resources import Resources, parse
from tests.builders.job_kinds import jobs_of_every_kind, pod_spec
from tests.builders.jobs import TEAM
from webhook.admission import AdmissionRequest
from webhook.node_fit import pod_size_complaints, sum_requests
from webhook.rules import complaints

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
GPU_NODE = parse({GPU: "8", "cpu": "190", "memory": "1900Gi"})
CPU_NODE = parse({GPU: "0", "cpu": "60", "memory": "240Gi"})
MIG_NODE = parse({GPU: "0", MIG: "28", "cpu": "90", "memory": "900Gi"})
NODES = {"p5.48xlarge": GPU_NODE, "c7.16xlarge": CPU_NODE}
PATH = "spec.template.spec"
CURE = "request less per pod and use more pods"
TEAM_WITH_NODES = replace(TEAM, nodes=NODES)


def job(*requests: Json, init_requests: tuple[Json, ...] = (), **pod: Any) -> Json:
    """A Job with a container for each of the requests."""
    spec = {
        "containers": [
            {"name": f"c{i}", "resources": {"requests": item}} for i, item in enumerate(requests)
        ],
        "initContainers": [
            {"name": f"i{i}", "resources": {"requests": item}}
            for i, item in enumerate(init_requests)
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "it"},
        "spec": {"template": {"spec": spec | pod}},
    }


@pytest.mark.parametrize(
    ("too_large", "nodes", "complaint"),
    [
        pytest.param(
            job({GPU: "16"}),
            NODES,
            f"requests 16 {GPU} in one pod, but the largest node has 8 {GPU} (p5.48xlarge): {CURE}",
            id="more accelerators than a node has",
        ),
        pytest.param(
            job({GPU: "6"}, {GPU: "3"}),
            NODES,
            f"requests 9 {GPU} in one pod, but the largest node has 8 {GPU} (p5.48xlarge): {CURE}",
            id="the sum of the containers",
        ),
        pytest.param(
            job({"cpu": "1"}, init_requests=({"cpu": "200"},)),
            NODES,
            f"requests 200 cpu in one pod, but the largest node has 190 cpu (p5.48xlarge): {CURE}",
            id="an init container",
        ),
        pytest.param(
            job({"cpu": "1"}, resources={"requests": {"cpu": "300"}}),
            NODES,
            f"requests 300 cpu in one pod, but the largest node has 190 cpu (p5.48xlarge): {CURE}",
            id="the pod as a whole",
        ),
        pytest.param(
            job({GPU: "9", "memory": "2Ti"}),
            NODES,
            f"requests 9 {GPU} and 2 TiB memory in one pod, but the largest nodes have 8 {GPU} "
            f"(p5.48xlarge) and 1900 GiB memory (p5.48xlarge): {CURE}",
            id="all that is too much, at once",
        ),
        pytest.param(
            job({"memory": "1945601Mi"}),
            NODES,
            f"requests 1945601Mi memory in one pod, but the largest node has 1900Gi memory "
            f"(p5.48xlarge): {CURE}",
            id="exact where rounding would hide the difference",
        ),
        pytest.param(
            job({MIG: "1"}),
            NODES,
            f"requests 1 {MIG} in one pod, but no node has any: request {GPU} instead",
            id="an accelerator that no node has: the others",
        ),
        pytest.param(
            job({"nvidia.com/mig-3g.40gb": "1"}),
            NODES | {"mig": MIG_NODE},
            f"requests 1 nvidia.com/mig-3g.40gb in one pod, but no node has any: request {GPU} or "
            f"{MIG} instead",
            id="a partition that no node has",
        ),
        pytest.param(
            job({MIG: "1", "cpu": "500"}),
            NODES,
            f"requests 1 {MIG} and 500 cpu in one pod, but the largest nodes have no {MIG} and 190 "
            f"cpu (p5.48xlarge): {CURE}",
            id="one that no node has, and too much of another",
        ),
        pytest.param(
            job({MIG: "29"}),
            NODES | {"mig": MIG_NODE},
            f"requests 29 {MIG} in one pod, but the largest node has 28 {MIG} (mig): {CURE}",
            id="more partitions than a node has",
        ),
        pytest.param(
            job({GPU: "8", MIG: "1"}),
            {"p5": GPU_NODE, "mig": MIG_NODE},
            f"requests 8 {GPU}, 1 {MIG} in one pod, but no node has all of that at once (p5 has 8 "
            f"{GPU}, 190 cpu, 1900 GiB memory; mig has 28 {MIG}, 90 cpu, 900 GiB memory): {CURE}",
            id="both fit, but not on the same node",
        ),
    ],
)
def test_a_pod_that_no_node_could_run_is_refused(
    too_large: Json, nodes: dict[str, Resources], complaint: str
) -> None:
    team = replace(TEAM, nodes=nodes)
    assert list(pod_size_complaints(too_large, team)) == [f"{PATH} {complaint}"]


@pytest.mark.parametrize(
    ("accepted", "nodes"),
    [
        pytest.param(job({GPU: "8", "cpu": "190"}), NODES, id="all of the largest node"),
        pytest.param(job({GPU: "16"}), {}, id="no policy yet"),
        pytest.param(
            job({GPU: "16"}),
            NODES | {"ordered": Resources()},
            id="a type without known nodes, which might fit",
        ),
        pytest.param(
            job({"cpu": "500"}),
            {"p5": parse({GPU: "8", "cpu": "0"})},
            id="an amount that nobody has declared",
        ),
        pytest.param(
            job({"ephemeral-storage": "9Ti", "example.com/fpga": "1"}),
            NODES,
            id="resources that no type declares",
        ),
        pytest.param(job({GPU: "many"}), NODES, id="not a quantity, which the API server refuses"),
    ],
)
def test_other_pods_are_accepted(accepted: Json, nodes: dict[str, Resources]) -> None:
    assert list(pod_size_complaints(accepted, replace(TEAM, nodes=nodes))) == []


TOO_LARGE = jobs_of_every_kind(pod_spec({GPU: "9"}))


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_every_kind_is_refused_at_the_field_path_of_its_pods(kind: str) -> None:
    oversized, paths = TOO_LARGE[kind]
    texts = complaints(AdmissionRequest(oversized, team=TEAM_WITH_NODES))
    assert [text.partition(" requests ")[0] for text in texts] == paths


def test_a_job_from_before_the_nodes_shrank_may_still_be_updated() -> None:
    old = job({GPU: "16"})
    moved = job({GPU: "16"}, nodeSelector={"a": "b"})
    larger = job({GPU: "32"})
    assert complaints(AdmissionRequest(moved, old, "ada", TEAM_WITH_NODES)) == []
    assert complaints(AdmissionRequest(larger, old, "ada", TEAM_WITH_NODES)) != []


AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        GPU: st.integers(0, 12),
        "cpu": st.integers(0, 250),
        "memory": st.integers(0, 1 << 42),
    },
)


@given(st.lists(AMOUNTS, min_size=1, max_size=3), AMOUNTS, AMOUNTS)
def test_a_pod_is_refused_exactly_when_no_type_fits(
    containers: list[dict[str, int]], amounts_a: dict[str, int], amounts_b: dict[str, int]
) -> None:
    nodes = {"a": parse(amounts_a), "b": parse(amounts_b)}
    texts = [dict(zip(item, map(str, item.values()), strict=True)) for item in containers]
    requests = Resources(sum((parse(item) for item in containers), Resources()))

    def fits(node: Resources) -> bool:
        return all(
            value <= node[name] or (name != GPU and not node[name])
            for name, value in requests.items()
        )

    is_unknown = any(not any(node.values()) for node in nodes.values())
    is_accepted = not list(pod_size_complaints(job(*texts), replace(TEAM, nodes=nodes)))
    assert is_accepted is (is_unknown or any(map(fits, nodes.values())))


@pytest.mark.parametrize(
    "odd",
    [None, 1, "x", [], {"cpu": None}, {"cpu": {}}, {"cpu": True}, {"cpu": 1e300}, {"cpu": "-1"}],
)
def test_requests_of_any_shape_are_read_or_skipped(odd: Any) -> None:
    for pod in (
        {"containers": [{"resources": {"requests": odd}}]},
        {"overhead": odd},
        {"resources": {"limits": odd}},
    ):
        sum_requests(pod)
        list(pod_size_complaints(job(**pod), TEAM_WITH_NODES))
