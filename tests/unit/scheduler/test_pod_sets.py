"""What the pod sets of a Workload request."""

from cede.api.kueue import Container, ContainerResources, PodSet, PodSpec, PodTemplate
from scheduler.pod_sets import read_pod_sets
from tests.builders.scheduler import GPU


def pod_set(name: str, count: int, gpus: int) -> PodSet:
    container = Container(resources=ContainerResources({GPU: gpus}))
    return PodSet(name, count, PodTemplate(spec=PodSpec(containers=(container,))))


def test_each_pod_set_requests_for_all_of_its_pods() -> None:
    driver, workers = read_pod_sets([pod_set("driver", 1, 0), pod_set("workers", 3, 2)])
    assert (driver.name, driver.count, driver.requested[GPU]) == ("driver", 1, 0)
    assert (workers.name, workers.per_pod[GPU], workers.requested[GPU]) == ("workers", 2, 6)
