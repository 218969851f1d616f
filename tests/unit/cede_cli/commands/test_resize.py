"""`cede resize` against an API server over real HTTP."""

import json

import pytest

from cede.api import names
from cede.api.objects import JOBS
from tests.builders.jobs import TEAM, elastic_job, running_job
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints


def put_job(server: ApiServer, **annotations: str) -> None:
    metadata = {"name": "gpt", "namespace": "vision", "annotations": annotations}
    server.put(JOBS, {"metadata": metadata, "spec": {"parallelism": 4}})


@pytest.fixture(autouse=True)
async def job(server: ApiServer) -> None:
    """It has shrunk to 4 of 8 pods."""
    put_job(server, **{names.SIZES: "2-8/2", names.DESIRED_SIZE: "8"})


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        ("6", "gpt wants 6 pods now and has 4: it grows when capacity is idle\n"),
        ("4", "gpt wants 4 pods now and has 4\n"),
        ("2", "gpt wants 2 pods now and has 4: it keeps them until another job needs them\n"),
    ],
)
async def test_the_desired_size_is_noted_and_no_pod_is_touched(
    server: ApiServer, cede: Run, size: str, sentence: str
) -> None:
    code, text, _ = await cede("resize", "gpt", size)
    assert (code, text) == (0, sentence)
    [(method, path, body)] = server.bodies
    assert (method, path) == ("PATCH", JOBS.path(("vision", "gpt")))
    assert body == {"metadata": {"annotations": {names.DESIRED_SIZE: size}}}


async def test_a_program_gets_both_sizes(cede: Run) -> None:
    _, text, _ = await cede("resize", "gpt", "6", "-n", "vision", "-o", "json")
    facts = json.loads(text)
    assert (facts["desired_before"], facts["desired"], facts["size"]) == (8, 6, 4)


@pytest.mark.parametrize("size", ["4", "6"])
async def test_the_webhook_keeps_the_size_that_was_noted(
    server: ApiServer, cede: Run, size: str
) -> None:
    """Also one that the job has already, which a patch of `parallelism` would not change."""
    old = running_job(elastic_job(8, "2-8/2"), 4)
    server.put(JOBS, old)
    await cede("resize", "gpt", size)
    new = server.get(JOBS, ("vision", "gpt"))
    assert new is not None
    request = AdmissionRequest(new, old, "alice", TEAM)
    assert complaints(request) == []
    stored = apply_defaults(request)
    assert stored["metadata"]["annotations"][names.DESIRED_SIZE] == size
    assert (stored["spec"]["parallelism"], stored["spec"]["completions"]) == (4, 4)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        pytest.param("5", "5 is not an allowed size of gpt: its cede.dev/sizes is 2-8/2", id="5"),
        pytest.param("10", "10 is not an allowed size of gpt", id="too large"),
        pytest.param("0", "0 is not an allowed size of gpt", id="zero"),
        pytest.param("many", "Invalid value for 'SIZE'", id="no number"),
    ],
)
async def test_a_size_that_is_not_allowed_is_bad_input(
    server: ApiServer, cede: Run, size: str, message: str
) -> None:
    code, text, error = await cede("resize", "gpt", size)
    assert (code, text, len(error.splitlines())) == (2, "", 1)
    assert message in error
    assert not server.writes()


async def test_a_job_that_is_not_elastic_is_bad_input(server: ApiServer, cede: Run) -> None:
    put_job(server)
    code, _, error = await cede("resize", "gpt", "4")
    assert (code, server.writes()) == (2, [])
    assert error.startswith("cede: gpt is not elastic: only a Job with the annotation")


async def test_sizes_that_cannot_be_parsed_are_named(server: ApiServer, cede: Run) -> None:
    put_job(server, **{names.SIZES: "some"})
    _, _, error = await cede("resize", "gpt", "4")
    assert "cede: the sizes of gpt are not valid: 'some' is no list of sizes" in error


async def test_a_job_that_is_not_there_is_a_failure(cede: Run) -> None:
    code, _, error = await cede("resize", "nobody", "4")
    assert code == 1
    assert error == "cede: there is no Job nobody in namespace vision: see `cede jobs -n vision`\n"
