"""`cede.client` against an API server over real HTTP, from a thread that has an event loop too."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import TypeVar

import pytest

from cede import client as module
from cede.api import names
from cede.api.objects import JOBS, POLICIES, WORKLOADS, Json
from cede.client import CedeError, Client, Explanation, JobRow, SizeChange, Submitted
from tests.builders.jobs import TEAM
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.paths import TREE
from tests.unit.docs.pages import DOCS, blocks_of
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults

T = TypeVar("T")
PAGE = "docs/notebooks.md"


@pytest.fixture
async def config(server: ApiServer, tmp_path: Path) -> str:
    """Of a user whose context has the namespace `vision`, with the elastic Job `gpt` in it."""
    annotations = {names.SIZES: "2-8", names.DESIRED_SIZE: "8"}
    metadata = {"name": "gpt", "namespace": "vision", "annotations": annotations, "uid": "gpt"}
    metadata["labels"] = {names.QUEUE_NAME: "default"}
    server.put(JOBS, {"metadata": metadata, "spec": {"parallelism": 4, "completions": 4}})
    return kubeconfig(tmp_path / "config", server.url, "vision")


async def cell(config: str, work: Callable[[Client], T]) -> T:
    """The result of `work` in a notebook: its thread runs an event loop, which it blocks."""

    async def run() -> T:
        return work(Client(kubeconfig=config))

    return await asyncio.to_thread(asyncio.run, run())


def admit(method: str, path: str, body: Json) -> None:
    """What the webhook makes of a Job that is created."""
    if method == "POST" and path == JOBS.path(namespace="vision"):
        body.update(apply_defaults(AdmissionRequest(body, user="alice", team=TEAM)))


async def test_the_page_is_run_as_it_is(server: ApiServer, config: str) -> None:
    server.admission_hook = admit
    [block] = blocks_of(PAGE, "python")
    environment = os.environ | {"KUBECONFIG": config, "PYTHONPATH": str(TREE)}
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", block.text],
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["gpt", "Waiting", "0"],
        ["train", "Waiting", "0"],
    ]
    assert any("allowed sizes 2,4,8" in line for line in lines[2:-2])
    assert lines[-2:] == [
        "8",
        "there is no Job nobody in namespace vision: see `cede jobs -n vision`",
    ]
    job = server.get(JOBS, ("vision", "train"))
    assert job is not None
    assert job["metadata"]["annotations"][names.RUNTIME] == names.INJECT


def test_the_page_has_the_fields_of_every_value() -> None:
    text = (DOCS / "notebooks.md").read_text()
    for value in (Explanation, Submitted, SizeChange):
        [cell_] = re.findall(rf"^\| `{value.__name__}` \| (.*) \|$", text, re.MULTILINE)
        assert re.findall(r"`(\w+)`", cell_) == [field.name for field in fields(value)]
    assert set(module.__all__) <= set(re.findall(r"\w+", text))


async def test_jobs_are_rows_of_one_namespace_or_of_all(server: ApiServer, config: str) -> None:
    labels = {names.QUEUE_NAME: "default"}
    other = {"name": "other", "namespace": "research", "labels": labels, "uid": "o"}
    server.put(JOBS, {"metadata": other})
    [row] = await cell(config, lambda client: client.jobs())
    assert isinstance(row, JobRow)
    assert (row.name, row.desired, row.allowed) == ("gpt", 8, "2-8")
    rows = await cell(config, lambda client: client.jobs(everywhere=True))
    assert [row.name for row in rows] == ["other", "gpt"]


async def test_a_value_cannot_be_changed(config: str) -> None:
    [row] = await cell(config, lambda client: client.jobs())
    with pytest.raises(FrozenInstanceError):
        row.size = 3  # type: ignore[misc]


async def test_a_job_that_is_not_there_is_explained_as_such(config: str) -> None:
    explanation = await cell(config, lambda client: client.explain("nobody"))
    assert explanation.state == "Unknown"
    assert explanation.sentences[0].startswith("There is no Job and no Workload nobody")


async def test_a_job_is_created_and_resized(server: ApiServer, config: str) -> None:
    submitted = await cell(config, lambda client: client.submit("a.py", image="i", sizes="1-4"))
    assert (submitted.namespace, submitted.name) == ("vision", "a")
    job = server.get(JOBS, ("vision", "a"))
    assert job is not None
    assert submitted.uid == job["metadata"]["uid"]
    resized = await cell(config, lambda client: client.resize("gpt", 6))
    assert resized == SizeChange("vision", "gpt", desired=6, desired_before=8, size=4)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        pytest.param(
            lambda client: client.submit("a.py", image="i", sizes="4-1"), "sizes: ", id="s"
        ),
        pytest.param(lambda client: client.resize("gpt", 9), "9 is not an allowed size", id="size"),
    ],
)
async def test_an_argument_that_cannot_be_right_is_a_value_error(
    server: ApiServer, config: str, work: Callable[[Client], object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        await cell(config, work)
    assert not server.writes()


async def test_a_refusal_of_the_cluster_is_the_sentence_of_the_command(
    server: ApiServer, config: str
) -> None:
    denied = 'admission webhook "cede.dev" denied the request: no node could hold the pod'
    server.script("POST", JOBS.path(namespace="vision"), refuses(403, "Forbidden", denied))
    with pytest.raises(CedeError, match=r"^the request was refused: admission webhook"):
        await cell(config, lambda client: client.submit("a.py", image="i"))
    server.token = "another"
    with pytest.raises(CedeError, match=r"^the API server does not accept your credentials"):
        await cell(config, lambda client: client.jobs())


async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{")
    with pytest.raises(CedeError, match=r"^no cluster is configured"):
        Client(kubeconfig=str(tmp_path / "config"))


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda client: client.explain("gpt"), id="explain"),
        pytest.param(lambda client: client.jobs(), id="jobs"),
    ],
)
async def test_what_cannot_be_read_is_a_warning(
    server: ApiServer, config: str, look: Callable[[Client], object]
) -> None:
    server.put(POLICIES, {"metadata": {"name": "default"}, "spec": {"mode": "Newer"}})
    server.put(WORKLOADS, {"metadata": {"name": "w", "namespace": "vision"}, "spec": 7})
    with pytest.warns(UserWarning, match="this cede cannot read") as caught:
        await cell(config, look)
    assert {str(entry.message).partition(":")[0] for entry in caught} == {
        "this cede cannot read ClusterPolicy default",
        "this cede cannot read Workload vision/w",
    }
    assert {entry.filename for entry in caught} == {__file__}


def test_without_its_packages_the_import_says_what_to_install() -> None:
    """An interpreter without site-packages, as in a training image."""
    script = f"import sys; sys.path.insert(0, {str(TREE)!r}); import cede.client"
    command = [sys.executable, "-I", "-S", "-c", script]
    failed = subprocess.run(command, text=True, capture_output=True, check=False)
    assert failed.returncode == 1
    last = failed.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"ImportError: \w+ is not installed here: install Cede's own wheel with its extra \[cli\]",
        last,
    )
