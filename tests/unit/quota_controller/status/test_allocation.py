"""What an admin reads says what is, why, and what to do."""

from dataclasses import replace
from typing import Any

import pytest

from cede.api.allocation import AllocationStatus
from cede.api.kueue import Lease, LeaseSpec
from cede.api.names import GPU
from cede.api.objects import CLUSTER_QUEUES, Json, rfc3339
from cede.api.policy import InstanceType, PolicyStatus
from cede.api.resources import Quota
from quota_controller import status_writer
from quota_controller.desired.capacity import supplies
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.kueue_objects import SHARED
from quota_controller.desired.plan import plan
from quota_controller.status import lease_watchdog
from quota_controller.status.allocation import ADMITS, allocation_statuses, short
from quota_controller.status.kueue_config import Kueue
from quota_controller.status.policy import policy_status, unsynced_policy_status
from tests.unit.quota_controller.desired.test_capacity import node
from tests.unit.quota_controller.desired.test_plan import allocation, as_live, policy, seen

NOW = 1_800_000_000.0


def ready(
    live_status: Json | None, *, clashes: Problems | None = None, nodes: int = 1, **spec: Any
) -> tuple[str, str, str]:
    """(status, reason, message) of an allocation whose queue has this status; None: no queue
    yet."""
    owner = allocation(**spec)
    around = {"nodes": [node(str(i)) for i in range(nodes)]}
    live = as_live(plan(seen([owner], **around)))  # type: ignore[arg-type]
    if live_status is None:
        del live[CLUSTER_QUEUES, ("", "vision")]
    else:
        live[CLUSTER_QUEUES, ("", "vision")]["status"] = live_status
    picture = seen([owner], live=live, **around)  # type: ignore[arg-type]
    [told] = allocation_statuses(plan(picture), picture, clashes or {}, NOW).values()
    found = next(c for c in told.conditions if c["type"] == "Ready")
    return found["status"], found["reason"], found["message"]


ACTIVE = {"conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": ""}]}
INACTIVE = {
    "conditions": [
        {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "no flavor p5"}
    ]
}


@pytest.mark.parametrize(
    ("live_status", "spec", "expected"),
    [
        pytest.param(None, {}, ("Unknown", "Creating", "is being made"), id="no queue yet"),
        pytest.param(
            {},
            {},
            ("Unknown", "WaitingForKueue", "is its controller running?"),
            id="Kueue is silent",
        ),
        pytest.param(
            INACTIVE, {}, ("False", "QueueInactive", "no flavor p5"), id="Kueue says why not"
        ),
        pytest.param(
            ACTIVE,
            {},
            ("True", "InPlace", "owns 8 nvidia.com/gpu, 180 cpu, 1800 GiB memory"),
            id="in place",
        ),
        pytest.param(
            ACTIVE, {"active": False}, ("True", "Held", "nothing new is admitted"), id="held"
        ),
        pytest.param(
            ACTIVE,
            {"nodes": 0},
            ("True", "Promised", "no node of type p5 exists yet"),
            id="promised",
        ),
        pytest.param(
            ACTIVE,
            {"quotas": [{"instanceType": "p5", "count": 3}]},
            ("True", "Short", "16 nvidia.com/gpu"),
            id="not all there",
        ),
        pytest.param(
            ACTIVE,
            {"sharing": {"strategy": "DontLend"}},
            ("True", "InPlace", "shares nothing"),
            id="shares nothing",
        ),
        pytest.param(
            ACTIVE,
            {"sharing": {"borrowLimitPercent": 50}},
            ("True", "InPlace", "borrows up to 50 %"),
            id="limit",
        ),
        pytest.param(
            ACTIVE,
            {"maxPriorityClass": "vip"},
            ("False", "UnknownPriorityClass", "use one of"),
            id="unknown class",
        ),
        pytest.param(
            ACTIVE,
            {"clashes": {"vision": ("NotOurs", "in the way")}},
            ("False", "NotOurs", "in the way"),
            id="clash",
        ),
    ],
)
def test_ready_says_what_is_and_what_to_do(
    live_status: Json | None, spec: Json, expected: tuple[str, str, str]
) -> None:
    found = ready(live_status, **spec)
    assert found[:2] == expected[:2]
    assert expected[2] in found[2]


def test_the_columns_speak_of_partitions_where_a_type_has_no_whole_accelerators() -> None:
    one = "nvidia.com/mig-1g.10gb"
    supply = supplies([InstanceType(name="p5", partitions={one: 56}, cpu="96", memory="960Gi")], [])
    assert short(Quota({("p5", one): 7, ("p5", "cpu"): 12_000}), supply) == "7 mig-1g.10gb"


@pytest.mark.parametrize(
    ("spec", "clashes", "reason"),
    [
        pytest.param({}, {}, "InPlace", id="in place"),
        pytest.param({"instanceTypes": []}, {}, "NoInstanceTypes", id="no types"),
        pytest.param({}, {SHARED: ("NotOurs", "ResourceFlavor p5 exists")}, "NotOurs", id="clash"),
        pytest.param(
            {
                "instanceTypes": [
                    {"name": "a", "nodeLabels": {"x": "1"}},
                    {"name": "b", "nodeLabels": {"x": "1", "y": "2"}},
                ]
            },
            {},
            "TypesOverlap",
            id="one selects the other's nodes",
        ),
    ],
)
def test_the_policy_says_what_is_off(spec: Json, clashes: Problems, reason: str) -> None:
    picture = seen([allocation()], found=policy(**spec))
    told = policy_status(plan(picture), picture, clashes, NOW)
    assert told is not None
    assert {c["type"]: c["reason"] for c in told.conditions if c["type"] != "KueueConfigured"} == {
        "SchedulerLeads": "Leads",
        "Ready": reason,
    }


def test_the_policy_says_which_nodes_are_partitioned_otherwise() -> None:
    parts = "nvidia.com/mig-1g.10gb"
    types = [{"name": "p5", "accelerators": 8, "partitions": {parts: 56}}]
    mig = node("c", gpus=0)
    mig = replace(
        mig, status=replace(mig.status, allocatable={**mig.status.allocatable, parts: 56})
    )
    picture = seen(
        [allocation()], found=policy(instanceTypes=types), nodes=[node("a"), node("b"), mig]
    )
    told = policy_status(plan(picture), picture, {}, NOW)
    assert told is not None
    assert (
        "1 healthy node (c) offer other partitions than a whole node"
        in told.instanceTypes[0].message
    )


def test_the_policy_says_whether_kueue_is_set_as_it_wants() -> None:
    picture = replace(seen(), kueue=Kueue(trouble="403 Forbidden: configmaps"))
    told = policy_status(plan(picture), picture, {}, NOW)
    assert told is not None
    [found] = [c for c in told.conditions if c["type"] == "KueueConfigured"]
    assert (found["status"], found["message"]) == (
        "Unknown",
        "Kueue's settings cannot be read: 403 Forbidden: configmaps",
    )


def test_while_kueue_is_absent_the_policy_says_so_and_keeps_its_figures() -> None:
    before = policy().model_copy(update={"status": PolicyStatus(leader="s-0")})
    told = unsynced_policy_status(
        before, {"ClusterQueue": "404 NotFound: the server could not find the resource"}, NOW
    )
    [ready] = told.conditions
    assert (ready["status"], ready["reason"], told.leader) == ("False", "CannotRead", "s-0")
    assert "ClusterQueue cannot be read (404" in ready["message"]
    assert "install Kueue 0.19.2 or newer" in ready["message"]


def test_an_admission_elsewhere_changes_no_status_of_a_team_where_nothing_waits() -> None:
    teams = [allocation(), allocation("research"), allocation("speech")]
    nodes = [node("a"), node("b")]

    def told(used: int) -> AllocationStatus:
        reserved = [
            {"name": "p5", "resources": [{"name": GPU, "total": str(used), "borrowed": "0"}]}
        ]
        live = as_live(
            plan(seen(teams, nodes=nodes)), vision=ACTIVE, research={"flavorsReservation": reserved}
        )
        return allocation_statuses(
            plan(picture := seen(teams, nodes=nodes, live=live)), picture, {}, NOW
        )["vision"]

    assert told(0) == told(4)


def test_an_empty_map_is_left_out_of_what_is_applied() -> None:
    """Of `{}` in place of what the same manager had filled an API server makes null (seen on 1.36),
    which no schema takes."""
    assert status_writer.without_empty(
        {"free": {}, "quotas": [{"free": {}, "used": {"cpu": "1"}}]}
    ) == {"quotas": [{"used": {"cpu": "1"}}]}


def test_status_is_the_same_when_told_twice() -> None:
    picture = seen([allocation()], nodes=[node()])
    decided = plan(picture)
    [first] = allocation_statuses(decided, picture, {}, NOW).values()
    again = seen([allocation().model_copy(update={"status": first})], nodes=[node()])
    [second] = allocation_statuses(decided, again, {}, NOW + 100).values()
    assert second == first, "a later look is no news"


# --- the watchdog ---------------------------------------------------------------------------------
def lease(renewed: float, holder: str | None = "s-0") -> Lease:
    return Lease(spec=LeaseSpec(holderIdentity=holder, renewTime=rfc3339(renewed, micro=True)))


@pytest.mark.parametrize(
    ("looks", "now", "expected"),
    [
        pytest.param([], 0, "", id="no lease: nobody leads"),
        pytest.param([(0, lease(NOW))], 119, "s-0", id="within the time"),
        pytest.param([(0, lease(NOW))], 120, "", id="past it"),
        pytest.param([(0, lease(NOW - 200))], 0, "", id="a first sight trusts the lease"),
        pytest.param([(0, lease(NOW + 900))], 120, "", id="but not the future"),
        pytest.param(
            [(0, lease(NOW - 200)), (1, lease(NOW - 199))],
            2,
            "s-0",
            id="a renewal by a slow clock is a renewal",
        ),
        pytest.param([(0, lease(NOW)), (90, lease(NOW))], 121, "", id="seeing it again is none"),
        pytest.param(
            [(0, lease(NOW)), (9, lease(NOW + 9, None))],
            20,
            "s-0",
            id="given back: the next one has its time",
        ),
    ],
)
def test_who_leads_by_our_own_clock(
    looks: list[tuple[float, Lease]], now: float, expected: str
) -> None:
    heard = None
    for after, found in looks:
        heard = lease_watchdog.hear(heard, found, NOW + after)
    assert lease_watchdog.leader(heard, 120, NOW + now) == expected
    assert (lease_watchdog.seconds_left(heard, 120, NOW + now) is None) == (expected == "")


def admits(
    *,
    waiting: int,
    used: int = 0,
    borrowed: int = 0,
    clashes: Problems | None = None,
    without_policy: bool = False,
    **spec: Any,
) -> tuple[str, str, str]:
    """(status, reason, message) of condition Admits of vision, which owns 8 of 16; research holds
    `used`, and borrows some of that."""
    teams = [allocation(**spec), allocation("research")]
    nodes = [node("a"), node("b")]
    reserved = [
        {"name": "p5", "resources": [{"name": GPU, "total": str(used), "borrowed": str(borrowed)}]}
    ]
    live = as_live(
        plan(seen(teams, nodes=nodes)),
        vision={**ACTIVE, "pendingWorkloads": waiting},
        research={"flavorsReservation": reserved},
    )
    if not spec.get("active", True):
        live[CLUSTER_QUEUES, ("", "vision")]["status"]["conditions"] = [
            {"type": "Active", "status": "False"}
        ]
    picture = seen(teams, nodes=nodes, live=live, without_policy=without_policy)
    told = allocation_statuses(plan(picture), picture, clashes or {}, NOW)["vision"]
    assert told.waiting == waiting or without_policy
    found = next(c for c in told.conditions if c["type"] == ADMITS)
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"waiting": 0}, ("True", "NothingWaits", "no workload waits"), id="nothing waits"
        ),
        pytest.param(
            {"waiting": 1},
            ("False", "WorkWaits", "1 workload waits: its next job could have 16 nvidia.com/gpu"),
            id="room",
        ),
        pytest.param(
            {"waiting": 2, "used": 12, "borrowed": 4},
            (
                "False",
                "WorkWaits",
                (
                    "could have 4 nvidia.com/gpu; of its own 8 nvidia.com/gpu is idle or lent, 4 "
                    "nvidia.com/gpu of that to"
                ),
            ),
            id="lent to others",
        ),
        pytest.param(
            {"waiting": 1, "sharing": {"borrowLimitPercent": 25}},
            ("False", "WorkWaits", "could have 10 nvidia.com/gpu"),
            id="limited",
        ),
        pytest.param(
            {"waiting": 1, "active": False},
            ("False", "Closed", "condition Ready says why"),
            id="not active",
        ),
        pytest.param(
            {"waiting": 0, "maxPriorityClass": "gone"},
            ("True", "NothingWaits", ""),
            id="a class unknown closes nothing",
        ),
        pytest.param(
            {"waiting": 0, "clashes": {"vision": ("TriedAgain", "changed meanwhile")}},
            ("True", "NothingWaits", ""),
            id="nor does an object that could not be written",
        ),
        pytest.param(
            {"waiting": 1, "without_policy": True},
            ("False", "WorkWaits", "1 workload waits for room in the quotas"),
            id="no policy",
        ),
    ],
)
def test_admits_says_what_there_is_for_the_next_job(
    given: Json, expected: tuple[str, str, str]
) -> None:
    found = admits(**given)
    assert found[:2] == expected[:2]
    assert expected[2] in found[2]
