"""Gang admission by Kueue's waitForPodsReady; and the policy reports settings that do not fit."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api.objects import Json
from tests.integration.admin import Admin, condition_of, governed
from tests.integration.kueue_configuration import kueue_configured_by
from tests.marks import LONG

pytestmark = [pytest.mark.cluster, LONG]
TEAM = "gov-gang"


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A team with two nodes; Kueue waits ten seconds for ready pods and has no fair sharing."""
    with governed(cluster) as admin:
        admin.apply_team(TEAM, 16)
        with kueue_configured_by(cluster, change):
            yield admin
        admin.delete_teams(TEAM)


def change(configuration: Json) -> None:
    configuration["waitForPodsReady"]["timeout"] = "10s"
    del configuration["fairSharing"]


def kueue_configured(admin: Admin) -> Json:
    return condition_of(admin.policy(), "KueueConfigured")


def test_the_policy_reports_settings_of_kueue_that_do_not_fit(admin: Admin) -> None:
    cure = "set fairSharing in ConfigMap kueue-manager-config"
    admin.cluster.until(
        lambda: cure in kueue_configured(admin).get("message", ""),
        "the policy to report that fair sharing is off",
        120,
    )
    # guards would end after the ten seconds as well
    assert kueue_configured(admin)["reason"] == "StartTimeoutShort"
    admin.apply_policy(idleCompute="FirstCome")
    admin.cluster.until(
        lambda: cure not in kueue_configured(admin)["message"], "the sharing to fit", 120
    )
    assert kueue_configured(admin)["reason"] == "StartTimeoutShort"


def test_a_job_whose_pods_do_not_all_get_ready_loses_its_quota(admin: Admin) -> None:
    stuck = admin.job(TEAM, "stuck", 16, pods=2)
    # only one of its two pods fits on the node
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gov-1"}
    admin.submit(stuck)
    admin.wait_for_admission(TEAM, "stuck")
    admin.submit(admin.job(TEAM, "next", 16, pods=2))
    admin.wait_for_admission(TEAM, "next")
    admin.cluster.until(
        lambda: admin.eviction_reason(TEAM, "stuck") == "PodsReadyTimeout",
        "Kueue to report the eviction",
        120,
    )
