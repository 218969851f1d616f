"""The sentences of `cede explain`: why a job waits, or what happened to it."""

from dataclasses import replace
from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import Job, JobSpec, Workload
from cede.api.objects import Meta, OwnerReference
from cede.api.policy import ClusterPolicy, PolicySpec
from cede.api.resources import Resources
from cede.report.explanation import explain, nominal_quota, requests
from tests.builders.reports import (
    ADMITTED,
    NOW,
    PENDING,
    cluster_queue,
    condition,
    policy,
    snapshot,
    workload,
)
from tests.builders.scheduler import cession

KEY = ("vision", "claim")
FIRST_COME = ClusterPolicy(spec=PolicySpec(idleCompute="FirstCome"))
NOT_READY = condition(names.PODS_READY, False, "2 of 4")
EVICTED = condition(names.EVICTED, True, "killed")


# --- waiting --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        pytest.param(
            {}, "It waits in ClusterQueue vision for 5 min with priority 50.", id="where it waits"
        ),
        pytest.param({}, "Kueue reports: couldn't assign flavors", id="in Kueue's words"),
        pytest.param(
            {}, "the jobs that it may preempt hold too little, or have run", id="no target"
        ),
        pytest.param(
            {"workloads": [workload(PENDING, pods=8)]},
            "It asks for 8 nvidia.com/gpu, and its queue owns 4 nvidia.com/gpu. It is admitted "
            "only when capacity is idle, or when teams that borrow more can give.",
            id="more than its own quota",
        ),
        pytest.param(
            {"workloads": [workload(PENDING, pods=8)], "policy": FIRST_COME},
            "It is admitted only when capacity is idle.",
            id="the same without fair shares",
        ),
        pytest.param({"policy": policy("Observe")}, "mode is Observe", id="mode Observe"),
        pytest.param({"leases": {}}, "No scheduler leads", id="no scheduler"),
        pytest.param(
            {"policy": policy(preemption="Kueue")},
            "Cede does not preempt now, and Kueue preempts by its own rules",
            id="a scheduler that has just come back",
        ),
        pytest.param({"local_queues": ()}, "which does not exist", id="no such queue"),
        pytest.param(
            {"cessions": [cession("Asked")]},
            "Cession c-1, 0 s ago, is Asked: research/gpt 8 → 4. Reason: because",
            id="a Cession is under way",
        ),
        pytest.param(
            {"cessions": [cession("Asked", message="A guard keeps 4 nvidia.com/gpu.")]},
            "Reason: because. A guard keeps 4 nvidia.com/gpu.",
            id="what a guard keeps for it",
        ),
        pytest.param(
            {"workloads": [workload(PENDING, EVICTED)]},
            "It was evicted 60 s ago (Reason): killed.",
            id="evicted",
        ),
    ],
)
def test_why_a_job_waits(changed: dict[str, Any], sentence: str) -> None:
    facts = {"workloads": [workload(PENDING)]} | changed
    explanation = explain(KEY, snapshot(**facts), NOW)
    assert explanation.state == "Waiting"
    assert sentence in " ".join(explanation.sentences), explanation.sentences


# --- other states ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("workload_", "state", "sentence"),
    [
        pytest.param(
            workload(ADMITTED, admitted=True),
            "Running",
            "with 4 pods on a100, admitted 60 s ago.",
            id="runs",
        ),
        pytest.param(
            workload(ADMITTED, NOT_READY, admitted=True),
            "Running",
            "not all ready: 2 of 4.",
            id="starts",
        ),
        pytest.param(workload(EVICTED, active=False), "Stopped", "not active", id="stopped"),
        pytest.param(
            workload(condition(names.FINISHED, True, "all done")),
            "Finished",
            "It finished 60 s ago: all done.",
            id="finished",
        ),
    ],
)
def test_what_happened_to_a_job(workload_: Workload, state: str, sentence: str) -> None:
    explanation = explain(KEY, snapshot(workloads=[workload_]), NOW)
    assert explanation.state == state
    assert sentence in " ".join(explanation.sentences), explanation.sentences


@pytest.mark.parametrize(
    ("uid", "state", "sentence"),
    [
        pytest.param(
            "job-uid-first",
            "Waiting",
            "It is set aside, and its Workload is not active, until Cession c-1 has ended: it "
            "waits before claim, for which capacity is released.",
            id="it waited",
        ),
        pytest.param("job-uid-gpt", "Stopped", "not active", id="it was a target"),
    ],
)
def test_a_job_that_is_inactive_for_another_one(uid: str, state: str, sentence: str) -> None:
    made = workload(active=False)
    owner = OwnerReference("Job", "first", uid, controller=True)
    labels = {names.STOPPED_FOR: "c-1"}
    metadata = replace(made.metadata, labels=labels, ownerReferences=(owner,))
    current = snapshot(workloads=[replace(made, metadata=metadata)], cessions=[cession()])
    explanation = explain(("vision", "first"), current, NOW)
    assert explanation.state == state
    assert sentence in " ".join(explanation.sentences), explanation.sentences
    # without the Cession, as when it was deleted a moment ago
    without = replace(current, cessions=())
    assert explain(("vision", "first"), without, NOW).state == "Stopped"


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        pytest.param(
            None, "There is no Job and no Workload claim in namespace vision", id="unknown name"
        ),
        pytest.param(Job(Meta(name="claim")), "It names no queue", id="no queue"),
        pytest.param(
            Job(Meta(labels={names.QUEUE_NAME: "x"})),
            "Kueue has created no Workload",
            id="no Workload yet",
        ),
    ],
)
def test_a_job_without_a_workload_is_unknown(job: Job | None, sentence: str) -> None:
    explanation = explain(KEY, snapshot(job=job), NOW)
    assert explanation.state == "Unknown"
    assert sentence in " ".join(explanation.sentences), explanation.sentences


def test_a_workload_can_be_named_too() -> None:
    explanation = explain(("vision", "job-claim"), snapshot(workloads=[workload(PENDING)]), NOW)
    assert explanation.state == "Waiting"


def test_the_admitted_slice_of_an_elastic_job_counts() -> None:
    slices = [
        workload(condition(names.FINISHED, True, "replaced"), admitted=True),
        workload(ADMITTED, admitted=True),
        workload(PENDING),
    ]
    assert explain(KEY, snapshot(workloads=slices), NOW).state == "Running"


# --- a job that gives capacity --------------------------------------------------------------------
def elastic_job(sizes: str = "2-8") -> Job:
    annotations = {names.SIZES: sizes, names.DESIRED_SIZE: "8"}
    return Job(Meta(name="gpt", annotations=annotations), JobSpec(parallelism=4))


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        ({}, "It has not been asked yet."),
        ({"askedTime": "x"}, "It was asked and has not ceded yet."),
        (
            {"askedTime": "x", "cededTime": "x", "step": 12, "durableStep": 10},
            "It ceded after step 12, with step 10 saved, and keeps training.",
        ),
        (
            {
                "askedTime": "x",
                "cededTime": "x",
                "step": 12,
                "durableStep": 12,
                "stopped": True,
            },
            "and was stopped.",
        ),
        (
            {"askedTime": "x", "forcedTime": "x"},
            "Its grace period passed before it had ceded; it keeps training.",
        ),
        (
            {"stopped": True, "releasedTime": "x"},
            "It was stopped without being asked.",
        ),
        (
            {"stopped": True, "releasedTime": "x", "endingPods": 3},
            "It was stopped without being asked; 3 of its pods have not ended, and may still save.",
        ),
        (
            {"stopped": True, "releasedTime": "x", "staysStopped": True},
            "It was stopped without being asked, and stays so, as its annotation "
            "cede.dev/after-preemption says.",
        ),
        ({"askedTime": "x", "releasedTime": "x"}, "It has released the capacity."),
    ],
)
def test_a_target_reads_for_whom_and_how_far(progress: dict[str, Any], sentence: str) -> None:
    under_way = cession("Asked", targets=[{"uid": "job-uid-gpt", **progress}])
    facts = snapshot(cessions=[under_way], job=elastic_job())
    text = " ".join(explain(("research", "gpt"), facts, NOW).sentences)
    assert "It is elastic with the allowed sizes 2-8. Its desired size is 8 pods" in text
    assert "Cession c-1, 0 s ago, for vision/claim: 8 → 4 pods." in text
    assert sentence in text
    assert text.endswith("Reason: because.")


def test_sizes_that_are_not_valid_are_reported() -> None:
    explanation = explain(("research", "gpt"), snapshot(job=elastic_job("8-2")), NOW)
    assert "Its allowed sizes are not valid: '8-2' runs from 8 down to 2" in " ".join(
        explanation.sentences
    )


# --- amounts --------------------------------------------------------------------------------------
def test_the_requests_of_a_workload_are_those_of_all_its_pods() -> None:
    assert requests(workload(pods=3)) == Resources({names.GPU: 3, "cpu": 3000})


def test_the_nominal_quota_of_a_queue_is_its_sum_over_flavors() -> None:
    assert nominal_quota(cluster_queue(gpus=4)) == Resources({names.GPU: 4})
