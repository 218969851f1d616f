"""The `cede` command against an API server over real HTTP: its output, errors and exit codes."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    JOBS,
    LEASES,
    POLICIES,
    WORKLOADS,
    Kind,
)
from cede.cli import main
from tests.builders.reports import stopping_cession
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.paths import TREE
from tests.unit.cede_cli.conftest import Run


# --- status ---------------------------------------------------------------------------------------
async def test_status_prints_text(server: ApiServer, cede: Run) -> None:
    server.put(CESSIONS, stopping_cession())
    code, text, _ = await cede("status")
    assert code == 0
    assert "mode Enforce: Cede asks jobs to shrink" in text
    assert "Leader   s-1" in text
    assert "c-1: research/gpt 8 → 0 for vision/inference; Released" in text
    assert not server.writes()


async def test_status_prints_json(server: ApiServer, cede: Run) -> None:
    server.put(CESSIONS, stopping_cession())
    code, text, _ = await cede("status", "-o", "json")
    status = json.loads(text)
    assert code == 0
    assert status["leader"] == "s-1"
    assert status["teams"][0]["owns"] == "4 gpu"
    assert status["open_cessions"][0]["why"] == "it is theirs"
    assert not server.writes()


async def test_status_leaves_out_leases_that_the_user_may_not_read(
    server: ApiServer, cede: Run
) -> None:
    for name in ("cede-scheduler", "cede-quota-controller"):
        server.script("GET", LEASES.path(("cede-system", name)), refuses(403, "Forbidden"))
    code, text, _ = await cede("status")
    assert code == 0
    assert "no leader" not in text


# --- explain --------------------------------------------------------------------------------------
@pytest.fixture
async def jobs(server: ApiServer) -> None:
    """A Workload of Job `inference` in each of two namespaces, and the Job in one of them."""
    owners = [{"kind": "Job", "name": "inference", "uid": "j"}]
    for namespace in ("vision", "research"):
        metadata = {"name": f"job-{namespace}", "namespace": namespace, "ownerReferences": owners}
        server.put(WORKLOADS, {"metadata": metadata, "spec": {"queueName": "default"}})
    annotations = {names.SIZES: "2-8", names.DESIRED_SIZE: "8"}
    job = {"name": "inference", "namespace": "vision", "annotations": annotations}
    server.put(JOBS, {"metadata": job})


@pytest.mark.usefixtures("jobs")
async def test_explain_uses_the_namespace_of_the_context(cede: Run) -> None:
    code, text, _ = await cede("explain", "inference")
    assert (code, text.splitlines()[0]) == (0, "vision/inference: Waiting")
    assert "It is elastic with the allowed sizes 2-8" in text


@pytest.mark.usefixtures("jobs")
async def test_explain_uses_the_given_namespace(cede: Run) -> None:
    _, text, _ = await cede("explain", "job-research", "-n", "research", "-o", "json")
    explanation = json.loads(text)
    assert (explanation["namespace"], explanation["state"]) == ("research", "Waiting")


@pytest.mark.usefixtures("jobs")
async def test_explain_fails_for_a_name_that_does_not_exist(cede: Run) -> None:
    code, text, _ = await cede("explain", "nobody")
    assert code == 1
    assert "There is no Job and no Workload nobody in namespace vision" in text


# --- errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "status", "reason", "message"),
    [
        (POLICIES, 404, "NotFound", "are Kueue and Cede installed there?"),
        (CLUSTER_QUEUES, 403, "Forbidden", "cede: you are not allowed to do this: because"),
        (POLICIES, 401, "Unauthorized", "log in again, or name another --context"),
        (
            ALLOCATIONS,
            500,
            "InternalError",
            "cede: the API server refused the request: 500 InternalError: because",
        ),
    ],
)
async def test_a_refusal_is_one_line(
    server: ApiServer, cede: Run, kind: Kind, status: int, reason: str, message: str
) -> None:
    server.script("GET", kind.path(), *[refuses(status, reason, "because")] * 2)
    code, text, errors = await cede("status")
    assert (code, text, len(errors.splitlines())) == (1, "", 1)
    assert message in errors


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="no file"),
        pytest.param(": [", id="not YAML"),
        pytest.param("{}", id="not a kubeconfig"),
    ],
)
def test_a_missing_configuration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    assert main(["status", "--kubeconfig", str(path)]) == 1
    assert "cede: no cluster is configured" in capsys.readouterr().err


async def test_a_server_that_is_gone_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        path = kubeconfig(tmp_path / "config", server.url)
    assert await asyncio.to_thread(main, ["status", "--kubeconfig", path]) == 1
    assert "cede: the API server is not reachable" in capsys.readouterr().err


def test_the_context_may_stand_before_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--kubeconfig", str(tmp_path / "none"), "--context", "x", "status"]) == 1
    assert "no cluster" in capsys.readouterr().err


# --- installation ---------------------------------------------------------------------------------
def test_without_its_packages_the_command_prints_what_to_install() -> None:
    """An interpreter without site-packages, as in a training image."""
    script = (
        f"import sys; sys.path.insert(0, {str(TREE)!r}); from cede.cli import main; "
        f"sys.exit(main(sys.argv[1:]))"
    )

    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", script, *arguments]
        return subprocess.run(command, text=True, capture_output=True, check=False)

    failed = bare("status")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == (
        "cede: kubernetes is not installed here: install Cede's own wheel with its extra [cli]\n"
    )
    assert bare("version").stdout.startswith("cede ")
    assert "explain" in bare("--help").stdout


def test_version_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert main(["version", "-o", "json"]) == 0
    text, _, document = capsys.readouterr().out.partition("\n")
    assert text == f"cede {json.loads(document)['version']}"
