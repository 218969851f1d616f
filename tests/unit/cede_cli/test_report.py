"""What `cede` says of a cluster: facts, then sentences."""

from dataclasses import replace

import pytest

from cede import report
from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import (
    Admission,
    ClusterQueue,
    ClusterQueueSpec,
    Container,
    FlavorQuotas,
    Job,
    JobSpec,
    Lease,
    LeaseSpec,
    LocalQueue,
    LocalQueueSpec,
    PodSet,
    PodSetAssignment,
    PodSpec,
    PodTemplate,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from cede.api.objects import Condition, Meta, OwnerReference, rfc3339
from cede.api.policy import ClusterPolicy
from cede.report import Seen
from tests.builders.scheduler import cession

NOW = 10_000.0
LEASE = Lease(
    spec=LeaseSpec(
        holderIdentity="s-1", renewTime=rfc3339(NOW - 1, micro=True), leaseDurationSeconds=15
    )
)
LEASES = {names.SCHEDULER_LEASE: LEASE, names.QUOTA_CONTROLLER_LEASE: LEASE}


def condition(type_: str, status: bool, message: str = "", at: float = NOW - 60) -> Condition:
    return Condition(type_, str(status), "Reason", message, rfc3339(at))


def policy(mode: str = "Enforce", **status: object) -> ClusterPolicy:
    return ClusterPolicy.model_validate(
        {"metadata": Meta(name="default"), "spec": {"mode": mode}, "status": status}
    )


def allocation(
    name: str, ready: bool = True, message: str = "fine", **status: object
) -> ComputeAllocation:
    said = {"type": "Ready", "status": str(ready), "reason": "R", "message": message}
    facts = {"observedGeneration": 1, "conditions": [said], "namespace": name} | status
    return ComputeAllocation.model_validate(
        {"metadata": Meta(name=name, generation=1), "spec": {}, "status": facts}
    )


def workload(
    *conditions: Condition, pods: int = 4, active: bool = True, admitted: bool = False
) -> Workload:
    container = Container(resources={"limits": {names.GPU: 1}, "requests": {"cpu": "1"}})
    pod_set = PodSet(count=pods, template=PodTemplate(spec=PodSpec(containers=(container,))))
    assigned = PodSetAssignment(count=pods, flavors={names.GPU: "a100"})
    return Workload(
        Meta(
            name="job-claim",
            namespace="vision",
            uid="uid-claim",
            creationTimestamp=rfc3339(NOW - 300),
            ownerReferences=(OwnerReference("Job", "claim"),),
        ),
        WorkloadSpec(queueName="default", active=active, priority=50, podSets=(pod_set,)),
        WorkloadStatus(conditions, Admission("vision", (assigned,)) if admitted else None),
    )


def seen(**more: object) -> Seen:
    quotas = FlavorQuotas("a100", (ResourceQuota(names.GPU, "4"),))
    queue = ClusterQueue(
        Meta(name="vision"),
        ClusterQueueSpec(resourceGroups=(ResourceGroup((names.GPU,), (quotas,)),)),
    )
    local = LocalQueue(Meta(name="default", namespace="vision"), LocalQueueSpec("vision"))
    facts = {
        "policy": policy(),
        "queues": (queue,),
        "leases": LEASES,
        "local_queues": (local,),
    } | more
    return Seen(**facts)  # type: ignore[arg-type]


# --- status ---------------------------------------------------------------------------------------
def test_a_healthy_cluster_needs_no_attention() -> None:
    teams = [
        allocation("vision", owns="4 gpu", used="0 gpu", lent="4 gpu", borrowed="0 gpu"),
        allocation("research", used="8 gpu"),
    ]
    found = report.status(seen(allocations=teams, policy=policy(preemption="Cede")), NOW)
    assert (found.mode, found.leader, found.attention) == ("Enforce", "s-1", ())
    assert [(team.name, team.uses) for team in found.teams] == [
        ("research", "8 gpu"),
        ("vision", "0 gpu"),
    ]
    text = "\n".join(report.lines(found))
    assert "mode Enforce: jobs cede" in text
    assert "vision    vision     4 gpu  0 gpu  4 gpu  0 gpu    yes" in text
    assert "Take-backs under way: none" in text
    assert "Needs attention" not in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param(
            {"policy": None}, "there is no ClusterPolicy: apply one named default", id="no policy"
        ),
        pytest.param(
            {"leases": LEASES | {names.SCHEDULER_LEASE: None}},
            "no cede-scheduler has led: see to Deployment",
            id="no scheduler",
        ),
        pytest.param(
            {
                "leases": LEASES
                | {
                    names.QUOTA_CONTROLLER_LEASE: replace(
                        LEASE, spec=replace(LEASE.spec, renewTime=rfc3339(NOW - 300))
                    )
                }
            },
            "no cede-quota-controller has led for 5 min: see to Deployment",
            id="a dead quota_controller",
        ),
        pytest.param(
            {
                "policy": policy(
                    conditions=[
                        {
                            "type": "Kueue",
                            "status": "False",
                            "reason": "TooOld",
                            "message": "set fairSharing",
                        }
                    ]
                )
            },
            "ClusterPolicy default: Kueue is False (TooOld): set fairSharing",
            id="a setting and its cure",
        ),
        pytest.param(
            {"policy": policy(instanceTypes=[{"name": "a100", "message": "too few"}])},
            "instance type a100: too few",
            id="nodes",
        ),
        pytest.param(
            {"allocations": [allocation("vision", ready=False, message="in the way")]},
            "ComputeAllocation vision: Ready is False (R): in the way",
            id="an allocation",
        ),
        pytest.param(
            {"allocations": [allocation("vision", observedGeneration=0)]},
            "vision is not taken up yet",
            id="nobody has looked",
        ),
        pytest.param(
            {"queues": [ClusterQueue(Meta(name="vision"), ClusterQueueSpec(stopPolicy="Hold"))]},
            "vision is held (Hold)",
            id="a held queue",
        ),
    ],
)
def test_what_is_off_is_said_with_its_cure(more: dict[str, object], says: str) -> None:
    found = report.status(seen(**more), NOW)
    assert any(says in one for one in found.attention), found.attention
    assert says in "\n".join(report.lines(found))


def test_who_may_not_read_the_lease_hears_the_policys_word() -> None:
    found = report.status(seen(leases={}, policy=policy(leader="s-2")), NOW)
    assert (found.leader, found.attention) == ("s-2", ())


def ended(name: str, created: float) -> Cession:
    one = cession("Completed", secondsToOwner="3.2", admittedTime="x", completionTime="x")
    return one.model_copy(update={"metadata": Meta(name=name, creationTimestamp=rfc3339(created))})


def test_take_backs_under_way_come_first_and_of_the_rest_the_last() -> None:
    found = report.status(
        seen(cessions=[*(ended(f"c-{i}", NOW - 1000 + i) for i in range(9)), cession("Asked")]), NOW
    )
    assert [(one.name, one.phase, one.gives) for one in found.open] == [
        ("c-1", "Asked", "research/gpt 8 → 4")
    ]
    assert [one.name for one in found.last] == ["c-8", "c-7", "c-6", "c-5", "c-4"]
    assert (
        "c-8: vision/claim ← research/gpt 8 → 4; Completed in 3.2 s, 16 min ago. because"
        in "\n".join(report.lines(found))
    )


# --- explain --------------------------------------------------------------------------------------
PENDING = condition(names.QUOTA_RESERVED, False, "couldn't assign flavors to pod set main")
ADMITTED = condition(names.ADMITTED, True)


@pytest.mark.parametrize(
    ("facts", "state", "says"),
    [
        pytest.param(
            {"workloads": [workload(PENDING)]},
            "Waiting",
            "Waits in ClusterQueue vision for 5 min, priority 50.",
            id="where",
        ),
        pytest.param(
            {"workloads": [workload(PENDING)]},
            "Waiting",
            "Kueue says: couldn't assign flavors",
            id="in Kueue's words",
        ),
        pytest.param(
            {"workloads": [workload(PENDING)]},
            "Waiting",
            "nobody it may take from holds enough",
            id="nothing to take",
        ),
        pytest.param(
            {"workloads": [workload(PENDING, pods=8)]},
            "Waiting",
            "asks for 8 nvidia.com/gpu and its queue owns 4 nvidia.com/gpu: what is beyond",
            id="more than its own",
        ),
        pytest.param(
            {"workloads": [workload(PENDING)], "policy": policy("Observe")},
            "Waiting",
            "mode is Observe",
            id="only observed",
        ),
        pytest.param(
            {"workloads": [workload(PENDING)], "leases": {}},
            "Waiting",
            "No scheduler leads",
            id="nobody to take back",
        ),
        pytest.param(
            {"workloads": [workload(PENDING)], "local_queues": ()},
            "Waiting",
            "which does not exist",
            id="no queue",
        ),
        pytest.param(
            {"workloads": [workload(PENDING)], "cessions": [cession("Asked")]},
            "Waiting",
            "Take-back c-1, 0 s ago, Asked: research/gpt 8 → 4. Why: because",
            id="a take-back is under way",
        ),
        pytest.param(
            {"workloads": [workload(ADMITTED, admitted=True)]},
            "Running",
            "with 4 pods on a100, admitted 60 s",
            id="runs",
        ),
        pytest.param(
            {
                "workloads": [
                    workload(ADMITTED, condition(names.PODS_READY, False, "2 of 4"), admitted=True)
                ]
            },
            "Running",
            "not all ready: 2 of 4.",
            id="starts",
        ),
        pytest.param(
            {"workloads": [workload(condition(names.EVICTED, True, "x"), active=False)]},
            "Stopped",
            "not active",
            id="stopped",
        ),
        pytest.param(
            {"workloads": [workload(PENDING, condition(names.EVICTED, True, "killed"))]},
            "Waiting",
            "Evicted 60 s ago (Reason): killed.",
            id="killed",
        ),
        pytest.param(
            {"workloads": [workload(condition(names.FINISHED, True, "all done"))]},
            "Finished",
            "60 s ago: all done.",
            id="done",
        ),
        pytest.param(
            {},
            "Unknown",
            "There is no Job and no Workload claim in namespace vision",
            id="a name nobody has",
        ),
        pytest.param(
            {"job": Job(Meta(name="claim"))},
            "Unknown",
            "It names no queue",
            id="a job without a queue",
        ),
        pytest.param(
            {"job": Job(Meta(labels={names.QUEUE_NAME: "x"}))},
            "Unknown",
            "Kueue has made no Workload",
            id="no Workload yet",
        ),
    ],
)
def test_why_a_job_waits_or_what_happened_to_it(
    facts: dict[str, object], state: str, says: str
) -> None:
    found = report.explain(("vision", "claim"), seen(**facts), NOW)
    assert found.state == state
    assert says in " ".join(found.sentences), found.sentences


def test_a_workload_is_found_by_its_own_name_too() -> None:
    assert (
        report.explain(("vision", "job-claim"), seen(workloads=[workload(PENDING)]), NOW).state
        == "Waiting"
    )


def test_of_many_slices_the_admitted_one_speaks() -> None:
    slices = [
        workload(condition(names.FINISHED, True, "replaced"), admitted=True),
        workload(ADMITTED, admitted=True),
        workload(PENDING),
    ]
    assert report.explain(("vision", "claim"), seen(workloads=slices), NOW).state == "Running"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({}, "not asked yet."),
        ({"askedTime": "x"}, "asked."),
        (
            {"askedTime": "x", "cededTime": "x", "step": 12, "durableStep": 10},
            "ceded after step 12, 10 saved; it trains on.",
        ),
        (
            {"askedTime": "x", "cededTime": "x", "step": 12, "durableStep": 12, "stopped": True},
            "it was stopped whole.",
        ),
        ({"askedTime": "x", "forcedTime": "x"}, "the deadline passed before it had ceded; it trains on."),
    ],
)
def test_who_gave_hears_to_whom_and_how(said: dict[str, object], says: str) -> None:
    job = Job(
        Meta(name="gpt", annotations={names.SIZES: "2-8", names.DESIRED_SIZE: "8"}), JobSpec(parallelism=4)
    )
    given = cession("Asked", targets=[{"uid": "job-uid-gpt", **said}])
    found = " ".join(
        report.explain(("research", "gpt"), seen(cessions=[given], job=job), NOW).sentences
    )
    assert "Elastic, sizes 2-8; it would like 8 pods" in found
    assert "It gave to vision/claim 0 s ago, 8 → 4 pods:" in found
    assert says in found
    assert "because" in found


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (-5, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_times_are_as_long_as_it_takes_to_understand(seconds: float, words: str) -> None:
    assert report.ago(seconds) == words
