"""The rows of `cede jobs`."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.cession import Cession
from cede.api.job_progress import JobProgress, Progress
from cede.api.kueue import Job, Workload
from cede.api.objects import rfc3339
from cede.api.wait_reasons import WaitReason
from cede.causes.snapshot import NOTHING_READ
from cede.report.jobs import JobRow, job_table, rows, without_ages
from tests.builders.reports import ADMITTED, NOW, condition, stopping_cession, workload

UID = "uid-gpt"
PENDING = condition(names.QUOTA_RESERVED, False, "a reason of a new kind.")
ADMISSION = workload(ADMITTED, admitted=True)


def job(size: int = 2, desired: str = "8") -> Job:
    """Elastic Job research/gpt, which wants 8 pods."""
    notes = {names.SIZES: "2-8", names.DESIRED_SIZE: desired}
    labels = {names.QUEUE_NAME: "default", names.PRIORITY_CLASS: "training"}
    metadata = {"name": "gpt", "namespace": "research", "uid": UID, "labels": labels}
    body = {"metadata": metadata | {"annotations": notes}, "spec": {"parallelism": size}}
    return msgspec.convert(body, Job)


def its(item: Workload, **labels: str) -> Workload:
    """The Workload as one of Job research/gpt."""
    owner = replace(item.metadata.ownerReferences[0], name="gpt", uid=UID, controller=True)
    metadata = replace(
        item.metadata, namespace="research", uid="w", labels=labels, ownerReferences=(owner,)
    )
    return replace(item, metadata=metadata)


def cession(phase: str = "Completed", to_size: int = 2, **target: Any) -> Cession:
    """It takes from research/gpt for vision/inference."""
    body = stopping_cession()
    body["spec"]["targets"][0] |= {"uid": UID, "toSize": to_size}
    body["status"] = {"phase": phase, "targets": [{"uid": UID, **target}]}
    return Cession.model_validate(body)


def row(item: Workload, *cessions: Cession, size: int = 2) -> JobRow:
    result = rows([job(size)], [its(item)], cessions, NOW)
    assert len(result) == 1
    return result[0]


def test_a_running_elastic_job() -> None:
    assert row(ADMISSION, size=8) == JobRow(
        namespace="research",
        name="gpt",
        kind="Job",
        state="Running",
        size=8,
        desired=8,
        allowed="2-8",
        step=None,
        loss=None,
        saved_step=None,
        saved="",
        reported="",
        save_failure="",
        silence="",
        silent_since="",
        level="elastic",
        priority_class="",
        priority=50,
        why="",
    )


def test_a_job_that_shrank_says_for_whom_and_where_it_was() -> None:
    times: dict[str, Any] = {"cededTime": rfc3339(NOW - 300), "releasedTime": rfc3339(NOW - 290)}
    shrunk = row(ADMISSION, cession(step=120, durableStep=100, **times))
    assert (shrunk.step, shrunk.saved_step, shrunk.reported) == (120, 100, rfc3339(NOW - 300))
    assert shrunk.reason is WaitReason.SHRUNK_FOR_CESSION
    assert shrunk.why == (
        "It ceded 8 → 2 pods for vision/inference (ReclaimOwnQuota), 4 min ago, and lost no step."
    )


def test_a_job_shows_what_is_noted_of_it_in_its_namespace_and_nowhere_else() -> None:
    """Members of another team could write the uid of any job into their note."""
    noted = Progress({UID: JobProgress(answered=int(NOW - 4), step=1200, loss=2.5)})
    for namespace, step, loss in (("research", 1200, 2.5), ("vision", None, None)):
        around = replace(NOTHING_READ, progress={namespace: noted})
        [only] = rows([job(8)], [its(ADMISSION)], [], NOW, around)
        assert (only.step, only.loss) == (step, loss)


def test_a_report_that_is_only_newer_is_no_change() -> None:
    def shown(answered: float, step: int) -> list[JobRow]:
        noted = Progress({UID: JobProgress(answered=int(answered), step=step)})
        around = replace(NOTHING_READ, progress={"research": noted})
        return without_ages(rows([job(8)], [its(ADMISSION)], [], NOW, around))

    assert shown(NOW - 60, 3) == shown(NOW, 3) != shown(NOW, 4)


def test_a_job_that_has_not_released_yet_is_asked() -> None:
    why = row(ADMISSION, cession("Asked"), size=7).why
    assert why == "It is asked to cede 8 → 2 pods for vision/inference (ReclaimOwnQuota)."


def test_nothing_is_invented_about_a_small_job() -> None:
    assert row(ADMISSION).why == ""
    assert row(ADMISSION, cession("Cancelled")).why == ""


def test_a_stopped_job_names_the_one_that_it_was_stopped_for() -> None:
    stopped = its(workload(PENDING, active=False), **{names.STOPPED_FOR: "c-1"})
    [only] = rows([job()], [stopped], [cession("Asked", 0)], NOW)
    assert (only.state, only.size) == ("Stopped", 0)
    assert only.reason is WaitReason.STOPPED_FOR_CESSION
    assert only.why == (
        "It was stopped for vision/inference (ReclaimOwnQuota). It runs again when Cession c-1 has "
        "ended and quota is free."
    )


@pytest.mark.parametrize(
    ("item", "why"),
    [
        pytest.param(
            workload(PENDING), "Kueue reports: a reason of a new kind.", id="what Kueue reports"
        ),
        pytest.param(
            workload(),
            "Kueue has not reported yet that it has tried its Workload, which exists for 5 min.",
            id="Kueue reports nothing",
        ),
        pytest.param(
            workload(active=False),
            "Its Workload is not active (spec.active is false), so Kueue does not admit it.",
            id="inactive by hand",
        ),
        pytest.param(
            workload(ADMITTED, condition(names.PODS_READY, False, "1 of 4."), admitted=True),
            "Its pods are not all ready for 60 s: 1 of 4.",
            id="pods that are not ready",
        ),
    ],
)
def test_why(item: Workload, why: str) -> None:
    assert row(item, size=8).why == why


def test_a_job_that_waits_names_the_cession_that_releases_for_it() -> None:
    released_for = cession("Asked")
    released_for.spec.preemptor.uid = "w"
    assert row(workload(PENDING), released_for).why == (
        "Cession c-1 takes what it lacks from research/gpt 8 → 2 (ReclaimOwnQuota), and waits "
        "until they have saved."
    )


def test_a_job_of_another_kind_has_the_pods_of_its_workload() -> None:
    [only] = rows([], [ADMISSION], [], NOW)
    assert (only.kind, only.name, only.size, only.desired) == ("Job", "claim", 4, 4)
    assert only.level == "gentle stop"


def test_a_job_without_a_workload_waits_for_kueue() -> None:
    [only] = rows([job()], [], [], NOW)
    assert (only.state, only.reason) == ("Waiting", WaitReason.NO_WORKLOAD)
    assert only.why.startswith("Kueue has created no Workload for it yet")
    assert only.priority_class == "training"


def test_finished_jobs_are_left_out() -> None:
    assert rows([job()], [its(workload(condition(names.FINISHED, True)))], [], NOW) == []
    status = replace(job().status, conditions=(condition("Complete", True),))
    assert rows([replace(job(), status=status)], [], [], NOW) == []


def test_a_job_that_is_being_deleted_waits_for_nobody() -> None:
    """Its Workload goes before its pods have ended."""
    metadata = replace(job().metadata, deletionTimestamp=rfc3339(NOW - 5))
    assert rows([replace(job(), metadata=metadata)], [], [], NOW) == []


def test_a_guard_is_no_job() -> None:
    guard = replace(ADMISSION, metadata=replace(ADMISSION.metadata, namespace="cede-guard"))
    assert rows([], [guard], [], NOW) == []


def test_a_desired_size_that_is_no_number_is_unknown() -> None:
    [only] = rows([job(desired="many")], [its(ADMISSION)], [], NOW)
    assert only.desired is None


def test_a_row_changes_by_more_than_a_duration() -> None:
    now = row(workload())
    [later] = rows([job(2)], [its(workload())], [], NOW + 61)
    assert now != later
    assert without_ages([now]) == without_ages([later])
    assert without_ages([now]) != without_ages([row(workload(PENDING))])


def test_the_table_shows_the_age_of_a_report_and_the_weight_if_wide() -> None:
    times: dict[str, Any] = {"cededTime": rfc3339(NOW - 300)}
    shrunk = row(ADMISSION, cession(step=120, durableStep=0, **times))
    _, narrow = job_table([shrunk], NOW, everywhere=False, wide=False)
    assert narrow[:9] == ("gpt", "Running", "2", "8", "2-8", "120", "", "0", "5 min ago")
    _, wide = job_table([shrunk], NOW, everywhere=True, wide=True)
    assert wide[:3] == ("research", "Job", "gpt")
    assert "(50)" in wide
