"""PURE. Sums of a ClusterQueue's quota and of a Workload's requests."""

from cede.api.kueue import ClusterQueue, Workload
from cede.api.pods import pod_requests
from cede.api.resources import Resources, parse


def nominal_quota(queue: ClusterQueue) -> Resources:
    """What the queue owns of each resource, in all flavors together."""
    total = Resources()
    for group in queue.spec.resourceGroups:
        for flavor in group.flavors:
            total.update(parse({quota.name: quota.nominalQuota for quota in flavor.resources}))
    return total


def requests(workload: Workload) -> Resources:
    """What all pods of the Workload request together."""
    total = Resources()
    for pod_set in workload.spec.podSets:
        for name, amount in pod_requests(pod_set.template.spec).items():
            total[name] += amount * pod_set.count
    return total
