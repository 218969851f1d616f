"""While the webhook does not answer: plain jobs run, and incomplete changes are refused."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import Admin, condition_of, governed, kubectl_list
from tests.integration.user import job_file

pytestmark = pytest.mark.cluster
TEAM = "gov-open"


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A team with an elastic job, and then no webhook."""
    with governed(cluster) as admin:
        admin.apply_team(TEAM, 8, maxPriorityClass="training")
        cluster.kubectl("create", "-f", "-", stdin=kubectl_list(job_file(TEAM)))
        try:
            with cluster.switched_off(names.WEBHOOK):
                cluster.until(lambda: not get_endpoints(admin), "the webhook to stop", 120)
                yield admin
        finally:
            admin.delete_teams(TEAM)


def get_endpoints(admin: Admin) -> list[Any]:
    slices = admin.cluster.kubectl_json(
        "get",
        "endpointslices",
        "-n",
        names.SYSTEM_NAMESPACE,
        "-l",
        f"kubernetes.io/service-name={names.WEBHOOK}",
    )
    return [endpoint for item in slices["items"] for endpoint in item.get("endpoints") or []]


def expect_refusal(admin: Admin, *args: str, stdin: str | None = None) -> str:
    """The message with which the API server refused."""
    with pytest.raises(AssertionError) as error:
        admin.cluster.kubectl(*args, stdin=stdin)
    return str(error.value)


def test_a_plain_job_is_queued_by_kueues_own_defaults(admin: Admin) -> None:
    admin.submit(admin.job(TEAM, "plain", 1))
    admin.wait_for_admission(TEAM, "plain")
    job = admin.cluster.kubectl_json("get", "job", "-n", TEAM, "plain")
    assert job["metadata"]["labels"][names.QUEUE_NAME] == names.LOCAL_QUEUE
    admin.delete_job(TEAM, "plain")


def test_a_job_whose_owner_is_a_pod_of_another_job_is_refused(admin: Admin) -> None:
    """Kueue would not queue it by itself."""
    admin.submit(admin.job(TEAM, "parent", 1))
    selector = ("-n", TEAM, "-l", "batch.kubernetes.io/job-name=parent")
    [pod] = admin.cluster.until(
        lambda: admin.cluster.kubectl_json("get", "pods", *selector)["items"], "a pod of it", 120
    )
    child = admin.job(TEAM, "child", 1)
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    owner |= {field: pod["metadata"][field] for field in ("name", "uid")}
    child["metadata"]["ownerReferences"] = [owner]
    message = expect_refusal(admin, "create", "-f", "-", stdin=kubectl_list(child))
    assert "names a controller, which only a controller may do" in message
    admin.delete_job(TEAM, "parent")


def test_a_job_above_the_teams_highest_class_is_refused(admin: Admin) -> None:
    job = admin.job(TEAM, "urgent", 1, priority="inference")
    message = expect_refusal(admin, "create", "-f", "-", stdin=kubectl_list(job))
    assert "names a class that this team may not use" in message


def test_a_new_elastic_job_is_refused_completely(admin: Admin) -> None:
    job = job_file(TEAM)
    job["metadata"]["name"] = "late"
    message = expect_refusal(admin, "create", "-f", "-", stdin=kubectl_list(job))
    assert (
        "a job cannot be made elastic later: try again when the Deployment cede-webhook" in message
    )
    assert "late" not in admin.cluster.kubectl("get", "job,workload", "-n", TEAM, "-o", "name")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        pytest.param(
            (
                "patch",
                "job",
                "gpt",
                "--type=merge",
                "-p",
                json.dumps({"spec": {"parallelism": 8, "completions": 8}}),
            ),
            "the desired size of this job cannot be changed",
            id="another size",
        ),
        pytest.param(
            ("annotate", "job", "gpt", "cede.dev/sizes-"),
            "could no longer be resized",
            id="sizes removed",
        ),
        pytest.param(
            ("annotate", "job", "gpt", "cede.dev/sizes=8", "--overwrite"),
            "the smallest of cede.dev/sizes cannot be changed",
            id="no smaller size",
        ),
        pytest.param(
            ("annotate", "job", "gpt", "cede.dev/sizes=", "--overwrite"),
            "the smallest of cede.dev/sizes cannot be changed",
            id="no sizes",
        ),
        pytest.param(
            ("annotate", "job", "gpt", "cede.dev/desired-size-"),
            "could no longer be resized",
            id="desired size removed",
        ),
    ],
)
def test_an_existing_elastic_job_stays_elastic(
    admin: Admin, args: tuple[str, ...], reason: str
) -> None:
    assert reason in expect_refusal(admin, *args, "-n", TEAM)
    job = admin.cluster.kubectl_json("get", "job", "-n", TEAM, "gpt")
    assert job["spec"]["parallelism"] == 2
    assert job["metadata"]["annotations"][names.DESIRED_SIZE] == "8"


def test_other_updates_of_an_elastic_job_are_accepted(admin: Admin) -> None:
    admin.cluster.kubectl("label", "job", "gpt", "-n", TEAM, "owner=me")
    admin.cluster.kubectl("delete", "job", "gpt", "-n", TEAM, "--wait=true")


def test_the_team_has_enough_quota(admin: Admin) -> None:
    """The refusals above have another reason."""
    admin.submit(admin.job(TEAM, "fits", 8, pods=8))
    admin.wait_for_admission(TEAM, "fits")
    assert condition_of(admin.workloads_by_job(TEAM)["fits"], "Admitted")["status"] == "True"
