"""Which waiting jobs get an event, and when: few of them, however many jobs wait."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import Job, Workload
from cede.api.objects import Json, rfc3339
from cede.api.wait_reasons import WaitReason
from cede.causes.snapshot import Snapshot
from cede.report.explanation import explain
from scheduler.wait_events import (
    HOLDS_S,
    MAX_EVENTS,
    MAX_EXPLAINED,
    MIN_INTERVAL_S,
    REPEAT_S,
    ROUND_S,
    Known,
    Round,
    as_members_see,
    find_waiting,
    next_round,
    not_recorded,
)
from tests.builders import causes
from tests.builders.causes import elastic, lacks, local_queue, queue, running, workload
from tests.builders.reports import NOW

LED_SINCE = NOW - 1000
LENT = workload(lacks(4))
ADMITTED = running("claim", "vision", 4)


def snapshot(*workloads: Workload, **changed: object) -> Snapshot:
    """A scheduler leads at all times, as the policy says."""
    return causes.snapshot(*workloads, leases={}, **changed)


def rounds(*moments: tuple[float, Workload], jobs: Iterable[Job] = ()) -> list[Round]:
    """One round at each of these seconds, in which the Workload is as given."""
    known: Mapping[str, Known] = {}
    result = []
    for seconds, item in moments:
        result.append(next_round(snapshot(item), jobs, known, NOW + seconds, LED_SINCE))
        known = result[-1].known
    return result


def recorded(*moments: tuple[float, Workload]) -> list[tuple[float, str]]:
    """(seconds, reason) of each event."""
    return [
        (seconds, str(event.reason))
        for (seconds, _), done in zip(moments, rounds(*moments), strict=True)
        for event in done.events
    ]


def gated(item: Workload = LENT) -> Workload:
    annotations = {names.ADMISSION_GATED_BY: "example.com/gate"}
    return replace(item, metadata=replace(item.metadata, annotations=annotations))


def many(count: int) -> list[Workload]:
    return [workload(lacks(4), job=f"job-{number}") for number in range(count)]


def before_the_lead(item: Workload) -> Workload:
    """It waits since before this scheduler leads."""
    since = rfc3339(LED_SINCE - 1)
    conditions = tuple(replace(entry, lastTransitionTime=since) for entry in item.status.conditions)
    return replace(
        item,
        metadata=replace(item.metadata, creationTimestamp=since),
        status=replace(item.status, conditions=conditions),
    )


def repeated(*uids: str, last_s: float = REPEAT_S) -> dict[str, Known]:
    """Their reason was recorded so long ago, and still holds."""
    reason = WaitReason.LENT_QUOTA_IN_USE
    since = recorded_at = NOW - last_s
    return {uid: Known(recorded_at, False, reason, since, reason, recorded_at) for uid in uids}


# --- what it says ---------------------------------------------------------------------------------
def test_an_event_says_what_the_command_says() -> None:
    job = elastic(4, 4)
    _, second = rounds((0, LENT), (HOLDS_S, LENT), jobs=(job,))
    (event,) = second.events
    own = as_members_see(snapshot(job=job), [LENT])
    explained = explain(("vision", "claim"), own, NOW + HOLDS_S)
    assert event.reason == explained.reason == WaitReason.LENT_QUOTA_IN_USE
    assert event.note in " ".join(explained.sentences)
    assert "team research has 4" in event.note
    assert "What would change it: " in event.note
    assert "When: not known: its team has a right to what it lacks" in event.note


def test_an_event_is_of_the_job_and_of_the_workload_where_that_is_of_another_kind() -> None:
    owner: Json = {"kind": "JobSet", "name": "claim", "uid": "set", "controller": True}
    job_set = workload(lacks(4), metadata={"ownerReferences": [owner]})
    of_job, of_set = (rounds((0, item), (HOLDS_S, item))[1].events[0] for item in (LENT, job_set))
    assert (of_job.kind.kind, of_job.key, of_job.uid) == ("Job", ("vision", "claim"), "job-claim")
    assert (of_set.kind.kind, of_set.key) == ("Workload", ("vision", "w-claim"))


def test_a_job_of_which_kueue_made_no_workload_is_explained_and_one_that_ended_is_not() -> None:
    job = elastic(4, 4, name="lost")
    ended = msgspec.convert(
        {
            "metadata": {"name": "old", "uid": "o", "labels": {names.QUEUE_NAME: "default"}},
            "status": {"conditions": [{"type": "Complete", "status": "True"}]},
        },
        Job,
    )
    _, second = rounds((0, ADMITTED), (HOLDS_S, ADMITTED), jobs=(job, ended))
    (event,) = second.events
    assert (event.key, event.reason) == (("vision", "lost"), WaitReason.NO_WORKLOAD)


def test_an_event_names_no_job_of_another_team() -> None:
    """Its readers are members, who may not read the jobs of others."""
    theirs = workload(lacks(4), job="secret", team="research", age_s=900, spec={"priority": 60})
    shared = local_queue("research", clusterQueue="vision")
    strict = queue("vision", 4, 0, queueingStrategy="StrictFIFO")
    around = {
        "queues": (strict, queue("research", 4, 8)),
        "local_queues": (local_queue(), shared),
    }
    admins = snapshot(LENT, theirs, **around)
    assert "research/secret" in " ".join(explain(("vision", "claim"), admins, NOW).sentences)
    known: Mapping[str, Known] = {}
    for seconds in (0, HOLDS_S):
        done = next_round(admins, (), known, NOW + seconds, LED_SINCE)
        known = done.known
    assert [event.key[0] for event in done.events] == ["vision", "research"]
    assert "secret" not in done.events[0].note


def test_neither_a_job_that_runs_nor_one_of_no_team_waits() -> None:
    guard = workload(lacks(4), job="guard", team=names.GUARD_NAMESPACE)
    theirs = workload(lacks(4), job="theirs", team="somebody")
    assert find_waiting(snapshot(ADMITTED, guard, theirs), ()) == {}


# --- when it says it ------------------------------------------------------------------------------
def test_a_reason_that_passes_soon_gets_no_event() -> None:
    assert recorded((0, LENT), (HOLDS_S - 1, LENT), (HOLDS_S, gated())) == []


def test_a_reason_gets_one_event_and_again_before_the_server_has_forgotten_it() -> None:
    assert REPEAT_S + ROUND_S < 3600
    moments = [(float(second), LENT) for second in range(0, 7200, 60)]
    times = [second for second, _ in recorded(*moments)]
    assert times == [60.0, 60.0 + REPEAT_S, 60.0 + 2 * REPEAT_S]


def test_a_new_reason_gets_an_event_of_its_own() -> None:
    moments = [(0.0, LENT), (10.0, LENT), (130.0, gated()), (140.0, gated())]
    assert recorded(*moments) == [(10.0, "LentQuotaInUse"), (140.0, "AdmissionGated")]


def test_a_job_whose_reason_changes_all_the_time_gets_an_event_every_two_minutes() -> None:
    moments = [(20.0 * turn, gated() if (turn // 2) % 2 else LENT) for turn in range(180)]
    times = [second for second, _ in recorded(*moments)]
    assert len(times) > 10
    assert min(later - sooner for sooner, later in pairwise(times)) >= MIN_INTERVAL_S


def test_a_job_that_runs_for_a_moment_gets_no_second_event_at_once() -> None:
    moments = [(0.0, LENT), (10.0, LENT), (20.0, ADMITTED), (30.0, LENT), (40.0, LENT)]
    assert recorded(*moments) == [(10.0, "LentQuotaInUse")]


# --- how many -------------------------------------------------------------------------------------
def test_a_round_explains_and_records_a_bounded_number() -> None:
    around = snapshot(*many(3 * MAX_EXPLAINED))
    known: Mapping[str, Known] = {}
    counts = []
    for turn in range(8):
        done = next_round(around, (), known, NOW + turn * ROUND_S, LED_SINCE)
        explained = [
            uid for uid, entry in done.known.items() if entry.explained == NOW + turn * ROUND_S
        ]
        assert len(explained) <= MAX_EXPLAINED
        counts.append(len(done.events))
        known = done.known
    assert all(entry.reason for entry in known.values())
    assert (len(known), max(counts)) == (3 * MAX_EXPLAINED, MAX_EVENTS)


def test_every_job_has_its_turn() -> None:
    around = snapshot(*many(3 * MAX_EVENTS))
    known: Mapping[str, Known] = {}
    jobs = set[str]()
    for turn in range(5):
        done = next_round(around, (), known, NOW + turn * ROUND_S, LED_SINCE)
        jobs |= {event.uid for event in done.events}
        known = done.known
    assert len(jobs) == 3 * MAX_EVENTS


def test_new_jobs_come_first_then_changed_reasons_and_then_the_oldest_events() -> None:
    waits = snapshot(*many(4 * MAX_EVENTS))
    known = dict[str, Known]()
    for number in range(4 * MAX_EVENTS):
        known |= repeated(f"job-job-{number}", last_s=REPEAT_S + number)
    changed, new = "job-job-0", "job-job-1"
    gate = WaitReason.ADMISSION_GATED
    known[changed] = replace(known[changed], recorded=gate, since=NOW - HOLDS_S)
    known[new] = Known(NOW - HOLDS_S, True, WaitReason.LENT_QUOTA_IN_USE, NOW - HOLDS_S)
    events = next_round(waits, (), known, NOW, LED_SINCE).events
    oldest = [f"job-job-{4 * MAX_EVENTS - number}" for number in range(1, MAX_EVENTS - 1)]
    assert [event.uid for event in events] == [new, changed, *oldest]


@pytest.mark.parametrize("is_restart", [False, True])
def test_the_event_of_a_new_job_waits_for_none_of_a_thousand_that_wait_longer(
    is_restart: bool,
) -> None:
    """Also if this scheduler has just begun to lead, and does not know which have an event."""
    old = [before_the_lead(item) for item in many(5 * MAX_EXPLAINED)]
    known: Mapping[str, Known] = {}
    if not is_restart:
        known = repeated(*(f"job-job-{number}" for number in range(5 * MAX_EXPLAINED)))
    around = snapshot(*old, LENT)
    first = next_round(around, (), known, NOW, LED_SINCE)
    second = next_round(around, (), first.known, NOW + HOLDS_S, LED_SINCE)
    assert second.events[0].uid == "job-claim"
    assert len(second.events) == MAX_EVENTS


def test_a_team_with_very_many_new_jobs_keeps_no_other_team_waiting() -> None:
    """Of theirs, the events were hours late."""
    theirs = workload(lacks(4), job="theirs", team="research", age_s=0)
    around = snapshot(*many(MAX_EXPLAINED - 1), theirs)
    first = next_round(around, (), {}, NOW, LED_SINCE)
    second = next_round(around, (), first.known, NOW + HOLDS_S, LED_SINCE)
    assert len(second.events) == MAX_EVENTS
    assert [event.uid for event in second.events[:2]] == ["job-job-0", "job-theirs"]


def test_an_old_job_that_lost_its_quota_under_this_leader_is_new() -> None:
    old = before_the_lead(LENT)
    stopped = replace(old, status=LENT.status)
    known = [
        next_round(snapshot(item), (), {}, NOW, LED_SINCE).known["job-claim"]
        for item in (old, stopped)
    ]
    assert [entry.is_new for entry in known] == [False, True]


def test_an_event_that_was_not_taken_is_tried_again_after_those_of_others() -> None:
    _, second = rounds((0, LENT), (HOLDS_S, LENT))
    assert len(second.events) == 1
    refused = not_recorded(second.known, ["job-claim", "gone"])
    soon = NOW + HOLDS_S + MIN_INTERVAL_S
    assert next_round(snapshot(LENT), (), refused, soon - 1, LED_SINCE).events == ()
    later = next_round(snapshot(LENT), (), refused, soon, LED_SINCE)
    assert [event.uid for event in later.events] == ["job-claim"]
    assert refused["job-claim"].turn > repeated("other")["other"].turn


def test_jobs_that_wait_are_counted_by_reason_until_they_run() -> None:
    first, last = rounds((0, LENT), (10, ADMITTED))
    assert first.counts == {WaitReason.LENT_QUOTA_IN_USE: 1}
    assert last.counts == {}


def test_a_job_that_was_not_explained_yet_is_counted_by_no_reason() -> None:
    many = [workload(lacks(4), job=f"job-{number}") for number in range(MAX_EXPLAINED + 5)]
    first = next_round(snapshot(*many), (), {}, NOW, LED_SINCE)
    assert sum(first.counts.values()) == MAX_EXPLAINED
    second = next_round(snapshot(*many), (), first.known, NOW + ROUND_S, LED_SINCE)
    assert sum(second.counts.values()) == len(many)


def test_what_is_known_of_jobs_that_wait_no_longer_is_forgotten() -> None:
    *_, last = rounds((0, LENT), (10, LENT), (10 + MIN_INTERVAL_S, ADMITTED))
    assert last.known == {}


def test_a_job_that_cannot_be_explained_costs_no_other() -> None:
    container = {"resources": {"limits": {names.GPU: "many"}}}
    pods = {"count": 4, "template": {"spec": {"containers": [container]}}}
    broken = workload(lacks(4), job="broken", spec={"podSets": [pods]})
    around = snapshot(broken, LENT)
    known: Mapping[str, Known] = {}
    for turn in range(2):
        done = next_round(around, (), known, NOW + turn * HOLDS_S, LED_SINCE)
        known = done.known
    assert [event.uid for event in done.events] == ["job-claim"]
    assert [fault.subject for fault in done.faults] == ["job-broken"]
