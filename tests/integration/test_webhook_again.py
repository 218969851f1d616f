"""With real kubectl: what a user does to a job that is there, by every verb kubectl has for it.
Only the scheduler resizes."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from cede.api.objects import Json
from tests.builders.jobs import PRIORITY, QUEUE
from tests.integration.user import ALLOCATION, Write, file_of, outcome, refusal, resize, sizes

pytestmark = pytest.mark.cluster
QUOTA = [{"instanceType": "local-4gpu", "accelerators": 4}]
OWN_RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
SAME_FILE = [
    pytest.param(("apply",), id="apply"),
    pytest.param(("apply", "--server-side", "--force-conflicts"), id="server-side apply"),
    pytest.param(("replace",), id="replace"),
]
Verb = tuple[str, ...]


@pytest.fixture
def write_job(user: Any, team: str, write: Write) -> Callable[..., str]:
    """The file of an elastic job of sizes 2-8 that would like 8; each of its pods takes so many
    accelerators."""

    def written(accelerators: int = 4, **more: Any) -> str:
        found = file_of(team, podFailurePolicy={"rules": [OWN_RULE]}, **more)
        found["spec"]["template"]["spec"]["containers"][0]["resources"] = {
            "limits": {"nvidia.com/gpu": str(accelerators)}
        }
        return write(found)

    return written


@pytest.fixture(scope="module")
def quota(cluster: Any, team: str) -> str:
    """The team owns four accelerators."""
    owner = ALLOCATION | {
        "spec": {
            "maxPriorityClass": "training",
            "quotas": QUOTA,
            "sharing": {"strategy": "DontLend"},
        }
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(owner))
    return team


def the_job(cluster: Any, team: str) -> Json:
    found: Json = cluster.kubectl_json("get", "job", "-n", team, "gpt")
    return found


def difference(cluster: Any, *args: str) -> list[str]:
    """The lines of `kubectl diff`, which fails where there are any."""
    words = [str(cluster.binary), "--kubeconfig", str(cluster.kubeconfig), "diff", *args]
    done = subprocess.run(words, text=True, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def created(cluster: Any, team: str, file: str, verb: Verb) -> Json:
    """The job, made by the verb it will be written again with, and resized to 4 by the
    scheduler."""
    cluster.kubectl(*(("create",) if verb == ("replace",) else verb), "-f", file)
    resize(cluster, team, 4)
    assert sizes(cluster, team) == (4, 4, "8")
    return the_job(cluster, team)


# --- the same file again --------------------------------------------------------------------------
@pytest.mark.parametrize("verb", SAME_FILE)
def test_the_same_file_again_does_not_undo_a_resize(
    user: Any, team: str, write_job: Callable[..., str], verb: Verb
) -> None:
    file = write_job()
    before = created(user, team, file, verb)
    user.kubectl(*verb, "-f", file)
    assert sizes(user, team) == (4, 4, "8")
    assert the_job(user, team)["spec"] == before["spec"]


@pytest.mark.parametrize("verb", SAME_FILE)
def test_the_same_file_again_leaves_a_started_job_as_kueue_started_it(
    user: Any, quota: str, write_job: Callable[..., str], verb: Verb
) -> None:
    file = write_job(accelerators=1)
    user.kubectl(*(("create",) if verb == ("replace",) else verb), "-f", file)
    user.until(
        lambda: the_job(user, quota)["spec"]["suspend"] is False, "Kueue to start the job", 120
    )
    before = the_job(user, quota)
    assert before["spec"]["template"]["spec"]["nodeSelector"], "Kueue has said where it runs"
    user.kubectl(*verb, "-f", file)
    after = the_job(user, quota)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
def test_diff_of_an_unchanged_file_is_quiet_also_after_a_resize(
    user: Any, team: str, write_job: Callable[..., str], server_side: bool
) -> None:
    flags = ("--server-side", "--force-conflicts") if server_side else ()
    file = write_job()
    created(user, team, file, ("apply", *flags))
    assert difference(user, *flags, "-f", file) == []


def test_diff_says_a_wish_that_the_file_would_change_and_no_more(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    file = write_job()
    created(user, team, file, ("apply",))
    user.kubectl(
        "patch", "job", "-n", team, "gpt", "--type=merge", "-p", '{"spec": {"parallelism": 6}}'
    )
    changed = [
        line.replace(" ", "")
        for line in difference(user, "-f", file)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == ['-cede.dev/desired-size:"6"', '+cede.dev/desired-size:"8"']


# --- words of a person's --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(("--type=merge", '{"spec": {"parallelism": 6}}'), id="merge"),
        pytest.param(
            ("--type=strategic", '{"spec": {"parallelism": 6, "completions": 6}}'), id="strategic"
        ),
        pytest.param(
            ("--type=json", '[{"op": "replace", "path": "/spec/completions", "value": 6}]'),
            id="json",
        ),
    ],
)
def test_a_patch_of_the_number_is_a_wish(
    user: Any, team: str, write_job: Callable[..., str], patch: tuple[str, str]
) -> None:
    created(user, team, write_job(), ("apply",))
    user.kubectl("patch", "job", "-n", team, "gpt", patch[0], "-p", patch[1])
    assert sizes(user, team) == (4, 4, "6")
    said = refusal(
        user, "patch", "job", "-n", team, "gpt", patch[0], "-p", patch[1].replace("6", "9")
    )
    assert "is 9, which is not one of the job's sizes" in said


@pytest.mark.parametrize(
    ("script", "left"),
    [
        pytest.param(
            "sed -i s/parallelism:.4/parallelism:\\ 6/",
            (4, 4, "6"),
            id="the number: a desired size",
        ),
        pytest.param(
            "sed -i s/backoffLimit:.6/backoffLimit:\\ 5/",
            (4, 4, "8"),
            id="something else: nothing of ours",
        ),
    ],
)
def test_an_edit_in_an_editor(
    user: Any,
    team: str,
    write_job: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    left: tuple[int, int, str],
) -> None:
    before = created(user, team, write_job(), ("apply",))
    monkeypatch.setenv("KUBE_EDITOR", script)
    user.kubectl("edit", "job", "-n", team, "gpt")
    assert sizes(user, team) == left
    assert (
        the_job(user, team)["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    ), "the edit arrived"


def test_a_job_has_no_scale_and_kubectl_says_so(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    created(user, team, write_job(), ("apply",))
    assert "could not find the requested resource" in outcome(
        user, "scale", "job", "-n", team, "gpt", "--replicas=6"
    )
    assert sizes(user, team) == (4, 4, "8")


def test_what_is_ours_on_a_job_cannot_be_taken_off(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    before = created(user, team, write_job(), ("apply",))
    user.kubectl(
        "annotate",
        "job",
        "-n",
        team,
        "gpt",
        "cede.dev/desired-size-",
        "kueue.x-k8s.io/elastic-job-",
    )
    user.kubectl("label", "job", "-n", team, "gpt", f"{QUEUE}-", f"{PRIORITY}-")
    after = the_job(user, team)["metadata"]
    # without any, Kubernetes takes the pods' labels
    assert after["labels"].items() >= before["metadata"]["labels"].items()
    assert after["annotations"] == before["metadata"]["annotations"]


# --- dry runs -------------------------------------------------------------------------------------
def test_a_dry_run_shows_what_would_be_and_does_nothing(
    user: Any, team: str, write_job: Callable[..., str]
) -> None:
    file = write_job()
    shown = json.loads(user.kubectl("create", "-f", file, "--dry-run=server", "-o", "json"))
    assert (
        shown["spec"]["parallelism"],
        shown["metadata"]["annotations"]["cede.dev/desired-size"],
    ) == (
        2,
        "8",
    )
    assert user.kubectl_json("get", "jobs,workloads", "-n", team)["items"] == []
    before = created(user, team, file, ("apply",))
    for words in (
        ("apply", "-f", file),
        ("apply", "--server-side", "--force-conflicts", "-f", file),
        ("replace", "-f", file),
        ("patch", "job", "-n", team, "gpt", "--type=merge", "-p", '{"spec": {"parallelism": 6}}'),
        ("annotate", "job", "-n", team, "gpt", "cede.dev/sizes=2-9", "--overwrite"),
    ):
        user.kubectl(*words, "--dry-run=server")
    assert (
        the_job(user, team)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    )
