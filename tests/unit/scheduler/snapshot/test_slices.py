"""A scale-up slice asks for the pods that it adds, on the flavors that its job has."""

from dataclasses import replace

import pytest

from cede.api.resources import Resources
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.resizing.growth import wanted_by_pending
from scheduler.snapshot.overdue import find_expected
from scheduler.snapshot.slices import added_pods
from scheduler.snapshot.snapshot import RawObjects, take
from tests.builders.kueue_objects import cluster_queue, job, local_queue, workload
from tests.builders.scheduler import FLAVOR, GPU

PER_POD = Resources({GPU: 1})


@pytest.mark.parametrize(
    ("present", "assigned", "expected"),
    [
        pytest.param(2, 2, 6, id="the difference"),
        pytest.param(2, 4, 6, id="the job shrank since it was admitted"),
        pytest.param(8, 8, 0, id="nothing is added"),
        pytest.param(9, 9, 0, id="never below 0"),
    ],
)
def test_the_pods_that_a_slice_adds(present: int, assigned: int, expected: int) -> None:
    replaced = workload("a", present, assigned=assigned)
    (added,) = added_pods([PodSetRequest("main", 8, PER_POD)], replaced, [FLAVOR])
    assert added.requested == Resources({GPU: expected})


def test_a_slice_stays_on_the_flavors_of_its_job() -> None:
    replaced = workload("a", 2, assigned=2)
    pod_set = PodSetRequest("main", 8, PER_POD, frozenset({"cpu"}))
    (added,) = added_pods([pod_set], replaced, [FLAVOR, "h100", "cpu"])
    assert added.unsuitable == {"h100", "cpu"}


def test_a_pod_set_that_the_job_did_not_have_is_added_whole() -> None:
    pod_set = PodSetRequest("driver", 1, PER_POD)
    assert added_pods([pod_set], workload("a", 2, assigned=2), [FLAVOR]) == (pod_set,)


def test_a_pending_slice_in_the_snapshot_requests_what_it_adds() -> None:
    objects = RawObjects(
        workloads=[workload("a", 2, assigned=2), workload("b", 8, replaces="a")],
        jobs=[job()],
        cluster_queues=[cluster_queue("research")],
        local_queues=[local_queue()],
    )
    (scale_up,) = take(objects).pending
    assert (scale_up.is_scale_up, scale_up.pod_sets[0].requested[GPU]) == (True, 6)


def test_a_slice_holds_no_growth_up_on_a_flavor_that_its_job_does_not_have() -> None:
    """Nothing of its own flavor is idle; of the other one all is."""
    queue = cluster_queue("research")
    (group,) = queue.spec.resourceGroups
    flavors = (*group.flavors, replace(group.flavors[0], name="h100"))
    groups = (replace(group, flavors=flavors),)
    objects = RawObjects(
        workloads=[workload("a", 4, assigned=4), workload("b", 8, replaces="a")],
        jobs=[job()],
        cluster_queues=[replace(queue, spec=replace(queue.spec, resourceGroups=groups))],
        local_queues=[local_queue()],
    )
    current = take(objects)
    assert current.quota.available("research", ("h100", GPU)) == 4
    assert wanted_by_pending(current) == set()
    assert find_expected(current) == set()
