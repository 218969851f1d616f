"""Every object that the API server accepts leads to a plan, a status and a stable cluster.

The CEL rules are not applied here, so more objects are tried than the API server accepts.
"""

import json
from dataclasses import replace
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cede.api.allocation import ComputeAllocation
from cede.api.objects import Json
from cede.api.policy import ClusterPolicy
from cede.kube.decoding import decoder
from quota_controller.desired.plan import make_plan
from quota_controller.status.allocation import allocation_statuses
from quota_controller.status.policy import policy_status
from tests.builders.quotas import as_live, node, snapshot
from tests.paths import TREE

CRDS = TREE / "deploy" / "crds"
AMOUNTS = [
    "0",
    "1",
    "500m",
    "1.5",
    "16Gi",
    "1e3",
    "3E",
    "100n",
    ".5",
    "5.",
    "0.0001",
    "99999999999999999999E",
    "1E+2",
    "9Ei",
]
# a few names only, so that objects refer to each other
NAMES = ["a", "b", "p5", "team-a", "lab"]


def specs_of(plural: str) -> st.SearchStrategy[Any]:
    """Specs that the CRD of this kind accepts."""
    crd = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    return values(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Small values that a structural schema accepts."""
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from(AMOUNTS) | st.integers(0, 2**63 - 1)
    match schema["type"]:
        case "object" if "additionalProperties" in schema:
            keys = st.sampled_from(["a", "nvidia.com/mig-1g.10gb", "x/y"])
            return st.dictionaries(keys, values(schema["additionalProperties"]), max_size=3)
        case "object":
            return structs(schema)
        case "array":
            return lists(schema)
        case "integer":
            return st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1))
        case "boolean":
            return st.booleans()
    return texts(schema)


def structs(schema: Json) -> st.SearchStrategy[Any]:
    fields = {name: values(inner) for name, inner in schema["properties"].items()}
    required = {name: fields.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=fields)


def lists(schema: Json) -> st.SearchStrategy[Any]:
    keys = schema.get("x-kubernetes-list-map-keys")
    unique_by = (lambda item: tuple(item[key] for key in keys)) if keys else None
    max_size = min(schema.get("maxItems", 3), 3)
    return st.lists(values(schema["items"]), max_size=max_size, unique_by=unique_by)


def texts(schema: Json) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    max_length = schema.get("maxLength", 20)
    if "pattern" not in schema:
        any_text = st.text(min_size=schema.get("minLength", 0), max_size=min(max_length, 8))
        return st.sampled_from(NAMES) | any_text
    pattern = schema["pattern"]
    # in Python `$` also matches before a newline at the end
    matching = st.from_regex(pattern.replace("$", r"\Z"))
    usual = NAMES
    if pattern.startswith("^$"):
        usual = [""]
    elif "/" in pattern:
        usual = ["a/b"]
    return matching.filter(lambda text: len(text) <= max_length) | st.sampled_from(usual)


NODES = st.lists(
    st.builds(
        node,
        name=st.sampled_from(["n1", "n2", "n3"]),
        instance_type=st.sampled_from(NAMES),
        gpus=st.integers(0, 16),
        cpu=st.sampled_from(AMOUNTS),
        memory=st.sampled_from(AMOUNTS),
        ready=st.sampled_from(["True", "False", "Unknown"]),
        cordoned=st.booleans(),
        deleting=st.booleans(),
    ),
    max_size=3,
)


def decoded_policy(spec: Json) -> ClusterPolicy:
    wire = json.dumps({"metadata": {"name": "default"}, "spec": spec})
    return decoder(ClusterPolicy)(wire.encode())


def decoded_allocation(name: str, spec: Json) -> ComputeAllocation:
    wire = json.dumps({"metadata": {"name": name, "generation": 1}, "spec": spec})
    return decoder(ComputeAllocation)(wire.encode())


@given(
    specs_of("clusterpolicies"),
    st.dictionaries(st.sampled_from(NAMES), specs_of("computeallocations"), max_size=4),
    st.data(),
)
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)
def test_every_accepted_object_leads_to_a_stable_plan(
    policy_spec: Json, allocation_specs: dict[str, Json], data: st.DataObject
) -> None:
    allocations = [decoded_allocation(name, spec) for name, spec in allocation_specs.items()]
    cluster = snapshot(
        allocations, cluster_policy=decoded_policy(policy_spec), nodes=data.draw(NODES)
    )
    plan = make_plan(cluster)
    assert set(allocation_statuses(plan, cluster, {}, 1.0)) == set(allocation_specs)
    assert policy_status(plan, cluster, {}, 1.0)
    object_ids = {desired.object_id for desired in plan.objects}
    assert len(object_ids) == len(plan.objects), "no object is in the plan twice"
    live = as_live(plan)
    again = make_plan(replace(cluster, live=live))
    assert all(desired.matches(live.get(desired.object_id)) for desired in again.objects)
    assert not again.unwanted(live)
    assert json.dumps([desired.body for desired in again.objects])
