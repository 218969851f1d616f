"""The plan as a whole: side by side, without thrash, in both modes, and the same from a file."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.cession import Cession, TargetStatus
from cede.api.kueue import Workload
from cede.api.objects import Meta
from cede.api.policy import PolicySpec, Preemption
from cede.api.reasons import CessionPhase
from scheduler import snapshot_dump
from scheduler.actions import Act, Ask, Forget, Open, Queueing, Resize
from scheduler.growth import excess
from scheduler.plan import plan
from scheduler.snapshot import Objects, Running, Snapshot
from tests.builders.scheduler import NOW, cession, queue, running, says, snapshot, tree, waiting

POLICY = PolicySpec(preemption=Preemption(minRuntimeSeconds=0, growCooldownSeconds=60))


def decided(seen: Snapshot, policy: PolicySpec = POLICY, now: float = NOW) -> list[Act]:
    return list(plan(seen, policy, now).acts)


def opened(acts: list[Act]) -> list[Cession]:
    return [act.cession for act in acts if isinstance(act, Open)]


def test_a_claim_opens_a_cession_named_after_the_claimant_and_the_try() -> None:
    (found,) = opened(decided(snapshot(running=(running(),), waiting=(waiting(),))))
    assert found.metadata.name == "claim-uid-clai-1"
    assert [(v.job, v.fromSize, v.toSize, v.how) for v in found.spec.targets] == [
        ("gpt", 8, 4, "Shrink")
    ]


def test_mode_observe_says_what_it_would_do_and_does_nothing() -> None:
    found = plan(
        snapshot(running=(running(),), waiting=(waiting(),)),
        POLICY.model_copy(update={"mode": "Observe"}),
        NOW,
    )
    assert not found.acts
    assert "nothing is done" in found.why[0]


def test_a_take_back_that_takes_long_keeps_no_other_team_waiting() -> None:
    found = tree(
        queue("vision"), queue("speech", used=0), queue("research", used=8), queue("other", used=8)
    )
    jobs = (running(), running("bert", "other", allowed=tuple(range(1, 9))))
    seen = snapshot(
        found,
        running=jobs,
        waiting=(waiting(), waiting("asr", "speech")),
        cessions=(cession("Asked"),),
    )
    (second,) = opened(decided(seen))
    assert second.spec.preemptor.queue == "speech"
    assert [v.job for v in second.spec.targets] == ["bert"], "gpt gives already"


def test_what_one_take_back_frees_is_promised_and_no_other_counts_on_it() -> None:
    found = tree(queue("vision"), queue("speech"), queue("research", used=12))
    seen = snapshot(
        found,
        running=(running(size=12, allowed=(2, 8, 12)),),
        waiting=(waiting(), waiting("asr", "speech")),
        cessions=(cession("Asked"),),
    )
    assert opened(decided(seen)) == []


def test_nothing_grows_while_a_take_back_is_open() -> None:
    seen = snapshot(
        running=(running(size=2, status=says(size=2, wanted=2)),), cessions=(cession("Asked"),)
    )
    assert not [act for act in decided(seen) if isinstance(act, Resize)]


def test_who_was_stopped_asks_for_nothing_while_the_one_it_was_stopped_for_is_there() -> None:
    stopped = TargetStatus(uid="job-uid-gpt", stopped=True)
    record = cession("Completed", to=0, how="Stop", targets=[stopped])
    back = waiting("gpt", "research", job_uid="job-uid-gpt", pods=4, priority=90)
    owner = running("claim", "vision", size=4, allowed=(), status=None)
    seen = snapshot(
        running=(owner, running("low", "research", size=4, priority=10)),
        waiting=(back,),
        cessions=(record,),
    )
    assert opened(decided(seen)) == []
    assert opened(decided(replace(seen, cessions=()))), "and otherwise it would"


@pytest.mark.parametrize("phase", ["Completed", "Cancelled", "Failed"])
def test_a_strict_queue_without_an_open_cession_is_put_back(phase: str) -> None:
    seen = snapshot(
        tree(queue("vision", strategy="StrictFIFO"), queue("research")), cessions=(cession(phase),)
    )
    assert decided(seen) == [Queueing("vision", "BestEffortFIFO", "7")]


def test_a_runtime_with_another_size_than_its_job_is_told_except_while_it_gives() -> None:
    job = running(status=says(wanted=4, cession="c-1", size=4, state="training"))
    assert [act.size for act in decided(snapshot(running=(job,))) if isinstance(act, Ask)] == [8]
    giving = snapshot(running=(job,), waiting=(waiting(),), cessions=(cession("Asked"),))
    assert not [act for act in decided(giving) if isinstance(act, Ask)]


def test_records_are_forgotten_after_thirty_days() -> None:
    old = cession("Completed").model_copy(
        update={"metadata": Meta(name="c-0", uid="u", creationTimestamp="1970-01-01T00:00:00Z")}
    )
    assert decided(snapshot(cessions=(old,)), now=31 * 86400.0) == [Forget("c-0", "u")]


# --- no thrash ------------------------------------------------------------------------------------
def settled(seen: Snapshot, made: Cession) -> Snapshot:
    """The cluster after the hand-over that was planned: everybody has given, the owner runs."""
    to = {v.uid: v.toSize for v in made.spec.targets}
    shrunk = [
        _sized(job, to[job.identity]) if job.identity in to else job
        for job in seen.running
        if to.get(job.identity, 1)
    ]
    owner = next(w for w in seen.waiting if w.uid == made.spec.preemptor.uid)
    pods = sum(count for _, count in owner.each)
    came = running(
        owner.job[1],
        owner.queue,
        pods,
        (),
        priority=owner.priority,
        job_uid=owner.job_uid,
        status=None,
    )
    back = [
        waiting(job.job[1], job.queue, job.size, job.priority, job_uid=job.job_uid)
        for job in seen.running
        if to.get(job.identity) == 0
    ]
    made.status.phase = CessionPhase.COMPLETED
    made.status.targets = [
        TargetStatus(uid=v.uid, stopped=v.how == "Stop", releasedTime="x")
        for v in made.spec.targets
    ]
    others = [w for w in seen.waiting if w.uid != owner.uid]
    return snapshot(
        running=(*shrunk, replace(came, uid=owner.uid)),
        waiting=(*others, *back),
        cessions=(*seen.cessions, made),
    )


def _sized(job: Running, size: int) -> Running:
    return running(
        job.job[1],
        job.queue,
        size,
        job.allowed,
        priority=job.priority,
        shrunk_at=NOW,
        status=says(size=size, wanted=size),
    )


shapes = st.lists(
    st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from([10, 50, 90])),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(
    borrowers=shapes,
    own=st.integers(0, 3),
    pods=st.integers(1, 4),
    priority=st.sampled_from([10, 50, 90]),
)
def test_after_a_hand_over_nothing_new_is_taken_and_nothing_grows_into_it(
    borrowers: list[tuple[int, bool, int]], own: int, pods: int, priority: int
) -> None:
    jobs = [
        running(
            str(i),
            "research",
            size,
            tuple(range(1, size + 1)) if elastic else (),
            priority=p,
            status=says(size=size, wanted=size),
        )
        for i, (size, elastic, p) in enumerate(borrowers)
    ]
    mine = [running("own", "vision", own, (), priority=50)] if own else []
    seen = snapshot(running=(*jobs, *mine), waiting=(waiting(pods=pods, priority=priority),))
    made = opened(decided(seen))
    if not made:
        return
    after = settled(seen, made[0])
    assert not opened(decided(after, now=NOW + 1))
    assert not [act for act in decided(after, now=NOW + 1) if isinstance(act, Resize)], (
        "the snooze holds"
    )


# --- more in use than there is --------------------------------------------------------------------
def test_who_borrows_gives_back_what_was_admitted_twice() -> None:
    silent = snapshot(running=(running(size=8), running("own", "vision", size=2, allowed=())))
    assert [(act.job[1], act.size) for act in excess(silent, ()) if isinstance(act, Resize)] == [
        ("gpt", 6)
    ]
    answers = snapshot(
        running=(running(size=8, status=says()), running("own", "vision", size=2, allowed=()))
    )
    assert [type(act).__name__ for act in excess(answers, ())] == ["Ask"]
    ceded = snapshot(
        running=(
            running(size=8, status=says(size=6, wanted=6)),
            running("own", "vision", size=2, allowed=()),
        )
    )
    assert [type(act).__name__ for act in excess(ceded, ())] == ["Resize"]


def test_what_fits_exactly_is_no_excess() -> None:
    assert not list(excess(snapshot(running=(running(size=8),)), ()))


# --- from a file ----------------------------------------------------------------------------------
def test_a_dump_reads_back_as_what_was_seen() -> None:
    seen = Objects(
        workloads=(Workload(Meta("w", "ns", "u")),),
        cessions=(cession("Asked"),),
        statuses={"u": says(parked=(4, 5))},
    )
    read, policy, now = snapshot_dump.read(snapshot_dump.write(seen, POLICY, NOW))
    assert (list(read.workloads), list(read.cessions), read.statuses) == (
        list(seen.workloads),
        list(seen.cessions),
        seen.statuses,
    )
    assert (policy, now) == (POLICY, NOW)


def test_what_is_no_dump_is_refused() -> None:
    with pytest.raises(ValueError, match="no dump"):
        snapshot_dump.read("{}")
