"""Changes by an admin stop no running job, on a real Kueue: the table of the admin guide."""

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from cede.api import names
from cede.api.budget import MonthUse, month_of
from cede.api.objects import Json, rfc3339
from cede.api.reasons import BudgetReason
from tests.integration.admin import (
    CLASSES,
    POLICY,
    TYPE,
    Admin,
    condition_of,
    governed,
    kubectl_list,
)
from tests.marks import LONG

pytestmark = pytest.mark.cluster
LENDER = "gov-left"
BORROWER = "gov-right"


@pytest.fixture(scope="module")
def governed_cluster(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        yield admin
        admin.delete_teams(LENDER, BORROWER)


@pytest.fixture
def admin(governed_cluster: Admin) -> Iterator[Admin]:
    """Each team owns eight accelerators; the borrower's job `runs` has twelve."""
    admin = governed_cluster
    admin.apply_policy()
    admin.apply_team(LENDER, 8)
    admin.apply_team(BORROWER, 8)
    admin.submit(admin.job(BORROWER, "runs", 12, pods=12))
    admin.wait_for_admission(BORROWER, "runs")
    admin.cluster.until(
        lambda: admin.allocation(LENDER)["status"]["lent"] == "4 gpu",
        "the status to report what is lent",
        120,
    )
    yield admin
    admin.delete_jobs(LENDER, BORROWER)


def assert_still_admitted(admin: Admin, job: str = "runs") -> None:
    workload = admin.workloads_by_job(BORROWER)[job]
    assert condition_of(workload, "Admitted").get("status") == "True"
    assert not admin.eviction_reason(BORROWER, job)


# --- quota and sharing ----------------------------------------------------------------------------
def test_more_quota_admits_waiting_jobs(admin: Admin) -> None:
    admin.apply_policy(shareUnallocated=False)
    admin.apply_team(LENDER, 4, sharing={"strategy": "Lend"})
    admin.apply_team(BORROWER, 8, sharing={"strategy": "Lend"})
    admin.submit(admin.job(LENDER, "six", 6, pods=6))
    admin.wait_until_pending(LENDER, "six")
    admin.apply_team(LENDER, 6, sharing={"strategy": "Lend"})
    admin.apply_team(BORROWER, 2)
    admin.delete_job(BORROWER, "runs")
    admin.wait_for_admission(LENDER, "six")


def test_less_quota_than_used_stops_no_job_and_admits_none(admin: Admin) -> None:
    admin.apply_policy(shareUnallocated=False)
    admin.apply_team(BORROWER, 2)
    admin.cluster.until(
        lambda: admin.allocation(BORROWER)["status"]["borrowed"] == "10 gpu",
        "the usage to count as borrowed",
        120,
    )
    assert_still_admitted(admin)
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_until_pending(BORROWER, "new")
    assert_still_admitted(admin)


def test_a_lower_borrowing_limit_stops_no_borrowing_job(admin: Admin) -> None:
    admin.apply_team(BORROWER, 8, sharing={"borrowLimitPercent": 25})
    admin.cluster.until(
        lambda: admin.accelerator_quota(BORROWER, "borrowingLimit") == "2",
        "the limit to be in the queue",
        120,
    )
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_until_pending(BORROWER, "new")
    assert_still_admitted(admin)


@LONG
def test_a_hard_budget_that_is_used_stops_no_borrowing_job(
    admin: Admin, month_use: Callable[[int], None]
) -> None:
    """By a note as the ledger writes it, with the rights that the quota_controller has."""
    month_use(100)
    admin.apply_team(BORROWER, 8, budget={"hardHours": 100})
    admin.cluster.until(
        lambda: admin.accelerator_quota(BORROWER, "borrowingLimit") == "0",
        "borrowing to end",
        120,
    )
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_until_pending(BORROWER, "new")
    assert_still_admitted(admin)
    budget = condition_of(admin.allocation(BORROWER), names.WITHIN_BUDGET)
    assert (budget["status"], budget["reason"]) == ("False", BudgetReason.HARD_BUDGET_USED)
    assert admin.accelerator_quota(BORROWER, "nominalQuota") == "8"
    assert list(admin.allocation(BORROWER)["status"]["budgetUsedHours"].values()) == [100]
    admin.apply_team(BORROWER, 8, budget={"hardHours": 200})
    admin.wait_for_admission(BORROWER, "new")
    admin.apply_team(BORROWER, 8)
    admin.cluster.until(
        lambda: "budgetUsedHours" not in admin.allocation(BORROWER)["status"],
        "the used hours to go with the budget",
        120,
    )


@pytest.fixture
def month_use(admin: Admin) -> Iterator[Callable[[int], None]]:
    """Notes so many hours of the borrower, as of now."""
    key = ("configmap", names.LEDGER, "-n", names.SYSTEM_NAMESPACE)

    def note(hours: int) -> None:
        now = time.time()
        used = {BORROWER: {TYPE: {names.GPU: Decimal(hours)}}}
        use = MonthUse(month_of(now), rfc3339(now), used=used)
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.LEDGER, "namespace": names.SYSTEM_NAMESPACE},
            "data": {names.MONTH_USE: use.text()},
        }
        admin.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(config_map))

    yield note
    admin.cluster.kubectl("delete", *key, "--ignore-not-found")


def test_a_team_that_stops_lending_gets_quota_back_as_borrowers_end(admin: Admin) -> None:
    admin.apply_team(LENDER, 8, sharing={"strategy": "DontLend"})
    admin.cluster.until(
        lambda: admin.accelerator_quota(LENDER, "lendingLimit") == "4",
        "lent quota to stay lent",
        120,
    )
    assert_still_admitted(admin)
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_until_pending(BORROWER, "new")
    admin.delete_jobs(BORROWER)
    admin.cluster.until(
        lambda: admin.accelerator_quota(LENDER, "lendingLimit") == "0",
        "lent quota to be returned",
        120,
    )
    admin.submit(admin.job(BORROWER, "nine", 9, pods=9))
    admin.wait_until_pending(BORROWER, "nine")


def test_a_renamed_team_keeps_its_namespace_and_jobs(admin: Admin) -> None:
    admin.apply_team(BORROWER, 8, team="gov-renamed")
    namespace = admin.cluster.kubectl_json("get", "namespace", BORROWER)
    assert namespace["metadata"]["labels"][names.TEAM] == "gov-renamed"
    assert_still_admitted(admin)
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_for_admission(BORROWER, "new")


# --- the policy -----------------------------------------------------------------------------------
def test_jobs_of_a_removed_type_go_on_and_none_is_admitted(admin: Admin) -> None:
    other_type = {"name": "gov-other", "accelerators": 8, "cpu": "192", "memory": "2Ti"}
    admin.apply_policy(instanceTypes=[other_type])
    admin.wait_for_message(BORROWER, f"the policy has no instance type {TYPE}")
    assert_still_admitted(admin)
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_for_workload(BORROWER, "new")
    admin.wait_until_pending(BORROWER, "new")
    assert_still_admitted(admin)
    admin.apply_policy()
    admin.wait_for_admission(BORROWER, "new")


def test_running_jobs_keep_a_removed_class_and_new_ones_are_refused(admin: Admin) -> None:
    admin.submit(admin.job(BORROWER, "sweeps", 1, "sweep"))
    admin.wait_for_admission(BORROWER, "sweeps")
    admin.apply_policy(priorityClasses=[class_ for class_ in CLASSES if class_["name"] != "sweep"])
    late_job = kubectl_list(admin.job(BORROWER, "late", 1, "sweep"))

    def refusal() -> str:
        try:
            admin.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=late_job)
        except AssertionError as error:
            return str(error)
        return ""

    message = admin.cluster.until(refusal, "the webhook to refuse the class", 120)
    expected = "'sweep', which is not a priority class of this cluster: use inference or training"
    assert expected in message

    def removed() -> list[str]:
        policy = admin.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME)
        return list(policy["status"].get("removedPriorityClasses", []))

    admin.cluster.until(lambda: removed() == ["sweep"], "the class to be reported", 120)
    assert_still_admitted(admin, "sweeps")
    get_classes = ("get", "workloadpriorityclass", "-o", "name")
    assert "sweep" in admin.cluster.kubectl(*get_classes), "scale-up slices and new pods need it"
    admin.cluster.kubectl("delete", "job", "sweeps", "-n", BORROWER)
    admin.cluster.until(
        lambda: "sweep" not in admin.cluster.kubectl(*get_classes), "the class to be deleted", 180
    )
    admin.cluster.until(lambda: not removed(), "the status to follow", 120)


def test_without_a_policy_quotas_stay_and_kueue_preempts(admin: Admin) -> None:
    def spec_without_preemption() -> Json:
        spec = admin.cluster_queue(BORROWER)["spec"]
        return {key: value for key, value in spec.items() if key != "preemption"}

    before = spec_without_preemption()
    admin.cluster.kubectl("delete", "clusterpolicy", names.POLICY_NAME)
    admin.wait_for_message(BORROWER, "until then all quotas stay as they are")
    assert spec_without_preemption() == before
    assert_still_admitted(admin)
    admin.submit(admin.job(LENDER, "reclaims", 8))
    admin.wait_for_admission(LENDER, "reclaims")
    assert admin.eviction_reason(BORROWER, "runs") == "Preempted", "Cede does not preempt now"
    admin.apply_policy(**POLICY)


# --- the allocation -------------------------------------------------------------------------------
def test_an_inactive_allocation_stops_no_job_and_admits_none(admin: Admin) -> None:
    admin.apply_team(BORROWER, 8, active=False)
    admin.wait_for_message(BORROWER, "nothing new is admitted, running jobs continue")
    admin.submit(admin.job(BORROWER, "new", 1))
    admin.wait_for_workload(BORROWER, "new")
    admin.wait_until_pending(BORROWER, "new")
    assert_still_admitted(admin)
    admin.apply_team(BORROWER, 8)
    admin.wait_for_admission(BORROWER, "new")


def test_a_deleted_allocation_waits_for_its_jobs_and_reports_it(admin: Admin) -> None:
    admin.cluster.kubectl("delete", "computeallocation", BORROWER, "--wait=false")
    admin.wait_for_message(BORROWER, "1 workload still uses its quota")
    assert_still_admitted(admin)
    admin.delete_jobs(BORROWER)
    admin.cluster.until(
        lambda: BORROWER not in admin.cluster.kubectl("get", "computeallocation", "-o", "name"),
        "the allocation to be deleted",
        120,
    )
    assert BORROWER not in admin.cluster.kubectl("get", "clusterqueue", "-o", "name")
    assert BORROWER in admin.cluster.kubectl("get", "namespace", "-o", "name"), (
        "the namespace and its contents stay"
    )
