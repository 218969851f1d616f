"""Why Kueue has no Workload of a Job."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import Job
from cede.api.objects import rfc3339
from cede.api.priority_class import PriorityClass
from cede.api.wait_reasons import WaitReason
from cede.causes.no_workload import why_no_workload
from cede.causes.snapshot import Deployment
from tests.builders.causes import index, lacks, policy, reasons, workload
from tests.builders.reports import NOW


def job(namespace: str = "vision", **labels: str) -> Job:
    metadata = {"name": "claim", "namespace": namespace, "labels": labels}
    return msgspec.convert({"metadata": metadata}, Job)


QUEUED = {names.QUEUE_NAME: "default"}


@pytest.mark.parametrize(
    ("item", "changed", "reason"),
    [
        pytest.param(None, {}, WaitReason.NO_SUCH_JOB, id="no such job"),
        pytest.param(job("elsewhere"), {}, WaitReason.NOT_QUEUED, id="no team's namespace"),
        pytest.param(job(), {}, WaitReason.WEBHOOK_MISSED, id="the webhook did not answer"),
        pytest.param(
            job(),
            {"incomplete": frozenset({"computeallocations"})},
            WaitReason.NOT_QUEUED,
            id="whose namespace that is may not be read",
        ),
        pytest.param(
            job(**QUEUED),
            {"deployments": {"kueue-controller-manager": Deployment()}},
            WaitReason.KUEUE_DOWN,
            id="Kueue is down",
        ),
        pytest.param(
            job(**QUEUED, **{names.PRIORITY_CLASS: "urgent"}),
            {},
            WaitReason.UNKNOWN_PRIORITY_CLASS,
            id="an unknown class",
        ),
        pytest.param(
            job(**QUEUED, **{names.PRIORITY_CLASS: "urgent"}),
            {"priority_classes": None},
            WaitReason.NO_WORKLOAD,
            id="classes that the user may not read",
        ),
        pytest.param(
            job(**QUEUED, **{names.PRIORITY_CLASS: "sweep"}),
            {},
            WaitReason.NO_WORKLOAD,
            id="a wait",
        ),
    ],
)
def test_why_kueue_has_no_workload(
    item: Job | None, changed: dict[str, Any], reason: WaitReason
) -> None:
    causes = why_no_workload(("vision", "claim"), item, index(**changed))
    assert [cause.reason for cause in causes] == [reason]


def test_a_job_that_is_being_deleted_waits_for_its_pods() -> None:
    """Its Workload goes before them."""
    item = job(**QUEUED)
    deleted = replace(item, metadata=replace(item.metadata, deletionTimestamp=rfc3339(NOW - 40)))
    [cause] = why_no_workload(item.metadata.key, deleted, index())
    assert cause.sentence == "It was deleted 40 s ago, and goes when its pods have ended."


def test_the_classes_that_exist_are_listed() -> None:
    item = job(**QUEUED, **{names.PRIORITY_CLASS: "urgent"})
    [cause] = why_no_workload(item.metadata.key, item, index())
    assert "These exist: sweep, training." in cause.sentence


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, [{"name": "sweep", "weight": 10}], True, id="it has none"),
        pytest.param({}, [], False, id="the policy has none"),
        pytest.param(
            {"priorityClassRef": {"name": "sweep"}},
            [{"name": "sweep", "weight": 10}],
            False,
            id="it has one",
        ),
    ],
)
def test_a_job_without_a_priority_class_is_told_what_the_webhook_missed(
    spec: dict[str, Any], classes: list[dict[str, Any]], expected: bool
) -> None:
    item = workload(lacks(4), spec=spec)
    current = policy()
    current.spec.priorityClasses = [PriorityClass.model_validate(entry) for entry in classes]
    its_reasons = reasons(item, job(**QUEUED), policy=current)
    assert (its_reasons[-1] is WaitReason.WEBHOOK_MISSED) is expected
