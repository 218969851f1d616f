"""The scheduler may do all that its actions write, and its role says so."""

from itertools import product
from typing import get_args

import pytest
import yaml

from cede.api import names
from cede.api.objects import (
    CESSIONS,
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEADER_WORKER_SETS,
    LOCAL_QUEUES,
    PODS,
    WORKLOADS,
    Kind,
)
from scheduler import actions, finish_actions, save_actions, server_actions
from tests.paths import TREE

Right = tuple[str, str, str]
"""(API group, resource, verb)"""
BASE = "base/scheduler/rbac.yaml"
GUARDS = "guard/guard.yaml"
SUBJECT = {"kind": "ServiceAccount", "name": "cede-scheduler", "namespace": "cede-system"}
GUARD_KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES, JOBS)
EVENT = (EVENTS, "create", "")
WRITES: dict[type[actions.Action], tuple[tuple[Kind, str, str], ...]] = {
    actions.OpenCession: ((CESSIONS, "create", ""), EVENT),
    actions.UpdateCession: ((CESSIONS, "patch", "status"),),
    actions.AmendCession: ((CESSIONS, "patch", ""),),
    actions.DeleteCession: ((CESSIONS, "delete", ""),),
    actions.SetQueueingStrategy: ((CLUSTER_QUEUES, "patch", ""),),
    actions.RequestSize: (),
    finish_actions.ReportFinish: (),
    actions.ResizeJob: ((JOBS, "patch", ""), EVENT),
    save_actions.RequestSave: (),
    save_actions.AnswerSave: ((JOBS, "patch", ""), EVENT),
    server_actions.DrainPod: ((PODS, "patch", ""),),
    server_actions.ScaleServer: (
        (DEPLOYMENTS, "patch", ""),
        (LEADER_WORKER_SETS, "patch", ""),
        EVENT,
    ),
    actions.SetWorkloadActive: ((WORKLOADS, "patch", ""),),
    actions.RequeueWorkload: ((WORKLOADS, "patch", ""),),
    actions.CreateGuard: tuple((kind, "create", "") for kind in GUARD_KINDS),
    actions.JoinGuard: ((CLUSTER_QUEUES, "patch", ""),),
    actions.DeleteGuard: tuple((kind, "delete", "") for kind in GUARD_KINDS),
    actions.SetPrivateQuota: ((CLUSTER_QUEUES, "patch", ""),),
    actions.RecordEvent: (EVENT,),
    actions.RecordWorkloadEvent: (EVENT,),
}
"""What scheduler/apply.py writes for an action: the kind, the verb, and the subresource."""


NOT_BY_ACTIONS = {
    # progress_writer.py
    *(("", "configmaps", verb) for verb in ("create", "patch", "delete")),
    # cede/kube/lease.py
    *(("coordination.k8s.io", "leases", verb) for verb in ("create", "update")),
}
READS = {"get", "list", "watch"}
GUARD_ACTIONS = (actions.CreateGuard, actions.JoinGuard, actions.DeleteGuard)


def test_every_action_is_in_the_table() -> None:
    assert set(WRITES) == set(get_args(actions.Action))


@pytest.mark.parametrize("action", WRITES, ids=lambda action: action.__name__)
def test_the_role_allows_what_an_action_writes(action: type[actions.Action]) -> None:
    assert written(action) <= allowed(BASE) | allowed(GUARDS)


def test_the_role_allows_no_write_that_nothing_performs() -> None:
    """tests/unit/deploy/rights.txt lists all rights, also to read."""
    performed = NOT_BY_ACTIONS.union(*map(written, WRITES))
    may = allowed(BASE) | allowed(GUARDS)
    assert {right for right in may if right[2] not in READS} == performed


def test_what_only_guards_need_is_with_the_guards_and_nothing_else_is() -> None:
    for_guards = set[Right]().union(*map(written, GUARD_ACTIONS))
    others = set[Right]().union(*map(written, WRITES.keys() - set(GUARD_ACTIONS)))
    assert allowed(GUARDS) == for_guards - others
    assert not allowed(BASE) & allowed(GUARDS)


def test_of_config_maps_it_reads_and_writes_those_of_progress_only() -> None:
    documents = list(yaml.safe_load_all((TREE / "deploy" / BASE).read_text()))
    rules = [rule for document in documents for rule in document.get("rules", ())]
    [rule] = [rule for rule in rules if "configmaps" in rule["resources"]]
    assert rule["resourceNames"] == [names.PROGRESS]
    assert rule["verbs"] == ["list", "create", "patch", "delete"]


def written(action: type[actions.Action]) -> set[Right]:
    return {
        (kind.group, f"{kind.plural}/{subresource}".rstrip("/"), verb)
        for kind, verb, subresource in WRITES[action]
    }


def allowed(file: str) -> set[Right]:
    """What roles of the file allow that are bound to the scheduler there."""
    documents = list(yaml.safe_load_all((TREE / "deploy" / file).read_text()))
    bound = [
        (document["roleRef"]["kind"], document["roleRef"]["name"])
        for document in documents
        if SUBJECT in document.get("subjects", ())
    ]
    return {
        (group, resource, verb)
        for document in documents
        if (document["kind"], document["metadata"]["name"]) in bound
        for rule in document["rules"]
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }
