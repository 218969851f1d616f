"""What open Cessions have promised, and which targets they still need."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from scheduler.cession.promises import after_cessions, needed_targets, takers
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import (
    GPU,
    KEY,
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    snapshot,
)


def two_targets(*statuses: dict[str, str]) -> Cession:
    """`gpt` and `bert` shrink from 8 to 4 each."""
    record = cession("Asked", targets=statuses)
    other = record.spec.targets[0].model_copy(update={"job": "bert", "uid": "job-uid-bert"})
    record.spec.targets.append(other)
    return record


def both(pods: int, idle: int = 0, bert: int = 8) -> Snapshot:
    """`claim` wants this number of pods; `idle` accelerators are free."""
    used = 8 + bert
    quota = cohort_quota(
        queue("vision", nominal=8), queue("research", nominal=8, used=used), queue("idle", idle)
    )
    jobs = [admitted(), admitted("bert", size=bert)]
    return snapshot(quota, admitted=jobs, pending=[pending(pods=pods)])


GPT = "job-uid-gpt"
BERT = "job-uid-bert"


@pytest.mark.parametrize(
    ("current", "needed"),
    [
        pytest.param(both(8), {GPT, BERT}, id="all that was planned"),
        pytest.param(both(4), {BERT}, id="the preemptor wants less"),
        pytest.param(both(8, idle=4), {BERT}, id="a job ended"),
        pytest.param(both(8, idle=8), set(), id="it fits"),
        pytest.param(both(99), {GPT, BERT}, id="not enough with all"),
        pytest.param(both(8, bert=4), {GPT, BERT}, id="one has released already"),
        pytest.param(snapshot(admitted=[admitted()]), {GPT, BERT}, id="not pending"),
    ],
)
def test_targets_are_needed_only_while_the_preemptor_does_not_fit(
    current: Snapshot, needed: set[str]
) -> None:
    assert needed_targets(two_targets(), current, ()) == needed


def test_a_target_that_is_being_resized_stays_needed() -> None:
    """The other is let off in its place."""
    record = two_targets({"uid": GPT, "resizeRequestedTime": rfc3339(NOW)})
    assert needed_targets(record, both(4), ()) == {GPT}


@pytest.mark.parametrize("stops_first", [True, False])
def test_a_stop_is_let_off_before_a_shrink(*, stops_first: bool) -> None:
    record = two_targets()
    stopped = record.spec.targets.pop().model_copy(update={"toSize": 0, "how": "Stop"})
    record.spec.targets.insert(0 if stops_first else 1, stopped)
    assert needed_targets(record, both(4), ()) == {GPT}


def test_a_job_of_the_own_team_is_let_off_only_if_no_other_team_pays_for_it() -> None:
    """Vision owns 8 and uses 4; idle owns 4 and uses 8. Only if vision's own job gives too, does
    the preemptor's 8 stay within what vision owns."""
    record = cession("Asked", 0, "Stop")
    own = {"job": "own", "uid": "job-uid-own", "queue": "vision", "fromSize": 4}
    record.spec.targets.append(record.spec.targets[0].model_copy(update=own))
    jobs = [admitted(), admitted("own", "vision", size=4)]
    waiting = [pending(pods=8)]
    quota = cohort_quota(queue("vision", 8, used=4), queue("research", 4, used=8))
    current = snapshot(quota, admitted=jobs, pending=waiting)
    assert needed_targets(record, current, ()) == {GPT, "job-uid-own"}
    # nobody else gives any more: the team may borrow
    quota = cohort_quota(queue("vision", 8, used=4), queue("research", 4))
    current = snapshot(quota, admitted=jobs[1:], pending=[pending(pods=8)])
    assert needed_targets(record, current, ()) == {GPT}


def test_what_another_cession_was_promised_is_not_free() -> None:
    other = cession("Asked").model_copy(deep=True)
    other.spec.preemptor.uid = "uid-other"
    other.spec.targets.clear()
    current = both(8, idle=8)
    waiting = (*current.pending, pending("other", "idle", pods=8))
    current = snapshot(current.quota, admitted=current.admitted, pending=waiting)
    assert needed_targets(two_targets(), current, [other]) == {GPT, BERT}


def test_after_the_cessions_their_preemptors_use_what_is_released() -> None:
    after = after_cessions(both(8), [two_targets()])
    used = {name: team.usage[KEY] for name, team in after.quota.queues.items()}
    assert used == {"vision": 8, "research": 8, "idle": 0}
    assert after.admitted == ()


@pytest.mark.parametrize(
    ("record", "since"),
    [
        pytest.param(cession("Released", releasedTime=rfc3339(NOW)), "release", id="released"),
        # A job ended, another cession took what it left: the plan counted with it.
        pytest.param(cession("Asked"), "plan", id="not yet"),
    ],
)
def test_takers_are_the_jobs_admitted_since_the_release_or_before_it_since_the_plan(
    record: Cession, since: str
) -> None:
    jobs = [
        admitted(reserved_since=NOW + 1),
        admitted("old", reserved_since=NOW - 100),
        admitted("thief", reserved_since=NOW + 1),
        replace(admitted("elsewhere", reserved_since=NOW + 1), usage=Counter({("h100", GPU): 8})),
    ]
    sentence = f"Admitted since the {since}: thief (research)."
    assert takers(record, snapshot(admitted=jobs)) == sentence
    assert takers(record, snapshot()) == ""
