"""What a prediction says is what the scheduler's own plan decides, in any cluster."""

from collections import Counter
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given, settings

from cede.api.cession import Cession
from scheduler.actions import OpenCession
from scheduler.plan import Plan, plan
from scheduler.quota.assignments import assign
from scheduler.snapshot.snapshot import Snapshot, take
from tests.builders.pictures import (
    CLASSES,
    NOW,
    ClusterOf,
    JobOf,
    allocation,
    manifest,
    node,
    policy,
)
from whatif import passes
from whatif.changes import Effect
from whatif.questions import Picture, ask_submit
from whatif.submission import WORKLOAD_UID, submission, with_priority

NODES = ("n1", "n2", "n3")
GPUS = 4
TEAMS = ("vision", "research", "speech")


@st.composite
def clusters(draw: st.DrawFn) -> ClusterOf:
    """Three nodes, three teams, and jobs that run on nodes with room for them."""
    left = Counter(dict.fromkeys(NODES, GPUS))
    jobs = list[JobOf]()
    for number in range(draw(st.integers(0, 5))):
        pods = draw(st.integers(1, 6))
        places = [name for name in NODES for _ in range(left[name])][:pods]
        if len(places) == pods:
            left.subtract(places)
            sizes = draw(st.sampled_from(["", f"1-{pods}", f"{(pods + 1) // 2}-{pods}"]))
            team, class_ = draw(st.sampled_from(TEAMS)), draw(st.sampled_from(list(CLASSES)))
            jobs.append(JobOf(team, f"j{number}", pods, places, sizes, priority_class=class_))
    owned = draw(st.tuples(*[st.integers(0, 4)] * len(TEAMS)))
    sharing = st.sampled_from(["LendAndBorrow", "Lend", "DontLend"])
    allocations = [
        allocation(team, accelerators, sharing={"strategy": draw(sharing)})
        for team, accelerators in zip(TEAMS, owned, strict=True)
    ]
    spec = policy(idleCompute=draw(st.sampled_from(["FairShare", "FirstCome"])))
    return ClusterOf(jobs, [node(name) for name in NODES], allocations, spec)


asked_jobs = st.builds(
    lambda pods, class_, sizes: manifest(
        "asked", pods, priority=class_, **({"sizes": f"1-{pods}"} if sizes else {})
    ),
    st.integers(1, 8),
    st.sampled_from(list(CLASSES)),
    st.booleans(),
)


def planned(picture: Picture, job: dict[str, object]) -> tuple[Snapshot, Plan]:
    """The scheduler's plan when the same Workload is in its snapshot."""
    asked = submission(job, "vision", picture.objects, picture.policy, NOW)
    workload = with_priority(asked.workload, CLASSES)
    objects = replace(
        picture.objects,
        jobs=[*picture.objects.jobs, asked.job],
        workloads=[*picture.objects.workloads, workload],
    )
    snapshot = take(objects)
    return snapshot, plan(snapshot, picture.spec, NOW)


def opened(decision: Plan) -> list[Cession]:
    return [action.cession for action in decision.actions if isinstance(action, OpenCession)]


@given(clusters(), asked_jobs)
@settings(max_examples=200, deadline=None)
def test_the_answer_about_a_job_is_the_scheduler_s_plan(
    cluster: ClusterOf, job: dict[str, object]
) -> None:
    picture = cluster.picture()
    snapshot, decision = planned(picture, job)
    pending = snapshot.find_pending(WORKLOAD_UID)
    assert pending
    answer = ask_submit(picture, job, "vision")
    assert answer.job
    cessions = opened(decision)
    if assign(pending.pod_sets, pending.queue, snapshot.quota) is not None:
        assert (answer.job.state, answer.job.after_s) == ("Admitted", 0)
    elif cessions:
        (cession,) = cessions
        takes = [change for change in answer.changes if change.rule][: len(cession.spec.targets)]
        assert [(c.job, c.from_size, c.to_size, c.rule, c.why) for c in takes] == [
            (t.job, t.fromSize, t.toSize, cession.spec.reason, cession.spec.why)
            for t in cession.spec.targets
        ]
        assert (answer.job.state, answer.job.after_s) == ("AdmittedAfterTakeBack", 0)
        assert answer.job.why == (cession.spec.why,)
    elif answer.job.state == "AdmittedAfterTakeBack":
        # in a later pass: something else came first
        assert answer.anyway or not answer.changes[0].rule


@given(clusters(), asked_jobs)
@settings(max_examples=100, deadline=None)
def test_each_change_begins_where_the_one_before_ended(
    cluster: ClusterOf, job: dict[str, object]
) -> None:
    """And what is in use in the end fits onto the nodes."""
    picture = cluster.picture()
    asked = submission(job, "vision", picture.objects, picture.policy, NOW)
    world = picture.world()
    world.jobs[asked.key] = asked.job
    world.put(with_priority(asked.workload, CLASSES))
    course = passes.run(world)
    sizes = {(item.team, item.name): len(item.nodes) for item in cluster.jobs}
    for change in course.changes:
        if change.effect is not Effect.LACKS_NODES:
            assert sizes.get((change.namespace, change.job), 0) == change.from_size
            sizes[change.namespace, change.job] = change.to_size
    assert (
        sizes.items()
        >= {(job.key[0], job.name): job.size for job in world.snapshot().admitted}.items()
    )
    assert sum(sizes.values()) <= GPUS * len(NODES)
    assert (course.is_complete, course.faults) == (True, {})


def test_a_course_that_never_comes_to_an_end_is_told() -> None:
    """The passes are bounded."""
    picture = ClusterOf([JobOf("research", "gpt", 4, ["n1"] * 4, "1-8", desired=8)]).picture()
    course = passes.run(picture.world(), lambda _: True)
    assert not course.is_complete
