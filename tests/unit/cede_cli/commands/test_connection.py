"""What a command says when the cluster cannot be reached, or refuses."""

import asyncio
from pathlib import Path

import pytest

from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, POLICIES, Kind
from cede.cli import main
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.unit.cede_cli.conftest import Run


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
        pytest.param("", id="empty"),
        pytest.param("- a", id="a list"),
        pytest.param("contexts: 3", id="contexts that are none"),
        pytest.param("contexts: [3]", id="a context that is none"),
    ],
)
def test_a_missing_configuration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    for command in ("status", "jobs"):
        assert main([command, "--kubeconfig", str(path)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("cede: no cluster is configured")
        assert len(error.splitlines()) == 1


async def test_a_server_that_is_gone_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        path = kubeconfig(tmp_path / "config", server.url)
    assert await asyncio.to_thread(main, ["status", "--kubeconfig", path]) == 1
    assert "cede: the API server is not reachable" in capsys.readouterr().err
