"""The objects of Kueue and Kubernetes decode from what the API server sends."""

import msgspec

from cede.api.kueue import ClusterQueue, Job, MetadataOnly, Pod, Workload
from cede.api.pods import DaemonSet


def test_a_workload_decodes_and_fields_that_we_do_not_read_are_ignored() -> None:
    assignment = {
        "name": "main",
        "count": 4,
        "flavors": {"nvidia.com/gpu": "a100"},
        "resourceUsage": {"nvidia.com/gpu": 4},
        "topologyAssignment": {"levels": []},
    }
    manifest = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "job-gpt", "namespace": "research", "managedFields": []},
        "spec": {"queueName": "default", "priority": 50, "podSets": [{"name": "main", "count": 4}]},
        "status": {"admission": {"clusterQueue": "research", "podSetAssignments": [assignment]}},
    }
    workload = msgspec.convert(manifest, Workload)
    assert workload.metadata.key == ("research", "job-gpt")
    assert (workload.spec.active, workload.spec.priority) == (True, 50)
    assert workload.status.admission is not None
    assert workload.status.admission.podSetAssignments[0].flavors == {"nvidia.com/gpu": "a100"}


def test_absent_fields_have_the_defaults_of_the_api() -> None:
    job = msgspec.convert({"metadata": {"name": "j"}}, Job)
    assert (job.spec.parallelism, job.spec.suspend, job.spec.completionMode) == (
        1,
        False,
        "NonIndexed",
    )
    queue = msgspec.convert({}, ClusterQueue)
    assert queue.spec.stopPolicy == "None"
    assert queue.spec.preemption.reclaimWithinCohort == "Never"


def test_any_object_can_be_read_for_its_metadata() -> None:
    manifest = {"metadata": {"name": "x", "finalizers": ["f"]}, "spec": "anything"}
    assert msgspec.convert(manifest, MetadataOnly).metadata.finalizers == ("f",)


def test_devices_that_a_container_claims_are_read_over() -> None:
    """Kubernetes 1.34, dynamic resource allocation: `claims` is a list beside two maps."""
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu", "request": "any"}]}
    body = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    pod = msgspec.convert(body, Pod)
    workload = msgspec.convert({"spec": {"podSets": [{"template": body}]}}, Workload)
    daemon_set = msgspec.convert({"spec": {"template": body}}, DaemonSet)
    template = workload.spec.podSets[0].template
    for containers in (
        pod.spec.containers,
        template.spec.containers,
        daemon_set.spec.template.spec.containers,
    ):
        assert containers[0].resources.requests == {"cpu": "1"}
