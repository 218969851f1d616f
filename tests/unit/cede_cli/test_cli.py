"""The command against an API server over real HTTP: what it prints, what it writes, how it ends."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    POLICIES,
    WORKLOADS,
    Json,
    Kind,
    rfc3339,
)
from cede.cli import main
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer, refusal
from tests.fakes.kubeconfig import kubeconfig
from tests.paths import TREE

OURS = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
STOCK = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
Run = Callable[..., Coroutine[None, None, tuple[int, str, str]]]


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        never = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
        for name, labels in (("vision", OURS), ("research", OURS), ("theirs", {})):
            spec = {"queueingStrategy": "StrictFIFO", "preemption": never, "cohortName": "cede"}
            server.put(CLUSTER_QUEUES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        server.put(
            POLICIES,
            {
                "metadata": {"name": "default"},
                "spec": {"mode": "Enforce"},
                "status": {"preemption": "Cede"},
            },
        )
        server.put(
            ALLOCATIONS,
            {
                "metadata": {"name": "vision"},
                "spec": {},
                "status": {"owns": "4 gpu", "observedGeneration": 1},
            },
        )
        server.put(
            LEASES,
            {
                "metadata": {"name": "cede-scheduler", "namespace": "cede-system"},
                "spec": {
                    "holderIdentity": "s-1",
                    "renewTime": "2090-01-01T00:00:00.000000Z",
                    "leaseDurationSeconds": 15,
                },
            },
        )
        yield server


@pytest.fixture
def cede(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command: exit code, standard output, standard error."""

    async def run(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(
            main, [*words, "--kubeconfig", kubeconfig(tmp_path / "config", server, "vision")]
        )
        out, err = capsys.readouterr()
        return code, out, err

    return run


def cession(ended: str = "", stopped: bool = True) -> Json:
    preemptor = {
        "namespace": "vision",
        "workload": "w",
        "uid": "1",
        "job": "inference",
        "queue": "vision",
        "creationTime": rfc3339(0),
    }
    target = {
        "namespace": "research",
        "job": "gpt",
        "uid": "u",
        "queue": "research",
        "fromSize": 8,
        "toSize": 0,
        "how": "Stop",
    }
    said = {"phase": "Released", "targets": [{"uid": "u", "stopped": stopped}], "completionTime": ended}
    spec = {
        "preemptor": preemptor,
        "targets": [target],
        "reason": "ReclaimOwnQuota",
        "deadline": rfc3339(0),
        "why": "it is theirs",
    }
    return {"metadata": {"name": "c-1"}, "spec": spec, "status": said}


async def test_status_tells_it_in_text_and_in_json(server: ApiServer, cede: Run) -> None:
    server.put(CESSIONS, cession())
    code, text, _ = await cede("status")
    assert code == 0
    assert "mode Enforce: jobs cede" in text
    assert "Leader   s-1" in text
    assert "c-1: vision/inference ← research/gpt 8 → 0; Released" in text
    code, text, _ = await cede("status", "-o", "json")
    found = json.loads(text)
    assert (found["leader"], found["teams"][0]["owns"], found["open"][0]["why"]) == (
        "s-1",
        "4 gpu",
        "it is theirs",
    )
    assert not server.writes()


async def test_status_goes_without_what_one_may_not_read(server: ApiServer, cede: Run) -> None:
    for name in ("cede-scheduler", "cede-quota-controller"):
        server.script("GET", LEASES.path(("cede-system", name)), refuses(403, "Forbidden"))
    code, text, _ = await cede("status")
    assert code == 0
    assert "has led" not in text


async def test_explain_takes_the_namespace_of_the_context_or_the_one_named(
    server: ApiServer, cede: Run
) -> None:
    owner = [{"kind": "Job", "name": "inference", "uid": "j"}]
    for namespace in ("vision", "research"):
        server.put(
            WORKLOADS,
            {
                "metadata": {
                    "name": f"job-{namespace}",
                    "namespace": namespace,
                    "ownerReferences": owner,
                },
                "spec": {"queueName": "default"},
            },
        )
    server.put(
        JOBS,
        {
            "metadata": {
                "name": "inference",
                "namespace": "vision",
                "annotations": {names.SIZES: "2-8", names.DESIRED_SIZE: "8"},
            }
        },
    )
    code, text, _ = await cede("explain", "inference")
    assert (code, text.splitlines()[0]) == (0, "vision/inference: Waiting")
    assert "Elastic, sizes 2-8" in text
    _, text, _ = await cede("explain", "job-research", "-n", "research", "-o", "json")
    assert (json.loads(text)["namespace"], json.loads(text)["state"]) == ("research", "Waiting")
    code, text, _ = await cede("explain", "nobody")
    assert code == 1
    assert "There is no Job and no Workload nobody in namespace vision" in text


# --- release --------------------------------------------------------------------------------------
def preemption(server: ApiServer, name: str) -> tuple[Json, str]:
    queue = server.get(CLUSTER_QUEUES, ("", name)) or {}
    return queue["spec"]["preemption"], queue["spec"]["queueingStrategy"]


async def test_release_gives_our_queues_kueues_preemption_and_no_others(
    server: ApiServer, cede: Run
) -> None:
    code, text, _ = await cede("release")
    assert code == 0
    assert (
        preemption(server, "vision") == preemption(server, "research") == (STOCK, "BestEffortFIFO")
    )
    assert preemption(server, "theirs")[1] == "StrictFIFO"
    assert (server.get(POLICIES, ("", "default")) or {})["spec"]["mode"] == "Observe"
    assert text.splitlines() == [
        "ClusterPolicy: mode Observe",
        "ClusterQueue vision: Kueue's own preemption",
        "ClusterQueue research: Kueue's own preemption",
    ]
    assert server.writes()[0][1] == POLICIES.path(("", "default")), (
        "first the policy: a living quota_controller would undo the rest"
    )
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    assert queue["spec"]["cohortName"] == "cede", "what else the queue says stays"


async def test_release_kills_nothing_that_an_admin_has_forbidden_to_kill(
    server: ApiServer, cede: Run
) -> None:
    server.put(ALLOCATIONS, {"metadata": {"name": "vision"}, "spec": {"preemptOwnTasks": "Never"}})
    await cede("release")
    assert preemption(server, "vision")[0] == {**STOCK, "withinClusterQueue": "Never"}
    assert preemption(server, "research")[0] == STOCK


async def test_release_said_twice_changes_nothing_more(server: ApiServer, cede: Run) -> None:
    await cede("release")
    version = server.version
    assert (await cede("release"))[0] == 0
    assert server.version == version


@pytest.mark.parametrize("gone", ["object", "kind"])
async def test_release_works_when_all_of_cede_is_gone(
    server: ApiServer, cede: Run, gone: str
) -> None:
    server.remove(POLICIES, ("", "default"))
    if gone == "kind":
        server.script(
            "PATCH",
            POLICIES.path(("", "default")),
            refuses(404, "NotFound", "the server could not find the requested resource"),
        )
        server.script(
            "GET",
            CESSIONS.path(),
            refuses(404, "NotFound", "the server could not find the requested resource"),
        )
    assert (await cede("release"))[0] == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")


async def test_release_lets_back_in_what_a_take_back_had_stopped(
    server: ApiServer, cede: Run
) -> None:
    for name, uid in (("job-gpt", "u"), ("job-other", "v")):
        server.put(
            WORKLOADS,
            {
                "metadata": {"name": name, "namespace": "research", "labels": {names.JOB_UID: uid}},
                "spec": {"active": False},
            },
        )
    server.put(CESSIONS, cession())
    _, text, _ = await cede("release")
    assert "Workload research/job-gpt: may be admitted again" in text
    assert (server.get(WORKLOADS, ("research", "job-gpt")) or {})["spec"]["active"] is True
    assert (server.get(WORKLOADS, ("research", "job-other")) or {})["spec"]["active"] is False, (
        "its user stopped that one"
    )


async def test_release_goes_on_past_what_fails_and_says_so(server: ApiServer, cede: Run) -> None:
    def refuse(method: str, path: str, _: object) -> web.Response | None:
        return refusal(500, "InternalError", "webhook down") if path.endswith("/vision") else None

    server.before = refuse
    code, text, err = await cede("release")
    assert code == 1
    assert "ClusterQueue research: Kueue's own preemption" in text
    assert preemption(server, "research") == (STOCK, "BestEffortFIFO")
    assert "ClusterQueue vision: 500 InternalError: webhook down" in err
    assert "say it again" in err


# --- what is in the way ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "status", "reason", "says"),
    [
        (POLICIES, 404, "NotFound", "are Kueue and Cede installed there?"),
        (CLUSTER_QUEUES, 403, "Forbidden", "cede: you may not do this: because"),
        (POLICIES, 401, "Unauthorized", "log in again, or name another --context"),
        (
            ALLOCATIONS,
            500,
            "InternalError",
            "cede: the API server refused: 500 InternalError: because",
        ),
    ],
)
async def test_a_refusal_is_a_line(
    server: ApiServer, cede: Run, kind: Kind, status: int, reason: str, says: str
) -> None:
    server.script("GET", kind.path(), *[refuses(status, reason, "because")] * 2)
    code, out, err = await cede("status")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert says in err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "cede: no cluster to speak to", id="no file"),
        pytest.param(": [", "cede: no cluster to speak to", id="no YAML"),
        pytest.param("{}", "cede: no cluster to speak to", id="no kubeconfig"),
    ],
)
def test_no_cluster_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    assert main(["status", "--kubeconfig", str(path)]) == 1
    assert says in capsys.readouterr().err


async def test_a_server_that_is_gone_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        path = kubeconfig(tmp_path / "config", server)
    assert await asyncio.to_thread(main, ["status", "--kubeconfig", path]) == 1
    assert "cede: the API server does not answer" in capsys.readouterr().err


def test_the_context_may_stand_before_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--kubeconfig", str(tmp_path / "none"), "--context", "x", "status"]) == 1
    assert "no cluster" in capsys.readouterr().err


def test_where_only_the_runtime_is_installed_the_command_says_what_is_missing() -> None:
    """An interpreter without site-packages, as in a training image."""
    words = (
        f"import sys; sys.path.insert(0, {str(TREE)!r}); from cede.cli import main; "
        f"sys.exit(main(sys.argv[1:]))"
    )

    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", words, *arguments],
            text=True,
            capture_output=True,
            check=False,
        )

    lacking = bare("status")
    assert (lacking.returncode, lacking.stdout) == (2, "")
    assert lacking.stderr == "cede: kubernetes is not installed here: pip install 'cede[cli]'\n"
    assert bare("version").stdout.startswith("cede ")
    assert "explain" in bare("--help").stdout


def test_version_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert main(["version", "-o", "json"]) == 0
    text, _, rest = capsys.readouterr().out.partition("\n")
    assert text == f"cede {json.loads(rest)['version']}"


# --- uninstall ------------------------------------------------------------------------------------
async def test_uninstall_releases_ends_the_parts_and_lets_the_allocations_go(
    server: ApiServer, cede: Run
) -> None:
    for name in (names.QUOTA_CONTROLLER, names.SCHEDULER, names.WEBHOOK):
        server.put(
            DEPLOYMENTS,
            {"metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE}, "spec": {}},
        )
    server.put(
        ALLOCATIONS,
        {
            "metadata": {"name": "held", "finalizers": ["other", names.ALLOCATION_FINALIZER]},
            "spec": {},
        },
    )
    code, text, _ = await cede("uninstall")
    assert code == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")
    assert {found["spec"]["replicas"] for found in server.objects(DEPLOYMENTS)} == {0}
    assert (server.get(ALLOCATIONS, ("", "held")) or {})["metadata"]["finalizers"] == ["other"]
    assert text.splitlines()[-1] == "ComputeAllocation held: may be deleted"
    writes = [(method, path) for method, path, *_ in server.writes()]
    ended = max(i for i, (_, path) in enumerate(writes) if "/deployments/" in path)
    freed = next(i for i, (_, path) in enumerate(writes) if path == ALLOCATIONS.path(("", "held")))
    assert ended < freed, "a living quota_controller would put its finalizer back"


async def test_uninstall_said_twice_changes_nothing_more(server: ApiServer, cede: Run) -> None:
    await cede("uninstall")
    version = server.version
    assert (await cede("uninstall"))[0] == 0
    assert server.version == version
