"""On which flavors Kueue may place pods: selector, affinity, taints, topology."""

import msgspec
import pytest

from cede.api.kueue import PodSet, ResourceFlavorSpec
from cede.api.node_selection import Taint, Toleration
from cede.api.objects import Json
from scheduler.quota.flavors import unsuitable_flavors

A100 = ResourceFlavorSpec(nodeLabels={"type": "a100", "zone": "1"})
H100 = ResourceFlavorSpec(nodeLabels={"type": "h100"})
TAINTED = ResourceFlavorSpec(
    nodeLabels={"type": "spot"}, nodeTaints=(Taint("spot", "NoSchedule", "yes"),)
)
PREFERS_OTHERS = ResourceFlavorSpec(nodeTaints=(Taint("spot", "PreferNoSchedule"),))
TOLERATING = ResourceFlavorSpec(
    nodeTaints=(Taint("spot", "NoSchedule"),), tolerations=(Toleration("spot", "Exists"),)
)


def required(*terms: list[Json]) -> Json:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def is_in(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def unsuitable(flavor: ResourceFlavorSpec, spec: Json, **pod_set: object) -> bool:
    body = {"template": {"spec": spec}, **pod_set}
    return bool(unsuitable_flavors(msgspec.convert(body, PodSet), ["f"], {"f": flavor}))


@pytest.mark.parametrize(
    ("flavor", "spec", "expected"),
    [
        pytest.param(A100, {}, False, id="anywhere"),
        pytest.param(A100, {"nodeSelector": {"type": "a100"}}, False, id="selects this type"),
        pytest.param(A100, {"nodeSelector": {"type": "h100"}}, True, id="selects another type"),
        pytest.param(
            A100, {"nodeSelector": {"rack": "7"}}, False, id="selects what no flavor knows"
        ),
        pytest.param(
            H100, {"nodeSelector": {"zone": "2"}}, False, id="selects what only others know"
        ),
        pytest.param(
            A100, {"affinity": required([is_in("type", "h100")])}, True, id="affinity to another"
        ),
        pytest.param(
            A100,
            {"affinity": required([is_in("type", "h100")], [is_in("type", "a100")])},
            False,
            id="one term is enough",
        ),
        pytest.param(
            A100,
            {"affinity": required([is_in("type", "h100")], [is_in("rack", "7")])},
            False,
            id="a term about unknown labels matches",
        ),
        pytest.param(
            A100,
            {"affinity": required([is_in("type", "a100"), is_in("zone", "2")])},
            True,
            id="all parts of a term must match",
        ),
        pytest.param(TAINTED, {}, True, id="a taint"),
        pytest.param(
            TAINTED, {"tolerations": [{"key": "spot", "operator": "Exists"}]}, False, id="tolerated"
        ),
        pytest.param(TOLERATING, {}, False, id="tolerated by the flavor"),
        pytest.param(PREFERS_OTHERS, {}, False, id="a taint that only prefers"),
    ],
)
def test_selectors_affinity_and_taints(
    flavor: ResourceFlavorSpec, spec: Json, expected: bool
) -> None:
    assert unsuitable(flavor, spec) is expected


def test_who_asks_for_a_topology_gets_only_flavors_that_have_one() -> None:
    flat = ResourceFlavorSpec()
    assert unsuitable(flat, {}, topologyRequest={"required": "rack"})
    assert not unsuitable(flat, {}, topologyRequest={"podIndexLabel": "index"})


def test_a_flavor_with_a_topology_is_only_for_those_who_ask_unless_all_have_one() -> None:
    racks = ResourceFlavorSpec(topologyName="racks")
    both = {"racks": racks, "flat": ResourceFlavorSpec()}
    assert unsuitable_flavors(PodSet(), both, both) == {"racks"}
    assert not unsuitable(racks, {})


def test_a_flavor_that_does_not_exist_is_left_to_the_queue_which_is_inactive_then() -> None:
    assert unsuitable_flavors(PodSet(), ["gone"], {}) == frozenset()
