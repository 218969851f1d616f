"""With real kubectl, a real API server and a real Kueue: what users write, write again, and get wrong."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.test_webhook_rules import PRIORITY, QUEUE, a_job, plain

pytestmark = pytest.mark.cluster
TEAM = "webhook-test"
POLICY = {
    "apiVersion": "cede.dev/v1alpha1", "kind": "ClusterPolicy", "metadata": {"name": names.POLICY_NAME},
    "spec": {
        "instanceTypes": [{"name": "local-4gpu", "accelerators": 4, "cpu": "2", "memory": "16Gi"}],
        "priorityClasses": [{"name": "inference", "weight": 100}, {"name": "training", "weight": 50}],
        "defaultPriorityClass": "training",
    },
}  # fmt: skip
ALLOCATION = {
    "apiVersion": "cede.dev/v1alpha1", "kind": "ComputeAllocation", "metadata": {"name": TEAM},
    "spec": {"maxPriorityClass": "training", "quotas": []},
}  # fmt: skip
SCHEDULER = ("--as", f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.SCHEDULER}", "--as-group", "system:masters")
Write = Callable[[Json], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """An object → the file a user would have."""

    def written(found: Json) -> str:
        path = tmp_path / "job.yaml"
        path.write_text(json.dumps(found))
        return str(path)

    return written


@pytest.fixture(scope="module")
def team(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The namespace of a team that owns nothing: its jobs wait, which is all that is needed here."""
    path = tmp_path_factory.mktemp("team") / "team.json"
    has_policy = cluster.kubectl("get", "clusterpolicies", "-o", "name").split()
    wanted = [ALLOCATION] if has_policy else [POLICY, ALLOCATION]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
    cluster.kubectl("apply", "-f", str(path))
    cluster.until(lambda: QUEUED in cluster.kubectl("get", "localqueues", "-n", TEAM, "-o", "name"), "the team's queue", 60)
    yield TEAM
    cluster.kubectl("delete", "job", "-n", TEAM, "--all", "--wait=true")
    cluster.kubectl("delete", "computeallocation", TEAM, "--wait=true")
    cluster.kubectl("delete", "namespace", TEAM, "--ignore-not-found", "--wait=false")


QUEUED = f"localqueue.kueue.x-k8s.io/{names.LOCAL_QUEUE}"


@pytest.fixture
def user(cluster: Any, team: str) -> Iterator[Any]:
    yield cluster
    cluster.kubectl("delete", "job", "-n", team, "--all", "--wait=true")


def file_of(team: str, **more: Any) -> Json:
    """An elastic Job as its user writes it: nothing in it that the API server would have added."""
    job = a_job(8, "2-8", **more)
    job["metadata"] = {"name": "gpt", "namespace": team, "annotations": {"cede.dev/sizes": "2-8"}}
    del job["spec"]["podReplacementPolicy"]
    del job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return job


def sizes(cluster: Any, team: str) -> tuple[int, int, str]:
    job = cluster.kubectl_json("get", "job", "-n", team, "gpt")
    return job["spec"]["parallelism"], job["spec"]["completions"], job["metadata"]["annotations"]["cede.dev/wish"]


def resize(cluster: Any, team: str, size: int) -> None:
    """As the scheduler does it."""
    patch = json.dumps({"spec": {"parallelism": size, "completions": size}})
    cluster.kubectl("patch", "job", "-n", team, "gpt", "--type=merge", "-p", patch, *SCHEDULER)


def refusal(cluster: Any, *args: str) -> str:
    with pytest.raises(Exception, match="denied the request") as refused:
        cluster.kubectl(*args)
    return str(refused.value)


def outcome(cluster: Any, *args: str) -> str:
    """What kubectl printed, or why it refused."""
    try:
        return str(cluster.kubectl(*args))
    except AssertionError as refused:
        return str(refused)


def test_an_elastic_job_starts_at_its_smallest_size_in_the_teams_queue(user: Any, team: str, write: Write) -> None:
    user.kubectl("apply", "-f", write(file_of(team)))
    assert sizes(user, team) == (2, 2, "8")
    job = user.kubectl_json("get", "job", "-n", team, "gpt")
    assert job["metadata"]["labels"] == {QUEUE: "default", PRIORITY: "training"}
    assert job["spec"]["suspend"] is True, "Kueue has seen our queue label: ours comes first"
    gates = job["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": "kueue.x-k8s.io/elastic-job"}], "and our annotation"


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(("apply",), id="apply"),
        pytest.param(("apply", "--server-side", "--force-conflicts"), id="server-side apply"),
        pytest.param(("replace",), id="replace"),
    ],
)
def test_the_same_file_again_does_not_undo_a_resize(user: Any, team: str, write: Write, again: tuple[str, ...]) -> None:
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    file = write(file_of(team, podFailurePolicy={"rules": [own]}))
    user.kubectl("apply" if again[0] == "replace" else again[0], *again[1:], "-f", file)
    resize(user, team, 4)
    assert sizes(user, team) == (4, 4, "8")
    before = user.kubectl_json("get", "job", "-n", team, "gpt")["spec"]
    user.kubectl(*again, "-f", file)
    assert sizes(user, team) == (4, 4, "8")
    assert user.kubectl_json("get", "job", "-n", team, "gpt")["spec"] == before


def test_a_number_set_by_a_person_is_a_wish(user: Any, team: str, write: Write) -> None:
    user.kubectl("apply", "-f", write(file_of(team)))
    user.kubectl("patch", "job", "-n", team, "gpt", "--type=merge", "-p", '{"spec": {"parallelism": 6}}')
    assert sizes(user, team) == (2, 2, "6")
    said = refusal(user, "patch", "job", "-n", team, "gpt", "--type=merge", "-p", '{"spec": {"parallelism": 9}}')
    assert "spec.parallelism is 9, which is not among its sizes" in said


def test_an_unknown_priority_class_is_refused_with_the_list(user: Any, team: str, write: Write) -> None:
    job = plain()
    job["metadata"] = {"name": "gpt", "namespace": team, "labels": {PRIORITY: "urgent"}}
    assert "which is no priority class here: use training" in refusal(user, "create", "-f", write(job))


def test_all_complaints_come_at_once_and_before_the_api_servers_own(user: Any, team: str, write: Write) -> None:
    job = file_of(team, completionMode="NonIndexed", pod={"restartPolicy": "OnFailure"})
    job["metadata"]["labels"] = {PRIORITY: "urgent", QUEUE: "research"}
    job["spec"]["completions"] = 7
    said = refusal(user, "create", "-f", write(job))
    for word in ("'urgent'", "'research'", "needs Indexed", "needs Never", "needs both alike"):
        assert word in said


def test_a_dry_run_shows_what_would_be(user: Any, team: str, write: Write) -> None:
    shown = json.loads(user.kubectl("create", "-f", write(file_of(team)), "--dry-run=server", "-o", "json"))
    assert shown["spec"]["parallelism"] == 2
    assert user.kubectl_json("get", "jobs", "-n", team)["items"] == []


def test_a_bare_pod_with_an_accelerator_is_held_by_kueue_or_refused_never_let_past_the_queue(user: Any, team: str, write: Write) -> None:
    container = {"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": team}, "spec": {"containers": [container]}}
    said = outcome(user, "create", "-f", write(pod), "--dry-run=server", "-o", "yaml")
    held = "name: kueue.x-k8s.io/admission" in said  # where Kueue's pod integration is on, it queues the pod
    assert held or "outside of any queue: make it a Job" in said
    container["resources"] = {}
    user.kubectl("create", "-f", write(pod), "--dry-run=server")
