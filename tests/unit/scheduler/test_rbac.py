"""The scheduler may do all that its actions write, and its role says so."""

from typing import get_args

import pytest
import yaml

from cede.api.objects import (
    CESSIONS,
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    WORKLOADS,
    Kind,
)
from scheduler import actions
from tests.paths import TREE

FILES = ("base/scheduler/rbac.yaml", "guard/guard.yaml")
ROLES = [
    document
    for file in FILES
    for document in yaml.safe_load_all((TREE / "deploy" / file).read_text())
    if document["kind"] in ("ClusterRole", "Role")
    and document["metadata"]["name"] == "cede-scheduler"
]
"""What it may do everywhere, and in the namespace of guards."""
GUARD_KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES, JOBS)
EVENT = (EVENTS, "create", "")
WRITES: dict[type[actions.Action], tuple[tuple[Kind, str, str], ...]] = {
    actions.OpenCession: ((CESSIONS, "create", ""), EVENT),
    actions.UpdateCession: ((CESSIONS, "patch", "status"),),
    actions.AmendCession: ((CESSIONS, "patch", ""),),
    actions.DeleteCession: ((CESSIONS, "delete", ""),),
    actions.SetQueueingStrategy: ((CLUSTER_QUEUES, "patch", ""),),
    actions.RequestSize: (),
    actions.ResizeJob: ((JOBS, "patch", ""), EVENT),
    actions.SetWorkloadActive: ((WORKLOADS, "patch", ""),),
    actions.CreateGuard: tuple((kind, "create", "") for kind in GUARD_KINDS),
    actions.JoinGuard: ((CLUSTER_QUEUES, "patch", ""),),
    actions.DeleteGuard: tuple((kind, "delete", "") for kind in GUARD_KINDS),
    actions.SetPrivateQuota: ((CLUSTER_QUEUES, "patch", ""),),
    actions.RecordEvent: (EVENT,),
    actions.RecordWorkloadEvent: (EVENT,),
}
"""What scheduler/apply.py writes for an action: the kind, the verb, and the subresource."""


def test_every_action_is_in_the_table() -> None:
    assert set(WRITES) == set(get_args(actions.Action))


@pytest.mark.parametrize("action", WRITES, ids=lambda action: action.__name__)
def test_the_role_allows_what_an_action_writes(action: type[actions.Action]) -> None:
    for kind, verb, subresource in WRITES[action]:
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        assert verb in verbs(kind.group, resource), f"{verb} {resource}"


def verbs(group: str, resource: str) -> set[str]:
    return {
        verb
        for role in ROLES
        for rule in role["rules"]
        if group in rule["apiGroups"] and resource in rule["resources"]
        for verb in rule["verbs"]
    }
