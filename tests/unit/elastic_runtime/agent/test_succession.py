"""Who coordinates the job: what one pod does by what it knows."""

from dataclasses import replace

import pytest

from elastic_runtime.agent import succession
from elastic_runtime.agent.coordination import (
    Ballot,
    Candidacy,
    CoordinatorState,
    Leader,
    Standing,
)
from elastic_runtime.agent.knowledge import Answers, Knowledge, is_voter, may_elect
from elastic_runtime.agent.succession import Reason
from elastic_runtime.messages import Record
from tests.builders.standings import LIMITS, LONG_AGO, LOST, NOW, RECORD, member, standing


def leading(*, misses_majority: bool = False) -> Knowledge:
    return member(0, leads=True, misses_majority=misses_majority)


def fresh(*standings: Standing, silent: int = 0, silent_since: float = NOW) -> Knowledge:
    """A new pod 0 that has asked for a minute, and what the others answered."""
    answers = Answers(standings, frozenset(range(4 - silent, 4)), silent_since)
    return Knowledge(0, "z", answers=answers, asking_since=LONG_AGO)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        pytest.param(leading(), Reason.LEADS, id="the others cannot elect"),
        pytest.param(leading(misses_majority=True), Reason.ALONE, id="the others could elect"),
        pytest.param(member(1, answered_at=LOST + 0.1), Reason.FOLLOWS, id="an answer came lately"),
        pytest.param(
            member(1, life="restarted"), Reason.OUTSIDE, id="the vote ended with its life"
        ),
        pytest.param(
            member(1, record=replace(RECORD, incarnations=("a.1", "b.9", "c.1", "d.1"))),
            Reason.STANDS,
            id="its processes were restarted, not its agent",
        ),
        pytest.param(
            member(1, answered_at=LOST - LIMITS.stagger_s + 0.01),
            Reason.OTHERS_FIRST,
            id="pod 0 first",
        ),
        pytest.param(
            member(1, answered_at=LOST - LIMITS.stagger_s), Reason.STANDS, id="pod 0 did not stand"
        ),
        pytest.param(
            member(3, answered_at=LOST - LIMITS.stagger_s), Reason.OTHERS_FIRST, id="1 and 2 first"
        ),
        pytest.param(member(3), Reason.STANDS, id="nobody stood"),
        pytest.param(member(3, voted_at=NOW), Reason.OTHERS_FIRST, id="it voted a moment ago"),
        pytest.param(
            Knowledge(4, "e", RECORD, answered_at=LONG_AGO), Reason.OUTSIDE, id="a pod that waits"
        ),
    ],
)
def test_what_a_pod_does_about_its_coordinator(known: Knowledge, reason: Reason) -> None:
    assert succession.plan(known, NOW, LIMITS) is reason


LOOKED_FOR_LONG = NOW - LIMITS.cut_off_s


@pytest.mark.parametrize(
    ("known", "is_left_out"),
    [
        pytest.param(Knowledge(2, "z", asking_since=LOOKED_FOR_LONG), True, id="it finds nobody"),
        pytest.param(Knowledge(2, "z", asking_since=LOOKED_FOR_LONG + 1), False, id="not yet"),
        pytest.param(Knowledge(2, "z"), False, id="it has not asked"),
        pytest.param(Knowledge(0, "z", asking_since=LOOKED_FOR_LONG), False, id="pod 0 begins"),
        pytest.param(member(2, asking_since=LOOKED_FOR_LONG), False, id="a member may elect"),
        pytest.param(replace(member(2), leads=True), False, id="it coordinates"),
        pytest.param(
            Knowledge(2, "z", asking_since=LOOKED_FOR_LONG, answered_at=NOW), False, id="it follows"
        ),
    ],
)
def test_a_pod_is_left_out_if_it_is_no_member_and_has_looked_for_long(
    known: Knowledge, is_left_out: bool
) -> None:
    assert succession.is_left_out(known, NOW, LIMITS) == is_left_out


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        pytest.param(Knowledge(0, "z"), Reason.NOT_ASKED, id="at its start"),
        pytest.param(fresh(), Reason.FIRST, id="no other pod runs"),
        pytest.param(fresh(Standing(1, "b")), Reason.FIRST, id="the others have just started too"),
        pytest.param(
            fresh(*map(standing, (1, 2, 3))), Reason.MEMBERS_ELECT, id="a majority without it"
        ),
        pytest.param(fresh(*map(standing, (1, 2))), Reason.NO_MAJORITY, id="half of them is left"),
        pytest.param(
            fresh(standing(1, members=2)), Reason.NO_MAJORITY, id="of a job of two, one is left"
        ),
        pytest.param(
            fresh(*map(standing, (1, 2)), standing(3, is_member=False)),
            Reason.NO_MAJORITY,
            id="a restarted agent has no vote",
        ),
        pytest.param(
            fresh(standing(1), silent=1),
            Reason.PODS_SILENT,
            id="one may follow another coordinator",
        ),
        pytest.param(fresh(silent=1), Reason.PODS_SILENT, id="it may train"),
        pytest.param(
            fresh(standing(1), silent=2, silent_since=NOW - LIMITS.cut_off_s),
            Reason.PODS_SILENT,
            id="they may train for minutes behind a link that is cut",
        ),
        pytest.param(
            fresh(silent=3, silent_since=NOW - 1), Reason.PODS_SILENT, id="a link was just cut"
        ),
        pytest.param(
            fresh(silent=3, silent_since=NOW - LIMITS.cut_off_s),
            Reason.FIRST,
            id="no pod knows whether a job has begun",
        ),
        pytest.param(
            fresh(standing(1), silent=2, silent_since=NOW - LIMITS.abandoned_s),
            Reason.NO_MAJORITY,
            id="they are silent for long",
        ),
        pytest.param(
            member(0, answers=Answers((standing(1), standing(2)))),
            Reason.STANDS,
            id="pod 0 is a member itself",
        ),
        pytest.param(
            member(0, answers=Answers((standing(1),))),
            Reason.NO_MAJORITY,
            id="pod 0 and one are left of four",
        ),
    ],
)
def test_pod_0_never_begins_a_second_job(known: Knowledge, reason: Reason) -> None:
    assert succession.plan(known, NOW, LIMITS) is reason


def candidacy(epoch: int = 2, generation: int = 3, record_epoch: int = 1) -> Candidacy:
    return Candidacy(Leader(1, "b", "10.0.0.1:1", epoch), record_epoch, generation)


@pytest.mark.parametrize(
    ("known", "asked", "reason"),
    [
        pytest.param(member(2), candidacy(), "", id="granted"),
        pytest.param(member(2, epoch=2), candidacy(), "voted for epoch 2", id="one in an epoch"),
        pytest.param(member(2, epoch=2), candidacy(3), "", id="the next epoch"),
        pytest.param(
            member(2, answered_at=NOW), candidacy(), "has a coordinator", id="its own link is good"
        ),
        pytest.param(leading(), candidacy(), "has a coordinator", id="the coordinator itself"),
        pytest.param(
            leading(misses_majority=True), candidacy(), "", id="a coordinator that is cut off"
        ),
        pytest.param(member(2), candidacy(generation=2), "generation 3", id="an older record"),
        pytest.param(
            member(2), candidacy(generation=9, record_epoch=0), "generation 3", id="of older epoch"
        ),
        pytest.param(member(2), candidacy(generation=4), "", id="a newer record"),
    ],
)
def test_a_vote_is_granted_or_refused(known: Knowledge, asked: Candidacy, reason: str) -> None:
    refusal = succession.refusal(known, asked, NOW, LIMITS)
    assert (reason in refusal) if reason else not refusal


@pytest.mark.parametrize(
    ("voters", "is_elected"),
    [
        pytest.param({2: "c", 3: "d"}, True, id="three of four"),
        pytest.param({2: "c"}, False, id="two of four"),
        pytest.param({2: "c", 3: "next"}, False, id="a restarted agent does not count"),
        pytest.param({2: "c", 7: "x"}, False, id="nor one that is no member"),
    ],
)
def test_a_majority_of_the_members_elects(voters: dict[int, str], is_elected: bool) -> None:
    ballots = {index: Ballot(True, "", Standing(index, life)) for index, life in voters.items()}
    ballots[0] = Ballot(False, "no", Standing(0, "a"))
    assert succession.is_elected(RECORD, candidacy().candidate, ballots) == is_elected


@pytest.mark.parametrize("epoch", [0, 1, succession.TERM - 1, succession.TERM, succession.TERM + 7])
def test_an_election_is_above_what_pod_0_begins_meanwhile(epoch: int) -> None:
    begun = epoch
    for _ in range(100):
        following = succession.successor_epoch(begun, 1)
        assert following > begun
        begun = following
    assert succession.election_epoch(epoch, 1) > epoch
    assert succession.election_epoch(epoch % 9, 1) > succession.successor_epoch(epoch % 9, 10**6)
    assert succession.election_epoch(epoch, 2) != succession.election_epoch(epoch, 1)


def test_the_table_has_every_reason() -> None:
    table = succession.rule_table()
    assert all(reason.sentence in table for reason in Reason)


LEADER = Leader(1, "b", "10.0.0.2:1", 9)


def test_a_coordinator_begins_with_what_its_agent_knows() -> None:
    kept = CoordinatorState(wanted=3, cession="c", ordered_at=7.0)
    view = succession.inherited(member(1), kept, LEADER, smallest=1, largest=6, base=2)
    assert (view.record, view.epoch, view.heard) == (RECORD, 9, RECORD.order)
    assert (view.smallest, view.base) == (1, 2)
    assert (view.wanted, view.cession, view.ordered_at) == (3, "c", 7.0)
    assert view.astray == {0, 2, 3, 4, 5}, "they may follow another until they report"


def test_a_coordinator_does_not_continue_an_older_record_than_others_know() -> None:
    newer = replace(standing(2), generation=4)
    view = succession.inherited(
        member(0, answers=Answers((newer,))), CoordinatorState(), LEADER, smallest=1, largest=4
    )
    assert (view.record, view.heard) == (Record(), (1, 4))


def test_members_before_elect_too_while_they_may_not_know_the_new_ones() -> None:
    record = replace(
        RECORD,
        members=(1,),
        incarnations=("b.1",),
        electors=(0, 1, 2),
        elector_lives=("a", "b", "c"),
    )
    candidate = candidacy().candidate
    candidate = replace(candidate, life="b")
    granted = {2: Ballot(True, "", Standing(2, "c"))}
    assert not succession.is_elected(record, candidate, {})
    assert succession.is_elected(record, candidate, granted)
    assert is_voter(record, 2, "c")
    left_out = Standing(1, "b", members=1, is_member=True, electors=3, is_elector=True)
    assert not may_elect([left_out])
