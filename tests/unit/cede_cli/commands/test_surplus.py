"""`cede surplus` against an API server over real HTTP."""

from typing import Any

import pytest

from cede.api import names
from cede.api.objects import JOB_SETS, JOBS, PRIORITY_CLASSES, WORKLOADS, Json
from tests.fakes.api_server import ApiServer
from tests.unit.cede_api.test_surplus import child
from tests.unit.cede_cli.conftest import Run

TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "name": "gpt",
    "uid": "tj",
    "controller": True,
}
JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "gpt",
    "uid": "js",
    "controller": True,
}


def put(
    server: ApiServer,
    sizes: str = "2-8",
    owner: Json = JOB_SET,
    priority: int = 50,
    *,
    runs: bool = True,
) -> None:
    """A base that Kueue has admitted."""
    owners = [] if owner is JOB_SET else [owner]
    metadata: Json = {
        "name": "gpt",
        "namespace": "vision",
        "uid": "js",
        "annotations": {names.SIZES: sizes, names.GRACE: "90s"},
        "ownerReferences": owners,
    }
    server.put(JOB_SETS, {"metadata": metadata, "spec": {"replicatedJobs": [{"name": "node"}]}})
    server.put(JOBS, child())
    workload: Json = {
        "metadata": {"name": "w", "namespace": "vision", "ownerReferences": [owner]},
        "spec": {"queueName": "night", "priority": priority},
        "status": {"admission": {"clusterQueue": "vision"}} if runs else {},
    }
    server.put(WORKLOADS, workload)
    for name, weight in (("inference", 100), ("training", 50), ("sweep", 10)):
        server.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": weight})


def made(server: ApiServer) -> Any:
    job = server.get(JOBS, ("vision", "gpt-surplus"))
    assert job is not None
    return job


async def test_a_surplus_is_made_in_the_queue_of_its_base_and_below_it(
    server: ApiServer, cede: Run
) -> None:
    put(server)
    code, text, _ = await cede("surplus", "gpt")
    assert (code, text) == (0, "job/gpt-surplus created in vision\n")
    metadata = made(server)["metadata"]
    assert metadata["labels"] == {names.QUEUE_NAME: "night", names.PRIORITY_CLASS: "sweep"}
    assert metadata["annotations"][names.SURPLUS_OF] == "js/gpt-node-0/child/2"
    assert metadata["annotations"][names.GRACE] == "90s"
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("JobSet", "js")
    assert "controller" not in owner


@pytest.mark.parametrize(("base", "lower"), [(100, "training"), (50, "sweep"), (30, "sweep")])
async def test_it_has_the_next_class_below_its_base_so_kueue_takes_it_first(
    server: ApiServer, cede: Run, base: int, lower: str
) -> None:
    """Kueue preempts the lower class first (Kueue: pkg/scheduler/preemption/common/ordering.go)."""
    put(server, priority=base)
    assert (await cede("surplus", "gpt"))[0] == 0
    assert made(server)["metadata"]["labels"][names.PRIORITY_CLASS] == lower


async def test_that_of_a_train_job_follows_the_train_job(server: ApiServer, cede: Run) -> None:
    """Kueue queues it, and not the JobSet that Trainer makes of it."""
    put(server, owner=TRAIN_JOB)
    assert (await cede("surplus", "gpt"))[0] == 0
    metadata = made(server)["metadata"]
    assert metadata["annotations"][names.SURPLUS_OF] == "tj/gpt-node-0/child/2"
    [owner] = metadata["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == (TRAIN_JOB["apiVersion"], "TrainJob")


@pytest.mark.parametrize(
    ("words", "base", "message"),
    [
        pytest.param("nobody", {}, "there is no JobSet nobody in namespace vision", id="no base"),
        pytest.param("gpt", {"sizes": "2"}, "has no sizes to grow to", id="one size"),
        pytest.param("gpt", {"sizes": "8-2"}, "has no sizes to grow to", id="wrong sizes"),
        pytest.param("gpt", {"runs": False}, "gpt does not run", id="it waits"),
        pytest.param("gpt", {"priority": 10}, "the lowest priority class", id="lowest class"),
        pytest.param(
            "gpt --priority training", {}, "training is not below the class", id="same class"
        ),
    ],
)
async def test_what_cannot_be_is_one_line(
    server: ApiServer, cede: Run, words: str, base: dict[str, Any], message: str
) -> None:
    put(server, **base)
    code, _, error = await cede("surplus", *words.split())
    assert code in (1, 2)
    assert message in error
    assert len(error.splitlines()) == 1
    assert not server.writes()


async def test_pods_that_do_not_start_the_runtime_are_bad_input(
    server: ApiServer, cede: Run
) -> None:
    put(server)
    job = child()
    del job["spec"]["template"]["metadata"]["labels"][names.ELASTIC_POD]
    server.put(JOBS, job)
    code, _, error = await cede("surplus", "gpt")
    assert (code, "do not start the runtime" in error) == (2, True)
    assert not server.writes()


async def test_a_second_one_is_refused(server: ApiServer, cede: Run) -> None:
    put(server)
    await cede("surplus", "gpt", "--priority", "sweep")
    code, _, error = await cede("surplus", "gpt")
    assert (code, "there is a Job gpt-surplus" in error) == (1, True)
