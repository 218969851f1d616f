"""Sums of quota and of requests."""

from cede.api import names
from cede.api.resources import Resources
from cede.causes.amounts import nominal_quota, requests
from tests.builders.reports import cluster_queue, workload


def test_the_requests_of_a_workload_are_those_of_all_its_pods() -> None:
    assert requests(workload(pods=3)) == Resources({names.GPU: 3, "cpu": 3000})


def test_the_nominal_quota_of_a_queue_is_its_sum_over_flavors() -> None:
    assert nominal_quota(cluster_queue(gpus=4)) == Resources({names.GPU: 4})
