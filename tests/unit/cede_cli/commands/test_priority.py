"""`cede priority` against an API server over real HTTP."""

import json

import pytest

from cede.api import names
from cede.api.objects import JOBS, PRIORITY_CLASSES
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run

DENIED = 'admission webhook "cede.dev" denied the request: above what team vision may use'


def put_job(server: ApiServer, *, waits: bool) -> None:
    labels = {names.PRIORITY_CLASS: "training"}
    metadata = {"name": "gpt", "namespace": "vision", "labels": labels}
    server.put(JOBS, {"metadata": metadata, "spec": {"suspend": waits}})


@pytest.fixture(autouse=True)
async def objects(server: ApiServer) -> None:
    put_job(server, waits=True)
    for name, weight in (("inference", 100), ("training", 50), ("sweep", 10)):
        server.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": weight})


async def test_a_job_that_waits_gets_the_label(server: ApiServer, cede: Run) -> None:
    code, text, _ = await cede("priority", "gpt", "inference")
    assert code == 0
    assert text == (
        "gpt has priority class inference now, before training: it waits by this class, and may "
        "take capacity from jobs of its team that have a lower one\n"
    )
    [(_, path, body)] = server.bodies
    assert path == JOBS.path(("vision", "gpt"))
    assert body == {"metadata": {"labels": {names.PRIORITY_CLASS: "inference"}}}


async def test_a_running_job_is_told_that_it_gives_first(server: ApiServer, cede: Run) -> None:
    put_job(server, waits=False)
    _, text, _ = await cede("priority", "gpt", "sweep")
    assert text.endswith("it gives before jobs of its team that have a higher one\n")


async def test_the_class_that_it_has_changes_nothing(cede: Run) -> None:
    assert (await cede("priority", "gpt", "training"))[1] == (
        "gpt has priority class training already\n"
    )


async def test_a_program_gets_both_classes(cede: Run) -> None:
    facts = json.loads((await cede("priority", "gpt", "sweep", "-o", "json"))[1])
    assert (facts["priority_class_before"], facts["priority_class"]) == ("training", "sweep")
    assert facts["priority"] == 10


async def test_an_unknown_class_is_bad_input_with_the_list(server: ApiServer, cede: Run) -> None:
    code, _, error = await cede("priority", "gpt", "urgent")
    assert (code, server.writes()) == (2, [])
    assert error == (
        "cede: there is no priority class urgent: use one of sweep, training, inference\n"
    )


async def test_what_the_webhook_refuses_is_one_line(server: ApiServer, cede: Run) -> None:
    server.script("PATCH", JOBS.path(("vision", "gpt")), refuses(403, "Forbidden", DENIED))
    code, _, error = await cede("priority", "gpt", "inference")
    assert (code, error) == (1, f"cede: the request was refused: {DENIED}\n")


async def test_a_job_that_is_not_there_is_a_failure(cede: Run) -> None:
    code, _, error = await cede("priority", "nobody", "sweep")
    assert (code, len(error.splitlines())) == (1, 1)
