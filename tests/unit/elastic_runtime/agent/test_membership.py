"""Who is in each generation: the cases by name."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from elastic_runtime.agent.membership import Limits, Member, Record, View, plan
from tests.harness.membership_model import Job

LIMITS = Limits()
NOW = 100.0
SETTLED = NOW - 60
JUST_NOW = NOW


def member(index: int, **facts: object) -> Member:
    """A pod that trains in generation 3, unless said otherwise."""
    known = {
        "generation": 3,
        "ready": True,
        "heard": NOW,
        "since": SETTLED,
        "address": f"10.0.0.{index}",
    } | facts
    return Member(index, f"life-{index}", **known)  # type: ignore[arg-type]


def waiting(index: int, **facts: object) -> Member:
    return member(index, generation=0, **facts)


def view(members: Iterable[Member], of: tuple[int, ...] = (0, 1, 2, 3), **facts: object) -> View:
    """A job whose generation 3 is made of the pods `of`."""
    record = Record(3, of, tuple(f"life-{i}" for i in of), "10.0.0.0:1") if of else Record()
    known = {"born": SETTLED, "changed": SETTLED} | facts
    return View(record, {m.index: m for m in members}, **known)  # type: ignore[arg-type]


FOUR = [member(i) for i in range(4)]
NEXT = replace(waiting(1, since=NOW), incarnation="next-life")
# have not formed generation 3 yet
BEHIND = [member(i, generation=2) for i in range(3)]


@pytest.mark.parametrize(
    ("seen", "members"),
    [
        pytest.param(view(FOUR), None, id="all is well"),
        pytest.param(view(FOUR, wanted=2), (0, 1), id="a smaller size is wanted"),
        pytest.param(
            view(FOUR, wanted=2, changed=JUST_NOW), (0, 1), id="a shrink waits for nothing"
        ),
        pytest.param(view(FOUR, wanted=8), None, id="a larger size is wanted, nobody is there yet"),
        pytest.param(
            view([*FOUR, waiting(4), waiting(5)], wanted=8),
            (0, 1, 2, 3, 4, 5),
            id="whoever is ready joins",
        ),
        pytest.param(
            view([*FOUR, waiting(4, ready=False)], wanted=8), None, id="nobody waits for an import"
        ),
        pytest.param(
            view([*FOUR, waiting(4)], wanted=8, changed=JUST_NOW),
            None,
            id="those who come together are taken together",
        ),
        pytest.param(
            view([*FOUR, waiting(4)], wanted=5, changed=JUST_NOW),
            (0, 1, 2, 3, 4),
            id="all that are wanted are there: at once",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, leaving=True), waiting(4)], wanted=5, changed=JUST_NOW),
            None,
            id="not so while one is told to go",
        ),
        pytest.param(
            view([waiting(0), *FOUR[1:]], of=(1, 2, 3), wanted=1),
            (0, 1, 2, 3),
            id="the one that is to stay gets the state first",
        ),
        pytest.param(
            view([*(member(i, leaving=True) for i in range(2)), waiting(2)], of=(0, 1)),
            (0, 1, 2),
            id="all go, and another has come",
        ),
        pytest.param(
            view([*FOUR, waiting(4)], wanted=4), None, id="nobody joins beyond the wanted size"
        ),
        pytest.param(
            view([*FOUR, waiting(4)]), (0, 1, 2, 3, 4), id="never asked: whoever is there"
        ),
        pytest.param(
            view([*FOUR[:3], member(3, leaving=True)]), (0, 1, 2), id="a pod is told to go"
        ),
        pytest.param(
            view([*FOUR[:3], member(3, generation=2), waiting(4)]), None, id="one plan at a time"
        ),
        pytest.param(
            view([*FOUR[:3], member(3, heard=NOW - 0.2)], broke=NOW - 0.1),
            None,
            id="it broke just now: who was lost will be known",
        ),
        pytest.param(
            view(BEHIND, of=(0, 1), wanted=2, broke=NOW - 0.1),
            None,
            id="who leaves has not said yet whether it handed over",
        ),
        pytest.param(
            view([waiting(0, ready=False), *FOUR[1:]], of=(1, 2, 3), wanted=1),
            None,
            id="the one that is to stay starts again",
        ),
        pytest.param(
            view(
                [waiting(0, ready=False), *FOUR[1:3], member(3, leaving=True)],
                of=(1, 2, 3),
                wanted=1,
            ),
            (1, 2),
            id="so do those who are not wanted, and one is told to go",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, finished=True)]),
            None,
            id="finished: who is left will finish too",
        ),
    ],
)
def test_at_the_end_of_a_step(seen: View, members: tuple[int, ...] | None) -> None:
    record = plan(seen, NOW, LIMITS)
    assert (record.members if record else None) == members
    assert record is None or (record.generation, record.abrupt, record.stop) == (4, False, False)


@pytest.mark.parametrize(
    ("seen", "members"),
    [
        pytest.param(
            view([*FOUR[:3], member(3, heard=NOW - LIMITS.silent_s - 0.1)]),
            (0, 1, 2),
            id="a pod is silent",
        ),
        pytest.param(
            view([*FOUR[:3], replace(member(3), incarnation="next-life")]),
            (0, 1, 2),
            id="a process died and is back",
        ),
        pytest.param(view(FOUR[1:]), (1, 2, 3), id="pod 0's processes died"),
        pytest.param(
            view(FOUR, broke=NOW), (0, 1, 2, 3), id="a connection broke, and all have spoken since"
        ),
        pytest.param(
            view([*FOUR[:3], member(3, heard=NOW - 1.2)], broke=NOW - 1.1),
            (0, 1, 2),
            id="it broke, and one has not spoken since",
        ),
        pytest.param(
            view(
                [FOUR[0], member(1, heard=NOW - 0.2), member(2, heard=NOW - 0.2)], broke=NOW - 0.1
            ),
            (0, 1, 2),
            id=(
                "it broke, one is known to be lost: the others are not, only because they have not "
                "spoken yet"
            ),
        ),
        pytest.param(
            view([*FOUR[:2], member(2, leaving=True)]),
            (0, 1, 2),
            id="one died while another was leaving: it hands over",
        ),
        pytest.param(
            view(
                [member(i, generation=2, broken=3) for i in range(3)],
                of=(0, 1),
                wanted=2,
                broke=NOW,
            ),
            (0, 1, 2),
            id=(
                "one that leaves died while it handed over: the other that leaves may hold what "
                "nobody else has"
            ),
        ),
        pytest.param(
            view(
                [BEHIND[0], NEXT, member(2, generation=2, broken=3, leaving=True)],
                of=(0, 1),
                wanted=2,
            ),
            (0, 2),
            id="one that stays died while another handed over",
        ),
        pytest.param(
            view(
                [member(0, generation=2), member(1, generation=2, leaving=True, broken=3)],
                of=(0, 1, 2),
                broke=NOW,
            ),
            (0, 1),
            id="one died while it was brought back to hand over",
        ),
        pytest.param(
            view(BEHIND, of=(0, 1), wanted=2, broke=NOW - 1),
            (0, 1, 2),
            id="one that leaves computes, and has not noticed that it broke",
        ),
        pytest.param(
            view(
                [*BEHIND[:2], member(2, generation=2, heard=NOW - 1.2)],
                of=(0, 1),
                wanted=2,
                broke=NOW - 1,
            ),
            (0, 1),
            id="one that leaves is not heard any more",
        ),
        pytest.param(
            view([replace(NEXT, index=0, since=NOW - 1), *BEHIND[1:]], of=(0,), wanted=1),
            (1, 2),
            id="the one that stays died, and the others have not noticed",
        ),
        pytest.param(
            view([*FOUR[:3], member(3, generation=0, parked=True, heard=NOW - 60)]),
            (0, 1, 2),
            id="one that had parked and was asked back is gone",
        ),
        pytest.param(
            view(
                [member(0, generation=2), member(2, generation=2, parked=True)], of=(0, 1), wanted=2
            ),
            (0,),
            id="the other has handed over",
        ),
        pytest.param(
            view([member(0), member(2, generation=2)], of=(0, 1), wanted=2),
            (0,),
            id="one that stays has formed: all was handed over",
        ),
    ],
)
def test_at_once(seen: View, members: tuple[int, ...]) -> None:
    record = plan(seen, NOW, LIMITS)
    assert record
    assert (record.members, record.generation, record.abrupt) == (members, 4, True)


def test_a_leaver_that_parked_is_not_lost() -> None:
    parked = member(3, generation=0, parked=True, heard=NOW - 60)
    assert plan(view([*FOUR[:3], parked], of=(0, 1, 2)), NOW, LIMITS) is None


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(view(FOUR, wanted=0), id="size 0 is asked for"),
        pytest.param(view([replace(m, leaving=True) for m in FOUR]), id="everybody is told to go"),
    ],
)
def test_the_last_generation_saves(seen: View) -> None:
    record = plan(seen, NOW, LIMITS)
    assert record
    assert (record.stop, record.members) == (True, (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("parked", "members"),
    [
        pytest.param(True, None, id="all had parked: its state is saved"),
        pytest.param(False, (0, 1, 2), id="the others were not done yet"),
    ],
)
def test_a_process_that_dies_while_its_job_stops(
    parked: bool, members: tuple[int, ...] | None
) -> None:
    others = [member(i, parked=parked, generation=0 if parked else 3) for i in range(3)]
    stopping = view([*others, replace(member(3), incarnation="next-life")], wanted=0)
    record = plan(replace(stopping, record=replace(stopping.record, stop=True)), NOW, LIMITS)
    assert (record.members if record else None) == members


@pytest.mark.parametrize(
    ("members", "wanted", "expected"),
    [
        pytest.param(
            FOUR, 2, (0, 1, 2, 3), id="those who are not wanted come along: they have the state too"
        ),
        pytest.param(
            [replace(m, parked=True, generation=0) for m in FOUR],
            2,
            (0, 1),
            id="all has been saved",
        ),
        pytest.param(
            [*FOUR[:3], member(3, leaving=True)], 2, None, id="one that goes is still saving"
        ),
        pytest.param(FOUR, 0, None, id="nothing was asked"),
    ],
)
def test_a_stop_that_is_taken_back(
    members: list[Member], wanted: int, expected: tuple[int, ...] | None
) -> None:
    stopping = view(members, wanted=wanted)
    record = plan(replace(stopping, record=replace(stopping.record, stop=True)), NOW, LIMITS)
    assert (record.members if record else None) == expected


def test_nobody_begins_anew_while_others_have_the_state_and_have_not_noticed_that_somebody_was_lost() -> (
    None
):
    job = view([waiting(0), *BEHIND[1:]], of=(0, 1), wanted=1)
    assert plan(replace(job, record=Record(4)), NOW, LIMITS) is None
    assert plan(replace(job, record=Record(4), members={0: waiting(0)}), NOW, LIMITS) == Record(
        5, (0,), ("life-0",)
    )


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(
            [waiting(0), *(member(i, parked=True, generation=0) for i in (1, 2))],
            id="pod 0 is a new one",
        ),
        pytest.param([waiting(0), waiting(1)], id="it had not begun"),
    ],
)
@pytest.mark.parametrize(
    "known", [Record(), Record(5)], ids=["nothing is known", "all were lost as it was asked"]
)
def test_a_job_of_size_0_is_stopped_whoever_was_replaced(
    there: list[Member], known: Record
) -> None:
    record = plan(replace(view(there, of=(), wanted=0), record=known), NOW, LIMITS)
    assert record
    assert (record.stop, record.members) == (True, tuple(m.index for m in there))


def test_while_signals_still_come_in_nobody_decides_that_it_is_the_end() -> None:
    assert (
        plan(view([replace(m, leaving=True) for m in FOUR], changed=JUST_NOW), NOW, LIMITS) is None
    )


@pytest.mark.parametrize(
    ("there", "smallest", "members"),
    [
        pytest.param([0], 2, None, id="below the smallest size"),
        pytest.param([0, 2], 2, None, id="a gap in the smallest size"),
        pytest.param([0, 1], 2, (0, 1), id="the smallest size"),
        pytest.param([0, 1, 2, 3], 2, (0, 1, 2, 3), id="more than that"),
    ],
)
def test_the_first_generation(
    there: list[int], smallest: int, members: tuple[int, ...] | None
) -> None:
    record = plan(view([waiting(i) for i in there], of=(), smallest=smallest), NOW, LIMITS)
    assert (record.members if record else None) == members


@pytest.mark.parametrize(
    ("told", "born", "members"),
    [
        pytest.param([1, 2, 3], NOW - 1, (1, 2, 3), id="all others have spoken"),
        pytest.param([1, 3], NOW - 1, None, id="one has not spoken yet"),
        pytest.param([1, 3], NOW - LIMITS.gather_s - 1, (1, 3), id="one never will"),
    ],
)
def test_a_new_pod_0_learns_from_the_members(
    told: list[int], born: float, members: tuple[int, ...] | None
) -> None:
    training = [member(i, members=(0, 1, 2, 3)) for i in told]
    record = plan(view([waiting(0), *training], of=(), born=born), NOW, LIMITS)
    assert (record.members if record else None) == members
    assert record is None or (record.generation, record.abrupt) == (4, True)


@pytest.mark.parametrize("killed", [0, 1, 2])
def test_one_that_dies_when_all_but_one_are_about_to_leave_does_not_take_the_state_along(
    killed: int,
) -> None:
    job = Job(3, smallest=1)
    job.settle()
    job.wanted = 1
    while job.view.record.members != (0,):
        job.tick()
    job.kill(killed, whole=False)
    for _ in range(20):
        # the process that was killed takes its time
        job.tick()
    job.settle()
    assert [i for i in job.pods if job.pods[i].generation] == [0]
    assert job.begun == 1


def test_those_who_wait_outside_are_heard_by_a_new_pod_0() -> None:
    job = Job(3, smallest=1)
    job.settle()
    job.wanted = 1
    job.settle()
    assert [i for i in job.pods if job.pods[i].generation] == [0]
    job.kill(0, whole=True)
    job.settle()
    job.wanted = 3
    job.settle()
    assert [i for i in job.pods if job.pods[i].generation] == [0, 1, 2]
