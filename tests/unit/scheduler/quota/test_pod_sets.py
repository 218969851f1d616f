"""What the pod sets of a Workload request, and on which flavors."""

import msgspec

from cede.api.kueue import ResourceFlavorSpec, Workload
from cede.api.objects import Json
from scheduler.quota.pod_sets import read_pod_sets
from tests.builders.scheduler import GPU


def pod_set(name: str, count: int, gpus: int, **spec: object) -> Json:
    container = {"name": "main", "resources": {"limits": {GPU: gpus}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container], **spec}}}


def test_each_pod_set_requests_for_those_of_its_pods_that_have_not_finished() -> None:
    selector = {"type": "h100"}
    pod_sets = [pod_set("driver", 1, 0), pod_set("workers", 3, 2, nodeSelector=selector)]
    workload = msgspec.convert({"spec": {"podSets": pod_sets}}, Workload)
    flavors = {"a100": ResourceFlavorSpec(nodeLabels={"type": "a100"})}
    driver, workers = read_pod_sets(workload, {"driver": 1, "workers": 2}, ["a100"], flavors)
    assert (driver.name, driver.count, driver.requested[GPU]) == ("driver", 1, 0)
    assert (workers.name, workers.per_pod[GPU], workers.requested[GPU]) == ("workers", 2, 4)
    assert not driver.unsuitable
    assert workers.unsuitable == {"a100"}
