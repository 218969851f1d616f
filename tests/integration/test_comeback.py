"""A job of any kind that was stopped for a preemptor runs again at its old place in the queue.

`make test-long` runs it: it needs Kueue to be restarted, and the cluster for itself.
"""

import json
from collections.abc import Iterator

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.local.binaries import module_folder
from tests.builders.job_kinds import job_of_kind, pod_spec
from tests.harness.local_cluster import Cluster
from tests.integration.admin import FAKE, TIMEOUT_S, Admin, condition_of, governed
from tests.marks import LONG

pytestmark = [
    pytest.mark.cluster,
    LONG,
]
OWNER = "gov-owner"
BORROWER = "gov-borrower"
KUEUE = ("-n", "kueue-system", "deployment/kueue-controller-manager")
POD = pod_spec(
    {names.GPU: "8"}, restartPolicy="Always", tolerations=[FAKE], terminationGracePeriodSeconds=0
)
"""All of a fake node."""
KINDS = ("Job", "JobSet", "StatefulSet")


@pytest.fixture(scope="module")
def job_sets(cluster: Cluster) -> Iterator[None]:
    """The CRD. Afterwards it is removed and Kueue, which would watch it on, is restarted."""
    folder = module_folder("sigs.k8s.io/jobset") / "config/components/crd/bases"
    file = ("-f", str(folder / "jobset.x-k8s.io_jobsets.yaml"))
    cluster.kubectl("apply", "--server-side", *file)
    established = ("wait", "--for=condition=Established", "--timeout=30s", *file)
    # kubectl fails while the CRD has no conditions at all
    cluster.until(lambda: cluster.kubectl(*established), "the CRD of JobSets", 60)
    yield
    cluster.kubectl("delete", *file, "--timeout=60s")
    cluster.kubectl("rollout", "restart", *KUEUE)
    cluster.kubectl("rollout", "status", *KUEUE, "--timeout=120s")


@pytest.fixture(scope="module")
def admin(cluster: Cluster, job_sets: None) -> Iterator[Admin]:
    """Each team owns a node of eight accelerators."""
    with governed(cluster) as admin:
        admin.apply_team(OWNER, 8)
        admin.apply_team(BORROWER, 8)
        yield admin
        admin.delete_teams(OWNER, BORROWER)


@pytest.fixture(params=KINDS)
def stopped(admin: Admin, request: pytest.FixtureRequest) -> Iterator["Rigid"]:
    """A job of the kind, on both nodes, that was stopped for a job of the owner."""
    rigid = Rigid(admin.cluster, request.param)
    rigid.create()
    rigid.wait_for_admission()
    admin.submit(admin.job(OWNER, "claim", 8))
    admin.wait_for_admission(OWNER, "claim")
    admin.cluster.until(lambda: not rigid.is_admitted(), f"the {rigid.kind} to be stopped", 30)
    yield rigid
    rigid.delete()
    admin.delete_jobs(OWNER, BORROWER)


class Rigid:
    """A job of any kind that is not elastic, on two nodes."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.uid = ""

    def create(self) -> None:
        obj = job_of_kind(self.kind, POD, BORROWER)
        match self.kind:
            case "Job":
                obj["spec"] |= {"parallelism": 2, "completions": 2}
            case "StatefulSet":
                obj["spec"]["replicas"] = 2
        file = json.dumps(obj)
        # the webhook of a kind that Kueue has just begun to watch may not answer yet
        self.cluster.until(
            lambda: self.cluster.kubectl("create", "-f", "-", stdin=file), self.kind, TIMEOUT_S
        )

    def workload(self) -> Json:
        """Its Workload, always the same one; empty before Kueue has made it."""
        items: list[Json] = self.cluster.kubectl_json("get", "workloads", "-n", BORROWER)["items"]
        candidates = [item for item in items if "it" in item["metadata"]["name"].split("-")]
        if self.uid:
            candidates = [item for item in candidates if item["metadata"]["uid"] == self.uid]
        return candidates[0] if candidates else {}

    def is_admitted(self) -> bool:
        return condition_of(self.workload(), "Admitted").get("status") == "True"

    def was_stopped(self) -> bool:
        """Whether Kueue evicted it, even if it was admitted again."""
        return "Requeued" in {c["type"] for c in self.workload()["status"]["conditions"]}

    def is_marked(self) -> bool:
        return names.STOPPED_FOR in self.workload()["metadata"].get("labels", {})

    def wait_for_admission(self) -> None:
        self.cluster.until(self.is_admitted, f"the {self.kind} to be admitted", TIMEOUT_S)
        self.uid = self.workload()["metadata"]["uid"]

    def delete(self) -> None:
        self.cluster.kubectl("delete", self.kind, "it", "-n", BORROWER, "--timeout=60s")
        self.cluster.until(lambda: not self.workload(), "its Workload to be gone", TIMEOUT_S)


def test_a_stopped_job_runs_again_before_those_that_came_later(
    admin: Admin, stopped: Rigid
) -> None:
    admin.submit(admin.job(BORROWER, "later", 16, pods=2))
    admin.wait_for_workload(BORROWER, "later")
    admin.delete_job(OWNER, "claim")
    stopped.wait_for_admission()
    assert "later" not in admin.admitted_jobs(BORROWER)
    assert not stopped.is_marked()


# --- without a scheduler --------------------------------------------------------------------------
@pytest.fixture
def without_scheduler(admin: Admin) -> Iterator[None]:
    with admin.cluster.switched_off(names.SCHEDULER):
        yield


@pytest.fixture
def without_quota_controller(admin: Admin) -> Iterator[None]:
    with admin.cluster.switched_off(names.QUOTA_CONTROLLER):
        yield


@pytest.fixture
def abandoned(admin: Admin, without_scheduler: None) -> Iterator[Rigid]:
    """A JobSet that was stopped by a scheduler that does not run any more, and nobody's claim."""
    rigid = Rigid(admin.cluster, "JobSet")
    rigid.create()
    rigid.wait_for_admission()
    labels = {"labels": {names.STOPPED_FOR: "claim-12345678-1"}}
    patch = json.dumps({"metadata": labels, "spec": {"active": False}})
    name = rigid.workload()["metadata"]["name"]
    admin.cluster.kubectl("patch", "workload", name, "-n", BORROWER, "--type=merge", "-p", patch)
    try:
        # the quota_controller may be so quick that Kueue never sees it stopped
        admin.cluster.until(
            lambda: rigid.was_stopped() or not rigid.is_marked(), "the JobSet to be stopped", 30
        )
        yield rigid
    finally:
        rigid.delete()


def test_the_quota_controller_alone_lets_a_stopped_job_run_again(
    admin: Admin, abandoned: Rigid
) -> None:
    admin.cluster.until(lambda: not abandoned.is_marked(), "the mark to be taken off", 30)
    abandoned.wait_for_admission()


def test_cede_release_lets_a_stopped_job_run_again(
    admin: Admin, without_quota_controller: None, abandoned: Rigid
) -> None:
    assert abandoned.is_marked()
    admin.release()
    assert not abandoned.is_marked()
    abandoned.wait_for_admission()
