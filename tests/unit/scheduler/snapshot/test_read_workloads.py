"""Workloads and their owners: identity, size, usage, order, and the annotations of users."""

from dataclasses import replace

import pytest

from cede.api import names, sizes
from cede.api.kueue import Job, JobSpec, JobStatus, PodSet
from cede.api.objects import Condition, Meta, unix
from cede.api.pod_templates import PodTemplate
from cede.api.workload_identity import identity
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.read_workloads import (
    order_time,
    read_admitted,
    read_pending,
)
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.job_kinds import jobs_of_every_kind, pod_spec
from tests.builders.kueue_objects import CREATED, job, job_set_workload, owners_of_kind, workload
from tests.builders.scheduler import KEY


def read(gpt: Job | None, count: int = 8) -> AdmittedWorkload:
    return read_admitted(workload("a", count, assigned=8), gpt, JobPods(ready=2))


def test_size_and_usage_follow_the_pod_set_not_the_assignment() -> None:
    """Kueue lowers the count of the pod set when a job shrinks."""
    gpt = read(job(3), count=3)
    assert (gpt.size, gpt.usage[KEY], gpt.per_pod[KEY]) == (3, 3, 1)


def test_a_job_that_was_not_read_is_not_elastic() -> None:
    gpt = read(None)
    assert (gpt.size, gpt.allowed_sizes) == (8, ())


def test_a_job_is_known_by_the_uid_that_outlives_a_resize() -> None:
    gpt = read(job())
    assert (gpt.identity, gpt.name, gpt.ready_pods) == ("job-uid", "gpt", 2)


@pytest.mark.parametrize(
    ("spec", "keeps"),
    [
        pytest.param(JobSpec(8, 8, completionMode="Indexed"), False, id="an index for each pod"),
        pytest.param(JobSpec(8, 20, completionMode="Indexed"), True, id="more indexes than pods"),
        pytest.param(JobSpec(8, 8), True, id="no indexes"),
        pytest.param(JobSpec(8), True, id="a queue of work"),
    ],
)
def test_a_resize_keeps_completions_that_are_not_the_number_of_pods(
    spec: JobSpec, keeps: bool
) -> None:
    raised = replace(job(), metadata=replace(job().metadata, annotations={}), spec=spec)
    assert read(raised).keeps_completions is keeps


def test_a_workload_without_quota_cannot_be_read_as_admitted() -> None:
    with pytest.raises(ValueError, match="not admitted"):
        read_admitted(workload("a", 8), job(), JobPods())


@pytest.mark.parametrize(("tried", "is_tried"), [(0, False), (1, False), (2, True)])
def test_a_pending_workload_was_tried_if_kueue_says_so_of_its_present_spec(
    tried: int, is_tried: bool
) -> None:
    template = PodTemplate(Meta(annotations={names.REQUEUED_AT: "now"}))
    body = workload("claim", 4)
    refused = Condition(names.QUOTA_RESERVED, "False", observedGeneration=tried)
    body = replace(
        body,
        metadata=replace(body.metadata, generation=2),
        spec=replace(body.spec, podSets=(PodSet(template=template),)),
        status=replace(body.status, conditions=(refused,) * bool(tried)),
    )
    waiting = read_pending(body, "vision")
    assert (waiting.requeued_at, waiting.is_tried) == ("now", is_tried)


@pytest.mark.parametrize(("status", "evicted"), [("True", "Preempted by a job"), ("False", "")])
def test_a_workload_that_waits_keeps_why_kueue_took_its_quota_away(
    status: str, evicted: str
) -> None:
    body = workload("a", 2)
    taken = Condition(type=names.EVICTED, status=status, message="Preempted by a job.")
    waiting = read_pending(
        replace(body, status=replace(body.status, conditions=(taken,))), "vision"
    )
    assert waiting.evicted == evicted


# --- annotations ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1h", 3600), ("", 0), ("soon", 0)]
)
def test_grace_is_read_as_the_webhook_admits_it(text: str, seconds: float) -> None:
    assert read(job(annotations={names.GRACE: text})).grace_s == seconds


@pytest.mark.parametrize("desired_size", ["²", "9" * 5000, "-1", "many"])
@pytest.mark.parametrize("shrunk_at", ["soon", "9" * 40, "2026-13-01T00:00:00Z"])
def test_users_may_write_anything_into_our_annotations(desired_size: str, shrunk_at: str) -> None:
    notes = {names.DESIRED_SIZE: desired_size, names.SHRUNK_AT: shrunk_at}
    gpt = read(job(annotations=notes))
    assert (gpt.desired_size, gpt.shrunk_at) == (8, 0.0)


def test_a_job_whose_sizes_cannot_be_read_is_not_elastic() -> None:
    assert read(job(annotations={names.SIZES: "many"})).allowed_sizes == ()


# --- kinds ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", sorted({*jobs_of_every_kind(pod_spec()), "PodGroup"}))
def test_a_job_of_any_kind_has_one_identity_while_it_waits_and_while_it_runs(kind: str) -> None:
    waiting = workload("a", 8, owners=owners_of_kind(kind))
    running = workload("a", 8, assigned=8, owners=owners_of_kind(kind))
    pending = read_pending(waiting, "research")
    admitted = read_admitted(running, None, JobPods())
    assert pending.identity == admitted.identity == identity(waiting) == identity(running)
    assert pending.job == admitted.job


@pytest.mark.parametrize("kind", sorted({*jobs_of_every_kind(pod_spec()), "PodGroup"}))
def test_a_job_of_any_kind_has_run_since_its_quota_was_reserved(kind: str) -> None:
    running = workload("a", 8, assigned=8, owners=owners_of_kind(kind))
    assert read_admitted(running, None, JobPods()).started == unix(CREATED)


# --- Kueue's order --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("reason", "status", "is_last"),
    [
        ("PodsReadyTimeout", "True", True),
        ("AdmissionCheck", "True", True),
        ("Preempted", "True", False),
        ("PodsReadyTimeout", "False", False),
    ],
)
def test_who_was_evicted_for_its_own_fault_waits_behind_those_who_came_before(
    reason: str, status: str, is_last: bool
) -> None:
    evicted = job_set_workload(
        conditions=[
            {
                "type": "Evicted",
                "status": status,
                "reason": reason,
                "lastTransitionTime": "2026-01-02T00:00:00Z",
            }
        ]
    )
    later_s = order_time(evicted) - evicted.metadata.created
    assert later_s == (86400 if is_last else 0)


# --- counting -------------------------------------------------------------------------------------
@pytest.mark.parametrize("owner", [None, job(4, {names.SIZES: "", names.ELASTIC_JOB: ""})])
def test_finished_pods_of_a_job_use_no_quota(owner: Job | None) -> None:
    """Kueue lists them as reclaimable. Without them nothing is taken, and nobody has too much."""
    runs = read_admitted(job_set_workload(4, assigned=True, finished_pods=3), owner, JobPods())
    assert (runs.size, runs.usage[KEY]) == (1, 1)
    assert (runs.ended_pods, runs.granted) == (3, 4)


def test_a_job_that_kueue_evicts_still_has_its_quota() -> None:
    evicted = [{"type": "Evicted", "status": "True", "reason": "Preempted"}]
    runs = read_admitted(job_set_workload(4, assigned=True, conditions=evicted), None, JobPods())
    assert (runs.is_evicting, runs.usage[KEY]) == (True, 4)


def test_an_inactive_job_has_no_quota_although_its_pods_may_still_save() -> None:
    """Kueue gives its quota to others at once (HasActiveQuotaReservation)."""
    stopped = workload("a", 8, assigned=8, active=False)
    runs = read_admitted(stopped, job(), JobPods())
    assert (runs.is_evicting, runs.active, runs.usage[KEY]) == (True, False, 0)


# --- missing pods ---------------------------------------------------------------------------------
def test_the_pods_that_a_job_misses_and_since_when_kueue_counts() -> None:
    since = "2026-01-01T01:00:00Z"
    condition = Condition("PodsReady", "False", "WaitForRecovery", lastTransitionTime=since)
    status = replace(workload("a", 4, assigned=4).status, conditions=(condition,))
    misses = replace(workload("a", 4, assigned=4), status=status)
    gpt = read_admitted(misses, job(4), JobPods(ready_indexes=frozenset({0, 2}), unplaced=1))
    assert (gpt.missing_pods, gpt.unplaced_pods) == ((1, 3), 1)
    creates = replace(job(4), status=JobStatus(active=2, succeeded=1))
    gpt = read_admitted(misses, creates, JobPods(failing={"ImagePullBackOff": 1}))
    assert (gpt.absent_pods, gpt.failing_pods) == (1, {"ImagePullBackOff": 1})
    assert (gpt.unready_since, gpt.is_recovering) == (unix(since), True)
    pods = JobPods(ready_indexes=frozenset({2}), completed_indexes=frozenset({0}))
    finishes = read_admitted(misses, job(4), pods)
    assert (finishes.missing_pods, finishes.completed) == ((1, 3), frozenset({0}))


def test_a_size_that_nobody_limits_takes_neither_time_nor_memory() -> None:
    """Kueue admits any number of pods that request nothing."""
    billions = workload("a", 2_000_000_000, assigned=2_000_000_000)
    plain = read_admitted(billions, job(2_000_000_000, {names.SIZES: ""}), JobPods())
    assert (plain.size, plain.missing_pods) == (2_000_000_000, ())
    elastic = read_admitted(billions, job(2_000_000_000), JobPods(ready_indexes=frozenset({0})))
    assert elastic.missing_pods == tuple(range(1, sizes.MAX_SIZE))


# --- pending --------------------------------------------------------------------------------------
def test_a_job_whose_pods_are_not_there_yet_stays_stopped_as_its_template_says() -> None:
    running = workload("a", 8, assigned=8)
    notes = Meta(annotations={names.AFTER_PREEMPTION: names.STOP})
    [pod_set] = running.spec.podSets
    marked = replace(pod_set, template=replace(pod_set.template, metadata=notes))
    stays = replace(running, spec=replace(running.spec, podSets=(marked,)))
    assert read_admitted(stays, None, JobPods()).stays_stopped
    assert not read_admitted(running, None, JobPods()).stays_stopped
    assert read_admitted(running, None, JobPods(stays_stopped=True)).stays_stopped
