"""Every label, annotation, condition and reason: who writes it, who reads it."""

GROUP = "cede.dev"
VERSION = "v1alpha1"
SYSTEM_NAMESPACE = "cede-system"

# --- ours, on objects -----------------------------------------------------------------------------
TEAM = "cede.dev/team"
"""Label on a team's Namespace: its team. Written by the quota_controller; the webhook
configurations select by it."""
ALLOCATION = "cede.dev/allocation"
"""Label on everything the quota_controller owns: the allocation it comes from, or `POLICY_NAME` for
what all share."""
SIZES = "cede.dev/sizes"
"""Annotation on a Job, by its user: the allowed sizes (`sizes.parse`). Its presence makes the Job
elastic."""
GRACE = "cede.dev/grace"
"""Annotation on a Job, by its user: how long a save may take, `90s`. Capped by the policy."""
DESIRED_SIZE = "cede.dev/desired-size"
"""Annotation on an elastic Job: the size its user wants, the ceiling of growth. Written by the
webhook."""
ELASTIC_POD = "cede.dev/elastic"
"""Label `true` on the pods of elastic Jobs, by the webhook: the peers Service selects them."""
SHRUNK_AT = "cede.dev/shrunk-at"
"""Annotation on an elastic Job: RFC 3339 time of the last shrink. Written by the scheduler, read
for the snooze."""
ALLOCATION_FINALIZER = "cede.dev/allocation"
"""On a ComputeAllocation: its queues are held and drained before it goes. Written by the
quota_controller."""

POLICY_NAME = "default"
"""The one ClusterPolicy, and the Cohort all teams share is named `COHORT`."""
COHORT = "cede"
LOCAL_QUEUE = "default"
"""Name of the LocalQueue in each team's namespace: Kueue's own queue defaulting then backs ours."""
PEERS_SERVICE = "cede-peers"
"""Headless Service in each team's namespace: pod 0 of a job is `<job>-0.cede-peers`."""
CONTROL_SECRET = "cede-control"
"""Secret in each team's namespace: the key that control requests to its jobs are signed with."""
ROOT_SECRET = "cede-root"
"""Secret in `SYSTEM_NAMESPACE`: the key the namespaces' keys are derived from. Made by the
quota_controller."""
SECRET_KEY = "key"
"""The entry of both Secrets that holds the key."""
SCHEDULER_LEASE = "cede-scheduler"
QUOTA_CONTROLLER_LEASE = "cede-quota-controller"
"""Leases in `SYSTEM_NAMESPACE`. The quota_controller reads the scheduler's: its watchdog."""

SCHEDULER = "cede-scheduler"
QUOTA_CONTROLLER = "cede-quota-controller"
WEBHOOK = "cede-webhook"
"""Field managers, event sources, Deployments and service accounts of the components."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_CEDE = "cede"
MANAGED_SELECTOR = f"{MANAGED_BY}={MANAGED_BY_CEDE}"
"""The selector of what we have made."""

# --- Kueue's and Kubernetes', as they spell them --------------------------------------------------
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
JOB_UID = "kueue.x-k8s.io/job-uid"
SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
POD_JOB_NAME = "batch.kubernetes.io/job-name"
POD_JOB_UID = "batch.kubernetes.io/controller-uid"
POD_INDEX = "batch.kubernetes.io/job-completion-index"
GPU = "nvidia.com/gpu"

# --- conditions and reasons -----------------------------------------------------------------------
READY = "Ready"
QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
FINISHED = "Finished"
PODS_READY = "PodsReady"
