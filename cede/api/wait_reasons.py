"""PURE. Why a job waits, is stopped, lacks pods or is smaller than its user wants."""

from cede.api.reasons import Reason


class WaitReason(Reason):
    """The reason in `cede explain`, `cede jobs` and events: why a job waits, is stopped, or lacks
    pods."""

    # --- Kueue has no Workload of it --------------------------------------------------------------
    NO_SUCH_JOB = ("NoSuchJob", "The namespace has no Job and no Workload of this name.")
    NOT_QUEUED = ("NotQueued", "The Job names no queue, so Kueue does not manage it.")
    WEBHOOK_MISSED = (
        "WebhookMissed",
        "The Job lacks a queue or a priority class, which Cede's webhook gives to every job of a "
        "team.",
    )
    UNKNOWN_PRIORITY_CLASS = (
        "UnknownPriorityClass",
        "The Job names a priority class that does not exist, and Kueue ignores such a Job.",
    )
    KUEUE_DOWN = ("KueueDown", "No replica of Kueue's controller is available.")
    NO_WORKLOAD = ("NoWorkload", "Kueue has not made a Workload for the Job yet.")
    # --- its queue --------------------------------------------------------------------------------
    UNKNOWN_LOCAL_QUEUE = (
        "UnknownLocalQueue",
        "The LocalQueue that the job names does not exist in its namespace.",
    )
    UNKNOWN_CLUSTER_QUEUE = (
        "UnknownClusterQueue",
        "The ClusterQueue behind the job's LocalQueue does not exist.",
    )
    QUEUE_ON_HOLD = ("QueueOnHold", "The job's queue has a stopPolicy: nothing is admitted.")
    QUEUE_UNUSABLE = (
        "QueueUnusable",
        "Kueue does not use the ClusterQueue; the message has Kueue's reason.",
    )
    NAMESPACE_NOT_SELECTED = (
        "NamespaceNotSelected",
        "The ClusterQueue does not admit jobs of this namespace.",
    )
    ALLOCATION_NOT_ACTIVE = (
        "AllocationNotActive",
        "The team's ComputeAllocation has spec.active: false.",
    )
    ALLOCATION_DELETED = (
        "AllocationDeleted",
        "The team's ComputeAllocation is being deleted: its queue admits nothing new.",
    )
    # --- before Kueue tries it --------------------------------------------------------------------
    NOT_TRIED_YET = ("NotTriedYet", "Kueue has not reported yet that it has tried the job.")
    BACK_OFF = ("BackOff", "Kueue evicted the job, and tries it again after a pause.")
    ADMISSION_GATED = (
        "AdmissionGated",
        "A controller keeps the job from the queue by the annotation "
        "kueue.x-k8s.io/admission-gated-by.",
    )
    PREEMPTION_GATED = ("PreemptionGated", "A gate of the Workload forbids it to preempt.")
    ADMISSION_CHECK_PENDING = (
        "AdmissionCheckPending",
        "Quota is reserved, and an admission check of the queue is not ready.",
    )
    ADMISSION_CHECK_FAILED = (
        "AdmissionCheckFailed",
        "An admission check of the queue asks for another try, or rejects the job.",
    )
    PLACEMENT_PENDING = (
        "PlacementPending",
        "Quota is reserved, and Kueue has not placed the pods by topology yet.",
    )
    OTHERS_NOT_READY = (
        "OthersNotReady",
        "Kueue admits nobody until the pods of all admitted jobs are ready (blockAdmission).",
    )
    INVALID_REQUESTS = (
        "InvalidRequests",
        "The requests of the pods are not valid, or break a LimitRange of the namespace.",
    )
    BEHIND_HEAD = (
        "BehindHead",
        "The queue is StrictFIFO, and another job is its head.",
    )
    HOPELESS_HEAD = (
        "HopelessHead",
        "The queue is StrictFIFO, and its head asks for more than the queue may ever use.",
    )
    # --- it does not fit --------------------------------------------------------------------------
    EXCEEDS_MAXIMUM = (
        "ExceedsMaximum",
        "The job asks for more than its queue may ever use, with all that it may borrow.",
    )
    OVERSUBSCRIBED_QUOTA = (
        "OversubscribedQuota",
        "The team was promised what the job needs, and the nodes have less than was promised.",
    )
    NODES_DOWN = (
        "NodesDown",
        "Nodes are down, and the team's quota is reduced below what the job needs.",
    )
    RESOURCE_NOT_IN_QUEUE = (
        "ResourceNotInQueue",
        "The job asks for a resource of which its queue has no quota.",
    )
    NO_FLAVOR_MATCHES = (
        "NoFlavorMatches",
        "The job's node selector, affinity or tolerations match no instance type of its queue.",
    )
    NO_NODE_FITS = (
        "NoNodeFits",
        "Quota is free, and the nodes do not have room as the job's topology request wants it.",
    )
    BORROWING_LIMIT = (
        "BorrowingLimit",
        "The team uses as much as it owns and may borrow; the job fits when less is in use.",
    )
    BUDGET_USED = (
        "BudgetUsed",
        "The team has used its hard budget of this month, so it borrows nothing new.",
    )
    OWN_TEAM_USES_QUOTA = (
        "OwnTeamUsesQuota",
        "Jobs of the same team use the team's quota, and do not give way for this one.",
    )
    LENT_QUOTA_IN_USE = (
        "LentQuotaInUse",
        "The team owns what the job lacks, and jobs of other teams borrow it.",
    )
    LENDING_LIMITS = (
        "LendingLimits",
        "The job would have to borrow, and what is idle is not lent by its owners.",
    )
    NO_IDLE_CAPACITY = (
        "NoIdleCapacity",
        "The job would have to borrow, and nobody's quota is idle.",
    )
    QUOTA_IN_USE = (
        "QuotaInUse",
        "Too little quota is free; who uses it could not be read.",
    )
    OTHER_MESSAGE = ("OtherMessage", "Kueue has another reason: the sentence has its words.")
    # --- a take-back ------------------------------------------------------------------------------
    CESSION_PENDING = ("CessionPending", "A Cession is recorded for the job; nobody has given yet.")
    CESSION_ASKED = ("CessionAsked", "Other jobs finish a step and save, to give to this one.")
    CESSION_RELEASED = (
        "CessionReleased",
        "Other jobs have released what this one needs; Kueue admits it next.",
    )
    CESSION_PAUSE = (
        "CessionPause",
        "The last Cession for the job failed; the scheduler plans the next one after a pause.",
    )
    KUEUE_EVICTS = ("KueueEvicts", "Kueue has stopped jobs for this one, and they have not ended.")
    POLICY_OBSERVES = (
        "PolicyObserves",
        "Others could give, and the policy's mode is Observe: Cede takes nothing.",
    )
    NO_SCHEDULER = ("NoScheduler", "Others could give, and no scheduler of Cede leads.")
    KUEUE_PREEMPTS = (
        "KueuePreempts",
        "Others could give, and Kueue preempts by its own rules for now.",
    )
    MIN_RUNTIME = (
        "MinRuntime",
        "All jobs that could give have run for less than the policy's minRuntimeSeconds.",
    )
    TOO_MANY_TARGETS = (
        "TooManyTargets",
        "More jobs would have to give than one Cession holds, so none does.",
    )
    # --- its Workload is not active ---------------------------------------------------------------
    DEACTIVATED_BY_HAND = (
        "DeactivatedByHand",
        "Somebody set spec.active of the Workload to false.",
    )
    STOPPED_FOR_CESSION = (
        "StoppedForCession",
        "The job was stopped for another one, and runs again when the Cession has ended.",
    )
    KEPT_STOPPED = (
        "KeptStopped",
        "The job was stopped for another one, and does not run again by itself, as its annotation "
        "cede.dev/after-preemption says.",
    )
    ASIDE_FOR_CESSION = (
        "AsideForCession",
        "The job waits before one for which capacity is released, and is not active meanwhile.",
    )
    BASE_NOT_RUNNING = (
        "BaseNotRunning",
        "The job is the surplus of another one, which does not run.",
    )
    RETRIES_EXHAUSTED = (
        "RetriesExhausted",
        "The pods were not ready in time, more often than Kueue tries it.",
    )
    RUNTIME_EXHAUSTED = ("RuntimeExhausted", "The job ran for the longest time that it may.")
    CHECK_REJECTED = ("CheckRejected", "An admission check rejected the job for good.")
    BEING_EVICTED = ("BeingEvicted", "Kueue stops the job; the message has Kueue's reason.")
    # --- it is admitted, and its pods do not run --------------------------------------------------
    PODS_NOT_READY = ("PodsNotReady", "The job is admitted, and its pods are not all ready.")
    IMAGE_NOT_PULLED = ("ImageNotPulled", "A node cannot pull the image of a container.")
    CONTAINER_NOT_CREATED = (
        "ContainerNotCreated",
        "A container cannot be created, such as for a Secret that does not exist.",
    )
    CONTAINER_CRASHES = ("ContainerCrashes", "A container ends with an error again and again.")
    POD_UNSCHEDULABLE = ("PodUnschedulable", "Kubernetes has no node for a pod.")
    WAITS_FOR_ENDING_PODS = (
        "WaitsForEndingPods",
        "Pods of jobs that were stopped for this one have not ended, and still have their nodes.",
    )
    POD_GATED = ("PodGated", "A scheduling gate holds back a pod.")
    API_QUOTA_EXCEEDED = (
        "ApiQuotaExceeded",
        "A ResourceQuota of the namespace does not allow the pods.",
    )
    PODS_REFUSED = ("PodsRefused", "The API server does not accept the pods of the Job.")
    # --- an elastic job that is smaller than desired ----------------------------------------------
    SHRINKS_FOR_CESSION = (
        "ShrinksForCession",
        "The job is about to give pods to another one.",
    )
    SHRUNK_FOR_CESSION = ("ShrunkForCession", "The job gave pods to another one.")
    GROWTH_COOLDOWN = (
        "GrowthCooldown",
        "The job shrank a moment ago, and does not grow during the policy's growCooldownSeconds.",
    )
    GROWTH_NO_QUOTA = ("GrowthNoQuota", "Less than one more pod's quota is idle.")
    GROWTH_NO_NODE = ("GrowthNoNode", "Kubernetes has no node for a pod that the job grew by.")
    GROWTH_PENDING = (
        "GrowthPending",
        "The job may grow; whether nodes have room, and who comes first, was not read.",
    )
