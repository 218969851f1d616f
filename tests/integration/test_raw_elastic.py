"""A Job that Kueue resizes and Cede does not, as an adopted namespace may have it, leaves no pod
without quota: Kueue 0.19.2 runs its pods on when it is stopped while a scale-up slice is pending.
"""

import json
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import TIMEOUT_S, Admin, kubectl_list
from tests.integration.claims import BORROWER, OWNER, governed_teams
from tests.integration.user import AS_JOB_CONTROLLER
from tests.marks import LONG

pytestmark = [pytest.mark.cluster, LONG]
SIZE = 6
MORE = 12
"""More than the one fake node has."""


def raw_elastic(admin: Admin) -> Json:
    """Of six pods with an accelerator each."""
    job = admin.job(BORROWER, "raw", SIZE, "sweep", pods=SIZE)
    job["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    job["metadata"]["labels"][names.QUEUE_NAME] = names.LOCAL_QUEUE
    job["spec"] |= {"completionMode": "Indexed", "suspend": True}
    return job


def test_a_raised_job_is_set_back_and_stopped_with_all_its_pods(cluster: Any) -> None:
    with governed_teams(cluster) as admin:
        for team, accelerators in ((OWNER, 4), (BORROWER, 4)):
            admin.apply_team(team, accelerators)
        # no member could make it, or raise it
        stdin = kubectl_list(raw_elastic(admin))
        cluster.kubectl("create", *AS_JOB_CONTROLLER, "-f", "-", stdin=stdin)
        admin.wait_for_admission(BORROWER, "raw")
        spec = json.dumps({"spec": {"parallelism": MORE, "completions": MORE}})
        patch = ("patch", "job", "raw", "-n", BORROWER, "--type=merge", "-p", spec)
        cluster.kubectl(*patch, *AS_JOB_CONTROLLER)
        admin.submit(admin.job(OWNER, "claim", 4, "training"))
        admin.wait_for_admission(OWNER, "claim")

        def has_ended() -> bool:
            raw = cluster.kubectl_json("get", "job", "raw", "-n", BORROWER)
            pods = cluster.kubectl_json("get", "pods", "-n", BORROWER)["items"]
            return raw["spec"]["suspend"] and raw["spec"]["parallelism"] == SIZE and not pods

        cluster.until(has_ended, "the job to be stopped, without a pod", TIMEOUT_S)
