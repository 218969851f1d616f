"""The ValidatingAdmissionPolicy: no pod uses accelerators without a queue."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.harness.local_cluster import api_server_pid
from tests.integration.admin import TYPE, Admin, governed, kubectl_list
from tests.integration.user import AS_JOB_CONTROLLER
from tests.marks import LONG

pytestmark = pytest.mark.cluster
TEAM = "gov-accelerators"
PARTITION = "example.com/slice-1"
RESTARTS = 3
AFTER_RESTART_S = 20
"""An API server starts within 10 s; what it needs longer for is what is looked for."""
PERSON = ("--as=somebody", "--as-group=system:masters")


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.apply_policy(
            instanceTypes=[
                {
                    "name": TYPE,
                    "accelerators": 8,
                    "partitions": {PARTITION: 4},
                    "cpu": "192",
                    "memory": "2Ti",
                }
            ]
        )
        admin.apply_team(TEAM, 8)
        admin.submit(admin.job(TEAM, "owner", 1))
        yield admin
        admin.delete_teams(TEAM)


def bare_pod(limits: Json, namespace: str = TEAM) -> Json:
    container = {"name": "c", "image": "none", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": namespace},
        "spec": {"containers": [container]},
    }


def owned_pod(admin: Admin, limits: Json) -> Json:
    """A pod that names a Job as its owner. Kueue expects that the Job is queued, and sets no
    gate."""
    uid = admin.cluster.kubectl("get", "job", "-n", TEAM, "owner", "-o", "jsonpath={.metadata.uid}")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "owner",
        "uid": uid,
        "controller": True,
    }
    pod = bare_pod(limits)
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def dry_run(admin: Admin, pod: Json, user: tuple[str, ...]) -> str:
    """The pod as it would be stored, or the error message."""
    options = ("--dry-run=server", "-o", "yaml", *user)
    try:
        return admin.cluster.kubectl("create", *options, "-f", "-", stdin=kubectl_list(pod))
    except AssertionError as error:
        return str(error)


ONE_GPU = {names.GPU: "1"}
CURE = "label the pod kueue.x-k8s.io/queue-name: default so that Kueue queues it"


@pytest.mark.parametrize(
    "limits",
    [ONE_GPU, {PARTITION: "1"}, {"nvidia.com/mig-1g.10gb": "1"}],
    ids=lambda limits: next(iter(limits)),
)
def test_a_person_cannot_bypass_the_queues_by_naming_an_owner(admin: Admin, limits: Json) -> None:
    assert CURE in dry_run(admin, owned_pod(admin, limits), PERSON)


def test_kueue_gates_a_bare_pod_with_an_accelerator(admin: Admin) -> None:
    output = dry_run(admin, bare_pod(ONE_GPU), PERSON)
    assert "kueue.x-k8s.io/queue-name: default" in output
    assert "kueue.x-k8s.io/admission" in output, "the scheduling gate"


def assert_accepted_without_gate(output: str) -> None:
    assert "schedulingGates" not in output
    assert "kind: Pod" in output


def test_a_pod_without_accelerator_is_accepted(admin: Admin) -> None:
    assert_accepted_without_gate(dry_run(admin, owned_pod(admin, {"cpu": "1"}), PERSON))


def test_a_pod_that_its_controller_creates_is_accepted(admin: Admin) -> None:
    assert_accepted_without_gate(dry_run(admin, owned_pod(admin, ONE_GPU), AS_JOB_CONTROLLER))


def test_a_pod_in_a_namespace_without_team_is_accepted(admin: Admin) -> None:
    assert_accepted_without_gate(dry_run(admin, bare_pod(ONE_GPU, "default"), PERSON))


@LONG
def test_after_a_restart_of_the_api_server_no_policy_refuses_a_pod(admin: Admin) -> None:
    """It does not know the kinds of CRDs then: a policy with such a parameter refuses every pod."""
    owned, other = owned_pod(admin, ONE_GPU), bare_pod(ONE_GPU, "default")
    for _ in range(RESTARTS):
        os.kill(api_server_pid(), signal.SIGKILL)
        answers = list[str]()
        end = time.monotonic() + AFTER_RESTART_S
        while time.monotonic() < end:
            answers += [dry_run(admin, owned, AS_JOB_CONTROLLER), dry_run(admin, other, PERSON)]
        assert not [answer for answer in answers if "AdmissionPolicy" in answer]
        assert_accepted_without_gate(answers[-2])
        assert_accepted_without_gate(answers[-1])
