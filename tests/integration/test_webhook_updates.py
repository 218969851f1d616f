"""What users do to an existing job with a real kubectl. Only the scheduler resizes."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.jobs import PRIORITY, QUEUE
from tests.integration.user import (
    ALLOCATION,
    WriteFile,
    expect_refusal,
    get_sizes,
    job_file,
    resize,
    run_kubectl,
)

pytestmark = pytest.mark.cluster
QUOTA = [{"instanceType": "local-4gpu", "accelerators": 4}]
OWN_RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
Verb = tuple[str, ...]
WRITING_VERBS = [
    pytest.param(("apply",), id="apply"),
    pytest.param(("apply", "--server-side", "--force-conflicts"), id="server-side apply"),
    pytest.param(("replace",), id="replace"),
]
PATCH_SIX = ("--type=merge", "-p", '{"spec": {"parallelism": 6}}')


@pytest.fixture(scope="module", autouse=True)
def without_scheduler(cluster: Any) -> Iterator[None]:
    """It would set the jobs that the tests resize, and that wait, to their smallest size."""
    with cluster.switched_off(names.SCHEDULER):
        yield


@pytest.fixture
def write_job(team: str, write: WriteFile) -> Callable[..., str]:
    """Writes the file of an elastic job of sizes 2-8 that wants 8 pods, and returns its path."""

    def write_elastic_job(accelerators_per_pod: int = 4, **more: Any) -> str:
        job = job_file(team, podFailurePolicy={"rules": [OWN_RULE]}, **more)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"nvidia.com/gpu": str(accelerators_per_pod)}}
        return write(job)

    return write_elastic_job


@pytest.fixture(scope="module")
def team_with_quota(cluster: Any, team: str) -> str:
    """The team owns four accelerators."""
    spec = {
        "maxPriorityClass": "training",
        "quotas": QUOTA,
        "sharing": {"strategy": "DontLend"},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(ALLOCATION | {"spec": spec}))
    return team


def get_job(cluster: Any, team: str) -> Json:
    job: Json = cluster.kubectl_json("get", "job", "-n", team, "gpt")
    return job


def get_version(cluster: Any, team: str) -> str:
    version: str = get_job(cluster, team)["metadata"]["resourceVersion"]
    return version


def kubectl_diff(cluster: Any, *args: str) -> list[str]:
    """The lines of `kubectl diff`, which exits with 1 when there are any."""
    command = [str(cluster.binary), "--kubeconfig", str(cluster.kubeconfig), "diff", *args]
    result = subprocess.run(command, text=True, capture_output=True, check=False)
    assert result.returncode in (0, 1), result.stderr
    return result.stdout.splitlines()


def create_job(cluster: Any, file: str, verb: Verb) -> None:
    """`kubectl replace` needs an object that exists."""
    creating_verb = ("create",) if verb == ("replace",) else verb
    cluster.kubectl(*creating_verb, "-f", file)


def create_resized_job(cluster: Any, team: str, file: str, verb: Verb = ("apply",)) -> Json:
    """The job, created with the verb and then resized to 4 by the scheduler."""
    create_job(cluster, file, verb)
    resize(cluster, team, 4)
    assert get_sizes(cluster, team) == (4, 4, "8")
    return get_job(cluster, team)


# --- the same file again --------------------------------------------------------------------------
@pytest.mark.parametrize("verb", WRITING_VERBS)
def test_writing_the_same_file_again_does_not_undo_a_resize(
    user: Any, team: str, write_job: Callable[..., str], verb: Verb
) -> None:
    file = write_job()
    before = create_resized_job(user, team, file, verb)
    user.kubectl(*verb, "-f", file)
    assert get_sizes(user, team) == (4, 4, "8")
    assert get_job(user, team)["spec"] == before["spec"]


@pytest.mark.parametrize("verb", WRITING_VERBS)
def test_writing_the_same_file_again_leaves_a_started_job_unchanged(
    user: Any, team_with_quota: str, write_job: Callable[..., str], verb: Verb
) -> None:
    team = team_with_quota
    file = write_job(accelerators_per_pod=1)
    create_job(user, file, verb)
    user.until(
        lambda: get_job(user, team)["spec"]["suspend"] is False, "Kueue to start the job", 120
    )
    before = get_job(user, team)
    assert before["spec"]["template"]["spec"]["nodeSelector"], "Kueue has chosen the nodes"
    user.kubectl(*verb, "-f", file)
    after = get_job(user, team)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
def test_diff_of_an_unchanged_file_is_empty_after_a_resize(
    user: Any, team: str, write_job: Callable[..., str], server_side: bool
) -> None:
    flags = ("--server-side", "--force-conflicts") if server_side else ()
    file = write_job()
    create_resized_job(user, team, file, ("apply", *flags))
    assert kubectl_diff(user, *flags, "-f", file) == []


def test_diff_shows_only_the_desired_size_that_the_file_would_restore(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    file = write_job()
    create_resized_job(user, team, file)
    user.kubectl("patch", "job", "-n", team, "gpt", *PATCH_SIX)
    changed = [
        line.replace(" ", "")
        for line in kubectl_diff(user, "-f", file)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == ['-cede.dev/desired-size:"6"', '+cede.dev/desired-size:"8"']


# --- changes by a person --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("patch_type", "patch"),
    [
        pytest.param("--type=merge", '{"spec": {"parallelism": 6}}', id="merge"),
        pytest.param(
            "--type=strategic", '{"spec": {"parallelism": 6, "completions": 6}}', id="strategic"
        ),
        pytest.param(
            "--type=json",
            '[{"op": "replace", "path": "/spec/completions", "value": 6}]',
            id="json",
        ),
    ],
)
def test_a_patch_of_the_number_changes_the_desired_size(
    user: Any, team: str, write_job: Callable[..., str], patch_type: str, patch: str
) -> None:
    create_resized_job(user, team, write_job())
    patch_job = ("patch", "job", "-n", team, "gpt", patch_type, "-p")
    user.kubectl(*patch_job, patch)
    assert get_sizes(user, team) == (4, 4, "6")
    message = expect_refusal(user, *patch_job, patch.replace("6", "9"))
    assert "is 9, which is not one of the job's sizes" in message


@pytest.mark.parametrize(
    ("script", "sizes"),
    [
        pytest.param(
            "sed -i s/parallelism:.4/parallelism:\\ 6/", (4, 4, "6"), id="the number: desired size"
        ),
        pytest.param(
            "sed -i s/backoffLimit:.6/backoffLimit:\\ 5/", (4, 4, "8"), id="another field: as usual"
        ),
    ],
)
def test_kubectl_edit_changes_the_desired_size(
    user: Any,
    team: str,
    write_job: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    sizes: tuple[int, int, str],
) -> None:
    before = create_resized_job(user, team, write_job())
    monkeypatch.setenv("KUBE_EDITOR", script)
    user.kubectl("edit", "job", "-n", team, "gpt")
    assert get_sizes(user, team) == sizes
    assert get_version(user, team) != before["metadata"]["resourceVersion"], "the edit was stored"


def test_kubectl_scale_does_not_know_jobs(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    create_resized_job(user, team, write_job())
    output = run_kubectl(user, "scale", "job", "-n", team, "gpt", "--replicas=6")
    assert "could not find the requested resource" in output
    assert get_sizes(user, team) == (4, 4, "8")


def test_our_labels_and_annotations_cannot_be_removed(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    before = create_resized_job(user, team, write_job())
    annotations = ("cede.dev/desired-size-", "kueue.x-k8s.io/elastic-job-")
    user.kubectl("annotate", "job", "-n", team, "gpt", *annotations)
    user.kubectl("label", "job", "-n", team, "gpt", f"{QUEUE}-", f"{PRIORITY}-")
    after = get_job(user, team)["metadata"]
    # Kubernetes copies the labels of the pods to a job without labels
    assert after["labels"].items() >= before["metadata"]["labels"].items()
    assert after["annotations"] == before["metadata"]["annotations"]


# --- dry runs -------------------------------------------------------------------------------------
def test_a_dry_run_shows_the_result_and_stores_nothing(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    file = write_job()
    shown = json.loads(user.kubectl("create", "-f", file, "--dry-run=server", "-o", "json"))
    assert shown["spec"]["parallelism"] == 2
    assert shown["metadata"]["annotations"]["cede.dev/desired-size"] == "8"
    assert user.kubectl_json("get", "jobs,workloads", "-n", team)["items"] == []
    before = create_resized_job(user, team, file)
    for command in (
        ("apply", "-f", file),
        ("apply", "--server-side", "--force-conflicts", "-f", file),
        ("replace", "-f", file),
        ("patch", "job", "-n", team, "gpt", *PATCH_SIX),
        ("annotate", "job", "-n", team, "gpt", "cede.dev/sizes=2-9", "--overwrite"),
    ):
        user.kubectl(*command, "--dry-run=server")
    assert get_version(user, team) == before["metadata"]["resourceVersion"]
