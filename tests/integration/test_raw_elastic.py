"""A Job that Kueue resizes and Cede does not, as an adopted namespace may have it, leaves no pod
without quota: Kueue 0.19.2 runs its pods on when it is stopped while a scale-up slice is pending.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import TIMEOUT_S, Admin
from tests.integration.claims import OWNER, governed_teams
from tests.integration.user import AS_JOB_CONTROLLER
from tests.marks import LONG

pytestmark = [pytest.mark.cluster, LONG]
LAB = "gov-raw"
SIZE = 6
MORE = 12
"""More than the one fake node has."""


def raw_elastic(admin: Admin) -> Json:
    """Of six pods with an accelerator each."""
    job = admin.job(LAB, "raw", SIZE, "sweep", pods=SIZE)
    job["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    job["metadata"]["labels"][names.QUEUE_NAME] = names.LOCAL_QUEUE
    job["spec"] |= {"completionMode": "Indexed", "suspend": True}
    return job


@pytest.fixture
def admin(cluster: Any) -> Iterator[Admin]:
    """The Job was there before its namespace became a team's: no member could make it."""
    with governed_teams(cluster) as admin:
        cluster.kubectl("create", "namespace", LAB)
        admin.submit(raw_elastic(admin))
        admin.apply_team(OWNER, 4)
        admin.apply_team(LAB, 4, namespace={"name": LAB, "adopt": True})
        try:
            yield admin
        finally:
            admin.delete_jobs(LAB)
            cluster.kubectl("delete", "computeallocation", LAB, "--timeout=120s")
            cluster.kubectl("delete", "namespace", LAB, "--timeout=120s")


def test_a_raised_job_is_set_back_and_stopped_with_all_its_pods(admin: Admin) -> None:
    admin.wait_for_admission(LAB, "raw")
    # nor could a member raise it
    spec = json.dumps({"spec": {"parallelism": MORE, "completions": MORE}})
    patch = ("patch", "job", "raw", "-n", LAB, "--type=merge", "-p", spec)
    admin.cluster.kubectl(*patch, *AS_JOB_CONTROLLER)
    admin.submit(admin.job(OWNER, "claim", 4, "training"))
    admin.wait_for_admission(OWNER, "claim")

    def has_ended() -> bool:
        raw = admin.cluster.kubectl_json("get", "job", "raw", "-n", LAB)
        pods = admin.cluster.kubectl_json("get", "pods", "-n", LAB)["items"]
        return raw["spec"]["suspend"] and raw["spec"]["parallelism"] == SIZE and not pods

    admin.cluster.until(has_ended, "the job to be stopped, without a pod", TIMEOUT_S)
