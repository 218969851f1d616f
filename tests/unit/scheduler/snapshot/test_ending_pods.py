"""Pods of stopped jobs that may still save."""

from dataclasses import replace
from math import inf

import pytest

from cede.api import names
from cede.api.kueue import Pod
from cede.api.pod_owner import END_TIMEOUT_S
from scheduler.snapshot.ending_pods import is_ending, read_ending
from scheduler.snapshot.job_index import JobIndex
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.pod_index import PodIndex
from tests.builders.scheduler import NOW, cession, pending
from tests.unit.scheduler.snapshot.test_job_pods import pod

STOPPED = cession("Admitted", 0, "Stop", targets=[{"uid": "job-uid-gpt", "stopped": True}])
_MEMBER = pod(labels={names.POD_GROUP: "job-gpt"})
MEMBER = replace(_MEMBER, metadata=replace(_MEMBER.metadata, ownerReferences=()))


OF_TRAIN_JOB = pod(
    "uid-of-a-job",
    labels={names.JOB_SET_NAME: "gpt"},
    annotations={names.POD_WORKLOAD: "job-gpt"},
)


def index(*pods: Pod) -> PodIndex:
    made = PodIndex()
    made.update(pods)
    return made


@pytest.mark.parametrize(
    "saving",
    [
        pytest.param(pod("job-uid-gpt"), id="of a Job"),
        pytest.param(MEMBER, id="of a group, which has no uid"),
        pytest.param(OF_TRAIN_JOB, id="of a Job of a JobSet of a TrainJob"),
    ],
)
def test_the_pods_of_a_stopped_target_are_found(saving: Pod) -> None:
    ending = read_ending([STOPPED], [], JobIndex(), index(saving, pod("other")))
    assert ending["job-uid-gpt"].on_nodes == 1


def test_the_pods_of_a_job_that_waits_to_run_again_are_found() -> None:
    """Its Cession may be over, or deleted."""
    job = pending("gpt", "research", active=False, stopped_for="c-1", job_uid="job-uid-gpt")
    ending = read_ending([], [job], JobIndex(), index(pod("job-uid-gpt")))
    assert ending.keys() == {"job-uid-gpt"}


@pytest.mark.parametrize(
    ("record", "left"),
    [
        pytest.param(STOPPED, pod("job-uid-gpt", phase="Succeeded"), id="it has ended"),
        pytest.param(STOPPED, pod("job-uid-gpt", node="", ready=False), id="it never began"),
        pytest.param(cession("Asked"), pod("job-uid-gpt"), id="the job was not stopped"),
    ],
)
def test_other_pods_are_not_waited_for(record: object, left: Pod) -> None:
    assert isinstance(record, type(STOPPED))
    assert not read_ending([record], [], JobIndex(), index(left))


def test_pods_are_waited_for_a_little_longer_than_their_grace() -> None:
    shown = JobPods(on_nodes=1, ends_by=NOW)
    assert is_ending(shown, NOW + END_TIMEOUT_S - 1)
    assert not is_ending(shown, NOW + END_TIMEOUT_S)
    assert is_ending(JobPods(on_nodes=1, ends_by=inf), NOW)
    assert not is_ending(None, NOW)
