"""What a pod requests, and on which nodes DaemonSets run, by the rules of Kubernetes."""

import pytest

from cede.api.kueue import Node, NodeSpec
from cede.api.node_selection import Taint
from cede.api.objects import Json, Meta
from cede.api.pod_templates import Container, ContainerResources, PodSpec
from cede.api.pods import DaemonSet, daemon_requests, pod_requests
from tests.builders.quotas import daemon_set


def container(cpu: str, restart: str = "") -> Container:
    return Container(resources=ContainerResources({"cpu": cpu}), restartPolicy=restart)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param(PodSpec(), 0, id="no container"),
        pytest.param(PodSpec((container("1"), container("500m"))), 1500, id="containers add up"),
        pytest.param(
            PodSpec((container("1"),), (container("3"),)),
            3000,
            id="an init container that is larger",
        ),
        pytest.param(
            PodSpec((container("3"),), (container("1"), container("2"))),
            3000,
            id="init containers run one by one",
        ),
        pytest.param(
            PodSpec((container("1"),), (container("1", "Always"),)),
            2000,
            id="a sidecar adds to the containers",
        ),
        pytest.param(
            PodSpec((container("1"),), (container("2", "Always"), container("3"))),
            5000,
            id="an init container after a sidecar runs beside it",
        ),
        pytest.param(
            PodSpec((container("1"),), (container("3"), container("2", "Always"))),
            3000,
            id="an init container before a sidecar runs alone",
        ),
        pytest.param(
            PodSpec((container("1"),), overhead={"cpu": "250m"}), 1250, id="overhead is added"
        ),
        pytest.param(
            PodSpec((Container(resources=ContainerResources(limits={"cpu": "2"})),)),
            2000,
            id="a limit counts without a request",
        ),
        pytest.param(
            PodSpec((Container(resources=ContainerResources({"cpu": "1"}, {"cpu": "2"})),)),
            1000,
            id="a request counts before a limit",
        ),
    ],
)
def test_the_requests_of_a_pod(spec: PodSpec, cpu: int) -> None:
    assert pod_requests(spec)["cpu"] == cpu


def required(*terms: Json) -> Json:
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
            }
        }
    }


def expression(key: str, operator: str, *values: str) -> Json:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        ]
    }


GPU_TAINT = Taint("nvidia.com/gpu", "NoSchedule", "present")


@pytest.mark.parametrize(
    ("pod", "taints", "runs"),
    [
        pytest.param({}, (), True, id="everywhere"),
        pytest.param({"nodeName": "other"}, (), False, id="another node by name"),
        pytest.param({"nodeSelector": {"zone": "a"}}, (), True, id="a label it has"),
        pytest.param({"nodeSelector": {"zone": "b"}}, (), False, id="a label of another value"),
        pytest.param(required(expression("zone", "In", "a", "c")), (), True, id="in"),
        pytest.param(required(expression("zone", "NotIn", "a")), (), False, id="not in"),
        pytest.param(
            required(expression("rack", "NotIn", "a")), (), True, id="not in what is absent"
        ),
        pytest.param(required(expression("zone", "Exists")), (), True, id="exists"),
        pytest.param(required(expression("rack", "DoesNotExist")), (), True, id="does not exist"),
        pytest.param(required(expression("gpus", "Gt", "4")), (), True, id="greater"),
        pytest.param(required(expression("gpus", "Lt", "4")), (), False, id="less"),
        pytest.param(
            required(expression("zone", "Gt", "4")), (), False, id="greater than no number"
        ),
        pytest.param(
            required(expression("zone", "Near", "a")), (), False, id="an unknown operator"
        ),
        pytest.param(
            required(expression("zone", "In", "b"), expression("gpus", "Exists")),
            (),
            True,
            id="one term is enough",
        ),
        pytest.param(required({}), (), False, id="an empty term"),
        pytest.param(
            required(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ),
            (),
            True,
            id="by field",
        ),
        pytest.param({}, (GPU_TAINT,), False, id="a taint"),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]}, (GPU_TAINT,), True, id="tolerates all"
        ),
        pytest.param(
            {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
            (GPU_TAINT,),
            True,
            id="tolerates the key",
        ),
        pytest.param(
            {"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]},
            (GPU_TAINT,),
            True,
            id="tolerates key and value",
        ),
        pytest.param(
            {"tolerations": [{"key": "nvidia.com/gpu", "value": "no"}]},
            (GPU_TAINT,),
            False,
            id="tolerates another value",
        ),
        pytest.param(
            {
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}
                ]
            },
            (GPU_TAINT,),
            False,
            id="tolerates another effect",
        ),
        pytest.param(
            {}, (Taint("x", "PreferNoSchedule"),), True, id="a preference does not repel a daemon"
        ),
        pytest.param(
            {},
            (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),),
            True,
            id="a cordon does not repel a daemon",
        ),
        pytest.param(
            {},
            (Taint("node.kubernetes.io/not-ready", "NoExecute"),),
            True,
            id="a node that is not ready does not repel a daemon",
        ),
    ],
)
def test_on_which_nodes_a_daemon_runs(pod: Json, taints: tuple[Taint, ...], runs: bool) -> None:
    node = Node(Meta(name="n", labels={"zone": "a", "gpus": "8"}), NodeSpec(taints=taints))
    assert daemon_set(**pod).runs_on(node) is runs


def test_the_requests_of_all_daemons_on_a_node_add_up() -> None:
    node = Node(Meta(name="n", labels={"zone": "a"}))
    total = daemon_requests(
        (daemon_set(), daemon_set(), daemon_set(nodeSelector={"zone": "b"})), node
    )
    assert total == {"cpu": 200, "memory": 2 * 2**30}


def test_a_daemonset_that_is_being_deleted_does_not_count() -> None:
    deleted = DaemonSet(Meta(name="d", deletionTimestamp="2026-01-01T00:00:00Z"), daemon_set().spec)
    assert not daemon_requests((deleted,), Node())
