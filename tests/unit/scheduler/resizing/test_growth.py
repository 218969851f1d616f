"""Which jobs grow: into idle quota and free nodes of their flavors, one at a time in each flavor,
and never before a Workload that could start."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.instance_type import InstanceType
from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec, Preemption
from cede.api.resources import Resources
from elastic_runtime.contract import Status
from scheduler.quota.cohort import CohortQuota, ResourceGroup, ResourceQuota
from scheduler.resizing.growth import grow
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    KEY,
    NOW,
    admitted,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)

POLICY = PolicySpec(
    preemption=Preemption(growCooldownSeconds=60),
    instanceTypes=[InstanceType(name=name, nodeLabels={"type": name}) for name in ("a100", "h100")],
)


def trains(
    name: str = "gpt",
    queue: str = "research",
    size: int = 2,
    allowed_sizes: tuple[int, ...] = tuple(range(2, 9)),
    *,
    runtime: Status | None = None,
    desired_size: int | None = None,
    parallelism: int | None = None,
    shrunk_at: float = 0.0,
) -> AdmittedWorkload:
    """A job that by default trains on all pods it has."""
    return admitted(
        name,
        queue,
        size,
        allowed_sizes,
        runtime=runtime or runtime_status(size),
        desired_size=desired_size,
        parallelism=parallelism,
        shrunk_at=shrunk_at,
    )


def sizes(
    snapshot: Snapshot, promised: Collection[str] = (), claims: Collection[str] = ()
) -> dict[str, int]:
    """The new sizes by job."""
    actions = grow(snapshot, POLICY, NOW, promised=promised, claims=claims)
    return {action.job[1]: action.size for action in actions}


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param(snapshot(admitted=[trains()]), {"gpt": 8}, id="to its desired size"),
        pytest.param(
            snapshot(admitted=[trains(desired_size=5)]), {"gpt": 5}, id="not above its desired size"
        ),
        pytest.param(
            snapshot(
                admitted=[trains()], nodes=(NodeRoom("n1", {"type": FLAVOR}, Resources({GPU: 3})),)
            ),
            {"gpt": 5},
            id="as far as nodes have room",
        ),
        pytest.param(
            snapshot(admitted=[trains(allowed_sizes=(2, 4, 8)), trains("other", "vision", 3, ())]),
            {"gpt": 4},
            id="to an allowed size",
        ),
        pytest.param(
            snapshot(admitted=[admitted(size=2)]), {}, id="not if its runtime does not answer"
        ),
        pytest.param(
            snapshot(admitted=[trains(size=4, runtime=runtime_status(2))]),
            {},
            id="not before it trains on all pods it has",
        ),
        pytest.param(
            snapshot(admitted=[trains(shrunk_at=NOW - 30)]), {}, id="not within the cooldown"
        ),
        pytest.param(
            snapshot(admitted=[trains()], pending=[pending()]),
            {},
            id="not while a pending Workload could use it",
        ),
        pytest.param(
            snapshot(admitted=[trains()], pending=[pending(pods=99)]),
            {"gpt": 8},
            id="although a Workload that can never fit is pending",
        ),
        pytest.param(
            snapshot(admitted=[trains("a"), trains("b", parallelism=4)]),
            {},
            id="one at a time in a flavor",
        ),
        pytest.param(
            snapshot(admitted=[replace(trains(), is_evicting=True)]),
            {},
            id="not while it is evicted",
        ),
    ],
)
def test_grow(snapshot: Snapshot, expected: dict[str, int]) -> None:
    assert sizes(snapshot) == expected


def test_nothing_grows_in_a_flavor_that_is_promised() -> None:
    current = snapshot(admitted=[trains()])
    assert sizes(current, promised=[FLAVOR]) == {}
    assert sizes(current, promised=["h100"]) == {"gpt": 8}


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(pending(pods=32), {"gpt": 8}, id="32 of which 30 are idle: for days"),
        pytest.param(pending(pods=30), {}, id="30 of which 30 are idle"),
        pytest.param(pending(pods=30, active=False), {"gpt": 8}, id="inactive"),
        pytest.param(pending(pods=30, ineligible="its queue is held"), {"gpt": 8}, id="held"),
    ],
)
def test_a_waiting_job_holds_growth_up_only_while_it_could_start(
    waiting: PendingWorkload, expected: dict[str, int]
) -> None:
    quota = cohort_quota(queue("vision", 0), queue("research", 32, used=2))
    assert sizes(snapshot(quota, admitted=[trains()], pending=[waiting])) == expected


def test_an_owner_that_waits_for_its_own_quota_holds_growth_up() -> None:
    """What is idle is a part of what it waits for: less has to be released for it."""
    quota = cohort_quota(queue("vision", 4), queue("research", 4, used=5))
    current = snapshot(quota, admitted=[trains(size=5)], pending=[pending(pods=4)])
    assert sizes(current) == {}


def on(flavor: str, job: AdmittedWorkload) -> AdmittedWorkload:
    per_pod = Counter({(flavor, GPU): 1})
    return replace(job, per_pod=per_pod, usage=Counter({(flavor, GPU): job.size}))


def two_flavors() -> CohortQuota:
    quotas = {(flavor, GPU): ResourceQuota(8) for flavor in ("a100", "h100")}
    groups = (ResourceGroup((GPU,), ("a100", "h100")),)
    return CohortQuota({"research": replace(queue("research"), quotas=quotas, groups=groups)})


def test_jobs_of_different_flavors_grow_at_once() -> None:
    jobs = [on("a100", trains("a")), on("a100", trains("b")), on("h100", trains("c"))]
    nodes = tuple(
        NodeRoom(flavor, {"type": flavor}, Resources({GPU: 8})) for flavor in ("a100", "h100")
    )
    current = snapshot(two_flavors(), admitted=jobs, nodes=nodes)
    assert sizes(current) == {"a": 8, "c": 8}


def test_a_waiting_job_holds_up_only_the_flavor_that_kueue_gives_it() -> None:
    """It would fit on each."""
    lends = two_flavors().queues["research"]
    borrows = replace(lends, name="vision", quotas={})
    nodes = tuple(
        NodeRoom(flavor, {"type": flavor}, Resources({GPU: 8})) for flavor in ("a100", "h100")
    )
    current = snapshot(
        CohortQuota({"research": lends, "vision": borrows}),
        admitted=[on("a100", trains("a")), on("h100", trains("c"))],
        pending=[pending(pods=4)],
        nodes=nodes,
    )
    assert sizes(current) == {"c": 8}


def test_a_job_grows_only_onto_nodes_of_its_own_flavor() -> None:
    nodes = (
        NodeRoom("n1", {"type": "a100"}, Resources({GPU: 1})),
        NodeRoom("n2", {"type": "h100"}, Resources({GPU: 8})),
    )
    current = snapshot(two_flavors(), admitted=[on("a100", trains())], nodes=nodes)
    assert sizes(current) == {"gpt": 3}


def test_a_scale_up_slice_that_is_not_admitted_in_time_is_withdrawn() -> None:
    growing = trains(parallelism=8)
    scale_up = pending(
        "gpt",
        "research",
        8,
        job_uid="job-uid-gpt",
        is_scale_up=True,
        created=rfc3339(NOW - 10),
    )
    assert sizes(snapshot(admitted=[growing], pending=[scale_up])) == {"gpt": 2}


def raised_by_its_user(seconds_ago: float, **changes: Any) -> Snapshot:
    """A Job that Kueue resizes and Cede does not: from 2 to 4 pods."""
    job = replace(admitted("ray", "research", 2, (), parallelism=4), **changes)
    slice_ = pending(
        "slice",
        "research",
        job_uid=job.job_uid,
        is_scale_up=True,
        created=rfc3339(NOW - seconds_ago),
    )
    return snapshot(admitted=[job], pending=[slice_])


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(raised_by_its_user(10), {"ray": 2}, id="after 5 s"),
        pytest.param(raised_by_its_user(1), {}, id="not before: Kueue may admit it"),
        pytest.param(raised_by_its_user(10, parallelism=2), {}, id="set back already"),
        pytest.param(raised_by_its_user(10, size=0), {}, id="without quota: 0 would complete it"),
        pytest.param(raised_by_its_user(10, job_version=""), {}, id="not of another kind"),
    ],
)
def test_a_slice_that_cede_did_not_ask_for_is_withdrawn(
    current: Snapshot, expected: dict[str, int]
) -> None:
    """If it were preempted meanwhile, its pods would run on without quota."""
    assert sizes(current) == expected


def test_a_slice_outside_of_teams_is_not_withdrawn() -> None:
    quota = cohort_quota(replace(queue("research"), managed=False))
    assert sizes(replace(raised_by_its_user(10), quota=quota)) == {}


def test_nothing_grows_beside_a_slice_that_cede_did_not_ask_for() -> None:
    current = raised_by_its_user(1)
    assert sizes(replace(current, admitted=(trains(), *current.admitted))) == {}


def test_a_slice_that_an_open_cession_serves_is_not_withdrawn() -> None:
    growing = trains(parallelism=8)
    scale_up = pending(
        "gpt", "research", 8, job_uid="job-uid-gpt", is_scale_up=True, created=rfc3339(NOW - 10)
    )
    current = snapshot(admitted=[growing], pending=[scale_up])
    assert sizes(current, claims=[scale_up.uid]) == {}


def test_a_workload_that_kueue_passes_over_holds_no_growth_up() -> None:
    passed_over = frozenset({"uid-claim"})
    current = snapshot(admitted=[trains()], pending=[pending()], overdue=passed_over)
    assert sizes(current) == {"gpt": 8}


def test_a_growth_for_which_no_slice_comes_is_withdrawn() -> None:
    growing = trains(parallelism=8)
    assert sizes(snapshot(admitted=[growing])) == {}
    current = snapshot(admitted=[growing], overdue=frozenset({"job-uid-gpt"}))
    assert sizes(current) == {"gpt": 2}


# a busy machine is no failure
@settings(deadline=None)
@given(used=st.integers(0, 8), size=st.integers(1, 4), room=st.lists(st.integers(0, 4), max_size=4))
def test_growth_never_exceeds_idle_quota_or_free_nodes(
    used: int, size: int, room: list[int]
) -> None:
    quota = cohort_quota(queue("vision", used=used), queue("research", used=size))
    job = trains(size=size, allowed_sizes=tuple(range(1, 13)))
    nodes = tuple(NodeRoom("n1", {"type": FLAVOR}, Resources({GPU: count})) for count in room)
    current = snapshot(quota, admitted=[job], nodes=nodes)
    for action in grow(current, POLICY, NOW):
        assert action.size - size <= min(quota.available("research", KEY), sum(room))
