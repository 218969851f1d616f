"""The rules of the CRD ComputeAllocation, judged by the API server's own packages."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest

from cede.api.allocation import RESERVED_NAMESPACES, RESERVED_PREFIXES, ComputeAllocation
from cede.api.crd_definition import definition
from cede.api.names import ALLOCATION_FINALIZER
from cede.api.objects import ALLOCATIONS, Json
from tests.harness.admission import CrdJudge

pytestmark = pytest.mark.slow
RESERVED = (*RESERVED_NAMESPACES, *(f"{prefix}team" for prefix in RESERVED_PREFIXES))


def written(name: str, **spec: Any) -> Json:
    head = {"apiVersion": ALLOCATIONS.api_version, "kind": ALLOCATIONS.kind}
    metadata = {"name": name, "finalizers": [ALLOCATION_FINALIZER]}
    return head | {"metadata": metadata, "spec": spec, "status": {"team": "lab"}}


def changed(old: Json, **parts: Json) -> Json:
    new = deepcopy(old)
    for part, fields in parts.items():
        new[part] |= fields
    return new


def judged(judge: CrdJudge, writes: Sequence[tuple[Json | None, Json]]) -> list[list[str]]:
    return judge(definition(ComputeAllocation), writes)


def test_nobody_creates_an_allocation_with_the_name_of_a_namespace_of_the_cluster(
    crd_judge: CrdJudge,
) -> None:
    refused = judged(crd_judge, [(None, written(name)) for name in RESERVED])
    message = "this name belongs to the cluster: name the allocation after its team"
    assert refused == [[message]] * len(RESERVED)
    assert judged(crd_judge, [(None, written("vision"))]) == [[]]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"status": {"team": "vision"}}, id="its status is written"),
        pytest.param({"metadata": {"finalizers": []}}, id="its finalizer is removed"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="it is deleted"
        ),
        pytest.param({"spec": {"namespace": {"name": "lab"}}}, id="it gets another namespace"),
    ],
)
def test_an_allocation_whose_name_became_reserved_can_be_written(
    crd_judge: CrdJudge, parts: Json
) -> None:
    """A rule at the root is asked at every write, whatever it changes."""
    writes = [(old, changed(old, **parts)) for old in map(written, RESERVED)]
    assert judged(crd_judge, writes) == [[]] * len(RESERVED)


@pytest.mark.parametrize("spec", ["namespace", "team"])
def test_an_allocation_whose_namespace_became_reserved_can_end(
    crd_judge: CrdJudge, spec: str
) -> None:
    specs: dict[str, list[Json]] = {
        "namespace": [{"namespace": {"name": name, "adopt": True}} for name in RESERVED],
        "team": [{"team": name} for name in RESERVED],
    }
    allocations = [written("lab", **fields) for fields in specs[spec]]
    reported = [(old, changed(old, status={"team": "other"})) for old in allocations]
    ended = [(old, changed(old, metadata={"finalizers": []})) for old in allocations]
    assert judged(crd_judge, [*reported, *ended]) == [[]] * 2 * len(RESERVED)
    cure = {"namespace": {"name": "lab", "adopt": False}}
    cured = [(old, changed(old, spec=cure)) for old in allocations]
    assert judged(crd_judge, cured) == [[]] * len(RESERVED)
    assert all(judged(crd_judge, [(None, new) for new in allocations]))
