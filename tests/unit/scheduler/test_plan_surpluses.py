"""A surplus within a plan: its base, its growth and a Cession that takes it, in one pass."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api import names
from cede.api.instance_type import InstanceType
from cede.api.resources import Resources
from cede.api.surplus import Base
from scheduler.actions import Action, SetWorkloadActive
from scheduler.plan import plan
from scheduler.quota.cohort import ResourceGroup, ResourceQuota
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.surpluses import Surplus
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.plans import POLICY, opened, planned, resizes
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    KEY,
    NODES,
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)

OBSERVE = POLICY.model_copy(update={"mode": "Observe"})
BASE = admitted("base", size=2, allowed_sizes=())
STOPPED_BASE = replace(BASE, active=False)
HELD = pending("gpt", "research", job_uid="job-uid-gpt", active=False, stopped_for=names.NO_BASE)


def surplus_of_base(current: Snapshot) -> Snapshot:
    """`gpt` is what the job `base` has beyond its smallest size."""
    surplus = Surplus("job-uid-gpt", Base("job-uid-base", "base", "child", 2), has_base=True)
    return replace(current, surpluses=(surplus,))


def stops(actions: list[Action]) -> list[tuple[str, bool, str]]:
    return [(a.uid, a.active, a.cession) for a in actions if isinstance(a, SetWorkloadActive)]


def small_beside(base: AdmittedWorkload) -> Snapshot:
    """The surplus trains with two pods, and wants more of what is idle."""
    more = admitted(size=2, allowed_sizes=(2, 4), runtime=runtime_status(2, wanted=2))
    return surplus_of_base(snapshot(admitted=[base, more]))


def test_a_surplus_grows_beside_its_base() -> None:
    assert [action.size for action in resizes(planned(small_beside(BASE)))] == [4]


def test_a_surplus_does_not_grow_in_the_pass_that_stops_it() -> None:
    """What its base no longer uses is idle in that pass."""
    actions = planned(small_beside(STOPPED_BASE))
    assert not resizes(actions)
    assert stops(actions) == [("uid-gpt", False, names.NO_BASE)]


def test_a_surplus_claims_no_growth_in_the_pass_that_stops_it() -> None:
    """Nothing is idle, and others borrow what its team owns."""
    more = admitted("gpt", "vision", 2, desired_size=6, runtime=runtime_status(2, wanted=2))
    borrower = admitted("other", size=6, runtime=runtime_status(6, wanted=6))
    teams = cohort_quota(queue("vision", 8, used=2), queue("research", 0, used=6))
    claims = snapshot(teams, admitted=[more, borrower])
    assert resizes(planned(claims)), "if it is no surplus"
    actions = planned(surplus_of_base(claims))
    assert not resizes(actions)
    assert stops(actions) == [("uid-gpt", False, names.NO_BASE)]


def test_a_surplus_that_a_cession_stops_keeps_its_mark_though_its_base_stops_too() -> None:
    """Otherwise it would run again with its base, and take what the preemptor was promised."""
    noted = [{"uid": "job-uid-gpt", "stopped": True}]
    current = snapshot(
        admitted=[admitted(allowed_sizes=(), addresses=())],
        pending=[pending()],
        cessions=[cession("Asked", 0, "Stop", targets=noted)],
    )
    assert stops(planned(current)) == [("uid-gpt", False, "c-1")], "if it is no surplus"
    assert stops(planned(surplus_of_base(current))) == [("uid-gpt", False, "c-1")]


BORROWER = admitted("borrower", "vision", 6, runtime=runtime_status(6, wanted=6))
WAITS = pending("gpt", "research", 2, job_uid="job-uid-gpt")
TEAMS = cohort_quota(queue("vision", 0, used=6), queue("research", 8, used=2))


def test_a_pending_surplus_claims_what_its_team_owns() -> None:
    current = snapshot(TEAMS, admitted=[BASE, BORROWER], pending=[WAITS])
    assert len(opened(planned(surplus_of_base(current)))) == 1


def test_a_pending_surplus_claims_nothing_in_the_pass_that_holds_it() -> None:
    current = snapshot(TEAMS, admitted=[STOPPED_BASE, BORROWER], pending=[WAITS])
    actions = planned(surplus_of_base(current))
    assert stops(actions) == [("uid-gpt", False, names.NO_BASE)]
    assert not opened(actions)


def test_a_pending_surplus_claims_nothing_in_the_pass_that_stops_its_base() -> None:
    """Another team's job takes back what the base borrows."""
    noted = [{"uid": "job-uid-base", "stopped": True}]
    record = cession("Asked", 0, "Stop", targets=noted)
    target = record.spec.targets[0].model_copy(update={"job": "base", "uid": "job-uid-base"})
    record.spec.targets = [target]
    rest = admitted("borrower", "audio", 6, runtime=runtime_status(6, wanted=6))
    teams = cohort_quota(
        *(queue("vision", 4, strategy="StrictFIFO"), queue("research", 4, used=2)),
        queue("audio", 0, used=6),
    )
    current = snapshot(
        teams, admitted=[BASE, rest], pending=[pending(pods=2), WAITS], cessions=[record]
    )
    actions = planned(surplus_of_base(current))
    assert stops(actions) == [("uid-base", False, "c-1")]
    assert not opened(actions)


def test_a_surplus_does_not_grow_in_the_pass_that_stops_its_base() -> None:
    """The base has pods of another flavor, which another team takes back."""
    record = cession("Asked", 0, "Stop", targets=[{"uid": "job-uid-base", "stopped": True}])
    target = record.spec.targets[0].model_copy(update={"job": "base", "uid": "job-uid-base"})
    record.spec.targets = [target]
    on_h100 = Counter({("h100", GPU): 2})
    more = admitted(size=2, allowed_sizes=(2, 4), runtime=runtime_status(2, wanted=2))
    more = replace(more, usage=on_h100, per_pod=Counter({("h100", GPU): 1}))
    research = replace(
        queue("research", 0),
        quotas={("h100", GPU): ResourceQuota(4)},
        groups=(ResourceGroup((GPU,), (FLAVOR, "h100")),),
        usage=Counter({KEY: 2, **on_h100}),
    )
    teams = cohort_quota(queue("vision", 2, strategy="StrictFIFO"), research)
    nodes = (*NODES, NodeRoom("node-2", {"type": "h100"}, Resources({GPU: 8})))
    types = [InstanceType(name=name, nodeLabels={"type": name}) for name in (FLAVOR, "h100")]
    current = snapshot(
        teams, admitted=[BASE, more], pending=[pending(pods=2)], cessions=[record], nodes=nodes
    )
    policy = POLICY.model_copy(update={"instanceTypes": types})
    alone = list(plan(current, policy, NOW).actions)
    assert [action.size for action in resizes(alone)] == [4], "if it is no surplus"
    actions = list(plan(surplus_of_base(current), policy, NOW).actions)
    assert stops(actions) == [("uid-base", False, "c-1")]
    assert not resizes(actions)


@pytest.mark.parametrize("is_target", [False, True])
def test_a_held_surplus_that_a_cession_counts_on_waits_for_its_end(is_target: bool) -> None:
    records = [cession("Asked", 0, "Stop")] if is_target else []
    current = snapshot(admitted=[BASE], pending=[HELD], cessions=records)
    runs_again = [("uid-gpt", True, "")]
    assert stops(planned(surplus_of_base(current))) == ([] if is_target else runs_again)


def test_in_mode_observe_a_held_surplus_runs_again_with_its_base() -> None:
    current = surplus_of_base(snapshot(admitted=[BASE], pending=[HELD]))
    assert stops(list(plan(current, OBSERVE, NOW).actions)) == [("uid-gpt", True, "")]


def test_in_mode_observe_no_surplus_is_stopped() -> None:
    assert plan(small_beside(STOPPED_BASE), OBSERVE, NOW).actions == ()


def test_in_mode_observe_a_pending_surplus_without_its_base_claims_nothing() -> None:
    """The event would announce what is never done."""
    current = snapshot(TEAMS, admitted=[STOPPED_BASE, BORROWER], pending=[WAITS])
    assert [notice.reason for notice in plan(current, OBSERVE, NOW).notices] == ["Observed"]
    assert plan(surplus_of_base(current), OBSERVE, NOW).notices == ()
