"""Gang admission is Kueue's waitForPodsReady: what does not get ready as a whole gives its quota
back. And Kueue's settings are watched."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import Admin, condition, governed

pytestmark = pytest.mark.cluster
TEAM = "gov-gang"
SETTINGS = ("configmap", "kueue-manager-config", "-n", "kueue-system")
FILE = "controller_manager_config.yaml"


def set_kueue(cluster: Any, text: str) -> None:
    """Kueue runs with this configuration."""
    cluster.kubectl("patch", *SETTINGS, "--type=merge", "-p", json.dumps({"data": {FILE: text}}))
    cluster.kubectl(
        "rollout", "restart", "-n", "kueue-system", "deployment/kueue-controller-manager"
    )
    cluster.kubectl(
        "rollout",
        "status",
        "-n",
        "kueue-system",
        "deployment/kueue-controller-manager",
        "--timeout=120s",
    )


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A team that owns two nodes, under a Kueue that waits ten seconds for pods and knows no fair
    sharing."""
    usual: str = cluster.kubectl_json("get", *SETTINGS)["data"][FILE]
    changed = yaml.safe_load(usual)
    changed["waitForPodsReady"]["timeout"] = "10s"
    del changed["fairSharing"]
    with governed(cluster) as admin:
        admin.team(TEAM, 16)
        set_kueue(cluster, yaml.safe_dump(changed))
        try:
            yield admin
        finally:
            set_kueue(cluster, usual)
            admin.remove(TEAM)


def configured(admin: Admin) -> Json:
    return condition(
        admin.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME), "KueueConfigured"
    )


def test_the_policy_says_when_kueues_settings_are_no_longer_as_it_wants(admin: Admin) -> None:
    admin.cluster.until(
        lambda: configured(admin).get("reason") == "FairSharingOff", "the policy to say it", 120
    )
    assert "set fairSharing in ConfigMap kueue-manager-config" in configured(admin)["message"]
    admin.policy(idleCompute="FirstCome")
    admin.cluster.until(
        lambda: configured(admin).get("status") == "True", "the policy to be content", 120
    )


def test_a_job_whose_pods_do_not_all_get_ready_gives_its_quota_to_who_can_use_it(
    admin: Admin,
) -> None:
    stuck = admin.job(TEAM, "stuck", 16, pods=2)
    # one of two has room there
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gov-1"}
    admin.submit(stuck)
    admin.runs(TEAM, "stuck")
    admin.submit(admin.job(TEAM, "next", 16, pods=2))
    admin.runs(TEAM, "next")
    admin.cluster.until(
        lambda: admin.evicted(TEAM, "stuck") == "PodsReadyTimeout",
        "Kueue to say why it had to go",
        120,
    )
