"""How an agent leaves, ends, and reports its metrics."""

from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST
from tests.fakes.agents import agent


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


async def test_pod_0_adds_the_metrics_of_the_job() -> None:
    pod = agent(1)
    assert "elastic_runtime_pod_step 0" in pod.metrics()
    assert "elastic_runtime_generation" not in pod.metrics()
    pod.client.coordinator = Coordinator(1)
    assert "elastic_runtime_generation 0" in pod.metrics()
    assert "elastic_runtime_pod_step 0" in pod.metrics()
