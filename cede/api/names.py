"""PURE. The labels, annotations and object names of Cede: who writes each, and who reads it.

The reasons of conditions and events are in reasons.py.
"""

GROUP = "cede.dev"
VERSION = "v1alpha1"
SYSTEM_NAMESPACE = "cede-system"
"""The namespace of Cede's components."""

# --- labels and annotations of Cede ---------------------------------------------------------------
TEAM = "cede.dev/team"
"""Label of a Namespace: the team that it belongs to.

The quota_controller writes it. The configurations of the webhook select namespaces by it.
"""
ALLOCATION = "cede.dev/allocation"
"""Label of every object that the quota_controller owns: the ComputeAllocation that it is for.

Objects that all teams share have `POLICY_NAME` instead. The quota_controller writes and reads it.
"""
ACCELERATORS = "cede.dev/accelerators"
"""Annotation of a team's Namespace: the resources that are accelerators, separated by commas.

The quota_controller writes it. The policy cede-accelerators reads it.
"""
CONTROLLERS = "cede.dev/controllers"
"""Annotation of a team's Namespace: the namespaces of the controllers that may name owners,
separated by commas.

The quota_controller writes it. Admission policies read it.
"""
PRIORITY_CLASSES = "cede.dev/priority-classes"
"""Annotation of a team's Namespace: the priority classes of its jobs, separated by commas; left out
while the policy has no classes.

The quota_controller writes it. The policy cede-jobs reads it.
"""
CREATED_FOR = "cede.dev/created-for"
"""Annotation of a Namespace that Cede created: for which allocation. It stays when that is deleted.

The quota_controller writes it, and gives the namespace to a later allocation of this name.
"""
NEW_CA = "cede.dev/new-ca"
"""Annotation of the Secret of the webhook's certificates: an admin asks for a new CA.

The admin writes it. The quota_controller reads it, and removes it when the next CA is issued.
"""
NEW_KEY = "cede.dev/new-key"
"""Annotation of the Secret of the root key: an admin asks for a new one now.

The admin writes it. The quota_controller reads it, and removes it with the next key.
"""
KEY_SINCE = "cede.dev/key-since"
"""Annotation of the Secret of the root key: when this key was made.

The quota_controller writes it, and reads it to know when the key ends.
"""
POD_SECURITY_ENFORCE = "pod-security.kubernetes.io/enforce"
POD_SECURITY_WARN = "pod-security.kubernetes.io/warn"
"""Labels of a Namespace. Kubernetes reads them (Pod Security admission)."""
SIZES = "cede.dev/sizes"
"""Annotation of a Job or a Deployment: its allowed sizes, in the grammar of sizes.py. It makes a
Job elastic; the replicas of a Deployment beyond the smallest size may be taken back one by one.

The user writes it. The webhook and the scheduler read it.
"""
GRACE = "cede.dev/grace"
"""Annotation of a job of any kind: how long it may take to save, in the grammar of durations.py.

The user writes it. The webhook checks it, and gives as much time to the pods. The scheduler reads
it, and the policy limits it.
"""
SAVE_TIME = "cede.dev/save-time"
"""Annotation of a job of any kind: how long a save takes, in the grammar of durations.py.

The user writes it. The webhook refuses a job that would have less time than that.
"""
AFTER_PREEMPTION = "cede.dev/after-preemption"
"""Annotation of a job of any kind, and of its pods: what becomes of it when it was stopped for
another job. `requeue`, the default: it waits at its old place. `stop`: it stays inactive.

The user writes it. The webhook checks it and copies it to the pods, where the scheduler reads it.
"""
REQUEUE = "requeue"
STOP = "stop"
RUNTIME = "cede.dev/runtime"
"""Annotation of a job of any kind: where its pods get the runtime from. `image`, the default: their
own image has it. `inject`: an init container of Cede's image brings it. `wrap`: that, and the
command of an elastic Job is rewritten to start it.

The user writes it. The webhook reads it.
"""
INJECT = "inject"
WRAP = "wrap"
IMAGE = "image"
DESIRED_SIZE = "cede.dev/desired-size"
"""Annotation of an elastic Job: the size that its user wants. The Job never grows beyond it. Of a
Deployment only while it has ceded replicas: how many it gets back.

The webhook and `cede resize` write it, for a Deployment the scheduler. The webhook and the
scheduler read it.
"""
ELASTIC_POD = "cede.dev/elastic"
"""Label `true` of the pods of elastic Jobs, and of the Jobs of a JobSet that start the runtime.

The webhook writes it; in a JobSet its user does, and the webhook reads it. The Service
`PEERS_SERVICE` and an admission policy select pods by it.
"""
SHORT_BACK_OFF = "cede.dev/short-back-off"
"""Annotation `true` of the pods of an elastic job whose user set no backoffLimitPerIndex: its pod 0
need not count all its failures, and is made again within 20 s.

The webhook writes it, and reads it when a pod is made again.
"""
SURPLUS_OF = "cede.dev/surplus-of"
"""Annotation of an elastic Job that is the surplus of a JobSet or TrainJob: which (surplus.py).

`cede surplus` writes it. The scheduler reads it.
"""
SAVE_REQUESTED = "cede.dev/save-requested"
"""Annotation of an elastic Job that runs: save now. Any text; another text is another request.

The user writes it, or `cede checkpoint` does. The scheduler reads it.
"""
SAVE_ANSWER = "cede.dev/save-answer"
"""Annotation of the same Job: what became of the request, as JSON. See save_request.py.

The scheduler writes it. `cede checkpoint` reads it.
"""
SHRUNK_AT = "cede.dev/shrunk-at"
"""Annotation of an elastic Job, and of a server that has ceded: when it last shrank (RFC 3339).

The scheduler writes it, and reads it for the cooldown before the Job may grow again.
"""
SERVER = "cede.dev/server"
"""Label of a Deployment or LeaderWorkerSet with `SIZES`: whether it has all the replicas that its
user wants.

The webhook and the scheduler write it, and `cede release` resets it. The scheduler reads the
objects that have it. The policy cede-servers, or cede-group-servers, lets nobody scale up one that
has ceded.
"""
WHOLE = "whole"
CEDED = "ceded"
STOPPED_FOR = "cede.dev/stopped-for"
"""Label of a Workload: the Cession that it was stopped for, so that it runs again afterwards; or
`NO_BASE`.

The scheduler writes it together with `spec.active`, and removes it. The quota_controller and
`cede release` remove it too. A Workload that its user stopped does not have it.
"""
NO_BASE = "base"
"""In place of a Cession's name: a surplus whose base does not run."""
REQUEUED_AT = "cede.dev/requeued-at"
"""Annotation in the pod template of a pending Workload: since when its queue is StrictFIFO for it
(RFC 3339).

The scheduler writes it once for each such time, and reads it. Kueue tries a Workload again at once
when its `spec` has changed. When Kueue stops the job later, it copies the annotation to the job's
pod template.
"""
GUARD = "cede.dev/guard"
"""Label of the objects of a guard: the Cession that it is for. Also the gate of its pod.

The scheduler writes it. The scheduler, the quota_controller and `cede release` read it.
"""
GUARD_NAMESPACE = "cede-guard"
"""The namespace of guards; nobody else works there."""
PRIVATE_QUOTA = "cede.dev/private-quota"
"""Annotation of a ClusterQueue whose quota is changed for a moment: see private_quota.py.

The scheduler writes and removes it. While it is there, the quota_controller leaves the quota alone.
"""
ALLOCATION_FINALIZER = "cede.dev/allocation"
"""Finalizer of a ComputeAllocation: its queue is drained before it is deleted. The quota_controller
adds and removes it, and `cede uninstall` removes it too."""
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_CEDE = "cede"
"""The label of every object that the quota_controller creates."""
MANAGED_SELECTOR = f"{MANAGED_BY}={MANAGED_BY_CEDE}"
PART_OF_CEDE = "app.kubernetes.io/part-of=cede"
"""Selects what the manifests of deploy/ bring, and the pods of the components."""

# --- objects of Cede ------------------------------------------------------------------------------
POLICY_NAME = "default"
"""The only ClusterPolicy. Its administrator writes it; all components read it."""
COHORT = "cede"
"""The Cohort of all teams. The quota_controller writes it."""
LOCAL_QUEUE = "default"
"""The LocalQueue in each team's namespace. The quota_controller writes it.

Kueue uses a queue of this name by default, also while the webhook does not answer.
"""
PEERS_SERVICE = "cede-peers"
"""The headless Service in each team's namespace: pod 3 of a Job is `<job>-3.cede-peers`.

The quota_controller writes it. The runtime finds the other pods by it.
"""
NETWORK_POLICY = "cede-elastic"
"""The NetworkPolicy in each team's namespace: who may connect to the pods of elastic jobs.

The quota_controller writes it. The network of the cluster enforces it, if it can.
"""
CONTROL_SECRET = "cede-control"
"""The Secret in each team's namespace with the key that signs control requests to its jobs.

The quota_controller writes it. Training pods mount it.
"""
ROOT_SECRET = "cede-root"
"""The Secret in `SYSTEM_NAMESPACE` with the key from which the keys of the teams are derived.

The quota_controller creates it, and replaces the key in it. The scheduler reads it.
"""
SECRET_KEY = "key"
"""The entry of both Secrets that holds the key."""
PREVIOUS_KEY = "previous"
"""The entry of `ROOT_SECRET` with the key before: some pods do not know the newest one yet."""
SCHEDULER_LEASE = "cede-scheduler"
"""The scheduler holds it while it leads. The quota_controller watches it."""
LAST_PASS = "cede.dev/last-pass"
"""Annotation of both Leases: when their holder last finished a whole pass (RFC 3339).

The holder writes it. The quota_controller gives Kueue its preemption back when the scheduler's
does not change for `watchdogSeconds`.
"""
UNREADABLE = "cede.dev/unreadable"
"""Annotation of Leases: what a holder cannot read. The quota_controller reads the scheduler's."""
QUOTA_CONTROLLER_LEASE = "cede-quota-controller"
DASHBOARD = "cede-dashboard"
LEDGER = "cede-ledger"
"""The ledger's Lease, Deployment, Service, service account, and the ConfigMap of its notes."""
LEDGER_NOTES = (SYSTEM_NAMESPACE, LEDGER)
AUDIT_HEAD = "cede.dev/audit-head"
"""Annotation of the ConfigMap `LEDGER`: the newest record of the audit, as `12:9f86d0…`.

The ledger writes it, and reads it to detect that its database was changed.
"""
MONTH_USE = "month-use"
"""Key in the ConfigMap `LEDGER`: what teams with a budget have used in this month, as JSON.

The ledger writes it, and the quota_controller reads it (cede.api.budget).
"""
PROGRESS = "cede-progress"
"""The ConfigMap in a team's namespace that says how far its elastic jobs are.

The scheduler writes it, and deletes it with the last of these jobs. `cede jobs` and the page show
it; nothing is decided by it, so members may write it.
"""
# each is a field manager, an event source, a Deployment and a service account
SCHEDULER = "cede-scheduler"
QUOTA_CONTROLLER = "cede-quota-controller"
WEBHOOK = "cede-webhook"

# --- labels and annotations of Kueue and Kubernetes -----------------------------------------------
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
MAX_EXECUTION_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
JOB_UID = "kueue.x-k8s.io/job-uid"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
SUSPENDING_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
MULTIKUEUE_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
POD_WORKLOAD = "kueue.x-k8s.io/workload"
POD_SLICE = "kueue.x-k8s.io/workload-slice-name"
JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
POD_JOB_NAME = "batch.kubernetes.io/job-name"
POD_JOB_UID = "batch.kubernetes.io/controller-uid"
POD_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod: how many before it with its index failed. The Job controller delays the next
one by it, and compares it with backoffLimitPerIndex."""
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotation of a pod: how many more failed and were ignored. They delay the next one, too."""
POD_TEMPLATE_HASH = "pod-template-hash"
"""Label of the pods of a Deployment. Their ReplicaSet is named `<Deployment>-<hash>`."""
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation of a pod: of the ready pods of a ReplicaSet, the lowest is deleted first."""
GROUP_INDEX = "kueue.x-k8s.io/component-workload-index"
"""Annotation of a LeaderWorkerSet's Workload: the group with the highest index is deleted first."""
GPU = "nvidia.com/gpu"

# --- types of conditions --------------------------------------------------------------------------
READY = "Ready"
"""Of our own objects; each component writes it on its objects."""
WITHIN_BUDGET = "WithinBudget"
"""Of an allocation that has a budget."""
ACTIVE = "Active"
"""Of a ClusterQueue. Its observedGeneration shows which spec Kueue uses."""
# Kueue writes these on Workloads
QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
FINISHED = "Finished"
PODS_READY = "PodsReady"
# Kubernetes writes it on pods
POD_SCHEDULED = "PodScheduled"
