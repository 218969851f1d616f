"""PURE. The objects of Kueue and Kubernetes, with only the fields that we read, as in the API."""

from dataclasses import dataclass, field

from cede.api.node_selection import Taint, Toleration
from cede.api.objects import Condition, Meta, is_true
from cede.api.pod_state import ContainerStart
from cede.api.pod_templates import PodSpec, PodTemplate


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """How the pods want to be placed by topology. Kueue counts a request if any field is set."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    podSetSliceRequiredTopology: str | None = None
    podSetSliceSize: int | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    name: str = "main"
    count: int = 1
    template: PodTemplate = field(default_factory=PodTemplate)
    topologyRequest: TopologyRequest | None = None


@dataclass(frozen=True, slots=True)
class PriorityClassRef:
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    queueName: str = ""
    active: bool = True
    priority: int = 0
    priorityClassRef: PriorityClassRef | None = None
    podSets: tuple[PodSet, ...] = ()
    # 0: Kueue does not end it
    maximumExecutionTimeSeconds: int = 0


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    name: str = "main"
    count: int = 0
    # resource → flavor
    flavors: dict[str, str] = field(default_factory=dict)
    # of all `count` pods together
    resourceUsage: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    clusterQueue: str = ""
    podSetAssignments: tuple[PodSetAssignment, ...] = ()


@dataclass(frozen=True, slots=True)
class ReclaimablePod:
    """Pods of one pod set that have finished, and whose quota is free again."""

    name: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class RequeueState:
    # null once the time has passed
    requeueAt: str | None = None


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    name: str = ""
    # Pending, Ready, Retry or Rejected
    state: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    reclaimablePods: tuple[ReclaimablePod, ...] = ()
    requeueState: RequeueState | None = None
    admissionChecks: tuple[AdmissionCheck, ...] = ()
    # before its present admission
    accumulatedPastExecutionTimeSeconds: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    metadata: Meta = field(default_factory=Meta)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    name: str = ""
    nominalQuota: str | int = 0
    borrowingLimit: str | int | None = None
    lendingLimit: str | int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    coveredResources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


@dataclass(frozen=True, slots=True)
class Preemption:
    withinClusterQueue: str = "Never"
    reclaimWithinCohort: str = "Never"


@dataclass(frozen=True, slots=True)
class FairSharing:
    weight: str | int = 1


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    matchLabels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterQueueSpec:
    cohortName: str = ""
    queueingStrategy: str = "BestEffortFIFO"
    stopPolicy: str = "None"
    resourceGroups: tuple[ResourceGroup, ...] = ()
    preemption: Preemption = field(default_factory=Preemption)
    fairSharing: FairSharing | None = None
    namespaceSelector: NamespaceSelector | None = None


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    name: str = ""
    total: str | int = 0


@dataclass(frozen=True, slots=True)
class FlavorUsage:
    name: str = ""
    resources: tuple[ResourceUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterQueueStatus:
    conditions: tuple[Condition, ...] = ()
    flavorsReservation: tuple[FlavorUsage, ...] = ()
    pendingWorkloads: int = 0
    admittedWorkloads: int = 0


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    metadata: Meta = field(default_factory=Meta)
    spec: ClusterQueueSpec = field(default_factory=ClusterQueueSpec)
    status: ClusterQueueStatus = field(default_factory=ClusterQueueStatus)


@dataclass(frozen=True, slots=True)
class CohortSpec:
    parentName: str = ""
    resourceGroups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Cohort:
    metadata: Meta = field(default_factory=Meta)
    spec: CohortSpec = field(default_factory=CohortSpec)


@dataclass(frozen=True, slots=True)
class LocalQueueSpec:
    clusterQueue: str = ""
    stopPolicy: str = "None"


@dataclass(frozen=True, slots=True)
class LocalQueue:
    metadata: Meta = field(default_factory=Meta)
    spec: LocalQueueSpec = field(default_factory=LocalQueueSpec)


@dataclass(frozen=True, slots=True)
class ResourceFlavorSpec:
    nodeLabels: dict[str, str] = field(default_factory=dict)
    nodeTaints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topologyName: str = ""


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    metadata: Meta = field(default_factory=Meta)
    spec: ResourceFlavorSpec = field(default_factory=ResourceFlavorSpec)


@dataclass(frozen=True, slots=True)
class JobSpec:
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    completionMode: str = "NonIndexed"


@dataclass(frozen=True, slots=True)
class JobStatus:
    conditions: tuple[Condition, ...] = ()
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    startTime: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    metadata: Meta = field(default_factory=Meta)
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)

    @property
    def is_complete(self) -> bool:
        return is_true(self.status.conditions, "Complete")

    @property
    def has_ended(self) -> bool:
        return self.is_complete or is_true(self.status.conditions, "Failed")


@dataclass(frozen=True, slots=True)
class PodStatus:
    phase: str = ""
    podIP: str = ""
    conditions: tuple[Condition, ...] = ()
    initContainerStatuses: tuple[ContainerStart, ...] = ()
    containerStatuses: tuple[ContainerStart, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    metadata: Meta = field(default_factory=Meta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


@dataclass(frozen=True, slots=True)
class NodeSpec:
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeStatus:
    allocatable: dict[str, str | int] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    metadata: Meta = field(default_factory=Meta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    holderIdentity: str | None = None
    renewTime: str | None = None
    leaseDurationSeconds: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    metadata: Meta = field(default_factory=Meta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """An object of any kind of which we read only the metadata."""

    metadata: Meta = field(default_factory=Meta)
