"""PURE. Every reason of a condition or an event, with the sentence that explains it."""

from enum import StrEnum


class Reason(StrEnum):
    """A machine-readable reason in CamelCase, and `sentence`: what it means, for people."""

    sentence: str

    def __new__(cls, value: str, sentence: str) -> "Reason":
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member


# --- ComputeAllocation and ClusterPolicy (quota_controller) ---------------------------------------
class AllocationReason(Reason):
    """Condition Ready of a ComputeAllocation: whether its queue admits work as the spec says."""

    READY = ("Ready", "Kueue uses the team's queue, and nodes hold all of its quota.")
    INSUFFICIENT_NODES = (
        "InsufficientNodes",
        "Nodes are down, and the healthy ones hold less than is granted: every quota is reduced in "
        "proportion.",
    )
    OVERSUBSCRIBED = (
        "Oversubscribed",
        "The allocation asks for more than the nodes have left: the message says what fits.",
    )
    NO_NODES_YET = ("NoNodesYet", "Part of the quota is of an instance type that has no node yet.")
    NOT_ACTIVE = (
        "NotActive",
        "spec.active is false: nothing new is admitted, running jobs continue.",
    )
    CREATING = ("Creating", "The ClusterQueue does not exist yet.")
    WAITING_FOR_KUEUE = ("WaitingForKueue", "Kueue has not reported on the ClusterQueue yet.")
    QUEUE_INACTIVE = ("QueueInactive", "Kueue reports that it does not use the ClusterQueue.")
    DRAINING = ("Draining", "The allocation is being deleted while jobs still use its quota.")
    DELETING = ("Deleting", "The allocation is being deleted, and no job uses its quota any more.")
    NO_POLICY = ("NoPolicy", "There is no ClusterPolicy: quotas stay as they are.")
    TEAM_TAKEN = ("TeamTaken", "Another allocation already belongs to this team.")
    NAMESPACE_TAKEN = ("NamespaceTaken", "The namespace belongs to another allocation.")
    NAMESPACE_EXISTS = (
        "NamespaceExists",
        "The namespace exists, was not created for this allocation, and "
        "spec.namespace.adopt is not set.",
    )
    NAMESPACE_RESERVED = (
        "NamespaceReserved",
        "The namespace belongs to the cluster, or its service accounts count as controllers.",
    )
    NAMESPACE_TERMINATING = ("NamespaceTerminating", "The namespace is being deleted.")
    NAMESPACE_IN_USE = (
        "NamespaceInUse",
        "The team shall have another namespace, and jobs still hold quota in the one it has.",
    )
    UNKNOWN_INSTANCE_TYPE = ("UnknownInstanceType", "The policy has no such instance type.")
    UNKNOWN_PARTITION = ("UnknownPartition", "The policy has no such partition for the type.")
    UNKNOWN_PRIORITY_CLASS = ("UnknownPriorityClass", "The policy has no such priority class.")


class AdmitsReason(Reason):
    """Condition Admits of a ComputeAllocation: whether work waits in the team's queue."""

    NO_WORKLOADS_PENDING = ("NoWorkloadsPending", "Every workload of the team is admitted.")
    WORKLOADS_PENDING = ("WorkloadsPending", "Workloads wait; the message has what they could use.")
    ADMISSION_STOPPED = ("AdmissionStopped", "Nothing is admitted; condition Ready has the reason.")
    WAITING_FOR_KUEUE = ("WaitingForKueue", "Kueue has not reported on the ClusterQueue yet.")


class BudgetReason(Reason):
    """Condition WithinBudget of a ComputeAllocation with a budget: whether hours are left."""

    WITHIN_BUDGET = ("WithinBudget", "Hours of the budget are left in this month.")
    SOFT_BUDGET_USED = ("SoftBudgetUsed", "The soft budget of the month is used: nothing changes.")
    HARD_BUDGET_USED = (
        "HardBudgetUsed",
        "The hard budget of the month is used: the team borrows nothing new, and its jobs run on.",
    )
    NO_FIGURE = ("NoFigure", "No ledger reports what was used: no budget is enforced.")
    FIGURE_OLD = (
        "FigureOld",
        "The ledger has not reported lately: the last figure counts, and more may be used.",
    )


class AdviceReason(Reason):
    """`cede advise`: what the use of an allocation over days suggests."""

    NEVER_USED = ("NeverUsed", "No job of the team used any of the quota on any day.")
    LENT_MOST_OF_THE_TIME = (
        "LentMostOfTheTime",
        "Jobs of other teams used at least half of the quota, over all days.",
    )
    ALWAYS_BORROWS = (
        "AlwaysBorrows",
        "The team borrowed on at least 9 of 10 days, and at least a tenth of what it used.",
    )


class WriteReason(Reason):
    """Condition Ready of a ComputeAllocation or ClusterPolicy: an object of it is not written."""

    OBJECT_EXISTS = ("ObjectExists", "An object of the same name exists that Cede did not create.")
    WRITE_REFUSED = ("WriteRefused", "The API server refused the object.")
    WRITE_FAILED = ("WriteFailed", "The write failed this time, and is tried again.")


class PolicyReason(Reason):
    """Condition Ready of the ClusterPolicy: whether what all teams share is as the spec says."""

    READY = ("Ready", "The cohort, the flavors and the priority classes are written.")
    NO_INSTANCE_TYPES = ("NoInstanceTypes", "spec.instanceTypes is empty: there is no quota.")
    TYPES_OVERLAP = ("TypesOverlap", "Two instance types select the same nodes.")
    TOPOLOGY_NOT_APPLIED = (
        "TopologyNotApplied",
        "A flavor keeps its old topology and labels, because Kueue allows no change of them.",
    )
    ROOT_KEY_MISSING = ("RootKeyMissing", "The Secret of the root key has no entry for it.")
    CANNOT_READ = ("CannotRead", "A kind that is needed cannot be read: nothing is changed.")
    OBJECTS_UNREADABLE = (
        "ObjectsUnreadable",
        "Some objects cannot be read: they count as they last were, or not at all.",
    )


class LeaderReason(Reason):
    """Condition SchedulerLeads of the ClusterPolicy: who preempts, Cede or Kueue."""

    LEADS = ("Leads", "A scheduler leads: jobs cede, and Kueue preempts nothing.")
    OBSERVING = ("Observing", "The mode is Observe: Cede only records, and Kueue preempts.")
    RETURNING = (
        "Returning",
        "A scheduler is back after its second interruption: Kueue preempts for a while longer.",
    )
    NO_LEADER = ("NoLeader", "No scheduler has finished a pass in time: Kueue preempts.")


class KueueReason(Reason):
    """Condition KueueConfigured of the ClusterPolicy: whether Kueue's settings fit the policy."""

    CONFIGURED = ("Configured", "Every setting of Kueue fits the policy.")
    UNREADABLE = ("Unreadable", "Kueue's settings cannot be read.")
    DEPLOYMENT_NOT_FOUND = ("DeploymentNotFound", "Kueue's Deployment is not in its usual place.")
    CONFIG_MAP_NOT_FOUND = ("ConfigMapNotFound", "Kueue's ConfigMap is not in its usual place.")
    TOO_OLD = ("TooOld", "Kueue is older than the oldest version that Cede supports.")
    UNTESTED = ("Untested", "Cede was not tested with so new a Kueue; its settings fit the policy.")
    NOT_RUNNING = ("NotRunning", "Kueue's Deployment is scaled to 0.")
    WAIT_FOR_PODS_READY_OFF = (
        "WaitForPodsReadyOff",
        "Kueue's waitForPodsReady is off: a job keeps its quota even if its pods never get ready.",
    )
    RECOVERY_TIMEOUT_SHORT = (
        "RecoveryTimeoutShort",
        "Kueue soon evicts a job that lost a pod, though an elastic job trains on without it.",
    )
    BLOCK_ADMISSION_ON = (
        "BlockAdmissionOn",
        "Kueue admits nobody while pods of a job are not ready; the pod of a guard never is.",
    )
    START_TIMEOUT_SHORT = (
        "StartTimeoutShort",
        "Kueue evicts guards, whose pod is never ready, before their preemptors are admitted.",
    )
    FAIR_SHARING_OFF = (
        "FairSharingOff",
        "The policy has idleCompute: FairShare, but Kueue's fairSharing is off.",
    )
    FAIR_SHARING_ON = (
        "FairSharingOn",
        "The policy has idleCompute: FirstCome, but Kueue's fairSharing is on.",
    )
    ELASTIC_SLICES_OFF = ("ElasticSlicesOff", "The feature gate of elastic jobs is off.")
    ELASTIC_TOPOLOGY_OFF = ("ElasticTopologyOff", "Elastic jobs lose their placement on a resize.")
    JOBS_NOT_QUEUED = ("JobsNotQueued", "Kueue does not queue Jobs.")
    PODS_NOT_QUEUED = ("PodsNotQueued", "Kueue does not queue plain pods: they escape all quotas.")
    GUARDS_NOT_QUEUED = (
        "GuardsNotQueued",
        "Kueue does not queue jobs in the namespace cede-guard: no guard is ever admitted.",
    )


class KubernetesReason(Reason):
    """Condition KubernetesSupported of the ClusterPolicy: whether Cede works with it."""

    TESTED = ("Tested", "Cede was tested with this version.")
    UNTESTED = ("Untested", "Cede was not tested with this version.")
    UNREADABLE = ("Unreadable", "The version cannot be read.")
    TOO_OLD = ("TooOld", "The version lacks what Cede needs.")
    JOBS_FROZEN = ("JobsFrozen", "The API server refuses to resize Jobs, by an alpha feature gate.")


class EventReason(Reason):
    """Events of a ComputeAllocation or ClusterPolicy, beside those about condition Ready."""

    EDIT_REVERTED = ("EditReverted", "An object of Cede was edited or deleted, and is restored.")


# --- Cession and Job (scheduler) ------------------------------------------------------------------
class CessionReason(Reason):
    """`spec.reason` of a Cession: why the preemptor may take capacity."""

    RECLAIM_OWN_QUOTA = (
        "ReclaimOwnQuota",
        "Other teams borrow quota that the preemptor's team owns. All targets are their jobs.",
    )
    PRIORITY_IN_TEAM = (
        "PriorityInTeam",
        "All targets are jobs of the preemptor's own team with lower priority.",
    )
    RECLAIM_AND_PRIORITY = (
        "ReclaimAndPriority",
        "Some targets borrow the quota of the preemptor's team; others are jobs of the same team "
        "with lower priority.",
    )
    RECLAIM_FAIR_SHARE = (
        "ReclaimFairShare",
        "The preemptor's team would borrow no more than the teams that give, measured by their "
        "shares.",
    )


class CessionPhase(Reason):
    """`status.phase` of a Cession, and the reason of its condition Ready."""

    PENDING = ("Pending", "The Cession is recorded; no target has accepted its new size yet.")
    ASKED = ("Asked", "A target accepted its new size and finishes its step.")
    RELEASED = ("Released", "The targets were resized or stopped; Kueue admits the preemptor next.")
    ADMITTED = ("Admitted", "Kueue admitted the preemptor; its pods are starting.")
    COMPLETED = ("Completed", "The preemptor's pods were ready.")
    CANCELLED = (
        "Cancelled",
        "The preemptor was deleted or may not run, or the mode is Observe; targets that were not "
        "resized keep their size.",
    )
    FAILED = ("Failed", "The preemptor was not admitted; the scheduler plans again after a pause.")


class SchedulerEvent(Reason):
    """Events of Workloads and Jobs, recorded by the scheduler."""

    CESSION_OPENED = (
        "CessionOpened",
        "The Workload does not fit; other jobs are asked to release capacity for it.",
    )
    CEDED = ("Ceded", "The job released capacity for the Workload of another job.")
    SHRUNK = ("Shrunk", "The job was set to fewer pods.")
    STAYS_STOPPED = (
        "StaysStopped",
        "The job was stopped for another one and does not run again by itself, as its annotation "
        "cede.dev/after-preemption says; the message says how to start it.",
    )
    SET_ASIDE = (
        "SetAside",
        "The job waits before one for which capacity is released, and is not active until that one "
        "is admitted.",
    )
    CESSION_FAILED = (
        "CessionFailed",
        "The Workload was not admitted; the message says why. The scheduler plans again after a "
        "pause.",
    )
    OBSERVED = (
        "Observed",
        "The mode is Observe, or Kueue preempts for now: the message says which jobs Cede would "
        "ask otherwise.",
    )
    NOT_PLANNED = (
        "NotPlanned",
        "The scheduler cannot plan for the Workload because of an error; its log has the details.",
    )
    REQUESTS_REFUSED = (
        "RequestsRefused",
        "No pod of the job accepts the scheduler's requests, so it cannot be asked; the message "
        "has the pod's reason, such as a clock that differs.",
    )
    SAVED = (
        "Saved",
        "The job has saved the step that the message names, as cede.dev/save-requested asks.",
    )
    NOT_SAVED = (
        "NotSaved",
        "The job was asked to save by cede.dev/save-requested and has not; the message says why.",
    )
    RESIZED = ("Resized", "The job was set to more pods, or its growth was withdrawn.")


class SaveState(Reason):
    """`state` in the annotation cede.dev/save-answer of a Job: what became of a requested save."""

    PENDING = ("Pending", "The job does not train, so it was not asked yet.")
    ASKED = ("Asked", "The job is asked to save; it does so after the step in flight.")
    SAVED = ("Saved", "The job has saved; `step` is the step that is saved.")
    NOT_SAVED = ("NotSaved", "The job was asked in vain; `message` says why.")
