"""What a pod asks, and where DaemonSets run: Kubernetes' own rules, case by case."""

import msgspec
import pytest

from cede.api.kueue import Container, Node, NodeSpec, PodSpec, Taint
from cede.api.objects import Json, Meta
from cede.api.pods import DaemonSet, daemon_requests, pod_requests


def holds(cpu: str, restart: str = "") -> Container:
    return Container(resources={"requests": {"cpu": cpu}}, restartPolicy=restart)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param(PodSpec(), 0, id="nothing"),
        pytest.param(PodSpec((holds("1"), holds("500m"))), 1500, id="containers together"),
        pytest.param(
            PodSpec((holds("1"),), (holds("3"),)), 3000, id="an init container that is larger"
        ),
        pytest.param(
            PodSpec((holds("3"),), (holds("1"), holds("2"))),
            3000,
            id="init containers run one by one",
        ),
        pytest.param(
            PodSpec((holds("1"),), (holds("1", "Always"),)), 2000, id="a sidecar runs beside"
        ),
        pytest.param(
            PodSpec((holds("1"),), (holds("2", "Always"), holds("3"))),
            5000,
            id="what starts after a sidecar, with it",
        ),
        pytest.param(
            PodSpec((holds("1"),), (holds("3"), holds("2", "Always"))),
            3000,
            id="what starts before a sidecar, without it",
        ),
        pytest.param(PodSpec((holds("1"),), overhead={"cpu": "250m"}), 1250, id="overhead on top"),
        pytest.param(
            PodSpec((Container(resources={"limits": {"cpu": "2"}}),)),
            2000,
            id="a limit stands in for a request",
        ),
        pytest.param(
            PodSpec((Container(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}),)),
            1000,
            id="a request counts",
        ),
    ],
)
def test_what_a_pod_asks(spec: PodSpec, cpu: int) -> None:
    assert pod_requests(spec)["cpu"] == cpu


def daemon(**pod: object) -> DaemonSet:
    containers = [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]
    wire: Json = {
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": containers, **pod}}},
    }
    return msgspec.convert(wire, DaemonSet)


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
            required(expression("zone", "Near", "a")), (), False, id="an operator nobody knows"
        ),
        pytest.param(
            required(expression("zone", "In", "b"), expression("gpus", "Exists")),
            (),
            True,
            id="one term is enough",
        ),
        pytest.param(required({}), (), False, id="a term that says nothing"),
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
            {}, (Taint("x", "PreferNoSchedule"),), True, id="a preference keeps no daemon away"
        ),
        pytest.param(
            {},
            (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),),
            True,
            id="a cordon keeps no daemon away",
        ),
        pytest.param(
            {},
            (Taint("node.kubernetes.io/not-ready", "NoExecute"),),
            True,
            id="nor does a node that is not ready",
        ),
    ],
)
def test_where_a_daemon_runs(pod: Json, taints: tuple[Taint, ...], runs: bool) -> None:
    node = Node(Meta(name="n", labels={"zone": "a", "gpus": "8"}), NodeSpec(taints=taints))
    assert daemon(**pod).runs_on(node) is runs


def test_daemons_take_together_what_each_asks_where_it_runs() -> None:
    node = Node(Meta(name="n", labels={"zone": "a"}))
    taken = daemon_requests((daemon(), daemon(), daemon(nodeSelector={"zone": "b"})), node)
    assert taken == {"cpu": 200, "memory": 2 * 2**30}


def test_a_daemonset_that_is_being_deleted_takes_nothing() -> None:
    going = DaemonSet(Meta(name="d", deletionTimestamp="2026-01-01T00:00:00Z"), daemon().spec)
    assert not daemon_requests((going,), Node())
