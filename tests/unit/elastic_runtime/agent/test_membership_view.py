"""What the coordinator takes over from a pod's report."""

from dataclasses import replace

import pytest

from elastic_runtime.agent.coordination import CoordinatorState, MemberReport
from elastic_runtime.agent.membership_view import (
    Limits,
    Member,
    View,
    all_have_ended,
    heartbeat_s,
    merge_report,
)
from elastic_runtime.messages import Record, StoreOpened

NOW = 100.0
REPORT = MemberReport(1, "life-1", "10.0.0.1", generation=3, members=(1, 2), ready=True)
JOB = merge_report(View(record=Record(3, (1, 2), ("life-1", "life-2"))), REPORT, 50.0)


def test_member_has_the_fields_of_its_report() -> None:
    member = JOB.members[1]
    for name in Member.__dataclass_fields__:
        if name not in ("reported_at", "first_reported_at"):
            assert getattr(member, name) == getattr(REPORT, name)
    assert (member.reported_at, member.first_reported_at) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("generation", "members"),
    [
        pytest.param(3, (1, 2), id="of the generation in which it named them"),
        pytest.param(4, (), id="of another generation"),
    ],
)
def test_members_that_a_pod_named_before_are_kept(
    generation: int, members: tuple[int, ...]
) -> None:
    job = merge_report(JOB, replace(REPORT, generation=generation, members=()), NOW)
    assert job.members[1].members == members


@pytest.mark.parametrize(
    ("pods", "heartbeat", "silent", "silent_after_break"),
    [(1, 0.3, 3.0, 1.0), (600, 0.3, 3.0, 1.0), (4096, 2.048, 20.48, 6.83)],
)
def test_pods_of_a_large_job_report_more_rarely_and_may_be_silent_for_longer(
    pods: int, heartbeat: float, silent: float, silent_after_break: float
) -> None:
    limits = Limits().for_pods(pods)
    assert heartbeat_s(pods) == pytest.approx(heartbeat)
    assert limits.silent_s == pytest.approx(silent)
    assert limits.silent_after_break_s == pytest.approx(silent_after_break, abs=0.01)
    # A pod that is late once is not lost.
    assert limits.silent_after_break_s > 3 * heartbeat_s(pods)


@pytest.mark.parametrize(
    ("members", "wait_s"),
    [
        pytest.param(8, 1.08, id="few"),
        pytest.param(256, 3.56, id="longer than 256 pods on 16 cores took, which was 2.8 s"),
        pytest.param(4096, 20.0, id="never longer than a cut link is waited for"),
    ],
)
def test_a_new_coordinator_waits_for_the_first_reports_of_many_members_for_longer(
    members: int, wait_s: float
) -> None:
    # No pod has reported yet.
    assert Limits().for_pods(0).first_reports_s(members) == pytest.approx(wait_s)


@pytest.mark.parametrize(
    ("report", "changed_at", "first_reported_at"),
    [
        pytest.param(REPORT, 50.0, 50.0, id="heartbeat"),
        pytest.param(replace(REPORT, step=7), 50.0, 50.0, id="step"),
        pytest.param(replace(REPORT, leaving=True), NOW, 50.0, id="terminates"),
        pytest.param(replace(REPORT, ready=False), NOW, 50.0, id="not ready any more"),
        pytest.param(replace(REPORT, incarnation="life-9"), NOW, NOW, id="restarted"),
        pytest.param(replace(REPORT, index=5), NOW, NOW, id="another pod"),
    ],
)
def test_times(report: MemberReport, changed_at: float, first_reported_at: float) -> None:
    job = merge_report(JOB, report, NOW)
    member = job.members[report.index]
    assert job.changed_at == changed_at
    assert (member.reported_at, member.first_reported_at) == (NOW, first_reported_at)


def test_first_report_of_a_break_sets_its_time() -> None:
    broken = replace(REPORT, broken=3)
    job = merge_report(merge_report(JOB, broken, NOW), replace(broken, index=2), NOW + 1)
    assert job.broke_at == NOW
    assert merge_report(JOB, replace(REPORT, broken=2), NOW).broke_at is None


def test_requested_size_is_recovered_only_if_none_is_known() -> None:
    kept = replace(REPORT, kept=CoordinatorState(wanted=2, cession="c-1"))
    job = merge_report(JOB, kept, NOW)
    assert (job.wanted, job.cession) == (2, "c-1")
    newer = replace(job, wanted=1, cession="c-2")
    job = merge_report(newer, kept, NOW)
    assert (job.wanted, job.cession) == (1, "c-2")


@pytest.mark.parametrize(
    ("index", "opened", "store"),
    [
        pytest.param(1, StoreOpened(3, 7), "10.0.0.1:7", id="first member"),
        pytest.param(2, StoreOpened(3, 7), "", id="another member"),
        pytest.param(1, StoreOpened(2, 7), "", id="older generation"),
        pytest.param(1, None, "", id="none"),
    ],
)
def test_store_is_that_of_the_first_member(
    index: int, opened: StoreOpened | None, store: str
) -> None:
    job = merge_report(JOB, replace(REPORT, index=index, store=opened), NOW)
    assert job.record.store == store


def test_a_job_has_ended_with_the_scripts_of_all_members_in_its_generation() -> None:
    first = replace(REPORT, ended=True)
    second = replace(first, index=2, incarnation="life-2")
    assert not all_have_ended(View())
    half = merge_report(JOB, first, NOW)
    assert not all_have_ended(half)
    assert all_have_ended(merge_report(half, second, NOW))
    assert not all_have_ended(merge_report(half, replace(second, incarnation="life-3"), NOW))
    assert not all_have_ended(merge_report(half, replace(second, generation=2), NOW))
    stranger = replace(first, index=7, incarnation="life-7")
    assert not all_have_ended(merge_report(half, stranger, NOW))
