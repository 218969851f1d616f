"""Which pods continue, at once, after a member was lost."""

import pytest

from elastic_runtime.agent.membership import plan
from elastic_runtime.agent.membership_reasons import Reason
from elastic_runtime.agent.membership_view import View
from tests.builders.membership import (
    BEHIND,
    FOUR,
    LIMITS,
    LONG_AGO,
    NOW,
    member,
    restarted,
    view,
)
from tests.harness.membership_model import JobModel


@pytest.mark.parametrize(
    ("job", "members"),
    [
        pytest.param(
            view([*FOUR[:3], member(3, reported_at=NOW - LIMITS.silent_s - 0.1)]),
            (0, 1, 2),
            id="pod is silent",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, incarnation="next-life")]),
            (0, 1, 2),
            id="process died and was restarted",
        ),
        pytest.param(view(FOUR[1:]), (1, 2, 3), id="pod 0's processes died"),
        pytest.param(
            view(FOUR, broke_at=NOW), (0, 1, 2, 3), id="connection broke, all have reported since"
        ),
        pytest.param(
            view([*FOUR[:3], member(3, reported_at=NOW - 1.2)], broke_at=NOW - 1.1),
            (0, 1, 2),
            id="it broke, and one pod has not reported since",
        ),
        pytest.param(
            view(
                [
                    FOUR[0],
                    member(1, reported_at=NOW - 0.2),
                    member(2, reported_at=NOW - 0.2),
                ],
                broke_at=NOW - 0.1,
            ),
            (0, 1, 2),
            id="one pod is certainly lost: others may report later",
        ),
        pytest.param(
            view([*FOUR[:2], member(2, leaving=True)]),
            (0, 1, 2),
            id="one died while another was leaving, which still hands over",
        ),
        pytest.param(
            view(
                [member(index, generation=2, broken=3) for index in range(3)],
                members=(0, 1),
                wanted=2,
                broke_at=NOW,
            ),
            (0, 1, 2),
            id="leaver died in the hand-over: the other leaver may hold the only state",
        ),
        pytest.param(
            view(
                [BEHIND[0], restarted(1), member(2, generation=2, broken=3, leaving=True)],
                members=(0, 1),
                wanted=2,
            ),
            (0, 2),
            id="staying pod died while another handed over",
        ),
        pytest.param(
            view(
                [member(0, generation=2), member(1, generation=2, leaving=True, broken=3)],
                members=(0, 1, 2),
                broke_at=NOW,
            ),
            (0, 1),
            id="pod died while it was brought back to hand over",
        ),
        pytest.param(
            view(BEHIND, members=(0, 1), wanted=2, broke_at=NOW - 1),
            (0, 1, 2),
            id="leaver computes and has not noticed the break",
        ),
        pytest.param(
            view(
                [*BEHIND[:2], member(2, generation=2, reported_at=NOW - 1.2)],
                members=(0, 1),
                wanted=2,
                broke_at=NOW - 1,
            ),
            (0, 1),
            id="leaver is silent",
        ),
        pytest.param(
            view([restarted(0, first_reported_at=NOW - 1), *BEHIND[1:]], members=(0,), wanted=1),
            (1, 2),
            id="the staying pod died, and the others have not noticed",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, generation=0, parked=True, reported_at=LONG_AGO)]),
            (0, 1, 2),
            id="pod that had parked and was asked back is lost",
        ),
        pytest.param(
            view(
                [member(0, generation=2), member(2, generation=2, parked=True)],
                members=(0, 1),
                wanted=2,
            ),
            (0,),
            id="the leaver has handed over",
        ),
        pytest.param(
            view([member(0), member(2, generation=2)], members=(0, 1), wanted=2),
            (0,),
            id="staying pod has formed: all was handed over",
        ),
    ],
)
def test_survivors_continue_at_once(job: View, members: tuple[int, ...]) -> None:
    decision = plan(job, NOW, LIMITS)
    record = decision.record
    assert record
    assert (record.members, record.generation, record.abrupt) == (members, 4, True)
    assert decision.reason is Reason.SURVIVORS_CONTINUE


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param(
            view([*FOUR[:3], member(3, reported_at=NOW - 0.2)], broke_at=NOW - 0.1),
            Reason.LOSS_UNKNOWN,
            id="it broke just now: the lost pod will be known soon",
        ),
        pytest.param(
            view(BEHIND, members=(0, 1), wanted=2, broke_at=NOW - 0.1),
            Reason.HAND_OVER_UNKNOWN,
            id="leaver has not reported yet whether it handed over",
        ),
    ],
)
def test_wait_for_reports_after_a_break(job: View, reason: Reason) -> None:
    decision = plan(job, NOW, LIMITS)
    assert (decision.record, decision.reason) == (None, reason)


def test_parked_leaver_is_not_lost() -> None:
    parked = member(3, generation=0, parked=True, reported_at=LONG_AGO)
    assert plan(view([*FOUR[:3], parked], members=(0, 1, 2)), NOW, LIMITS).record is None


@pytest.mark.parametrize(
    ("parked", "members"),
    [
        pytest.param(True, None, id="all had parked: the state is saved"),
        pytest.param(False, (0, 1, 2), id="the others were not done yet"),
    ],
)
def test_process_dies_while_its_job_stops(parked: bool, members: tuple[int, ...] | None) -> None:
    others = [member(index, parked=parked, generation=0 if parked else 3) for index in range(3)]
    stopping = view([*others, member(3, incarnation="next-life")], wanted=0, stop=True)
    record = plan(stopping, NOW, LIMITS).record
    assert (record.members if record else None) == members


@pytest.mark.parametrize("killed", [0, 1, 2])
def test_death_during_a_shrink_to_one_keeps_the_state(killed: int) -> None:
    job = JobModel(3, smallest=1)
    job.settle()
    job.wanted = 1
    while job.view.record.members != (0,):
        job.tick()
    job.kill(killed, whole=False)
    for _ in range(20):
        # The killed process takes its time to start again.
        job.tick()
    job.settle()
    assert job.trains() == [0]
    assert job.starts == 1


def test_replaced_pod_0_learns_of_pods_outside_the_job() -> None:
    job = JobModel(3, smallest=1)
    job.settle()
    job.wanted = 1
    job.settle()
    assert job.trains() == [0]
    job.kill(0, whole=True)
    job.settle()
    job.wanted = 3
    job.settle()
    assert job.trains() == [0, 1, 2]
