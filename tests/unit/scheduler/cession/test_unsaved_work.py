"""What a job would have to do again if it were stopped now, and what its Cession records."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api.cession_status import UnsavedWork
from cede.api.resources import Quota
from elastic_runtime.contract import Status
from scheduler.cession.unsaved_work import at_release, has_no_accelerators, unsaved_seconds
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import FLAVOR, GPU, KEY, NOW, admitted, runtime_status

TRAINING = runtime_status(step=50, durable_step=40)
SAVED = runtime_status(step=50, durable_step=50)


def job(runtime: Status | None = TRAINING, since: float = NOW - 60) -> AdmittedWorkload:
    """Eight pods with one accelerator each, whose last save was so long ago."""
    observed = Observed(since=since, durable_step=40)
    return replace(admitted(runtime=runtime), observed=observed)


def test_all_its_accelerators_have_worked_since_the_newest_save() -> None:
    assert unsaved_seconds(job(), NOW) == {KEY: 480}
    later = replace(job(), observed=Observed(since=NOW - 60, durable_step=40, saved_at=NOW - 5))
    assert unsaved_seconds(later, NOW) == {KEY: 40}


@pytest.mark.parametrize(
    "silent",
    [
        pytest.param(job(runtime=None), id="it does not answer, or nobody can ask it"),
        pytest.param(job(since=0.0), id="it has not answered this scheduler yet"),
    ],
)
def test_what_no_runtime_reported_is_no_0(silent: AdmittedWorkload) -> None:
    assert unsaved_seconds(silent, NOW) == {KEY: None}


def test_only_accelerators_and_partitions_count() -> None:
    mixed = Counter({KEY: 2, (FLAVOR, "cpu"): 8000, (FLAVOR, "nvidia.com/mig-1g.5gb"): 1})
    assert unsaved_seconds(replace(job(), per_pod=mixed), NOW) == {
        KEY: 960,
        (FLAVOR, "nvidia.com/mig-1g.5gb"): 480,
    }


@pytest.mark.parametrize(
    ("per_pod", "is_certain"),
    [
        pytest.param(Counter({(FLAVOR, "cpu"): 8000}), True, id="CPUs only"),
        pytest.param(Counter({(FLAVOR, "cpu"): 8000, KEY: 0}), True, id="0 accelerators"),
        pytest.param(Counter({(FLAVOR, "cpu"): 8000, KEY: 1}), False, id="one"),
        pytest.param(Counter(), False, id="nobody knows what its pods have"),
    ],
)
def test_whether_a_job_certainly_has_no_accelerators(per_pod: Quota, is_certain: bool) -> None:
    assert has_no_accelerators(replace(job(), per_pod=per_pod)) is is_certain


@pytest.mark.parametrize(
    ("runtime", "recorded"),
    [
        pytest.param(
            TRAINING,
            {
                "step": 50,
                "durableStep": 40,
                "unsaved": [UnsavedWork(flavor=FLAVOR, resource=GPU, seconds="480.0")],
            },
            id="ten steps are not saved",
        ),
        pytest.param(
            SAVED, {"step": 50, "durableStep": 50, "unsaved": []}, id="all of it is saved"
        ),
        pytest.param(
            None, {"unsaved": [UnsavedWork(flavor=FLAVOR, resource=GPU)]}, id="nobody knows"
        ),
    ],
)
def test_what_a_cession_records(runtime: Status | None, recorded: dict[str, object]) -> None:
    assert at_release(job(runtime), NOW) == recorded
