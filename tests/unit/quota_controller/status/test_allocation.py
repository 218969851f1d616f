"""The status of an allocation: its figures, and that it only changes when there is news."""

import re
from dataclasses import replace

from cede.api.allocation_status import AllocationStatus
from cede.api.crd_schema import MAX_STATUS_TEXT
from cede.api.instance_type import InstanceType
from cede.api.objects import Json, condition
from cede.api.reasons import AdmitsReason, WriteReason
from cede.api.resources import Quota
from quota_controller.desired.capacity import capacities
from quota_controller.desired.conflicts import Problem
from quota_controller.desired.plan import make_plan
from quota_controller.status.allocation import (
    ADMITS,
    allocation_status,
    allocation_statuses,
    column_text,
)
from tests.builders.quotas import allocation, as_live, node, policy, reservation, snapshot

NOW = 1_800_000_000.0
ACTIVE = {"conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": ""}]}


def status_with(queue_status: Json, used_by_research: int = 0) -> AllocationStatus:
    """The status of vision, one of three teams that own a node each; two nodes exist."""
    teams = [allocation(), allocation("research"), allocation("speech")]
    nodes = [node("a"), node("b")]
    live = as_live(
        make_plan(snapshot(teams, nodes=nodes)),
        vision=queue_status,
        research=reservation(used_by_research),
    )
    cluster = snapshot(teams, nodes=nodes, live=live)
    return allocation_statuses(make_plan(cluster), cluster, {}, NOW)["vision"]


def test_columns_list_partitions_if_a_type_has_no_whole_accelerators() -> None:
    partition = "nvidia.com/mig-1g.10gb"
    type_ = InstanceType(name="p5", partitions={partition: 56}, cpu="96", memory="960Gi")
    quota = Quota({("p5", partition): 7, ("p5", "cpu"): 12_000})
    assert column_text(quota, capacities([type_], [])) == "7 mig-1g.10gb"


def partitions_of(i: int) -> dict[str, int]:
    return {f"a.b/{'n' * 40}-{letter}-{i}": 7 for letter in "abcdefgh"}


def test_a_text_that_does_not_fit_its_field_says_so() -> None:
    """The most types and partitions that the API server accepts, with long names."""
    types = [{"name": f"t{i}", "partitions": partitions_of(i)} for i in range(15)]
    quotas = [{"instanceType": type_["name"], "count": 1} for type_ in types]
    cluster = snapshot([allocation(quotas=quotas)], cluster_policy=policy(instanceTypes=types))
    cluster = replace(cluster, live=as_live(make_plan(cluster), vision=ACTIVE))
    status = allocation_status(cluster.allocations[0], make_plan(cluster), cluster, {}, NOW)
    assert len(status.owns) <= MAX_STATUS_TEXT
    assert re.search(r" and \d+ more$", status.owns)


def test_another_teams_admission_changes_nothing_while_no_work_waits() -> None:
    assert status_with(ACTIVE, used_by_research=0) == status_with(ACTIVE, used_by_research=4)


def test_available_quota_is_reported_while_work_waits() -> None:
    [idle] = status_with(ACTIVE).quotas
    assert idle.free == {}
    waiting = status_with({**ACTIVE, "pendingWorkloads": 1})
    [quota] = waiting.quotas
    assert quota.free["nvidia.com/gpu"] == "16"
    assert waiting.waiting == 1


def test_a_write_problem_does_not_mean_that_nothing_is_admitted() -> None:
    team = allocation()
    live = as_live(make_plan(snapshot([team])), vision={**ACTIVE, "pendingWorkloads": 0})
    cluster = snapshot([team], live=live)
    problems = {"vision": Problem(WriteReason.WRITE_FAILED, "has changed meanwhile")}
    [status] = allocation_statuses(make_plan(cluster), cluster, problems, NOW).values()
    ready = condition(status.conditions, "Ready")
    admits = condition(status.conditions, ADMITS)
    assert ready is not None
    assert admits is not None
    assert ready["reason"] == WriteReason.WRITE_FAILED
    assert (admits["status"], admits["reason"]) == ("True", AdmitsReason.NO_WORKLOADS_PENDING)


def test_the_status_does_not_change_with_time_alone() -> None:
    cluster = snapshot([allocation()], nodes=[node()])
    plan = make_plan(cluster)
    [first] = allocation_statuses(plan, cluster, {}, NOW).values()
    reported = allocation().model_copy(update={"status": first})
    later = snapshot([reported], nodes=[node()])
    [second] = allocation_statuses(plan, later, {}, NOW + 100).values()
    assert second == first
