"""PURE. The kinds of objects that a snapshot is made of."""

from typing import Any

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import (
    ClusterQueue,
    Cohort,
    Job,
    LocalQueue,
    Node,
    Pod,
    ResourceFlavor,
    Workload,
)
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    COHORTS,
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Kind,
)
from cede.api.servers import Deployment, LeaderWorkerSet

KINDS: dict[str, tuple[Kind, type[Any]]] = {
    "workloads": (WORKLOADS, Workload),
    "jobs": (JOBS, Job),
    "deployments": (DEPLOYMENTS, Deployment),
    "leader_worker_sets": (LEADER_WORKER_SETS, LeaderWorkerSet),
    "pods": (PODS, Pod),
    "nodes": (NODES, Node),
    "cluster_queues": (CLUSTER_QUEUES, ClusterQueue),
    "local_queues": (LOCAL_QUEUES, LocalQueue),
    "cohorts": (COHORTS, Cohort),
    "resource_flavors": (RESOURCE_FLAVORS, ResourceFlavor),
    "allocations": (ALLOCATIONS, ComputeAllocation),
    "cessions": (CESSIONS, Cession),
}
"""By the field of RawObjects: what is read for it."""
LABELS = {"deployments": names.SERVER, "leader_worker_sets": names.SERVER}
"""By the same: which labels the cached objects have. Of these kinds they are the servers."""
OPTIONAL = frozenset({"leader_worker_sets"})
"""Of the same: kinds that a cluster need not have."""
