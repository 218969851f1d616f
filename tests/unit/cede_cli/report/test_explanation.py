"""The sentences of `cede explain`: why a job waits, or what happened to it."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from cede.api import names
from cede.api.alternative import Alternative, AlternativeJob
from cede.api.kueue import Job, JobSpec, Workload
from cede.api.objects import Meta, OwnerReference, rfc3339
from cede.api.preference_reasons import PreferenceReason
from cede.api.wait_reasons import WaitReason
from cede.report.explanation import explain
from tests.builders.reports import (
    ADMITTED,
    NOW,
    PENDING,
    condition,
    policy,
    snapshot,
    workload,
)
from tests.builders.scheduler import cession

KEY = ("vision", "claim")
NOT_READY = condition(names.PODS_READY, False, "2 of 4")
EVICTED = condition(names.EVICTED, True, "killed")


# --- waiting --------------------------------------------------------------------------------------
LACKS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor a100, 4 more needed"
)
LENT = workload(condition(names.QUOTA_RESERVED, False, LACKS))
FAILED = cession("Failed", completionTime=rfc3339(NOW - 10), message="No room.")
FAILED.spec.preemptor.uid = "uid-claim"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        pytest.param(
            {}, "It waits in ClusterQueue vision for 5 min with priority 50.", id="where it waits"
        ),
        pytest.param({}, "4 nvidia.com/gpu of a100 are lent. [LentQuotaInUse]", id="the cause"),
        pytest.param({}, "What would change it: jobs of these teams end or shrink.", id="cure"),
        pytest.param(
            {}, "When: not known: its team has a right to what it lacks", id="no estimate"
        ),
        pytest.param(
            {"cessions": [FAILED]},
            "When: in 20 s at the earliest (the pause after a Cession that failed).",
            id="an estimate and its ground",
        ),
        pytest.param({"policy": policy("Observe")}, "[PolicyObserves]", id="mode Observe"),
        pytest.param({"leases": {}}, "No scheduler of Cede leads", id="no scheduler"),
        pytest.param({"local_queues": ()}, "It waits in LocalQueue default", id="no such queue"),
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
    facts = {"workloads": [LENT]} | changed
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
            "not all ready for 60 s: 2 of 4.",
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
        pytest.param(
            "job-uid-gpt",
            "Stopped",
            "It was stopped for vision/claim (ReclaimOwnQuota). It runs again when Cession c-1",
            id="it was a target",
        ),
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
                "releasedTime": "x",
            },
            "and was stopped.",
        ),
        ({"stopped": True}, "It is being stopped without being asked."),
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


def test_a_target_reads_what_the_alternative_would_have_cost() -> None:
    record = cession("Asked")
    stop = AlternativeJob(namespace="research", name="bert", fromSize=8, toSize=0, how="Stop")
    first = PreferenceReason.SHRINKS_FIRST
    alternative = Alternative(spared="job-uid-gpt", jobs=[stop], costSeconds="5280", reason=first)
    record.spec.alternatives = [alternative]
    facts = snapshot(cessions=[record], job=elastic_job())
    assert (
        explain(("research", "gpt"), facts, NOW)
        .sentences[-1]
        .endswith(
            "Reason: because. Instead of research/gpt, stopping research/bert would have cost 88.0 "
            "accelerator-minutes: jobs shrink before any job is stopped."
        )
    )


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        ({"stopped": True, "staysStopped": True}, "It was to be stopped, and was not."),
        (
            {"stopped": True, "askedTime": "x", "cededTime": "x", "step": 3, "durableStep": 2},
            "It ceded after step 3, with step 2 saved, and was to be stopped, and was not.",
        ),
        (
            {"stopped": True, "askedTime": "x", "forcedTime": "x"},
            "Its grace period passed before it had ceded; it was to be stopped, and was not.",
        ),
        ({"stopped": True, "releasedTime": "x"}, "It was stopped without being asked."),
    ],
)
def test_a_target_that_was_given_up_is_not_being_stopped_for_ever(
    progress: dict[str, Any], sentence: str
) -> None:
    ended = cession("Failed", targets=[{"uid": "job-uid-gpt", **progress}])
    facts = snapshot(cessions=[ended], job=elastic_job())
    text = " ".join(explain(("research", "gpt"), facts, NOW).sentences)
    assert f"{sentence} Reason: because." in text


def test_the_facts_are_those_of_the_first_cause_and_can_be_printed() -> None:
    facts = explain(KEY, snapshot(workloads=[LENT], incomplete=frozenset({"nodes"})), NOW)
    assert (facts.reason, facts.not_read) == (WaitReason.LENT_QUOTA_IN_USE, ("nodes",))
    printed = json.loads(json.dumps(asdict(facts)))
    assert printed["reason"] == "LentQuotaInUse"
    assert printed["why"] == printed["causes"][0]["sentence"]
    assert printed["causes"][0]["shortage"]["missing"] == "4"


def test_the_size_of_an_elastic_job_is_that_of_the_job() -> None:
    """Kueue updates the admission a moment later."""
    running = workload(ADMITTED, admitted=True, pods=8)
    facts = explain(KEY, snapshot(workloads=[running], job=elastic_job()), NOW)
    assert "It runs in ClusterQueue vision with 4 pods on a100" in facts.sentences[1]


def test_sizes_that_are_not_valid_are_reported() -> None:
    explanation = explain(("research", "gpt"), snapshot(job=elastic_job("8-2")), NOW)
    assert "Its allowed sizes are not valid: '8-2' runs from 8 down to 2" in " ".join(
        explanation.sentences
    )
