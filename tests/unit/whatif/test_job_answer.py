"""A job is submitted to a built cluster → what becomes of it and of others, and why."""

import pytest

from tests.builders.pictures import (
    NOW,
    ClusterOf,
    JobOf,
    allocation,
    manifest,
    policy,
)
from tests.builders.predictions import GPT, ON_BOTH, RIGID, effects, state_of, submit, why
from whatif.answer import JobState
from whatif.changes import Effect
from whatif.questions import ask_submit


@pytest.mark.parametrize(
    ("jobs", "pods", "expected"),
    [
        pytest.param([], 4, [("inference", "Admitted", 0, 4)], id="at once into its own"),
        pytest.param([], 8, [("inference", "Admitted", 0, 8)], id="at once into what is lent"),
        pytest.param(
            [GPT],
            4,
            [("gpt", "Shrinks", 8, 4), ("inference", "Admitted", 0, 4)],
            id="a borrower shrinks by what is needed",
        ),
        pytest.param(
            [RIGID],
            4,
            [("rigid", "Stops", 8, 0), ("inference", "Admitted", 0, 4)],
            id="a borrower that cannot shrink stops",
        ),
        pytest.param(
            [JobOf("research", "own", 4, ["n1"] * 4), JobOf("vision", "first", 4, ["n2"] * 4)],
            4,
            [],
            id="nobody gives beyond what the team owns",
        ),
    ],
)
def test_what_a_submitted_job_changes(
    jobs: list[JobOf], pods: int, expected: list[tuple[str, str, int, int]]
) -> None:
    assert effects(submit(ClusterOf(jobs).picture(), pods=pods)) == expected


def test_a_job_that_takes_back_says_by_which_rule() -> None:
    answer = submit(ClusterOf([GPT]).picture())
    assert state_of(answer) is JobState.ADMITTED_AFTER_TAKE_BACK
    assert why(answer) == (
        "inference (vision) reclaims its team's own quota: it lacks 4 nvidia.com/gpu; gpt "
        "(research) shrinks from 8 to 4"
    )
    assert {change.rule for change in answer.changes} == {"ReclaimOwnQuota"}


def test_a_job_of_a_higher_class_takes_from_its_own_team() -> None:
    low = JobOf("vision", "low", 4, ["n1"] * 4, sizes="1-4", priority_class="sweep")
    other = JobOf("research", "own", 4, ["n2"] * 4)
    answer = submit(ClusterOf([low, other]).picture(), pods=2, priority="inference")
    assert effects(answer) == [("low", "Shrinks", 4, 2), ("inference", "Admitted", 0, 2)]
    assert {change.rule for change in answer.changes} == {"PriorityInTeam"}


def test_an_elastic_job_starts_small_and_grows() -> None:
    answer = submit(ClusterOf().picture(), pods=8, sizes="2-8")
    assert effects(answer) == [("inference", "Admitted", 0, 2), ("inference", "Grows", 2, 8)]


def test_a_job_that_has_just_started_is_taken_later() -> None:
    """An owner waits for the minimum runtime before it takes from a job that is new."""
    started = policy(preemption={"minRuntimeSeconds": 60, "growCooldownSeconds": 30})
    new = JobOf("research", "gpt", 8, ON_BOTH, started="2027-01-15T08:00:00Z")
    picture = ClusterOf([new], policy=started).picture()
    assert picture.now == NOW, "the job starts at this second"
    answer = submit(picture)
    assert answer.job
    assert (state_of(answer), answer.job.after_s) == (JobState.ADMITTED_AFTER_TAKE_BACK, 61)
    assert [change.after_s for change in answer.changes] == [61, 61]


def test_a_job_waits_with_the_scheduler_s_own_reason() -> None:
    jobs = [JobOf("research", "own", 4, ["n1"] * 4), JobOf("vision", "first", 4, ["n2"] * 4)]
    answer = submit(ClusterOf(jobs).picture())
    assert state_of(answer) is JobState.WAITS
    assert why(answer).startswith("inference (vision) stays pending: it lacks 4 nvidia.com/gpu")


def test_a_job_that_can_never_fit_is_told_how_much_is_too_much() -> None:
    answer = submit(ClusterOf().picture(), pods=9)
    assert state_of(answer) is JobState.NEVER_FITS
    assert "could not have 1 nvidia.com/gpu of what it requests" in why(answer)


def test_a_job_for_a_resource_that_no_team_has_can_never_fit() -> None:
    job = manifest("fpga", 1)
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"] = {"example.com/fpga": 1}
    answer = ask_submit(ClusterOf().picture(), job, "vision")
    assert state_of(answer) is JobState.NEVER_FITS
    assert "no instance type of team vision has what its pods request" in why(answer)


def test_a_job_that_the_webhook_refuses_changes_nothing() -> None:
    answer = submit(ClusterOf([GPT]).picture(), priority="unknown")
    assert (state_of(answer), answer.changes) == (JobState.REFUSED, ())
    assert why(answer).startswith("Cede's webhook refuses it: ")
    assert "unknown" in why(answer)


def test_a_job_in_a_queue_on_hold_waits() -> None:
    cluster = ClusterOf(allocations=(allocation("vision", active=False), allocation("research")))
    answer = submit(cluster.picture())
    assert state_of(answer) is JobState.WAITS
    assert why(answer) == "Kueue would not try it: its ClusterQueue is on hold"


def test_pods_that_find_no_node_are_named() -> None:
    """Quota counts accelerators in sums; a pod needs all of its own on one node."""
    jobs = [JobOf("research", "a", 1, ["n1"]), JobOf("research", "b", 1, ["n2"])]
    answer = submit(ClusterOf(jobs).picture(), pods=1, gpus=4)
    assert effects(answer)[:2] == [
        ("inference", "Admitted", 0, 1),
        ("inference", "LacksNodes", 0, 0),
    ]
    assert "1 of its pods find no node with room" in answer.changes[1].why


def test_in_mode_observe_nothing_is_taken() -> None:
    answer = submit(ClusterOf([GPT], policy=policy(mode="Observe")).picture())
    assert (state_of(answer), effects(answer)) == (JobState.WAITS, [])
    assert why(answer).startswith("mode Observe, nothing is done: inference (vision) reclaims")


def test_that_kueue_preempts_by_its_own_rules_makes_an_answer_incomplete() -> None:
    """The quota_controller says so in the policy's status while no scheduler leads."""
    alone = policy()
    alone.status.preemption = "Kueue"
    answer = submit(ClusterOf([GPT], policy=alone).picture())
    assert (state_of(answer), effects(answer)) == (JobState.WAITS, [])
    assert "Kueue preempts by its own rules now" in answer.incomplete[0]


def test_what_would_happen_anyway_is_told_apart() -> None:
    """gpt wants 8 pods and has 2: it grows whether or not the job comes."""
    small = JobOf("research", "gpt", 2, ["n1", "n1"], sizes="2-8", desired=4)
    answer = submit(ClusterOf([small]).picture(), pods=1)
    assert effects(answer) == [("inference", "Admitted", 0, 1)]
    assert [(c.job, c.effect, c.to_size) for c in answer.anyway] == [("gpt", Effect.GROWS, 4)]


def test_jobs_that_keep_their_size_are_counted() -> None:
    other = JobOf("vision", "other", 1, ["n2"])
    gpt = JobOf("research", "gpt", 7, ["n1"] * 4 + ["n2"] * 3, sizes="2-8", desired=7)
    answer = submit(ClusterOf([gpt, other]).picture(), pods=2)
    assert effects(answer)[0] == ("gpt", "Shrinks", 7, 5)
    assert answer.unchanged == 1


def test_a_team_s_figures_are_told_before_and_after() -> None:
    answer = submit(ClusterOf([GPT]).picture())
    vision = next(team for team in answer.teams if team.team == "vision")
    assert vision.before
    assert vision.after
    assert (vision.before.uses, vision.before.lends) == ("0 gpu", "4 gpu")
    assert (vision.after.uses, vision.after.lends) == ("4 gpu", "0 gpu")
