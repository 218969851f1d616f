"""Whatever the schemas let in leads to a plan, a status and rest: no object that the API server
takes can bring the controller down.

The CEL rules are left out, so more is tried here than the server takes.
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
from quota_controller.desired.plan import plan
from quota_controller.status.allocation import allocation_statuses
from quota_controller.status.policy import policy_status
from tests.paths import TREE
from tests.unit.quota_controller.desired.test_capacity import node
from tests.unit.quota_controller.desired.test_plan import as_live, seen

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
# few, so that objects meet
NAMES = ["a", "b", "p5", "team-a", "lab"]


def spec_of(plural: str) -> st.SearchStrategy[Any]:
    crd = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    return values(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Everything a structural schema lets in, small."""
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from(AMOUNTS) | st.integers(0, 2**63 - 1)
    match schema["type"]:
        case "object" if "additionalProperties" in schema:
            return st.dictionaries(
                st.sampled_from(["a", "nvidia.com/mig-1g.10gb", "x/y"]),
                values(schema["additionalProperties"]),
                max_size=3,
            )
        case "object":
            parts = {name: values(inner) for name, inner in schema["properties"].items()}
            needed = set(schema.get("required", ()))
            optional = {name: part for name, part in parts.items() if name not in needed}
            return st.fixed_dictionaries(
                {name: parts[name] for name in sorted(needed)}, optional=optional
            )
        case "array":
            named = schema.get("x-kubernetes-list-map-keys")
            unique = (lambda one: tuple(one[key] for key in named)) if named else None
            return st.lists(
                values(schema["items"]),
                max_size=min(schema.get("maxItems", 3), 3),
                unique_by=unique,
            )
        case "integer":
            return st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1))
        case "boolean":
            return st.booleans()
    return text(schema)


def text(schema: Json) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    most = schema.get("maxLength", 20)
    if "pattern" in schema:
        odd = st.from_regex(schema["pattern"].removesuffix("$") + r"\Z").filter(
            lambda found: len(found) <= most
        )
        return odd | st.sampled_from(
            [""]
            if schema["pattern"].startswith("^$")
            else ["a/b"]
            if "/" in schema["pattern"]
            else NAMES
        )
    return st.sampled_from(NAMES) | st.text(
        min_size=schema.get("minLength", 0), max_size=min(most, 8)
    )


NODES = st.lists(
    st.builds(
        node,
        name=st.sampled_from(["n1", "n2", "n3"]),
        kind=st.sampled_from(NAMES),
        gpus=st.integers(0, 16),
        cpu=st.sampled_from(AMOUNTS),
        memory=st.sampled_from(AMOUNTS),
        ready=st.sampled_from(["True", "False", "Unknown"]),
        cordoned=st.booleans(),
        going=st.booleans(),
    ),
    max_size=3,
)


@given(
    spec_of("clusterpolicies"),
    st.dictionaries(st.sampled_from(NAMES), spec_of("computeallocations"), max_size=4),
    st.data(),
)
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)
def test_anything_the_server_takes_leads_to_a_plan_and_to_rest(
    policy: Json, allocations: dict[str, Json], data: st.DataObject
) -> None:
    found = decoder(ClusterPolicy)(
        json.dumps({"metadata": {"name": "default"}, "spec": policy}).encode()
    )
    wanted = [
        decoder(ComputeAllocation)(
            json.dumps({"metadata": {"name": name, "generation": 1}, "spec": spec}).encode()
        )
        for name, spec in allocations.items()
    ]
    picture = seen(wanted, found=found, nodes=data.draw(NODES))
    decided = plan(picture)
    told = allocation_statuses(decided, picture, {}, 1.0)
    assert set(told) == set(allocations)
    assert policy_status(decided, picture, {}, 1.0)
    assert len({t.at for t in decided.targets}) == len(decided.targets), "nothing is said twice"
    live = as_live(decided)
    again = plan(replace(picture, live=live))
    assert all(t.is_said_by(live.get(t.at)) for t in again.targets), (
        "what was written is what is wanted"
    )
    assert not again.unwanted(live)
    assert json.dumps([t.body for t in again.targets])
