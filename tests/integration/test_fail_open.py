"""While the webhook does not answer: ordinary work goes on by Kueue's defaults, what would be
half-made is refused in plain words."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import Admin, condition_of, governed, kubectl_list
from tests.integration.user import job_file

pytestmark = pytest.mark.cluster
TEAM = "gov-open"
WEBHOOK = ("deployment", names.WEBHOOK, "-n", names.SYSTEM_NAMESPACE)


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A team with an elastic job from before, and no webhook."""
    with governed(cluster) as admin:
        admin.apply_team(TEAM, 8)
        cluster.kubectl("create", "-f", "-", stdin=kubectl_list(job_file(TEAM)))
        cluster.kubectl("scale", *WEBHOOK, "--replicas=0")
        try:
            cluster.until(lambda: not addresses(admin), "the webhook to be gone", 120)
            yield admin
        finally:
            cluster.kubectl("scale", *WEBHOOK, "--replicas=1")
            cluster.kubectl("wait", *WEBHOOK, "--for=condition=Available", "--timeout=120s")
            admin.delete_teams(TEAM)


def addresses(admin: Admin) -> list[Any]:
    found = admin.cluster.kubectl_json(
        "get",
        "endpointslices",
        "-n",
        names.SYSTEM_NAMESPACE,
        "-l",
        f"kubernetes.io/service-name={names.WEBHOOK}",
    )
    return [address for one in found["items"] for address in one.get("endpoints") or []]


def refused(admin: Admin, *args: str, stdin: str | None = None) -> str:
    with pytest.raises(AssertionError) as error:
        admin.cluster.kubectl(*args, stdin=stdin)
    return str(error.value)


def test_an_ordinary_job_starts_through_kueues_own_defaults(admin: Admin) -> None:
    admin.submit(admin.job(TEAM, "plain", 1))
    admin.wait_for_admission(TEAM, "plain")
    job = admin.cluster.kubectl_json("get", "job", "-n", TEAM, "plain")
    assert job["metadata"]["labels"][names.QUEUE_NAME] == names.LOCAL_QUEUE
    admin.delete_job(TEAM, "plain")


def test_an_elastic_job_is_refused_in_plain_words_and_nothing_of_it_is_there(admin: Admin) -> None:
    body = job_file(TEAM)
    body["metadata"]["name"] = "late"
    said = refused(admin, "create", "-f", "-", stdin=kubectl_list(body))
    assert "a job cannot be made elastic later: try again when the Deployment cede-webhook" in said
    assert "late" not in admin.cluster.kubectl("get", "job,workload", "-n", TEAM, "-o", "name")


@pytest.mark.parametrize(
    ("args", "why"),
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
            id="a size",
        ),
        pytest.param(
            ("annotate", "job", "gpt", "cede.dev/sizes-"),
            "could no longer be resized",
            id="its sizes removed",
        ),
        pytest.param(
            ("annotate", "job", "gpt", "cede.dev/desired-size-"),
            "could no longer be resized",
            id="its desired size removed",
        ),
    ],
)
def test_an_elastic_job_from_before_is_not_undone(
    admin: Admin, args: tuple[str, ...], why: str
) -> None:
    assert why in refused(admin, *args, "-n", TEAM)
    job = admin.cluster.kubectl_json("get", "job", "-n", TEAM, "gpt")
    assert (job["spec"]["parallelism"], job["metadata"]["annotations"][names.DESIRED_SIZE]) == (
        2,
        "8",
    )


def test_what_changes_nothing_of_it_is_let_through(admin: Admin) -> None:
    admin.cluster.kubectl("label", "job", "gpt", "-n", TEAM, "owner=me")
    admin.cluster.kubectl("delete", "job", "gpt", "-n", TEAM, "--wait=true")


def test_kueue_would_have_admitted_it(admin: Admin) -> None:
    """The refusals above are not for lack of quota."""
    admin.submit(admin.job(TEAM, "fits", 8, pods=8))
    admin.wait_for_admission(TEAM, "fits")
    assert condition_of(admin.workloads_by_job(TEAM)["fits"], "Admitted")["status"] == "True"
