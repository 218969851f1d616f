"""How an agent leaves, ends, and reports its metrics."""

import logging
import os
import resource
from collections.abc import Sequence
from dataclasses import replace

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client, external_command
from elastic_runtime.agent.agent import Agent, allow_connections
from elastic_runtime.agent.coordination import CoordinatorState
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST
from elastic_runtime.json_logging import POD_ENDS, facts_of
from elastic_runtime.messages import Progress
from tests.fakes.agents import HOST, JOB, KEYS, agent, listening, pod_settings

NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("before", "pods", "after", "unsigned"),
    [
        pytest.param((1024, 20_000), 8, (1024, 20_000), 496, id="enough"),
        pytest.param((1024, 20_000), 4096, (12_800, 20_000), 4096, id="raised"),
        pytest.param((1024, 20_000), 512, (2560, 20_000), 1024, id="raised for a job of 512"),
        pytest.param((1024, 4096), 4096, (4096, 4096), 256, id="as far as allowed"),
        pytest.param((1024, NO_LIMIT), 4096, (12_800, NO_LIMIT), 4096, id="no hard limit"),
        pytest.param((NO_LIMIT, NO_LIMIT), 4096, (NO_LIMIT, NO_LIMIT), 4096, id="no limit"),
    ],
)
def test_pod_0_may_hold_the_connections_of_all_pods_and_of_so_many_strangers(
    before: tuple[int, int],
    pods: int,
    after: tuple[int, int],
    unsigned: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [before]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert allow_connections(pods) == unsigned
    assert limits[-1] == after


async def test_first_end_decides_the_exit_code() -> None:
    pod = agent(1)
    pod.end(7)
    pod.end(0)
    assert (pod.over.is_set(), pod.code) == (True, 7)


async def test_pod_that_does_not_train_leaves_at_once_on_sigterm() -> None:
    for ready, parked in ((False, False), (True, True)):
        pod = agent(1)
        pod.pool.state.ready = ready
        pod.pool.state.parked = parked
        await pod._leave()
        assert (pod.over.is_set(), pod.code) == (True, EXIT_LEFT_ON_REQUEST)
        assert pod.pool.state.leaving


@pytest.mark.parametrize(("own", "kept"), [(None, 40), (40, 0), (30, 40)])
def test_the_last_record_of_an_agent_has_the_newest_durable_step_that_it_knows(
    own: int | None, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pod = agent(1)
    pod.pool.state.step = 41
    pod.pool.state.add_progress(Progress(durable_step=own))
    pod.client.kept = CoordinatorState(durable_step=kept)
    pod._log_end()
    [record] = caplog.records
    assert record.getMessage() == POD_ENDS
    assert facts_of(record) == {"index": 1, "step": 41, "durable_step": 40}


async def test_pod_of_a_local_job_leaves_at_once_if_its_launcher_ended_before_it_was_up() -> None:
    # A process is never its own parent.
    pod = Agent(replace(pod_settings(1), launcher=os.getpid()), [])
    await pod._leave_with_launcher()
    assert (pod.over.is_set(), pod.code) == (True, EXIT_LEFT_ON_REQUEST)


def late(script: Sequence[str] = ("train.py",), *, index: int = 2) -> Agent:
    """A pod that has looked for the other pods of its job for long."""
    pod = Agent(pod_settings(index), script)
    pod.leadership._asking_since = pod.clock() - 60
    return pod


async def finish(pod: Agent) -> int:
    """The status of its answer to a controller that reports that pod 0 has succeeded."""
    async with listening(pod) as port:
        try:
            await control_client.call(HOST, port, KEYS, JOB, "POST", contract.FINISHED_PATH)
        except control_client.Refused as refused:
            return refused.status
    return 200


async def test_a_pod_that_came_too_late_ends_with_success_when_another_one_has() -> None:
    pod = late()
    assert not pod.over.is_set()
    assert await finish(pod) == 200
    assert (pod.over.is_set(), pod.code, pod.pool.state.finished) == (True, 0, True)


async def test_a_pod_that_may_have_work_does_not_end_when_another_one_has_succeeded() -> None:
    trained = late()
    trained.pool.state.generation = 3
    command = late(external_command.script("USR1", "", ["sleep", "9"]))
    fresh = late()
    fresh.leadership._asking_since = fresh.clock()
    for pod in (trained, command, fresh, late(index=0)):
        assert await finish(pod) == 409
        assert not pod.over.is_set()


async def test_pod_0_adds_the_metrics_of_the_job() -> None:
    pod = agent(1)
    assert "elastic_runtime_pod_step 0" in pod.metrics()
    assert "elastic_runtime_generation" not in pod.metrics()
    pod.client.coordinator = Coordinator(1)
    assert "elastic_runtime_generation 0" in pod.metrics()
    assert "elastic_runtime_pod_step 0" in pod.metrics()
