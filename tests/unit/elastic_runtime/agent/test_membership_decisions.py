"""Which pods train together next when a job starts, changes its size or stops."""

from dataclasses import replace

import pytest

from elastic_runtime.agent.membership import plan
from elastic_runtime.agent.membership_reasons import Reason
from elastic_runtime.agent.membership_view import Member, View
from elastic_runtime.messages import Record
from tests.builders.membership import (
    BEHIND,
    FOUR,
    LIMITS,
    NOW,
    member,
    new_coordinator,
    outside,
    view,
)


def next_members(job: View) -> tuple[int, ...] | None:
    """The members of the next generation; None if the coordinator waits."""
    record = plan(job, NOW, LIMITS).record
    return record.members if record else None


@pytest.mark.parametrize(
    ("job", "members"),
    [
        pytest.param(view(FOUR, wanted=2), (0, 1), id="smaller size"),
        pytest.param(
            view(FOUR, wanted=2, changed_at=NOW), (0, 1), id="smaller size: nothing to wait for"
        ),
        pytest.param(
            view([*FOUR, outside(4), outside(5)], wanted=8),
            (0, 1, 2, 3, 4, 5),
            id="larger size: ready pods join",
        ),
        pytest.param(
            view([*FOUR, outside(4)], wanted=5, changed_at=NOW),
            (0, 1, 2, 3, 4),
            id="larger size: all wanted pods are ready",
        ),
        pytest.param(
            view([outside(0), *FOUR[1:]], members=(1, 2, 3), wanted=1),
            (0, 1, 2, 3),
            id="pod that is to stay gets the state first",
        ),
        pytest.param(
            view(
                [*(member(index, leaving=True) for index in range(2)), outside(2)],
                members=(0, 1),
            ),
            (0, 1, 2),
            id="all members leave, and another pod has come",
        ),
        pytest.param(
            view([*FOUR, outside(4)]), (0, 1, 2, 3, 4), id="no size requested: all ready pods"
        ),
        pytest.param(view([*FOUR[:3], member(3, leaving=True)]), (0, 1, 2), id="pod terminates"),
        pytest.param(
            view(
                [outside(0, ready=False), *FOUR[1:3], member(3, leaving=True)],
                members=(1, 2, 3),
                wanted=1,
            ),
            (1, 2),
            id="pod that is to stay restarts, and another terminates",
        ),
    ],
)
def test_change_at_the_end_of_a_step(job: View, members: tuple[int, ...]) -> None:
    decision = plan(job, NOW, LIMITS)
    record = decision.record
    assert record is not None
    assert record.members == members
    assert (record.generation, record.abrupt, record.stop) == (4, False, False)
    assert decision.reason is Reason.RESIZED


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param(view(FOUR), Reason.UNCHANGED, id="nothing changed"),
        pytest.param(
            view(FOUR, wanted=8), Reason.UNCHANGED, id="larger size, but no other pod is there"
        ),
        pytest.param(
            view([*FOUR, outside(4, ready=False)], wanted=8),
            Reason.UNCHANGED,
            id="pod still imports torch",
        ),
        pytest.param(
            view([*FOUR, outside(4)], wanted=8, changed_at=NOW),
            Reason.SETTLING,
            id="pods that become ready together join together",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, leaving=True), outside(4)], wanted=5, changed_at=NOW),
            Reason.SETTLING,
            id="all wanted pods are ready, but one terminates",
        ),
        pytest.param(
            view([*FOUR, outside(4)], wanted=4),
            Reason.UNCHANGED,
            id="no pod joins beyond the requested size",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, generation=2), outside(4)]),
            Reason.STILL_FORMING,
            id="one change at a time",
        ),
        pytest.param(
            view([outside(0, ready=False), *FOUR[1:]], members=(1, 2, 3), wanted=1),
            Reason.UNCHANGED,
            id="pod that is to stay restarts: the others keep the state",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, finished=True)]),
            Reason.FINISHED,
            id="finished: the others will finish too",
        ),
        pytest.param(
            view([replace(pod, leaving=True) for pod in FOUR], changed_at=NOW),
            Reason.SETTLING,
            id="while SIGTERMs still arrive, it may not be the end",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, generation=0, parked=True)], members=(0, 1, 2), wanted=3),
            Reason.UNCHANGED,
            id="pod that left has parked",
        ),
    ],
)
def test_no_change(job: View, reason: Reason) -> None:
    decision = plan(job, NOW, LIMITS)
    assert (decision.record, decision.reason) == (None, reason)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(view(FOUR, wanted=0), id="size 0 is requested"),
        pytest.param(view([replace(pod, leaving=True) for pod in FOUR]), id="all pods terminate"),
    ],
)
def test_last_generation_saves(job: View) -> None:
    decision = plan(job, NOW, LIMITS)
    assert decision.record is not None
    assert (decision.record.stop, decision.record.members) == (True, (0, 1, 2, 3))
    assert decision.reason is Reason.ALL_MUST_LEAVE


@pytest.mark.parametrize(
    ("pods", "wanted", "expected"),
    [
        pytest.param(
            FOUR, 2, (0, 1, 2, 3), id="pods that are not wanted join too: they have the state"
        ),
        pytest.param(
            [replace(pod, parked=True, generation=0) for pod in FOUR],
            2,
            (0, 1),
            id="state is saved",
        ),
        pytest.param(
            [*FOUR[:3], member(3, leaving=True)], 2, None, id="terminating pod still saves"
        ),
        pytest.param(FOUR, 0, None, id="size is still 0"),
    ],
)
def test_stop_is_withdrawn(
    pods: list[Member], wanted: int, expected: tuple[int, ...] | None
) -> None:
    assert next_members(view(pods, wanted=wanted, stop=True)) == expected


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(
            [outside(0), *(outside(index, parked=True) for index in (1, 2))],
            id="pod 0 was replaced",
        ),
        pytest.param([outside(0), outside(1)], id="job had not started"),
    ],
)
@pytest.mark.parametrize(
    "known", [Record(), Record(5)], ids=["no generation known", "all were lost at the request"]
)
def test_job_of_size_0_stops_though_pods_were_replaced(pods: list[Member], known: Record) -> None:
    job = replace(new_coordinator(pods, wanted=0), record=known)
    record = plan(job, NOW, LIMITS).record
    assert record
    assert (record.stop, record.members) == (True, tuple(pod.index for pod in pods))


@pytest.mark.parametrize(
    ("ready", "more", "members"),
    [
        pytest.param([0], {}, None, id="below the smallest size"),
        pytest.param([0, 2], {}, (0, 2), id="as many as the smallest size, not the first"),
        pytest.param([0, 1], {}, (0, 1), id="smallest size"),
        pytest.param([0, 1, 2, 3], {}, (0, 1, 2, 3), id="more than the smallest size"),
        pytest.param([0, 2, 3], {"wanted": 2}, None, id="others are not wanted"),
        pytest.param([0, 2, 3], {"base": 2}, None, id="a surplus without all of its base"),
        pytest.param([0, 1, 3], {"base": 2}, (0, 1, 3), id="a surplus with its base"),
    ],
)
def test_first_generation(
    ready: list[int], more: dict[str, int], members: tuple[int, ...] | None
) -> None:
    job = new_coordinator([outside(index) for index in ready], smallest=2)
    assert next_members(replace(job, **more)) == members  # type: ignore[arg-type]


def test_a_pod_that_leaves_does_not_count_for_the_smallest_size() -> None:
    pods = [outside(0), replace(outside(1), leaving=True), outside(2)]
    assert next_members(new_coordinator(pods, smallest=3)) is None
    assert next_members(new_coordinator(pods, smallest=2)) == (0, 2)


@pytest.mark.parametrize(
    ("reported", "started_at", "members"),
    [
        pytest.param([1, 2, 3], NOW - 1, (1, 2, 3), id="all others have reported"),
        pytest.param([1, 3], NOW - 1, None, id="one has not reported yet"),
        pytest.param([1, 3], NOW - LIMITS.gather_s - 1, (1, 3), id="one never reports"),
    ],
)
def test_replaced_pod_0_adopts_the_members(
    reported: list[int], started_at: float, members: tuple[int, ...] | None
) -> None:
    training = [member(index, members=(0, 1, 2, 3)) for index in reported]
    record = plan(
        new_coordinator([outside(0), *training], started_at=started_at), NOW, LIMITS
    ).record
    assert (record.members if record else None) == members
    assert record is None or (record.generation, record.abrupt) == (4, True)


@pytest.mark.parametrize(
    ("waited_s", "is_waiting"),
    [
        pytest.param(1.8, True, id="many are late"),
        pytest.param(3.6, False, id="they never report"),
    ],
)
def test_an_elected_coordinator_waits_for_the_many_members_of_a_large_job(
    waited_s: float, is_waiting: bool
) -> None:
    """Of 256 members 103 have not reported yet."""
    reported = [member(index) for index in range(103, 256)]
    job = view(reported, tuple(range(256)), started_at=NOW - waited_s)
    assert (plan(job, NOW, LIMITS).reason is Reason.MEMBERS_UNKNOWN) == is_waiting


def test_no_start_from_a_save_while_others_have_the_state() -> None:
    """Pods 1 and 2 have the state and have not noticed yet that a member was lost."""
    job = replace(view([outside(0), *BEHIND[1:]], wanted=1), record=Record(4))
    assert plan(job, NOW, LIMITS).record is None
    alone = replace(job, members={0: outside(0)})
    assert plan(alone, NOW, LIMITS).record == Record(5, (0,), ("life-0",), epoch=1)


@pytest.mark.parametrize(
    ("newest", "started_at", "members"),
    [
        pytest.param(3, NOW - LIMITS.gather_s, None, id="none that knows generation 5 reports"),
        pytest.param(5, NOW - LIMITS.gather_s, (1, 2), id="one reports"),
        pytest.param(3, NOW - LIMITS.cut_off_s, (1, 2), id="none reports for long"),
    ],
)
def test_replaced_pod_0_waits_for_the_newest_generation_that_it_heard_of(
    newest: int, started_at: float, members: tuple[int, ...] | None
) -> None:
    pods = [member(index, members=(1, 2)) for index in (1, 2)]
    pods[1] = replace(pods[1], record_epoch=1, record_generation=newest)
    job = replace(new_coordinator(pods, started_at=started_at), heard=(1, 5))
    assert next_members(job) == members
    nobody = replace(new_coordinator([outside(0)], started_at=started_at), heard=(1, 5))
    assert (next_members(nobody) is None) == (started_at > NOW - LIMITS.cut_off_s)


def test_no_decision_before_a_generation_is_announced() -> None:
    job = view(FOUR, wanted=2)
    unknown = replace(job.record, electors=(0, 1), elector_lives=("life-0", "life-1"))
    assert plan(replace(job, record=unknown), NOW, LIMITS).reason is Reason.UNANNOUNCED
    assert plan(job, NOW, LIMITS).reason is Reason.RESIZED
