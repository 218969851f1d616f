"""`cede submit`: the Job that it makes, and what it refuses."""

import json
import shlex

import pytest
import yaml

from cede.api.objects import JOBS, Json
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run
from tests.unit.docs.pages import blocks_of
from tests.unit.docs.test_blocks import check_job, commands

SHORT = "submit train.py --sizes 2-8 --image registry.example/training"


def guide_commands() -> list[str]:
    lines = [line for block, line in commands() if block.page == "docs/user-guide.md"]
    return [line for line in lines if line.startswith("cede submit")]


def guide_job(name: str) -> Json:
    documents = [yaml.safe_load(block.text) for block in blocks_of("docs/user-guide.md", "yaml")]
    return next(document for document in documents if document["metadata"]["name"] == name)


@pytest.mark.parametrize("name", ["gpt", "evaluate"])
async def test_a_command_of_the_user_guide_makes_its_job(
    server: ApiServer, cede: Run, name: str
) -> None:
    command = next(line for line in guide_commands() if name in line and "--dry-run" in line)
    code, text, _ = await cede(*shlex.split(command)[1:])
    assert (code, yaml.safe_load(text)) == (0, guide_job(name))
    assert not server.requests


@pytest.mark.parametrize("command", guide_commands())
async def test_every_submission_of_the_user_guide_is_accepted(cede: Run, command: str) -> None:
    code, text, _ = await cede(*shlex.split(command)[1:], "--dry-run=client", "-o", "json")
    assert code == 0
    check_job(json.loads(text))


async def test_the_shortest_command_makes_a_job_that_the_webhook_accepts(
    server: ApiServer, cede: Run
) -> None:
    code, text, _ = await cede(*SHORT.split())
    assert (code, text) == (0, "job/train created in vision\n")
    job = server.get(JOBS, ("vision", "train"))
    assert job is not None
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 8
    check_job({name: job[name] for name in ("apiVersion", "kind", "metadata", "spec")})


async def test_arguments_are_for_the_script(cede: Run) -> None:
    words = [*SHORT.split(), "--dry-run=client", "-o", "json"]
    _, text, _ = await cede(*words, "--gpus", "0", "data")
    [container] = json.loads(text)["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "elastic_runtime", "train.py", "data"]
    assert "resources" not in container


async def test_without_sizes_it_is_an_ordinary_job(cede: Run) -> None:
    words = ["submit", "train.py", "--image", "registry.example/training", "--dry-run=client"]
    _, text, _ = await cede(*words, "-o", "json")
    job = json.loads(text)
    assert "annotations" not in job["metadata"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "train.py"]


async def test_a_script_for_torchrun_is_restarted_and_its_image_needs_no_cede(cede: Run) -> None:
    words = [*SHORT.split(), "--restart", "--runtime", "inject", "--dry-run=client", "-o", "json"]
    _, text, _ = await cede(*words)
    job = json.loads(text)
    assert job["metadata"]["annotations"] == {"cede.dev/sizes": "2-8", "cede.dev/runtime": "inject"}
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [
        "python",
        "-m",
        "elastic_runtime",
        "--restart",
        "--",
        "train.py",
    ]


@pytest.mark.parametrize("option", ["--restart", "--desired=2"])
async def test_what_only_an_elastic_job_has_needs_sizes(cede: Run, option: str) -> None:
    image = "registry.example/training"
    code, _, error = await cede("submit", "train.py", "--image", image, option)
    assert code == 2
    assert error.startswith(f"cede: {option.partition('=')[0]}: ")
    assert "add sizes such as 2-8" in error


async def test_the_desired_size_may_be_less_than_the_largest(cede: Run) -> None:
    _, text, _ = await cede(*SHORT.split(), "--desired", "4", "--dry-run=client", "-o", "yaml")
    assert yaml.safe_load(text)["spec"]["parallelism"] == 4


async def test_a_dry_run_says_so(server: ApiServer, cede: Run) -> None:
    code, text, _ = await cede(*SHORT.split(), "--dry-run=client")
    assert (code, text) == (0, "job/train created (dry run) in vision\n")
    assert not server.requests


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("--sizes 8-2", "--sizes: '8-2' runs from 8 down to 2", id="sizes"),
        pytest.param("--desired 9", "--desired: 9 is not among the sizes 2-8", id="desired"),
        pytest.param("--grace soon", "--grace: 'soon' is not a duration", id="grace"),
        pytest.param("--name My_Job", "--name: 'My_Job' is no name of a Job", id="name"),
        pytest.param("--gpus -1", "Invalid value for '--gpus'", id="GPUs"),
        pytest.param("--runtime none", "Invalid value for '--runtime'", id="runtime"),
        pytest.param("--gpus many", "Invalid value for '--gpus'", id="GPUs that are no number"),
        pytest.param("--dry-run=server", "Invalid value for '--dry-run'", id="dry run"),
    ],
)
async def test_bad_input_is_one_line(
    server: ApiServer, cede: Run, words: str, message: str
) -> None:
    code, text, error = await cede(*SHORT.split(), *words.split())
    assert (code, text, len(error.splitlines())) == (2, "", 1)
    assert message in error
    assert not server.requests


async def test_an_image_is_needed(cede: Run) -> None:
    code, _, error = await cede("submit", "train.py")
    assert code == 2
    assert "Missing option '--image'" in error


async def test_a_job_of_that_name_is_a_failure(cede: Run) -> None:
    await cede(*SHORT.split())
    code, _, error = await cede(*SHORT.split())
    assert (code, error.startswith("cede: there is a Job train in namespace vision")) == (1, True)


async def test_what_the_webhook_refuses_is_one_line(server: ApiServer, cede: Run) -> None:
    denied = 'admission webhook "cede.dev" denied the request: no node could hold the pod'
    server.script("POST", JOBS.path(namespace="vision"), refuses(403, "Forbidden", denied))
    code, _, error = await cede(*SHORT.split())
    assert (code, error) == (1, f"cede: the request was refused: {denied}\n")
