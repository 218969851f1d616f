"""The life of a take-back from a server: its pods drain, and nothing else is stopped for it."""

from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.objects import DEPLOYMENTS, LEADER_WORKER_SETS, rfc3339
from cede.api.reasons import CessionPhase
from scheduler.actions import Action, SetWorkloadActive, UpdateCession
from scheduler.cession.target_progress import STOP_AFTER_RESIZE_S
from scheduler.plan import plan
from scheduler.server_actions import DrainPod, ScaleServer
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.plans import POLICY, opened, planned
from tests.builders.scheduler import NOW, RESERVED, admitted, cohort_quota, pending, queue
from tests.builders.servers import (
    CHAT,
    deployment,
    groups,
    leader_worker_set,
    pod,
    pods,
    serving,
)

CLAIM = pending(pods=2)
TEAMS = {"vision": queue("vision", 4, used=2), "research": queue("research", 2, used=4)}


def world(current: Snapshot, strategy: str = "BestEffortFIFO") -> Snapshot:
    """Vision uses two of its four accelerators, and research four: two are borrowed."""
    vision = replace(TEAMS["vision"], strategy=strategy)
    return replace(current, quota=cohort_quota(vision, TEAMS["research"]))


def taken() -> Cession:
    """What is opened for a claim of vision."""
    [record] = opened(planned(world(serving(deployment(), pods(4), pending=[CLAIM]))))
    return record


def in_progress(**status: object) -> Cession:
    record = taken()
    return record.model_copy(
        update={"status": record.status.model_copy(update={"reservedTime": RESERVED, **status})}
    )


def act(current: Snapshot) -> list[Action]:
    return [
        action
        for action in plan(current, POLICY, NOW).actions
        if isinstance(action, DrainPod | ScaleServer | SetWorkloadActive)
    ]


def test_the_pods_beyond_the_smallest_size_drain_and_no_other_job_stops() -> None:
    rigid = admitted("rigid", size=2, allowed_sizes=())
    record = opened(
        planned(world(serving(deployment(), pods(4), others=[rigid], pending=[CLAIM])))
    )[0]
    targets = [(target.job, target.how, target.toSize) for target in record.spec.targets]
    assert sorted(targets) == [("chat-2", "Drain", 0), ("chat-3", "Drain", 0)]
    assert "chat-3 (research) drains" in record.spec.why
    assert {target.graceSeconds for target in record.spec.targets} == {20}


def test_an_owner_that_needs_more_stops_the_others_as_it_stops_other_pods() -> None:
    """A server at its smallest size keeps nothing that another team owns."""
    teams = (queue("vision", 4), queue("research", 0, used=4))
    current = serving(deployment(), pods(4), pending=[pending(pods=4)])
    [record] = opened(planned(replace(current, quota=cohort_quota(*teams))))
    hows = sorted(target.how for target in record.spec.targets)
    assert hows == ["Drain", "Drain", "Stop", "Stop"]


def test_pods_are_marked_and_the_server_is_scaled_down_in_one_pass() -> None:
    current = serving(deployment(), pods(4), pending=[CLAIM], cessions=[in_progress()])
    first, second, scaled = act(world(current, "StrictFIFO"))
    assert isinstance(first, DrainPod)
    assert isinstance(second, DrainPod)
    assert {first.job[1], second.job[1]} == {"chat-2", "chat-3"}
    assert isinstance(scaled, ScaleServer)
    assert (scaled.server, scaled.replicas, scaled.desired_size) == ((DEPLOYMENTS, CHAT), 2, 4)


def test_nothing_is_taken_twice_while_kubernetes_deletes_the_pods() -> None:
    current = serving(deployment(2, desired=4), pods(4), pending=[CLAIM], cessions=[in_progress()])
    assert act(world(current, "StrictFIFO")) == []


def test_a_pod_is_released_when_kueue_counts_it_no_more_and_may_serve_on_until_its_grace() -> None:
    record = in_progress(phase=CessionPhase.ASKED)
    current = serving(deployment(2, desired=4), pods(2), pending=[CLAIM], cessions=[record])
    shown = JobPods(on_nodes=1, ends_by=NOW + 20)
    uids = [target.uid for target in record.spec.targets]
    current = replace(world(current, "StrictFIFO"), ending=dict.fromkeys(uids, shown))
    actions = plan(current, POLICY, NOW).actions
    [update] = [action for action in actions if isinstance(action, UpdateCession)]
    targets = update.status.targets
    assert [(target.endingPods, bool(target.releasedTime)) for target in targets] == [(1, True)] * 2
    assert not any(target.goneTime for target in targets)
    assert "may save until" in update.status.message


def test_a_server_gives_what_is_used_beyond_all_quota() -> None:
    """An admin has lowered a quota, or Kueue has admitted too much."""
    teams = (queue("vision", 4, used=3), queue("research", 2, used=4))
    current = replace(serving(deployment(), pods(4)), quota=cohort_quota(*teams))
    [drain, scaled] = act(current)
    assert isinstance(drain, DrainPod)
    assert drain.job[1] == "chat-3"
    assert isinstance(scaled, ScaleServer)
    assert (scaled.replicas, scaled.desired_size) == (3, 4)


@pytest.mark.parametrize("late", [False, True])
def test_a_server_that_cannot_drain_is_waited_for_and_then_stopped(late: bool) -> None:
    """It rolls out, or a pod of it is not ready."""
    waited_s = 20 + STOP_AFTER_RESIZE_S + (1 if late else -1)
    asked = rfc3339(NOW - waited_s)
    uids = [target.uid for target in taken().spec.targets]
    targets = [TargetStatus(uid=uid, requestedTime=asked, stopped=late) for uid in uids]
    record = in_progress(targets=targets, phase=CessionPhase.ASKED)
    broken = [pod(0, ready=False), *pods(4)[1:]]
    current = serving(deployment(), broken, pending=[CLAIM], cessions=[record])
    actions = act(world(current, "StrictFIFO"))
    assert [type(action) for action in actions] == ([SetWorkloadActive] * 2 if late else [])


# --- groups of a LeaderWorkerSet ------------------------------------------------------------------
def in_groups(count: int = 2, **options: object) -> Snapshot:
    """The four pods of research are two groups, of which it may keep one."""
    chat = leader_worker_set(count, "1-2")
    return world(serving(chat, groups(2), pending=[CLAIM], **options))  # type: ignore[arg-type]


def test_the_last_group_of_a_server_drains_with_all_its_pods() -> None:
    [record] = opened(planned(in_groups()))
    [target] = record.spec.targets
    assert (target.workload, target.how, target.toSize) == ("job-chat-1", "Drain", 0)


def test_its_server_loses_the_group_and_no_pod_is_marked_for_it() -> None:
    [record] = opened(planned(in_groups()))
    status = record.status.model_copy(update={"reservedTime": RESERVED})
    current = in_groups(cessions=[record.model_copy(update={"status": status})])
    drain, scaled = act(world(current, "StrictFIFO"))
    assert isinstance(drain, DrainPod)
    assert not drain.needs_mark
    assert isinstance(scaled, ScaleServer)
    assert (scaled.server, scaled.replicas) == ((LEADER_WORKER_SETS, CHAT), 1)
