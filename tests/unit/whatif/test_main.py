"""The program: what it reads, what it prints, and how it fails."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from cede.api.objects import ALLOCATIONS, NAMESPACES, NODES, PODS, POLICIES, WORKLOADS
from scheduler import snapshot_dump
from tests.builders.pictures import NOW, ClusterOf, JobOf, allocation, manifest, policy
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.paths import TREE
from whatif.__main__ import main

GPT = JobOf("research", "gpt", 8, ["n1"] * 4 + ["n2"] * 4, sizes="2-8")
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """The program turns logs off for its whole process."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def dump(tmp_path: Path) -> str:
    cluster = ClusterOf([GPT])
    file = tmp_path / "dump.json"
    file.write_text(snapshot_dump.write(cluster.objects(), cluster.policy.spec, NOW))
    return str(file)


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest("inference", 4)))
    return str(file)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *capsys.readouterr())

    return run


# --- snapshots ------------------------------------------------------------------------------------
def test_a_snapshot_answers_without_a_cluster(ask: Ask, dump: str, job_file: str) -> None:
    code, text, _ = ask("submit", "-f", job_file, "-n", "vision", "--snapshot", dump)
    lines = text.splitlines()
    assert (code, lines[0]) == (0, "Job vision/inference: admitted after a take-back")
    assert "  research/gpt (team research) shrinks from 8 to 4 pods" in lines
    assert "  vision/inference (team vision) is admitted with 4 pods" in lines
    assert any(line.startswith("TEAM ") for line in lines)
    assert "Assumed" in lines


def test_the_example_of_the_guide_is_what_is_printed(ask: Ask, dump: str, job_file: str) -> None:
    """But for where lines end."""
    _, text, _ = ask("submit", "-f", job_file, "-n", "vision", "--snapshot", dump)
    guide = (TREE / "docs" / "admin-guide.md").read_text()
    assert " ".join(text.split()) in " ".join(guide.split())


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_all_facts(ask: Ask, dump: str, job_file: str, output: str) -> None:
    words = ("submit", "-f", job_file, "-n", "vision", "--snapshot", dump, "-o", output)
    code, text, _ = ask(*words)
    answer = yaml.safe_load(text)
    assert code == 0
    assert answer["job"]["state"] == "AdmittedAfterTakeBack"
    assert [change["effect"] for change in answer["changes"]] == ["Shrinks", "Admitted"]
    assert output == "yaml" or json.loads(text) == answer


def test_a_job_that_is_refused_is_a_failure(ask: Ask, dump: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(manifest("inference", 4, priority="nothing")))
    code, text, _ = ask("submit", "-f", str(file), "-n", "vision", "--snapshot", dump)
    assert (code, text.splitlines()[0]) == (1, "Job vision/inference: refused")


def test_nodes_can_be_drained(ask: Ask, dump: str) -> None:
    code, text, _ = ask("drain", "n2", "--snapshot", dump)
    assert (code, text.splitlines()[0]) == (0, "drain n2: 1 job changes")


# --- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("a: [", "is no YAML: ", id="invalid YAML"),
        pytest.param("---\na: 1\n---\nb: 2\n", "has 2 documents", id="two documents"),
        pytest.param("", "has 0 documents", id="nothing"),
        pytest.param("text", "it must have one, an object", id="no object"),
        pytest.param(b"\xff\xfe\x00", "cannot be read: ", id="no text"),
        pytest.param("[" * 5000, "is no YAML: ", id="nested too deeply"),
    ],
)
def test_a_file_that_is_no_object_is_one_line(
    ask: Ask, dump: str, tmp_path: Path, content: str | bytes, expected: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, text, errors = ask("allocation", "-f", str(file), "--snapshot", dump)
    assert (code, text, len(errors.splitlines())) == (2, "", 1)
    assert errors.startswith(f"whatif: {file} ")
    assert expected in errors


def test_a_file_that_is_not_there_is_one_line(ask: Ask, dump: str) -> None:
    code, _, errors = ask("submit", "-f", "/nowhere/job.yaml", "--snapshot", dump)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "/nowhere/job.yaml cannot be read: " in errors


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"statuses": {}}', "\x00"])
def test_a_file_that_is_no_snapshot_is_one_line(
    ask: Ask, tmp_path: Path, job_file: str, content: str
) -> None:
    file = tmp_path / "dump.json"
    file.write_text(content)
    code, _, errors = ask("submit", "-f", job_file, "--snapshot", str(file))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "is no snapshot of the scheduler" in errors


# --- the cluster ----------------------------------------------------------------------------------


def put_cluster(server: ApiServer) -> None:
    """A policy, a team and a node; no queue yet."""
    for kind, body in (
        (POLICIES, policy().model_dump(mode="json")),
        (ALLOCATIONS, allocation("vision").model_dump(mode="json")),
        (NODES, {"metadata": {"name": "n1", "labels": {"type": "a100"}}}),
    ):
        server.put(kind, body)


async def ask_live(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    config = kubeconfig(tmp_path / "config", server.url, "vision")
    code = await asyncio.to_thread(main, [*words, "--kubeconfig", config])
    return (code, *capsys.readouterr())


async def test_the_cluster_is_read_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        put_cluster(server)
        code, text, errors = await ask_live(server, tmp_path, capsys, "drain", "n1")
        assert server.writes() == []
    assert (code, errors) == (0, "")
    assert text.splitlines()[0] == "drain n1: no job changes"
    assert "no runtime was asked" in text


async def test_the_namespace_is_that_of_the_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job_file: str
) -> None:
    async with ApiServer() as server:
        put_cluster(server)
        code, _, errors = await ask_live(server, tmp_path, capsys, "submit", "-f", job_file)
    assert (code, errors.startswith("whatif: namespace vision has no LocalQueue")) == (2, True)


async def test_a_member_learns_all_missing_rights_and_whom_to_ask_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job_file: str
) -> None:
    async with ApiServer() as server:
        put_cluster(server)
        for kind in (WORKLOADS, PODS, NAMESPACES):
            server.script("GET", kind.path(), refuses(403, "Forbidden", f"cannot {kind.plural}"))
        code, text, errors = await ask_live(server, tmp_path, capsys, "submit", "-f", job_file)
    assert (code, text, len(errors.splitlines())) == (1, "", 1)
    assert errors.startswith(
        "whatif: you may not list workloads, pods, namespaces in all namespaces, and a prediction "
    )
    assert "Ask an administrator to run this command, or for a snapshot" in errors


async def test_an_object_that_cannot_be_read_is_named_and_the_rest_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        put_cluster(server)
        server.put(ALLOCATIONS, {"metadata": {"name": "newer"}, "spec": {"quotas": "x"}})
        code, text, errors = await ask_live(server, tmp_path, capsys, "drain", "n1")
    assert (code, text.splitlines()[0]) == (0, "drain n1: no job changes")
    assert errors.startswith("whatif: this cede cannot read ComputeAllocation newer: ")


async def test_a_cluster_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        pass
    code, _, errors = await ask_live(server, tmp_path, capsys, "drain", "n1")
    assert (code, len(errors.splitlines())) == (1, 1)
    assert "the API server is not reachable" in errors


def test_a_kubeconfig_that_is_not_there_is_one_line(ask: Ask) -> None:
    code, _, errors = ask("drain", "n1", "--kubeconfig", "/nowhere/config")
    assert (code, len(errors.splitlines())) == (1, 1)
    assert "name one with --kubeconfig and --context, or a --snapshot" in errors


@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param("{k: v}", "{{<<: [{}]}}", id="merged"),
        pytest.param("[v]", "[{}]", id="listed"),
    ],
)
def test_a_manifest_that_multiplies_itself_is_refused_before_it_is_built(
    ask: Ask, tmp_path: Path, first: str, later: str
) -> None:
    """Ten times nine times: a server that predicts would have no memory left."""
    file = tmp_path / "job.yaml"
    levels = [
        f"x{level}: &x{level} " + later.format(", ".join([f"*x{level - 1}"] * 10))
        for level in range(1, 10)
    ]
    file.write_text("\n".join([f"x0: &x0 {first}", *levels]))
    code, _, errors = ask("submit", "-f", str(file))
    assert (code, errors) == (
        2,
        f"whatif: {file} has 90 aliases (*name): it may have 10; write out what they stand for\n",
    )
